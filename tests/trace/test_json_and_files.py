"""Traces survive the way to JSON and back; damaged, foreign and hostile files are refused by name."""

from __future__ import annotations

import copy
import json
import math
import random
import zipfile
from pathlib import Path

import pytest

from tapedebug.trace import (
    Argument,
    ArrayInfo,
    Coverage,
    Finding,
    KernelInfo,
    Launch,
    Location,
    ParamInfo,
    Scope,
    Sequence,
    TapeInfo,
    Trace,
    TraceError,
    Version,
    load_trace,
    summarise,
    trace_from_json,
)


def small_trace() -> Trace:
    location = Location(file="</script><img onerror=alert(1)>.py", line=3, column=4, function="main")
    return Trace(
        name="small",
        tape=TapeInfo(id=1, on_overwrite="preserve", launches=2),
        kernels=[
            KernelInfo(
                id=0,
                name="square",
                file="a.py",
                line=1,
                lines=["@wp.kernel", "def square(x: …):"],
                params=[ParamInfo(name="x", type="array(dtype=float32)", array=True)],
            )
        ],
        arrays=[
            ArrayInfo(
                id=0, label="x", dtype="float32", shape=[3], requires_grad=True, buffer=0, start=0, stop=12
            )
        ],
        launches=[
            Launch(
                index=index,
                kind="kernel",
                kernel=0,
                name="square",
                dim=[3],
                scope=0,
                call_site=location,
                args=[Argument(name="x", array=0, reads=True), Argument(name="s", value=math.inf)],
            )
            for index in range(2)
        ],
        scopes=[Scope(id=0, name="step", parent=None, first=0, last=1)],
        versions=[
            Version(array=0, version=0, written_by=None, reads=[0, 1], value=summarise([1.0, math.nan, 2.0]))
        ],
        sequences=[Sequence(first=0, length=1, count=2)],
        coverage=Coverage(summary="2 of 2", launches=2, checked=2),
        findings=[
            Finding(
                rule="nonfinite",
                severity="error",
                message="…",
                launches=[1],
                evidence={"value": -math.inf, "operands": {"x": [0.0, math.nan]}},
            )
        ],
    )


def test_a_trace_survives_json_with_its_non_finite_numbers() -> None:
    trace = small_trace()
    data = json.loads(json.dumps(trace.to_json(), allow_nan=False))
    assert data["format"] == "tapedebug-trace"
    assert data["schema"] == 1
    assert data["launches"][0]["args"][1]["value"] == "inf"
    assert data["findings"][0]["evidence"] == {"value": "-inf", "operands": {"x": [0.0, "nan"]}}
    assert data["versions"][0]["value"]["nan"] == 1
    again = trace_from_json(data)
    assert again.to_json() == trace.to_json()
    assert again.launches[1].call_site == trace.launches[1].call_site


def test_a_trace_survives_a_file(tmp_path: Path) -> None:
    trace = small_trace()
    path = tmp_path / "small.tapetrace"
    trace.save(path)
    assert load_trace(path).to_json() == trace.to_json()
    assert [item.name for item in tmp_path.iterdir()] == ["small.tapetrace"]
    assert zipfile.ZipFile(path).namelist() == ["trace.json"]


def test_plain_json_is_read_too(tmp_path: Path) -> None:
    path = tmp_path / "small.json"
    path.write_text(json.dumps(small_trace().to_json()), encoding="utf-8")
    assert load_trace(path).name == "small"


def test_saving_where_nothing_can_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        small_trace().save(tmp_path / "no" / "such" / "folder.zip")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["format"], "zip", "this is not a tapedebug trace: its 'format' is not 'tapedebug-trace'"),
        (["schema"], "1", "schema: '1' is no schema number"),
        (
            ["schema"],
            2,
            "this trace was written by a newer tapedebug (schema 2; this one reads 1): "
            "update tapedebug to open it",
        ),
        (["launches", 1, "args", 0, "name"], 7, "launches[1].args[0].name: expected text, found 7"),
        (["launches", 1, "index"], True, "launches[1].index: expected a whole number, found True"),
        (["launches", 1, "index"], 5, "launches[1].index: expected 1, found 5"),
        (["launches", 1, "kernel"], 3, "launches[1].kernel: there is no kernel 3 (1 in the trace)"),
        (
            ["launches", 0, "args", 0, "array"],
            -1,
            "launches[0].args[0].array: there is no array -1 (1 in the trace)",
        ),
        (
            ["launches", 0, "kind"],
            "stream",
            "launches[0].kind: 'stream' is none of 'kernel', 'copy', 'fill', 'func'",
        ),
        (["arrays"], {"x": 1}, "arrays: expected a list, found an object"),
        (["arrays", 0], None, "arrays[0]: expected an object, found None"),
        (["versions", 0, "value", "mean"], "many", "versions[0].value.mean: expected a number, found 'many'"),
        (
            ["versions", 0, "overwritten_by"],
            2,
            "versions[0].overwritten_by: there is no launch 2 (2 in the trace)",
        ),
        (["scopes", 0, "parent"], 0, "scopes[0].parent: 0 is not an earlier scope"),
        (["sequences", 0, "count"], 9, "sequences[0]: it does not lie within the 2 launches"),
        (["tape"], {}, "tape: 'id' is missing"),
    ],
)
def test_damage_is_named(path: list[str | int], value: object, message: str) -> None:
    data = json.loads(json.dumps(small_trace().to_json()))
    place = data
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(TraceError) as caught:
        trace_from_json(data)
    assert str(caught.value) == message


def test_evidence_nested_without_end_is_refused() -> None:
    data = small_trace().to_json()
    nested: list[object] = []
    for _ in range(40):
        nested = [nested]
    data["findings"][0]["evidence"] = {"value": nested}
    with pytest.raises(
        TraceError, match=r"^findings\[0\]\.evidence\.value: nested more than 32 levels deep$"
    ):
        trace_from_json(data)


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    foreign = tmp_path / "foreign.zip"
    with zipfile.ZipFile(foreign, "w") as archive:
        archive.writestr("../../evil.txt", "x")
    with pytest.raises(TraceError) as caught:
        load_trace(foreign)
    assert str(caught.value) == f"{foreign}: this zip holds no trace.json, so it is not a tapedebug trace"
    pickled = tmp_path / "trace.pkl"
    pickled.write_bytes(b"\x80\x04\x95")
    with pytest.raises(TraceError, match="the JSON is damaged"):
        load_trace(pickled)
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000)
    with pytest.raises(TraceError):
        load_trace(deep)


def test_damaged_files_never_crash_and_write_nothing(tmp_path: Path) -> None:
    path = tmp_path / "small.zip"
    small_trace().save(path)
    plain = json.dumps(small_trace().to_json()).encode()
    whole = path.read_bytes()
    chance = random.Random(3)
    outcomes = {"read": 0, "refused": 0}
    for number in range(600):
        content = bytearray(whole if number % 2 else plain)
        for _ in range(chance.randint(1, 6)):
            content[chance.randrange(len(content))] = chance.randrange(256)
        if chance.random() < 0.2:
            del content[chance.randrange(len(content)) :]
        path.write_bytes(content)
        try:
            load_trace(path)
            outcomes["read"] += 1
        except TraceError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 200
    assert [item.name for item in tmp_path.iterdir()] == ["small.zip"]


def test_labels_are_looked_up_with_a_helpful_error() -> None:
    trace = small_trace()
    assert trace.array("x").id == 0
    with pytest.raises(KeyError, match="no array is labelled 'y'; the labels are: x"):
        trace.array("y")


def test_encoding_does_not_share_what_it_was_given() -> None:
    trace = small_trace()
    before = copy.deepcopy(trace.to_json())
    trace.to_json()["launches"][0]["args"].clear()
    assert trace.to_json() == before

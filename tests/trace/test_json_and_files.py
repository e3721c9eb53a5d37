"""Traces survive the way to JSON and back; damaged, foreign and hostile files are refused by name."""

from __future__ import annotations

import copy
import errno
import io
import json
import linecache
import math
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import pytest

from tapedebug._errors import TapedebugError
from tapedebug._source import source_line
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
            "launches[0].kind: 'stream' is none of 'kernel', 'copy', 'fill', 'python', 'func'",
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
        (["scopes", 0, "last"], -1, "scopes[0].last: there is no launch -1 (2 in the trace)"),
        (["scopes", 0, "first"], 1, "launches[0].scope: scope 0 holds launches 1 to 1"),
        (["arrays", 0, "parent"], 0, "arrays[0].parent: the array is a view of itself"),
        (["arrays", 0, "shape"], [3, -1], "arrays[0].shape: -1 is no size"),
        (["arrays", 0, "shape"], [1] * 9, "arrays[0].shape: 9 dimensions; there are at most 8"),
        (["arrays", 0, "shape"], ["nan"], "arrays[0].shape[0]: expected a whole number, found 'nan'"),
        (["arrays", 0, "shape"], [10**30], "arrays[0].shape[0]: a number of 100 bits does not fit 64 bits"),
        (["arrays", 0, "start"], 13, "arrays[0]: bytes 13 to 12 of buffer 0 are no range of memory"),
        (
            ["arrays", 0, "label"],
            "\ud800",
            "arrays[0].label: half a surrogate pair at character 0, which is no text",
        ),
        (
            ["arrays", 0, "label"],
            "y" * 10_000_000,
            "arrays[0].label: text of 10,000,000 characters; a trace has at most 4,194,304",
        ),
        (["versions", 0, "version"], 2, "versions[0].version: expected 0 of array 0, found 2"),
        (
            ["launches", 0, "args", 0, "read_version"],
            4,
            "launches[0].args[0].read_version: there is no version 4 of array 0",
        ),
        (["versions", 0, "value", "nan"], 4, "versions[0].value: 4 nan and 0 inf of 3 values"),
        (
            ["versions", 0, "value", "histogram", "counts"],
            [0, -1],
            "versions[0].value.histogram.counts: -1 is no count",
        ),
        (["launches", 1, "name"], "cube", "sequences[0]: launch 1 is not what launch 0 is"),
        (["findings", 0, "launches"], [2], "findings[0].launches: there is no launch 2 (2 in the trace)"),
        (
            ["contents"],
            [{"array": 0, "version": 1, "kind": "value", "dtype": "<f4", "shape": [3], "member": "a"}],
            "contents[0].version: there is no version 1 of array 0",
        ),
        (
            ["contents"],
            [{"array": 0, "version": 0, "kind": "value", "dtype": "<f4", "shape": [4], "member": "a"}],
            "contents[0].shape: [4] does not begin with the array's, [3]",
        ),
        (
            ["contents"],
            [{"array": 0, "version": 0, "kind": "value", "dtype": "<f4", "shape": [3], "member": "a"}] * 2,
            "contents[1]: it is listed twice",
        ),
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


def refused(path: Path, content: bytes) -> str:
    """The message for a file, without its name."""
    path.write_bytes(content)
    with pytest.raises(TraceError) as caught:
        load_trace(path)
    name, _, message = str(caught.value).partition(": ")
    assert name == str(path)
    return message


def zip_of(*members: tuple[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # zipfile does not like to write what it is to be asked for here
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


def test_foreign_files_are_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "file"
    foreign = zip_of(("../../evil.txt", b"x"))
    assert refused(path, foreign) == "this zip holds no trace.json, so it is not a tapedebug trace"
    assert refused(path, b"\x80\x04\x95").startswith("the JSON is damaged ('utf-8' codec can't decode")
    assert refused(path, b"").startswith("the JSON is damaged (Expecting value")
    assert refused(path, b"[" * 100_000) == "the JSON is nested too deeply"
    assert refused(path, b"[NaN]") == "the JSON is damaged (NaN is no JSON; traces write it as text)"
    assert refused(path, b"9" * 5000).startswith("the JSON is damaged (Exceeds the limit")
    assert refused(path, json.dumps(small_trace().to_json()).encode("utf-16")).startswith(
        "the JSON is damaged"
    )
    assert refused(path, b"PK\x03\x04 and no more") == "the zip is damaged (File is not a zip file)"
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


def test_a_missing_file_is_named_with_one_that_is_like_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = "`trace.save(path)` and `tapedebug run --trace PATH` write such a file"
    path = tmp_path / "ran.tapetrace"
    with pytest.raises(FileNotFoundError) as caught:
        load_trace(path)
    assert isinstance(caught.value, TapedebugError)
    assert str(caught.value) == f"the trace file {path} does not exist\n  = hint: {writes}"
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(path))
    small_trace().save(tmp_path / "run.tapetrace")
    with pytest.raises(FileNotFoundError) as caught:
        load_trace(path)
    like = str(tmp_path / "run.tapetrace")
    assert str(caught.value).endswith(f"\n  = hint: did you mean {like!r}? {writes}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        load_trace("other")
    assert str(caught.value).endswith(f"\n  = hint: a relative path starts at {tmp_path}; {writes}")


def test_a_small_file_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text(json.dumps(small_trace().to_json()), encoding="utf-8")
    tracemalloc.start()
    try:
        load_trace(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 22
    finally:
        tracemalloc.stop()


def test_files_without_end_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapedebug.trace._file.LIMIT", 1 << 21)
    with pytest.raises(TraceError) as caught:
        load_trace("/dev/zero")
    assert str(caught.value) == "/dev/zero: more than 2 MiB of JSON; a trace is never that large"


def test_zips_that_lie_are_refused_with_the_reason(tmp_path: Path) -> None:
    path, text = tmp_path / "file", json.dumps(small_trace().to_json()).encode()
    assert (
        refused(path, zip_of(("trace.json", text), ("trace.json", text)))
        == "the zip holds 'trace.json' twice"
    )
    packed = zip_of(("trace.json", text), method=zipfile.ZIP_BZIP2)
    assert refused(path, packed) == "trace.json is packed in a way that traces do not use (zip method 12)"
    bomb = zip_of(("trace.json", b"[" * (1 << 24)), method=zipfile.ZIP_DEFLATED)
    size = zipfile.ZipFile(io.BytesIO(bomb)).getinfo("trace.json").compress_size
    assert refused(path, bomb) == (
        f"trace.json claims to be 16,777,216 bytes long, packed into {size:,}; "
        f"at most {max(100 * size, 1 << 20):,} are read of that"
    )
    damaged = bytearray(zip_of(("trace.json", text)))
    damaged[60] ^= 1
    assert refused(path, bytes(damaged)) == "the zip is damaged (Bad CRC-32 for file 'trace.json')"


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


def test_places_in_traces_are_looked_up_in_files_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A device or a pipe that a trace names as source would be read for ever."""
    large, small = tmp_path / "large.py", tmp_path / "small.py"
    small.write_text("one\ntwo\n", encoding="utf-8")
    with large.open("wb") as stream:
        stream.truncate(1 << 26)
    asked: list[str] = []

    def getline(file: str, line: int) -> str:
        asked.append(file)
        return linecache.getlines(file)[line - 1]

    monkeypatch.setattr("linecache.getline", getline)
    for name in ("/dev/zero", "/dev/stdin", str(tmp_path), str(large), "a\0b"):
        assert source_line(name, 1) == ""
    assert asked == []
    assert source_line(str(small), 2) == "two"

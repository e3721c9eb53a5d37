"""The packed form holds what the trace holds, in few bytes, and says what it leaves out."""

from __future__ import annotations

import base64
import copy
import gzip
import json
import math
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.trace import Trace, pack, packing, seal, trace_from_json
from tapedebug.trace._columns import ColumnWriter
from tapedebug.trace.packing import Packed, seal_columns
from tests.large_tapes import make_large, record_large
from tests.trace.make_fixtures import FOLDER
from tests.trace.unpacked import _numbers, unpacked, unsealed

FIXTURES = ["net", "net-40-preserve", "recorded-ignore", "recorded-preserve"]


def fixture(name: str) -> Trace:
    return trace_from_json(json.loads((FOLDER / f"{name}.trace.json").read_text("utf-8")))


def plain(trace: Trace) -> dict[str, Any]:
    """The JSON form, as far as the packed form has it."""
    data = json.loads(json.dumps(trace.to_json(), allow_nan=False))
    data.pop("contents", None)
    return {**data, "notes": data.get("notes", [])}


@pytest.mark.parametrize("name", FIXTURES)
def test_a_trace_comes_back(name: str) -> None:
    trace = fixture(name)
    before = copy.deepcopy(trace)
    head, columns = pack(trace)
    assert unpacked(json.loads(json.dumps(head, allow_nan=False)), columns) == plain(trace)
    assert trace == before


@wp.kernel
def shift(x: wp.array(dtype=float), by: float, often: int, y: wp.array(dtype=float)):
    i = wp.tid()
    for _ in range(often):
        y[i] = x[i] * x[i] + by


def recorded() -> Trace:
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y, loss = wp.zeros_like(x), wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        for step in range(5):
            tape.record_scope_begin(f"step {step}")
            values = [step / 2, step % 2]
            wp.launch(shift, dim=3, inputs=[x, *values], outputs=[y])
            tape.record_scope_end()
        y.zero_()
        wp.copy(y, x)
        wp.launch(shift, dim=1, inputs=[y, math.inf, 1], outputs=[loss])
    tape.backward(loss)
    return tape.trace(values=True)


def test_a_trace_that_was_recorded_comes_back() -> None:
    trace = recorded()
    assert {launch.kind for launch in trace.launches} >= {"kernel", "copy", "fill"}
    assert any(version.adjoint for version in trace.versions)
    packed = pack(trace)
    assert unpacked(json.loads(json.dumps(packed.head)), packed.columns) == plain(trace)
    # distinct once, and equal numbers of other types apart
    assert [v for v in packed.head["values"] if v in (0, 1)] == [0.0, 0, 1, 1.0]
    assert packed.head["values"][-1] == "inf"
    assert len(packed.head["dims"]) == len({tuple(launch.dim) for launch in trace.launches})


def test_an_empty_tape_is_packed() -> None:
    with wp.Tape() as tape:
        pass
    trace = tape.trace()
    head, columns = pack(trace)
    assert columns == {}
    assert unpacked(head, columns) == plain(trace)


def test_large_traces_are_less_exact_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    trace = fixture("net")
    assert trace.versions[0].value is not None
    trace.versions[0].value.norm = 1e300
    monkeypatch.setattr(packing, "MOST_EXACT", 5)
    head, columns = pack(trace)
    assert head["notes"] == [
        "Histograms of values were left out: there are 23 versions of arrays, more than 5."
    ]
    back = unpacked(head, columns)
    summaries = [summary for version in back["versions"] if (summary := version["value"])]
    assert {summary["histogram"] for summary in summaries} == {None}
    assert summaries[0]["norm"] == 1e300, "what 4 bytes do not hold has 8"
    means = [version.value.mean for version in trace.versions if version.value]
    assert [summary["mean"] for summary in summaries] == np.float32(means).tolist() != means


@pytest.mark.parametrize(
    ("values", "spec", "size"),
    [
        ([], {"length": 0, "value": 0}, None),
        ([7, 7, 7], {"length": 3, "value": 7}, None),
        ([9, 7, 5, 3], {"length": 4, "first": 9, "value": -2}, None),
        ([0, 255, 3], {"length": 3, "dtype": "u1"}, 3),
        ([-1, 127, 3], {"length": 3, "dtype": "i1"}, 3),
        ([-1, 128, 3], {"length": 3, "dtype": "i2"}, 6),
        ([0, 65_535, 3], {"length": 3, "dtype": "u2"}, 6),
        ([1_000, 1_001, 1_003], {"length": 3, "dtype": "u1", "first": 1_000}, 2),
        ([70_000, 69_999, 69_998, 70_000], {"length": 4, "dtype": "i1", "first": 70_000}, 3),
        ([0, 2**32 - 1, 1], {"length": 3, "dtype": "u4"}, 12),
        ([0, 2**40, 1], {"length": 3, "dtype": "f8"}, 24),
    ],
)
def test_columns_are_as_narrow_as_their_numbers_allow(
    values: list[int], spec: dict[str, Any], size: int | None
) -> None:
    writer = ColumnWriter()
    writer.integers("it", values)
    assert writer.specs == {"it": spec}
    assert {name: len(data) for name, data in writer.data.items()} == ({} if size is None else {"it": size})
    assert _numbers(writer.specs["it"], writer.data.get("it")) == values


def test_random_columns_come_back() -> None:
    random = np.random.default_rng(7)
    for _ in range(300):
        scale = 10 ** int(random.integers(0, 10))
        values = random.integers(-1, scale, size=int(random.integers(0, 20)))
        if random.random() < 0.5:
            values = np.cumsum(values)
        writer = ColumnWriter()
        writer.integers("it", values)
        assert _numbers(writer.specs["it"], writer.data.get("it")) == values.tolist()


def test_a_sealed_trace_is_json() -> None:
    packed = pack(fixture("recorded-preserve"))
    sealed = json.loads(json.dumps(seal(packed), allow_nan=False))
    assert sealed["head"] == packed.head
    assert unsealed(sealed) == plain(fixture("recorded-preserve"))
    # Jupyter sorts the keys of a notebook that it saves, and the columns do not say where they begin
    text = gzip.decompress(base64.b64decode(sealed["columns"]))
    assert text == b"".join(packed.columns[name] for name in sorted(packed.columns))


def test_large_tapes_look_alike_recorded_and_made_up() -> None:
    tape, loss = record_large(302, 21)
    tape.backward(loss)
    recorded = tape.trace(values=True)
    assert len(recorded.launches) == 302
    assert len(recorded.arrays) == 21
    made = make_large(300, 20)
    assert trace_from_json(made.to_json()) == made
    for trace in (recorded, made):
        assert unpacked(*pack(trace)) == plain(trace)
        assert trace.launches[50].scope == 5
        assert [run.length for run in trace.sequences][:1] in ([10], [20])


def test_a_launch_takes_few_bytes() -> None:
    trace = make_large(25_000, 200)
    head, columns = pack(trace)
    assert sum(map(len, columns.values())) < 150 * 25_000
    assert len(json.dumps(head)) < 100_000
    assert len(seal_columns(Packed(head, columns))) < 80 * 25_000

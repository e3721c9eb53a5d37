"""Traces of real tapes: names, versions, accesses, scopes, summaries."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.trace import Trace, record, trace_from_json

HERE = Path(__file__)


def line_of(text: str) -> int:
    """The first line of this file that holds `text`, counted from 1."""
    lines = HERE.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


@wp.kernel
def scale(x: wp.array(dtype=float), factor: float, out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = factor * x[i]


@wp.kernel
def square(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = x[i] * x[i]


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


@dataclasses.dataclass
class State:
    q: Any
    rest: Any


def floats(*values: float, requires_grad: bool = True) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=requires_grad)


def zeros(count: int) -> Any:
    return wp.zeros(count, dtype=float, requires_grad=True)


def labels(trace: Trace) -> list[str]:
    return [info.label for info in trace.arrays]


def simulate(state: State, loss: Any) -> None:
    """Its own arrays are gone when it returns; the source of the launches still names them."""
    inner, swapped = zeros(3), zeros(3)
    for _ in range(2):
        wp.launch(scale, dim=3, inputs=[state.q, 2.0], outputs=[inner])
        wp.launch(square, dim=3, inputs=[inner, swapped])
        inner, swapped = swapped, inner
    wp.launch(total, dim=3, inputs=[swapped, loss])
    wp.launch(total, dim=1, inputs=[floats(1.0), loss])


def test_arrays_have_the_names_that_people_use() -> None:
    state, loss = State(floats(1.0, 2.0, 3.0), None), zeros(1)
    with wp.Tape() as tape:
        simulate(state, loss)
    assert labels(record(tape)) == ["state.q", "inner", "swapped", "loss", "x"]
    assert record(tape).name == "tape"
    assert record(tape, name="mine").name == "mine"


def test_generated_adjoints_are_printed_when_they_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = floats(1.0, 2.0), zeros(2)
    with wp.Tape() as tape:
        wp.launch(square, dim=2, inputs=[x, out])
    printed = []
    source = type(square).source

    def spied(kernel: Any, kind: str = "forward") -> str:
        printed.append(kind)
        return source(kernel, kind)

    monkeypatch.setattr(type(square), "source", spied)
    info = record(tape).kernels[0]
    assert printed == []
    assert info.adjoint is not None
    assert info.adjoint.startswith("# adjoint of square")
    assert info.adjoint == dataclasses.replace(info).adjoint
    assert printed == ["adjoint"]


def test_an_adjoint_that_cannot_be_printed_any_more_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = floats(1.0, 2.0), zeros(2)
    with wp.Tape() as tape:
        wp.launch(square, dim=2, inputs=[x, out])

    def refused(kernel: Any, kind: str = "forward") -> str:
        raise wp.TapedebugError("kernel `square`: what it captured has changed since it was launched")

    monkeypatch.setattr(type(square), "source", refused)
    assert record(tape).kernels[0].adjoint is None


def test_names_of_the_time_of_recording_come_before_those_of_whoever_asks() -> None:
    def recorded() -> tuple[Any, Any]:
        x, loss = floats(1.0, 2.0), zeros(1)
        with wp.Tape() as tape:
            wp.launch(total, dim=2, inputs=[x, loss])
        return tape, x

    tape, renamed = recorded()
    assert renamed is not None
    assert labels(record(tape)) == ["x", "loss"]


def test_two_arrays_never_share_a_label() -> None:
    loss = zeros(1)
    with wp.Tape() as tape:
        for number in range(3):
            wp.launch(total, dim=1, inputs=[floats(float(number)), loss])
    assert labels(record(tape)) == ["x", "loss", "x#2", "x#3"]


def test_lists_and_views_are_named_by_element_and_range() -> None:
    xs, loss = [floats(1.0, 2.0, 3.0, 4.0) for _ in range(3)], zeros(1)
    whole = zeros(4)
    with wp.Tape() as tape:
        for x in xs:
            wp.launch(scale, dim=4, inputs=[x, 1.0, whole])
        for start in (0, 2):
            part = whole[start : start + 2]
            wp.launch(total, dim=2, inputs=[part, loss])
        wp.launch(total, dim=1, inputs=[whole.reshape((4, 1)).flatten()[3:4], loss])
    del x, part
    trace = record(tape)
    assert [name for name in labels(trace) if name != "loss"] == [
        *("xs[0]", "whole", "xs[1]"),
        *("x", "whole[0:2]", "part", "part[1:2]"),
    ]
    views = [info for info in trace.arrays if info.parent is not None]
    assert [(info.start, info.stop) for info in views] == [(0, 8), (8, 16), (12, 16)]
    assert [trace.arrays[info.parent or 0].label for info in views[:2]] == ["whole", "whole"]


def march(mode: str) -> tuple[Any, Any]:
    states, loss = wp.zeros((4, 3), dtype=float, requires_grad=True), zeros(1)
    with wp.Tape(on_overwrite=mode) as tape:
        states[0].assign([1.0, 2.0, 3.0])
        for t in range(3):
            wp.launch(square, dim=3, inputs=[states[t]], outputs=[states[t + 1]])
        wp.launch(total, dim=3, inputs=[states[3], loss])
    return tape, states


def test_rows_of_one_array_are_named_by_row_and_are_no_overwrites() -> None:
    tape, states = march("ignore")
    rows = ["states[0]", "states[1]", "states[2]", "states[3]"]
    assert [name for name in labels(record(tape)) if name in rows] == rows
    assert states is not None
    assert wp.diagnose(tape).findings == []
    del states
    assert [name for name in labels(record(tape)) if name in rows] == rows, (
        "the names stay when the variable goes"
    )


def test_launches_bind_arguments_to_versions() -> None:
    x, y, z, loss = floats(1.0, 2.0), zeros(2), zeros(2), zeros(1)
    with wp.Tape() as tape:
        wp.launch(square, dim=2, inputs=[x], outputs=[y])
        wp.launch(scale, dim=2, inputs=[y, 3.0], outputs=[x])
        wp.launch(square, dim=2, inputs=[x], outputs=[z])
        wp.launch(total, dim=2, inputs=[z, loss])
    tape.backward(loss)
    trace = record(tape)
    first, second, third, last = trace.launches
    assert (first.kind, first.name, first.dim, first.index) == ("kernel", "square", [2], 0)
    assert first.call_site is not None
    assert first.call_site.line == line_of("wp.launch(square, dim=2, inputs=[x], outputs=[y])")
    assert first.call_site.function == "test_launches_bind_arguments_to_versions"
    read, write = first.args
    assert (read.name, read.reads, read.writes, read.read_version, read.needed) == ("x", True, False, 0, True)
    assert (write.name, write.reads, write.writes, write.write_version) == ("out", False, True, 1)
    assert [(arg.name, arg.value) for arg in second.args if arg.array is None] == [("factor", 3.0)]
    assert second.args[2].write_version == 1
    assert third.args[0].read_version == 1
    assert not second.args[0].needed, "the adjoint of a scaling reads no values"
    x_versions = trace.versions_of(trace.array("x").id)
    assert [(v.written_by, v.reads, v.needed_by, v.overwritten_by) for v in x_versions] == [
        (None, [0], [0], 1),
        (1, [2], [2], None),
    ]
    assert [v.status for v in x_versions] == ["preserved", "kept"]
    assert [v.status for v in trace.versions_of(trace.array("loss").id)] == ["harmless", "live"]
    assert trace.backward.ran
    assert trace.backward.order == [3, 2, 1, 0]
    assert trace.backward.loss == trace.array("loss").id
    assert [info.role for info in trace.arrays] == ["input", "intermediate", "intermediate", "output"]
    assert trace.tape.preserved_bytes == 8
    assert last.seconds is not None


@wp.kernel
def kick_and_drift(v: wp.array(dtype=float), x: wp.array(dtype=float)):
    i = wp.tid()
    v[i] = 2.0
    x[i] = 3.0 * v[i]


@wp.kernel
def kick_some(v: wp.array(dtype=float), x: wp.array(dtype=float)):
    i = wp.tid()
    if i > 0:
        v[i] = 2.0
    x[i] = 3.0 * v[i]


@wp.kernel
def kick_late(v: wp.array(dtype=float), x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = 3.0 * v[i]
    v[i] = 2.0
    x[i] += v[i]


@wp.kernel
def kick_and_look_around(v: wp.array(dtype=float), x: wp.array(dtype=float)):
    i = wp.tid()
    v[i] = 2.0
    x[i] = 3.0 * v[wp.max(i - 1, 0)]


@wp.kernel
def kick_a_part(v: wp.array(dtype=wp.vec2), x: wp.array(dtype=float)):
    i = wp.tid()
    v[i][0] = 2.0
    x[i] = v[i][0] + v[i][1]


@pytest.mark.parametrize(
    ("kernel", "dim", "reads"),
    [
        (kick_and_drift, 4, False),
        (kick_and_drift, 3, True),
        (kick_some, 4, True),
        (kick_late, 4, True),
        (kick_and_look_around, 4, True),
        (kick_a_part, 4, True),
    ],
)
def test_what_threads_have_written_themselves_is_not_read(kernel: Any, dim: int, reads: bool) -> None:
    v = wp.zeros(4, dtype=wp.vec2 if kernel is kick_a_part else float, requires_grad=True)
    x = wp.zeros(4, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=dim, inputs=[v, x])
    [launch] = record(tape).launches
    assert (launch.args[0].reads, launch.args[0].writes) == (reads, True)


def test_status_says_what_the_reverse_pass_sees() -> None:
    for mode, status, kept in (("ignore", "lost", False), ("preserve", "preserved", True)):
        x, y = floats(1.0, 2.0), zeros(2)
        with wp.Tape(on_overwrite=mode) as tape:
            wp.launch(square, dim=2, inputs=[x], outputs=[y])
            wp.launch(scale, dim=2, inputs=[y, 3.0], outputs=[x])
        version = record(tape).versions_of(0)[0]
        assert (version.status, version.preserved) == (status, kept)


def test_a_write_through_a_view_begins_a_version_of_the_parent() -> None:
    x, y, z = floats(1.0, 2.0, 3.0, 4.0), zeros(4), zeros(2)
    with wp.Tape() as tape:
        wp.launch(square, dim=4, inputs=[x], outputs=[y])
        wp.launch(scale, dim=2, inputs=[z, 1.0], outputs=[x[1:3]])
    trace = record(tape)
    old, new = trace.versions_of(trace.array("x").id)
    assert (old.overwritten_by, old.status, new.written_by) == (1, "preserved", 1)


def test_copies_fills_and_writes_outside_are_entries_of_their_own() -> None:
    x, y, loss = floats(1.0, 2.0), zeros(2), zeros(1)
    with wp.Tape() as tape:
        wp.copy(y, x)
        y.fill_(3.0)
        wp.launch(total, dim=2, inputs=[y, loss])
        z = wp.clone(x)
    trace = record(tape)
    assert [(launch.kind, launch.name, launch.kernel) for launch in trace.launches] == [
        ("copy", "copy", None),
        ("fill", "fill", None),
        ("kernel", "total", 0),
        ("copy", "copy", None),
    ]
    assert labels(trace) == ["y", "x", "loss", "z"]
    assert z is not None


def test_accesses_carry_their_place_and_whether_the_adjoint_needs_them() -> None:
    x, y = floats(1.0, 2.0), zeros(2)
    with wp.Tape() as tape:
        wp.launch(square, dim=2, inputs=[x], outputs=[y])
        wp.launch(scale, dim=2, inputs=[x, 2.0], outputs=[y])
    squares, scales = record(tape).kernels
    line = line_of("out[i] = x[i] * x[i]")
    assert (squares.file, squares.line) == (str(HERE), line_of("def square(") - 1)
    assert squares.lines[line - squares.line].strip() == "out[i] = x[i] * x[i]"
    reads = [access for access in squares.accesses if access.kind == "read"]
    assert reads
    assert {(access.line, access.needed, access.param) for access in reads} == {(line, True, 0)}
    text = squares.lines[line - squares.line]
    assert text[reads[0].column : reads[0].end_column] == "x[i]"
    assert [access.needed for access in scales.accesses if access.kind == "read"] == [False]
    assert squares.adjoint is not None
    assert "adj" in squares.adjoint
    assert [(param.name, param.type, param.array) for param in scales.params] == [
        ("x", "array(dtype=float32)", True),
        ("factor", "float32", False),
        ("out", "array(dtype=float32)", True),
    ]


def test_scopes_that_hold_launches_are_kept() -> None:
    x, y = floats(1.0, 2.0), zeros(2)
    with wp.Tape() as tape:
        tape.record_scope_begin("outer")
        tape.record_scope_begin("empty")
        tape.record_scope_end(remove_scope_if_empty=False)
        tape.record_scope_begin("inner")
        wp.launch(square, dim=2, inputs=[x], outputs=[y])
        tape.record_scope_end()
        wp.launch(square, dim=2, inputs=[x], outputs=[y])
        tape.record_scope_end()
    trace = record(tape)
    assert [(scope.name, scope.parent, scope.first, scope.last) for scope in trace.scopes] == [
        ("outer", None, 0, 1),
        ("inner", 0, 0, 0),
    ]
    assert [launch.scope for launch in trace.launches] == [1, 0]


def test_values_and_adjoints_are_summarised_when_asked_for() -> None:
    x, y, loss = floats(1.0, 2.0, 3.0), zeros(3), zeros(1)
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        wp.launch(scale, dim=3, inputs=[y, -1.0], outputs=[x])
        wp.launch(total, dim=3, inputs=[y, loss])
    tape.backward(loss)
    assert all(version.value is None for version in record(tape).versions)
    before = (x.numpy().copy(), x.grad.numpy().copy())
    trace = record(tape, values=True)
    old, new = trace.versions_of(trace.array("x").id)
    assert old.value is not None
    assert new.value is not None
    assert old.adjoint is not None
    assert (old.value.min, old.value.max, old.value.count) == (1.0, 3.0, 3)
    assert (new.value.min, new.value.max) == (-9.0, -1.0)
    assert (old.adjoint.min, old.adjoint.max) == (2.0, 6.0), "the gradient of version 0"
    final = trace.versions_of(trace.array("loss").id)[-1]
    assert final.value is not None
    assert final.adjoint is not None
    assert (final.value.mean, final.adjoint.mean) == (14.0, 1.0)
    assert np.array_equal(before[0], x.numpy())
    assert np.array_equal(before[1], x.grad.numpy())


def test_a_recorded_trace_survives_json() -> None:
    x, loss = wp.array([(1.0, 2.0, 3.0)], dtype=wp.vec3, requires_grad=True), zeros(1)
    hostile = floats(1.0)
    with wp.Tape() as tape:
        tape.record_scope_begin("</script><img onerror=alert(1)>")
        wp.launch(total, dim=1, inputs=[hostile, loss])
        tape.record_scope_end()
    assert x is not None
    data = json.loads(json.dumps(record(tape, values=True).to_json(), allow_nan=False))
    assert trace_from_json(data).to_json() == data


def test_an_empty_tape_is_a_trace_too() -> None:
    trace = record(wp.Tape())
    assert (trace.launches, trace.arrays, trace.versions) == ([], [], [])
    diagnosis = wp.diagnose(wp.Tape())
    assert (diagnosis.verdict, diagnosis.findings) == ("NOT CHECKED", [])
    assert str(diagnosis.coverage) == "the tape is empty: nothing was recorded"

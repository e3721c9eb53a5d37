"""Findings of programs whose arrays are fields of structs: named by field, at the line of the field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import tapedebug as wp
from tapedebug.trace import load_trace


@wp.struct
class Body:
    pos: wp.vec3
    mass: float
    count: int


@wp.struct
class State:
    bodies: wp.array(dtype=Body)
    q: wp.array(dtype=float)


@wp.kernel
def root(a: wp.array(dtype=Body), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, wp.sqrt(a[i].mass - a[i].mass) * a[i].pos.x)


@wp.kernel
def divided(a: wp.array(dtype=Body), out: wp.array(dtype=Body)):
    i = wp.tid()
    out[i].mass = a[i].mass / float(a[i].count - 1)


@wp.kernel
def copied(state: State, out: wp.array(dtype=Body)):
    i = wp.tid()
    b = state.bodies[i]
    b.mass *= state.q[i]
    out[i] = b


@wp.kernel
def total(a: wp.array(dtype=Body), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, a[i].mass * a[i].mass)


def bodies(grad: bool = True) -> Any:
    made = [Body((1, 2, 3), 1.5 + k, k + 1) for k in range(3)]
    return wp.array(made, dtype=Body, requires_grad=grad)


def line_of(kernel: Any, text: str) -> int:
    row = next(k for k, line in enumerate(kernel.origin.lines) if text in line)
    return int(kernel.origin.first_line + row)


def test_a_gradient_that_is_not_finite() -> None:
    b, loss = bodies(), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(root, dim=3, inputs=[b], outputs=[loss])
    tape.backward(loss)
    found = next(f for f in wp.diagnose(tape, loss).findings if f.rule == "nonfinite")
    assert found.arrays == ["b.mass"]
    assert found.location["line"] == line_of(root, "sqrt")
    assert "wp.sqrt(a[i].mass - a[i].mass)" in found.message


def test_a_value_that_is_not_finite() -> None:
    b, out, loss = bodies(), wp.zeros(3, dtype=Body, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(divided, dim=3, inputs=[b], outputs=[out])
        wp.launch(total, dim=3, inputs=[out], outputs=[loss])
    tape.backward(loss)
    found = next(f for f in wp.diagnose(tape, loss).findings if f.rule == "nonfinite")
    assert "Launch 0 (divided) writes inf to out.mass[0]" in found.message
    assert found.location["line"] == line_of(divided, "out[i].mass")


def test_a_field_without_gradient() -> None:
    state = State(bodies(), wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True))
    out, loss = wp.zeros(3, dtype=Body), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(copied, dim=3, inputs=[state], outputs=[out])
        wp.launch(total, dim=3, inputs=[out], outputs=[loss])
    tape.backward(loss)
    errors = [f for f in wp.diagnose(tape, loss).findings if f.severity == "error"]
    assert [f.rule for f in errors] == ["disconnected"]
    assert errors[0].message.startswith("out.mass has no requires_grad: launch 0 (copied) writes it")
    assert {"state.q", "state.bodies.mass"} <= set(errors[0].arrays)


def test_traces_in_files_and_reports(tmp_path: Path) -> None:
    state = State(bodies(), wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True))
    out, loss = wp.zeros(3, dtype=Body, requires_grad=True), wp.zeros(1, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(copied, dim=3, inputs=[state], outputs=[out])
        wp.launch(total, dim=3, inputs=[out], outputs=[loss])
    tape.backward(loss)
    assert wp.diagnose(tape, loss).verdict == "AGREE"
    trace = tape.trace(values=True)
    labels = [info.label for info in trace.arrays]
    assert labels[:4] == ["state.bodies.pos", "state.bodies.mass", "state.bodies.count", "state.q"]
    by_label = {info.label: info.id for info in trace.arrays}
    written = next(v for v in trace.versions if v.array == by_label["out.mass"] and v.written_by == 0)
    assert written.value is not None
    assert np.isclose(written.value.max, 10.5)
    trace.save(tmp_path / "trace.json")
    assert [info.label for info in load_trace(tmp_path / "trace.json").arrays] == labels
    wp.report(tape, tmp_path / "report.html")
    assert "state.bodies.mass" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "state.bodies.mass" in tape.visualize()

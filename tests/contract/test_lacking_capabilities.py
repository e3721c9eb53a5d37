"""`diagnose` with each capability of our engine taken away: less is found, and the coverage says so."""

from __future__ import annotations

import pytest

import tapedebug as wp
from tapedebug import contract
from tapedebug.diagnose.registry import OURS
from tapedebug.runtime import capabilities

capabilities._load()
TAPE, OPERATION = list(capabilities.TAPE), list(capabilities.OPERATION)


@wp.func
def cube(x: float):
    return x * x * x


@wp.func_grad(cube)
def adj_cube(x: float, adj_ret: float):
    wp.adjoint[x] += 2.0 * x * x * adj_ret  # wrong: 3


@wp.kernel
def cubes(x: wp.array(dtype=float), y: wp.array(dtype=float), scale: float):
    i = wp.tid()
    y[i] = scale * cube(x[i])


@wp.kernel
def smooth(x: wp.array(dtype=float), n: int):
    i = wp.tid()
    x[i] = 0.5 * (x[i] + x[(i + 1) % n])


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


def program():
    x = wp.array([1.0, 2.0, 3.0, 5.0], dtype=float, requires_grad=True)
    y = wp.zeros(4, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(cubes, 4, inputs=[x, y, 2.0])
        wp.launch(smooth, 4, inputs=[y, 4])
        wp.launch(total, 4, inputs=[y, loss])
    tape.backward(loss)
    return tape


def rules(found):
    return {item.rule for item in found.findings if item.severity != "info"}


def test_with_all_capabilities_both_bugs_are_found():
    assert rules(wp.diagnose(program())) == {"race", "custom-grad"}


@pytest.mark.parametrize(
    ("table", "kind"),
    [("TAPE", kind) for kind in TAPE] + [("OPERATION", kind) for kind in OPERATION],
    ids=[kind.__name__ for kind in (*TAPE, *OPERATION)],
)
def test_no_capability_is_taken_for_granted(table, kind, monkeypatch):
    monkeypatch.delitem(getattr(capabilities, table), kind)
    tape = program()
    assert (tape if table == "TAPE" else tape.operations[0]).capability(kind) is None
    found = wp.diagnose(tape)
    assert [note for note in found.coverage.notes if OURS in note] == []


def test_without_other_orders_of_threads_a_race_is_found_and_not_measured(monkeypatch):
    monkeypatch.delitem(capabilities.TAPE, contract.ThreadScheduling)
    found = wp.diagnose(program())
    (race,) = [item for item in found.findings if item.rule == "race"]
    assert race.message.endswith("What the order of threads does to the gradient was not measured.")
    assert race.evidence["gradient_change"] is None


def test_without_element_tracking_the_coverage_says_what_was_not_looked_for(monkeypatch):
    monkeypatch.delitem(capabilities.TAPE, contract.ElementTracking)
    found = wp.diagnose(program())
    assert "race" not in rules(found)
    assert (
        "out-of-bounds, uninitialised-read, race were not looked for: tapedebug does not track the accesses "
        "of threads" in found.coverage.notes
    )


def test_without_custom_gradients_only_entries_of_the_gradient_are_compared(monkeypatch):
    def kinds():
        found = wp.diagnose(program()).findings
        return {item.evidence["kind"] for item in found if item.rule == "custom-grad"}

    assert kinds() == {"factor"}
    monkeypatch.delitem(capabilities.OPERATION, contract.CustomGradients)
    assert kinds() == {"entries"}

"""Rule `not-reset`: losses and inputs that hold what an earlier recording has left, and those that may."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tests.diagnose import training_loop
from tests.diagnose.training_loop import N, alarms, descend, drag, found, line_of, misfit


@wp.kernel
def scaled(y: wp.array(dtype=float), by: float, loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, by * y[wp.tid()])


@wp.kernel
def walk(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * x[i])
    x[i] = x[i] + 1.0


class Sums:
    """One loss, and arrays, for all recordings."""

    def __init__(self) -> None:
        self.w = wp.array(np.full(N, 0.5), dtype=float, requires_grad=True)
        self.x = wp.array(np.linspace(1.0, 2.0, N), dtype=float)
        self.t = wp.array(np.linspace(1.0, 2.0, N), dtype=float)
        self.y = wp.zeros(N, dtype=float, requires_grad=True)
        self.loss = wp.zeros(1, dtype=float, requires_grad=True)

    def record(self, y: Any = None) -> Any:
        w, x, t, loss = self.w, self.x, self.t, self.loss
        y = self.y if y is None else y
        with wp.Tape() as tape:
            wp.launch(drag, dim=N, inputs=[w, x], outputs=[y])
            wp.launch(misfit, dim=N, inputs=[y, t], outputs=[loss])
        tape.backward(loss)
        return tape


def step(sums: Sums) -> None:
    wp.launch(descend, dim=N, inputs=[sums.w, sums.w.grad, 0.01])
    sums.w.grad.zero_()


def test_the_same_loss_counted_twice_is_told_with_all_numbers() -> None:
    sums = Sums()
    sums.record()
    once = sums.loss.numpy()[0]
    sums.w.grad.zero_()
    tape = sums.record()
    assert sums.loss.numpy()[0] == pytest.approx(2 * once)
    (finding,) = found(tape, "not-reset")
    line = line_of("wp.atomic_add(loss, 0, (y[i] - t[i])", training_loop.__file__)
    assert finding.message == (
        f"loss held {once:.3g} when the recording began: an earlier recording of the same launches had left "
        f"it there. Launch 1 (misfit) adds to it at training_loop.py:{line}: loss ends at {2 * once:.3g}, "
        f"and this recording alone gives {once:.3g}."
    )
    assert (finding.severity, finding.arrays, finding.launches) == ("warning", ["loss"], [1])
    assert finding.call_site.line == line_of("inputs=[y, t], outputs=[loss]", __file__)
    assert finding.fix == "put loss.zero_() into the program, before each recording"
    assert finding.evidence == {
        "kind": "loss",
        "because": "again",
        "held": pytest.approx(once),
        "alone": pytest.approx(once),
        "total": pytest.approx(2 * once),
    }


def test_a_loop_that_updates_and_does_not_reset_mixes_values() -> None:
    sums = Sums()
    for _ in range(3):
        tape = sums.record()
        print(sums.loss.numpy())
        step(sums)
    (finding,) = found(tape, "not-reset")
    assert finding.evidence["because"] == "updated"
    assert finding.message.endswith(" Inputs were updated in between, so it is a sum over different values.")


def test_a_loss_that_is_not_read_is_only_noted() -> None:
    sums = Sums()
    sums.record()
    tape = sums.record()
    (finding,) = found(tape, "not-reset")
    assert finding.severity == "info"
    assert finding.message.endswith(" loss is not read, so nothing depends on that.")


def zeroed(sums: Sums) -> None:
    sums.loss.zero_()


def filled(sums: Sums) -> None:
    sums.loss.fill_(3.0)


def through_numpy(sums: Sums) -> None:
    sums.loss.numpy()[0] = 1.0


def through_an_open_view(sums: Sums) -> None:
    view = sums.loss.numpy()
    sums.record()
    view[0] = 1.0


def by_a_launch(sums: Sums) -> None:
    wp.launch(misfit, dim=N, inputs=[sums.y, sums.t], outputs=[sums.loss])


def by_another_recording(sums: Sums) -> None:
    with wp.Tape():
        wp.launch(misfit, dim=N, inputs=[sums.y, sums.t], outputs=[sums.loss])


def other_data(sums: Sums) -> None:
    sums.x.assign(np.linspace(2.0, 3.0, N))


def other_data_through_numpy(sums: Sums) -> None:
    sums.x.numpy()[...] = 3.0


def another_array(sums: Sums) -> None:
    sums.x = wp.array(np.linspace(2.0, 3.0, N), dtype=float)


def other_weights(sums: Sums) -> None:
    sums.w.assign(np.linspace(2.0, 3.0, N))


@pytest.mark.parametrize(
    "between",
    [
        zeroed,
        filled,
        through_numpy,
        through_an_open_view,
        by_a_launch,
        by_another_recording,
        other_data,
        other_data_through_numpy,
        another_array,
        other_weights,
    ],
)
def test_what_only_looks_like_it_raises_nothing(between: Any) -> None:
    sums = Sums()
    sums.record()
    between(sums)
    sums.w.grad.zero_()
    tape = sums.record()
    print(sums.loss.numpy())
    assert found(tape, "not-reset") == []
    assert alarms(tape) == []


def test_fresh_intermediate_arrays_are_no_other_data() -> None:
    sums = Sums()
    for _ in range(2):
        tape = sums.record(wp.zeros(N, dtype=float, requires_grad=True))
        print(sums.loss.numpy())
    assert [finding.severity for finding in found(tape, "not-reset")] == ["warning"]


def test_other_numbers_as_arguments_are_other_data() -> None:
    y = wp.ones(N, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    for by in (1.0, 2.0):
        with wp.Tape() as tape:
            wp.launch(scaled, dim=N, inputs=[y, by], outputs=[loss])
        tape.backward(loss)
        print(loss.numpy())
        tape.zero()
    assert alarms(tape) == []


def test_a_simulation_that_goes_on_raises_nothing() -> None:
    x = wp.ones(N, dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    for _ in range(3):
        with wp.Tape() as tape:
            wp.launch(walk, dim=N, inputs=[x], outputs=[loss])
        tape.backward(loss)
        print(loss.numpy())
        tape.zero()
    assert found(tape, "not-reset") == []


def test_a_recording_keeps_neither_arrays_nor_tapes_alive() -> None:
    import gc
    import weakref

    sums = Sums()
    y = wp.zeros(N, dtype=float, requires_grad=True)
    tape = sums.record(y)
    gone = [weakref.ref(y), weakref.ref(tape)]
    del y, tape
    gc.collect()
    assert [ref() for ref in gone] == [None, None]

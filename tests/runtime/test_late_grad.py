"""Arrays that get their gradient after a tape has used them."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp


@wp.kernel
def squares(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def in_place(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * x[i]


def floats(*values: float, requires_grad: bool = True) -> wp.array:
    return wp.array(values, dtype=float, requires_grad=requires_grad)


def test_a_seed_for_an_array_without_a_gradient() -> None:
    x, y = floats(1, 2, 3), wp.zeros(3, dtype=float)
    with wp.Tape() as tape:
        wp.launch(squares, dim=3, inputs=[x, y])
    tape.backward(grads={y: wp.ones(3, dtype=float)})
    assert x.grad.numpy().tolist() == [2, 4, 6]
    assert y.requires_grad, "as Warp has it, the array has a gradient from now on"


@pytest.mark.parametrize("copied", [False, True])
def test_requires_grad_after_the_launch(copied: bool) -> None:
    x, y, z = floats(1, 2, 3, requires_grad=False), wp.zeros(3, dtype=float), wp.zeros(3, dtype=float)
    with wp.Tape() as tape:
        wp.launch(squares, dim=3, inputs=[x, y])
        if copied:
            wp.copy(z, y)
        else:
            wp.launch(squares, dim=3, inputs=[y, z])
    x.requires_grad = y.requires_grad = True
    tape.backward(grads={z: np.ones(3)})
    expected = [2, 4, 6] if copied else [4, 32, 108]
    assert x.grad.numpy().tolist() == expected
    tape.zero()
    tape.backward(grads={z: np.ones(3)})
    assert x.grad.numpy().tolist() == expected, "a second time, by the plan that is there"


def test_from_then_on_values_are_kept() -> None:
    x, y = floats(1, 2, 3), wp.zeros(3, dtype=float)
    with wp.Tape() as tape:
        wp.launch(squares, dim=3, inputs=[x, y])
    tape.backward(grads={y: np.ones(3)})
    x.fill_(9.0)
    tape.zero()
    tape.backward(grads={y: np.ones(3)})
    assert x.grad.numpy().tolist() == [2, 4, 6]


def overwritten_by_a_launch(x, y):
    wp.launch(squares, dim=3, inputs=[y, x])


def overwritten_in_place(x, y):
    wp.launch(in_place, dim=3, inputs=[x])


def overwritten_outside(x, y):
    wp.launch(squares, dim=3, inputs=[y, x], record_tape=False)


MESSAGES = {
    overwritten_by_a_launch: "launch 1 (squares) has",
    overwritten_in_place: "launch 1 (in_place) has",
    overwritten_outside: "a write that is not on the tape has",
}


@pytest.mark.parametrize("how", MESSAGES, ids=lambda f: f.__name__)
def test_values_that_nobody_kept_are_an_error_and_never_a_wrong_gradient(how) -> None:
    x, y = floats(1, 2, 3), wp.zeros(3, dtype=float)
    with wp.Tape() as tape:
        wp.launch(squares, dim=3, inputs=[x, y])
        how(x, y)
    with pytest.raises(wp.TapeError) as raised:
        tape.backward(grads={y: np.ones(3)})
    assert str(raised.value) == (
        "backward: `y` of launch 0 (squares) got a gradient after the launch was recorded, and "
        f"{MESSAGES[how]} overwritten values of `x` that its adjoint needs\n"
        "  = hint: create the array with requires_grad=True, before the launch"
    )
    assert not y.requires_grad, "nothing half-done stays behind"
    assert x.grad.numpy().tolist() == [0, 0, 0]


def test_a_launch_that_overwrites_its_own_values() -> None:
    x = floats(1, 2, 3, requires_grad=False)
    with wp.Tape() as tape:
        wp.launch(in_place, dim=3, inputs=[x])
    with pytest.raises(
        wp.TapeError, match=r"launch 0 \(in_place\) got a gradient .* it has overwritten values of `x`"
    ):
        tape.backward(grads={x: np.ones(3)})


def test_a_numpy_view_that_is_open_may_have_changed_the_values() -> None:
    x, y = floats(1, 2, 3), wp.zeros(3, dtype=float)
    with wp.Tape() as tape:
        wp.launch(squares, dim=3, inputs=[x, y])
    values = x.numpy()
    values[:] = 5.0
    with pytest.raises(wp.TapeError, match=r"NumPy, perhaps|a write that is not on the tape"):
        tape.backward(grads={y: np.ones(3)})
    del values


def test_ignore_reads_what_is_there() -> None:
    x, y = floats(1, 2, 3), wp.zeros(3, dtype=float)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(squares, dim=3, inputs=[x, y])
        wp.launch(in_place, dim=3, inputs=[x])
    x.grad.zero_()
    tape.backward(grads={y: np.ones(3)})
    assert x.grad.numpy().tolist() == [2, 8, 18], "2x with x as it is now"


def test_end_to_end_after_a_late_gradient() -> None:
    x, y = floats(1, 2, 3), wp.zeros(3, dtype=float)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(squares, dim=3, inputs=[x, y])
        wp.launch(total, dim=3, inputs=[y, loss])
    y.requires_grad = True
    tape.backward(loss)
    assert x.grad.numpy().tolist() == [2, 4, 6]
    assert wp.diagnose(tape, loss=loss).verdict == "AGREE"


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])

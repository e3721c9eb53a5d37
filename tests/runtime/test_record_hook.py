"""Launches that are given like those before are packed, run and recorded by one generated function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._errors import TapedebugError
from tapedebug.runtime.tape.record_hook import ALIKE

OFTEN = ALIKE + 4


def new_kernel() -> Any:
    """Return a kernel that has not been launched."""

    @wp.kernel
    def scale(x: wp.array(dtype=float), by: float, y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * by

    return scale


def vector(*values: float, requires_grad: bool = True) -> wp.array:
    return wp.array(values, dtype=float, requires_grad=requires_grad)


def launch_often(kernel: Any, **options: Any) -> wp.Tape:
    """Launch from one place, with the arguments divided in one way."""
    x = vector(1, 2)
    with wp.Tape(**options) as tape:
        for _ in range(OFTEN):
            wp.launch(kernel, 2, inputs=[x, 2.0], outputs=[vector(0, 0)])
    return tape


def test_launches_are_recorded_as_the_first_is() -> None:
    kernel = new_kernel()
    tape = launch_often(kernel)
    assert kernel.latest.record_alike is not None
    first, *others = tape.records
    for number, other in enumerate(others, start=1):
        assert other.index == number
        assert other.call_site == first.call_site
        assert (other.plan, other.dim, other.threads) == (first.plan, (2,), 2)
        assert other.args[:2] == first.args[:2]
        assert other.args[2].numpy().tolist() == [2, 4]
        assert len(other.packed) == len(first.packed)
        assert other.elapsed > 0
    tape.backward(grads={record.args[2]: vector(1, 1) for record in tape.records})
    assert first.args[0].grad.numpy().tolist() == [2 * OFTEN, 2 * OFTEN]


X, Y = vector(3, 4), vector(0, 0)

FORMS: dict[str, Callable[[Any], object]] = {
    "all are inputs": lambda kernel: wp.launch(kernel, 2, inputs=[X, 2.0, Y]),
    "tuples": lambda kernel: wp.launch(kernel, 2, inputs=(X, 2.0), outputs=(Y,)),
    "one item more to the outputs": lambda kernel: wp.launch(kernel, 2, inputs=[X], outputs=[2.0, Y]),
    "an iterator": lambda kernel: wp.launch(kernel, 2, inputs=iter([X, 2.0]), outputs=[Y]),
    "an iterator with one item less": lambda kernel: wp.launch(kernel, 2, inputs=iter([X]), outputs=[2.0, Y]),
    "sizes in a tuple": lambda kernel: wp.launch(kernel, (2,), inputs=[X, 2.0], outputs=[Y]),
    "two sizes": lambda kernel: wp.launch(kernel, (2, 1), inputs=[X, 2.0], outputs=[Y]),
    "two sizes of no use": lambda kernel: wp.launch(kernel, (1, 2), inputs=[X, 2.0], outputs=[Y]),
    "other sizes": lambda kernel: wp.launch(kernel, 1, inputs=[X, 2.0], outputs=[Y]),
    "no threads": lambda kernel: wp.launch(kernel, 0, inputs=[X, 2.0], outputs=[Y]),
    "negative sizes": lambda kernel: wp.launch(kernel, -2, inputs=[X, 2.0], outputs=[Y]),
    "an integer": lambda kernel: wp.launch(kernel, 2, inputs=[X, 2], outputs=[Y]),
    "minus zero": lambda kernel: wp.launch(kernel, 2, inputs=[X, -0.0], outputs=[Y]),
    "a number of NumPy": lambda kernel: wp.launch(kernel, 2, inputs=[X, np.float32(2)], outputs=[Y]),
    "no gradient": lambda kernel: wp.launch(
        kernel, 2, inputs=[vector(3, 4, requires_grad=False), 2.0], outputs=[Y]
    ),
    "the same array twice": lambda kernel: wp.launch(kernel, 2, inputs=[X, 2.0], outputs=[X]),
    "not recorded": lambda kernel: wp.launch(kernel, 2, inputs=[X, 2.0], outputs=[Y], record_tape=False),
    "too few": lambda kernel: wp.launch(kernel, 2, inputs=[X, 2.0]),
    "too many": lambda kernel: wp.launch(kernel, 2, inputs=[X, 2.0], outputs=[Y, Y]),
    "text for a number": lambda kernel: wp.launch(kernel, 2, inputs=[X, "2"], outputs=[Y]),
    "nothing for an array": lambda kernel: wp.launch(kernel, 2, inputs=[None, 2.0], outputs=[Y]),
    "a number for an array": lambda kernel: wp.launch(kernel, 2, inputs=[1.0, 2.0], outputs=[Y]),
    "integers for floats": lambda kernel: wp.launch(
        kernel, 2, inputs=[wp.array([1, 2], dtype=int), 2.0], outputs=[Y]
    ),
    "no list": lambda kernel: wp.launch(kernel, 2, inputs=X, outputs=[Y]),
}


def outcome(kernel: Any, form: Callable[[Any], object]) -> list[Any]:
    """Return the message of the error, or what was recorded, and the values that the launch computed."""
    X.assign([3, 4])
    Y.assign([0, 0])
    with wp.Tape() as tape:
        try:
            form(kernel)
        except TapedebugError as error:
            return [type(error), str(error)]
    found: list[Any] = [X.numpy().tolist(), np.signbit(Y.numpy()).tolist(), Y.numpy().tolist()]
    for record in tape.records:
        values = [a.numpy().tolist() if isinstance(a, wp.array) else (type(a), a) for a in record.args]
        found += [values, record.dim, record.plan.active, record.call_site, len(record.inplace_saves)]
    return found


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_launch_that_is_given_in_another_way(form: Callable[[Any], object]) -> None:
    kernel = new_kernel()
    wanted = outcome(kernel, form)
    launch_often(kernel)
    assert kernel.latest.record_alike is not None
    assert outcome(kernel, form) == wanted
    assert [outcome(kernel, form) for _ in range(OFTEN)] == [wanted] * OFTEN
    assert launch_often(kernel).records[-1].args[2].numpy().tolist() == [2, 4]


def test_an_overwrite_is_refused_before_anything_is_recorded() -> None:
    @wp.kernel
    def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * x[i]

    for _ in range(2):
        values = [vector(1, 2) for _ in range(OFTEN + 1)]
        with wp.Tape(on_overwrite="error") as tape:
            for k in range(OFTEN):
                wp.launch(square, 2, inputs=[values[k]], outputs=[values[k + 1]])
            with pytest.raises(wp.OverwriteError, match="overwrite"):
                wp.launch(square, 2, inputs=[values[OFTEN]], outputs=[values[0]])
        assert square.latest.record_alike is not None
        assert len(tape.records) == OFTEN
        assert values[0].numpy().tolist() == [1, 2]


def test_a_tape_that_tracks_elements() -> None:
    kernel = new_kernel()
    launch_often(kernel)
    wp.launch(kernel, 3, inputs=[vector(1, 2, 3), 2.0], outputs=[vector(0, 0, 0)])
    part = vector(1, 2, 3, 4)[:2]
    with wp.Tape(track="elements"):
        for _ in range(2):
            wp.launch(kernel, 2, inputs=[part, 2.0], outputs=[vector(0, 0, 0)])
        with pytest.raises(TapedebugError, match="is outside axis 0 of `x`"):
            wp.launch(kernel, 3, inputs=[part, 2.0], outputs=[vector(0, 0, 0)])

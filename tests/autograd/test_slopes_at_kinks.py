"""Gradients at kinks: which numbers are as good as those of the adjoint."""

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd.subjects.whole_tape import whole_tape
from tapedebug.autograd.tapes.end_to_end import _float64_gradients, _gradients
from tapedebug.autograd.tapes.entry_bisection import GradientBisection


@wp.kernel
def largest(x: wp.array(dtype=float), top: wp.array(dtype=float)):
    wp.atomic_max(top, 0, x[wp.tid()])


@wp.kernel
def absolute(x: wp.array(dtype=float), total: wp.array(dtype=float)):
    wp.atomic_add(total, 0, wp.abs(x[wp.tid()]))


@pytest.mark.parametrize(
    ("kernel", "values", "consumed", "right"),
    [
        (absolute, [0.0, 2.0, -3.0], [1.0, 1.0, -1.0], True),
        (absolute, [0.0, 2.0, -3.0], [-0.3, 1.0, -1.0], True),
        (absolute, [0.0, 2.0, -3.0], [1.1, 1.0, -1.0], False),
        (largest, [2.0, 2.0, 1.0], [0.0, 1.0, 0.0], True),
        (largest, [2.0, 2.0, 1.0], [0.5, 0.5, 0.0], True),
        (largest, [2.0, 2.0, 1.0], [1.0, 1.0, 0.0], False),  # each alone is between 0 and 1
    ],
)
def test_a_gradient_lies_between_the_slopes_of_both_sides(kernel, values, consumed, right):
    x = wp.array(values, dtype=float, requires_grad=True)
    out = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, dim=3, inputs=[x], outputs=[out])
    program = whole_tape(tape, out, x, None)
    (port,) = program.inputs
    gradients = _gradients(program, {port: np.array(consumed)}, *_float64_gradients(program, None))
    kinks = np.flatnonzero(np.array(values) == max(values)) if kernel is largest else np.array([0])
    assert (GradientBisection(program, port, gradients).kinks(kinks) is not None) == right

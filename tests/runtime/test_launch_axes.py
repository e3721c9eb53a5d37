"""Launches with more axes than `tid()` gives indices, and kernels that ask for different numbers of them."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp

pytestmark = pytest.mark.unoptimized


@wp.kernel
def squares(x: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(out, i, x[i] * x[i])


@wp.kernel
def mixed(rows: wp.array(dtype=int), both: wp.array2d(dtype=int)):
    row = wp.tid()
    i, j = wp.tid()
    wp.atomic_add(rows, row, 1)
    wp.atomic_add(both, i, j, row + 1)


@wp.kernel
def generic(x: wp.array(dtype=wp.Float), count: wp.array(dtype=int)):
    i = wp.tid()
    wp.atomic_add(count, i, 1)
    x[i] = x[i]


def test_a_launch_with_more_axes_repeats_the_first_ones() -> None:
    """As Warp 1.19 does; the tape, its reverse and its checks follow."""
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    out = wp.zeros(3, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(squares, dim=(2, 5), inputs=[x], outputs=[out])
    tape.backward(grads={out: wp.ones_like(out)})
    assert out.list() == [5, 20, 0]
    assert x.grad.list() == [10, 20, 0]
    np.testing.assert_allclose(tape.replay(dtype=wp.float64).values(out), [5, 20, 0])
    assert wp.autograd.gradcheck(squares, dim=(2, 5), inputs=[x], outputs=[out]).verdict == "AGREE"


def test_every_way_to_launch_repeats_them() -> None:
    x, out = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True), wp.zeros(3, requires_grad=True)
    command = wp.launch(squares, dim=[2, 2], inputs=[x, out], record_cmd=True)
    command.launch()
    assert out.list() == [2, 8, 0]
    wp.launch(squares, dim=(3, 1), inputs=[x, out])
    wp.launch(squares, dim=3, inputs=[x, out])
    assert out.list() == [4, 16, 18]
    out.grad.fill_(1.0)
    wp.launch(squares, dim=(2, 4), inputs=[x, out], adjoint=True, adj_inputs=[None, None])
    assert x.grad.list() == [8, 16, 0]


def test_a_kernel_may_ask_for_different_numbers_of_indices() -> None:
    rows, both = wp.zeros(3, dtype=int), wp.zeros((3, 3), dtype=int)
    wp.launch(mixed, dim=(2, 3, 2), inputs=[rows, both])
    assert rows.list() == [6, 6, 0]
    assert both.numpy().tolist() == [[2, 2, 2], [4, 4, 4], [0, 0, 0]]


def test_axes_are_as_long_as_indices_are_counted() -> None:
    x, count = wp.zeros(1, dtype=float), wp.zeros(1, dtype=int)
    with pytest.raises(wp.LaunchError) as error:
        wp.launch(generic, dim=(2, 2**31 + 1), inputs=[x, count], record_cmd=True)
    assert error.value.message == (
        "launch of generic: dim is 2147483649 on axis 1; tid() gives int32 indices, up to 2147483647"
    )
    wp.launch(generic, dim=(0, 2**31 + 1), inputs=[x, count])


def test_generic_kernels_repeat_them_too() -> None:
    x, count = wp.zeros(3, dtype=wp.float64), wp.zeros(3, dtype=int)
    wp.launch(generic, dim=(3, 2), inputs=[x, count])
    assert count.list() == [2, 2, 2]

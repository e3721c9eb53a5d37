"""Launches with more axes than `tid()` gives indices, and kernels that ask for different numbers of them."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

import tapedebug as wp

launch: Any = sys.modules[wp.launch.__module__]

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


@wp.kernel
def add_both(x: wp.array2d(dtype=float)):
    i, j = wp.tid()
    x[i, j] = x[i, j] + 1.0


@pytest.mark.parametrize("form", [tuple, list, lambda sizes: wp.zeros(sizes).shape])
def test_later_launches_over_two_axes_ask_nothing(monkeypatch: pytest.MonkeyPatch, form: Any) -> None:
    """They take as long as those over one axis: 1.5 µs; to ask for the kernel each time takes up to 7."""
    x = wp.zeros((2, 3), dtype=float)
    for _ in range(3):
        wp.launch(add_both, dim=form([2, 3]), inputs=[x])

    def asked(*args: Any) -> None:
        raise AssertionError("the kernel and the sizes are known")

    monkeypatch.setattr(launch, "kernel_for", asked)
    monkeypatch.setattr(launch, "launch_dims", asked)
    wp.launch(add_both, dim=form([2, 3]), inputs=[x])
    wp.launch(add_both, dim=form([2]) + form([3]), inputs=[x])
    assert x.numpy().tolist() == [[5.0] * 3] * 2


def test_sizes_that_only_equal_known_ones_are_refused() -> None:
    x = wp.zeros((2, 3), dtype=float)
    wp.launch(add_both, dim=(2, 3), inputs=[x])
    for dim in ((2, 3.0), [2, 3.0]):
        with pytest.raises(wp.LaunchError):
            wp.launch(add_both, dim=dim, inputs=[x])
    wp.launch(add_both, dim=(np.int64(2), 3), inputs=[x])
    assert x.numpy().tolist() == [[2.0] * 3] * 2

"""Kinks at which Warp takes another slope than this engine: neither is wrong."""

from __future__ import annotations

import pytest

import tapedebug as td

pytestmark = pytest.mark.peer
wp = pytest.importorskip("warp")


@wp.kernel
def absolute(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, wp.abs(x[wp.tid()]))


@wp.kernel
def twice_as_steep(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, kinked(x[wp.tid()]))


@wp.func
def kinked(x: float):
    return wp.abs(x)


@wp.func_grad(kinked)
def adj_kinked(x: float, adj_ret: float):
    wp.adjoint[x] += 2.0 * adj_ret


@wp.kernel
def steep(x: wp.array(dtype=float), count: int, loss: wp.array(dtype=float)):
    s = wp.abs(x[wp.tid()])
    for _ in range(count):
        s = s * x[wp.tid()]  # Warp reverses a dynamic loop with the last value of s
    wp.atomic_add(loss, 0, s)


def diagnosed(kernel, *numbers):
    with td.watch_warp() as session:
        x = wp.array([0.0, 2.0, -3.0], dtype=float, requires_grad=True)
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(kernel, dim=3, inputs=[x, *numbers], outputs=[loss])
        tape.backward(loss)
    (tape,) = session.tapes
    found = td.diagnose(tape, progress=False)
    return x.grad.numpy().tolist(), found, [item.rule for item in found.findings if item.severity != "info"]


def test_a_slope_between_those_of_both_sides_is_a_kink():
    gradient, found, loud = diagnosed(absolute)
    assert gradient == [1.0, 1.0, -1.0]  # here abs has the slope 0 at 0
    assert (found.verdict, loud) == ("KINK", [])
    assert "along entry [0], the slope is -1 on the left and 1 on the right" in found.coverage.summary


def test_a_slope_beyond_those_of_both_sides_is_wrong():
    _, found, loud = diagnosed(twice_as_steep)
    assert found.verdict == "WRONG"
    assert loud


def test_a_wrong_gradient_beside_a_kink_is_wrong():
    _, found, loud = diagnosed(steep, 3)
    assert (found.verdict, loud) == ("WRONG", ["warp-limitation"])

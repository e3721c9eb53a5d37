"""Thresholds between rounding or chaos and wrong adjoints, each from both sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import gradcheck
from tapedebug.autograd.subjects.shadow_program import ShadowProgram

QUIET = {"show_summary": False, "raise_exception": False}


@wp.func
def loses_digits(x: float, big: float):
    return wp.sin(x)


@wp.func_grad(loses_digits)
def adj_loses_digits(x: float, big: float, adj: float):
    wp.adjoint[x] += adj * ((big + wp.cos(x)) - big)


@wp.kernel
def sine(x: wp.array(dtype=float), big: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = loses_digits(x[i], big)


@wp.kernel
def logistic(x: wp.array(dtype=float), rate: float, steps: int, y: wp.array(dtype=float)):
    i = wp.tid()
    s = x[i]
    for _k in range(steps):
        s = rate * s * (1.0 - s)
    y[i] = s


@wp.kernel
def henon(x: wp.array(dtype=float), rate: float, steps: int, y: wp.array(dtype=float)):
    i = wp.tid()
    a = x[i]
    b = float(0.1)
    for _k in range(steps):
        c = 1.0 - rate * a * a + b
        b = 0.3 * a
        a = c
    y[i] = a


@wp.kernel
def tent(x: wp.array(dtype=float), rate: float, steps: int, y: wp.array(dtype=float)):
    i = wp.tid()
    s = x[i]
    for _k in range(steps):
        if s < 0.5:
            s = rate * s
        else:
            s = rate * (1.0 - s)
    y[i] = s


@wp.func
def squared(x: wp.float64):
    return x * x


@wp.func_grad(squared)
def adj_squared(x: wp.float64, adj: wp.float64):
    wp.adjoint[x] += adj * wp.float64(2.0) * x * wp.float64(1.00000000001)


@wp.kernel
def square64(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = squared(x[i])


@wp.kernel
def some_zero64(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = wp.cos(x[i]) + x[(i + 1) % x.shape[0]]


def check(kernel: Any, values: Any, *more: Any, dtype: Any = float, **options: Any) -> Any:
    x = wp.array(np.asarray(values), dtype=dtype, requires_grad=True)
    y = wp.zeros(len(x), dtype=dtype, requires_grad=True)
    return gradcheck(kernel, dim=len(x), inputs=[x, *more], outputs=[y], **QUIET, **options)


@pytest.mark.parametrize(
    ("big", "verdict"),
    [(1e4, "AGREE"), (4e5, "UNDECIDABLE")],  # off by up to 0.0005; by up to 0.016 of the largest entry
)
def test_an_adjoint_that_loses_digits_agrees_only_as_far_as_the_tolerance_of_the_largest(
    big: float, verdict: str
) -> None:
    assert check(sine, np.linspace(0.0, 1.57, 20), big, rtol=1e-2, atol=0.0).verdict == verdict


@pytest.mark.parametrize("count", [20, 300])
@pytest.mark.parametrize("rtol", [1e-2, 1e-4])
def test_a_factor_that_only_float32_gets_wrong_is_no_rounding(
    count: int, rtol: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Off by 2 % of the largest entry; the float64 twin is right."""
    pull, pull_many = ShadowProgram.pull, ShadowProgram.pull_many

    def off(found: Any, double: bool) -> Any:
        for values in found.values():
            values[..., 0] *= 1.0 if double else 2.0
        return found

    def one(self: Any, seeds: Any, *, double: bool = False, **options: Any) -> Any:
        return off(pull(self, seeds, double=double, **options), double)

    def many(self: Any, seeds: Any, *, double: bool = False, **options: Any) -> Any:
        rows = next(iter(seeds.values()))
        if len(rows) == 1:  # which `pull` runs
            return pull_many(self, seeds, double=double, **options)
        return off(pull_many(self, seeds, double=double, **options), double)

    x = np.linspace(0.1, 0.4, count)
    x[0] = 0.491  # its entry is 0.022 of the largest
    assert check(logistic, x, 3.0, 1, rtol=rtol, atol=0.0).verdict == "AGREE"
    monkeypatch.setattr(ShadowProgram, "pull", one)
    monkeypatch.setattr(ShadowProgram, "pull_many", many)
    assert check(logistic, x, 3.0, 1, rtol=rtol, atol=0.0).verdict == "WRONG"


@pytest.mark.parametrize(
    ("kernel", "rate", "steps", "seed"),
    [
        (logistic, 3.9, 15, 0), (logistic, 3.9, 20, 1), (logistic, 3.9, 30, 0), (logistic, 4.0, 50, 0),
        (henon, 1.4, 30, 0), (tent, 1.99, 60, 0), (tent, 1.99, 60, 1),
    ],
)  # fmt: skip
def test_no_thread_of_a_chaotic_map_is_wrong(kernel: Any, rate: float, steps: int, seed: int) -> None:
    """With 4,096 threads some values lie beyond the range of a few samples."""
    values = np.random.default_rng(seed).uniform(0.05, 0.95, 4096)
    assert check(kernel, values, rate, steps).verdict == "UNDECIDABLE"


def test_a_float64_adjoint_is_held_to_the_tolerance_that_was_given() -> None:
    x = np.linspace(1.0, 3.0, 12)
    assert check(square64, x, dtype=wp.float64, atol=0.0, rtol=1e-6).verdict == "AGREE"
    assert check(square64, x, dtype=wp.float64, atol=0.0, rtol=5e-12).verdict != "AGREE"


def test_zeros_of_a_right_float64_kernel_are_no_doubts() -> None:
    x = np.array([0.0, 0.5, 1.0, 0.0])  # cos has no slope at 0
    for rtol in (1e-2, 1e-6, 1e-8):
        assert check(some_zero64, x, dtype=wp.float64, atol=0.0, rtol=rtol).verdict == "AGREE"

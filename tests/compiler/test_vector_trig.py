"""Sines and cosines inline: near the true numbers, and the same wherever they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._syntax import parsed
from tapedebug.compiler import backend
from tapedebug.compiler.llvm.machine import vector_bits
from tapedebug.compiler.llvm.simd.vector_calls import Vectors
from tapedebug.compiler.variant import Variant
from tapedebug.lang.rules._vector_functions import LARGEST, MULTIPLES, TABLED, _tables, sine
from tests.compiler.harness import run
from tests.compiler.simd_comparison import scalar_functions


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    with scalar_functions():
        wp.config.vector_math = True
        yield


@wp.kernel
def sines(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sin(x[i])


@wp.kernel
def cosines(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.cos(x[i])


@wp.kernel
def sines_and_roots(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sin(x[i]) + wp.sqrt(x[i])


BOTH = [(sines, np.sin), (cosines, np.cos)]


def found(kernel: Any, x: np.ndarray) -> np.ndarray:
    y = np.zeros_like(x)
    run(kernel, x.size, [x, y], lanes=True)
    return y


def inline() -> bool:
    """True if this machine has fused products, and a C library for rare arguments."""
    return sine(Vectors(8, vector_bits(), fast=True), ("f32",)) is not None


@pytest.mark.parametrize(("kernel", "true"), BOTH)
def test_they_err_by_less_than_two_units(bits: int, kernel: Any, true: Callable[..., Any]) -> None:
    """Everywhere up to the largest, at the multiples of half of pi, and beyond."""
    some = np.arange(0, 0x461C4001, 1511, dtype=np.uint32).view(np.float32)
    near = (np.arange(6400) * (np.pi / 2)).astype(np.float32)
    x = np.concatenate([some, -some, near, np.nextafter(near, np.float32(9e9)), -near])
    right = true(x.astype(np.float64))
    unit = np.spacing(np.maximum(np.abs(right).astype(np.float32), np.finfo(np.float32).tiny))
    y = found(kernel, x)
    if bits > 128 and inline():
        assert (np.abs(y - right) / unit).max() < 1.8
        assert np.mean(y == right.astype(np.float32)) > 0.93
    beyond = np.geomspace(LARGEST, 3e38, 1000).astype(np.float32)
    right = true(beyond.astype(np.float64))
    assert (np.abs(found(kernel, beyond) - right) / np.spacing(np.abs(right).astype(np.float32))).max() < 4


@pytest.mark.parametrize(("kernel", "true"), BOTH)
def test_they_do_not_depend_on_their_neighbours(bits: int, kernel: Any, true: Callable[..., Any]) -> None:
    """Numbers that the C library takes stand beside those that it does not."""
    x = np.random.default_rng(1).uniform(-9000, 9000, 4800).astype(np.float32)
    alone = found(kernel, x)
    mixed = x.copy()
    mixed[::5] = np.resize(np.array([1e4, 1.1e4, -3e7, np.inf, np.nan, 1e38], np.float32), mixed[::5].shape)
    beside = found(kernel, mixed)
    rest = np.arange(x.size) % 5 != 0
    np.testing.assert_array_equal(beside[rest], alone[rest])
    np.testing.assert_array_equal(np.isnan(beside), np.isinf(mixed) | np.isnan(mixed))


@pytest.mark.parametrize(("kernel", "true"), BOTH)
def test_small_ones_do_not_depend_on_larger_neighbours(
    bits: int, kernel: Any, true: Callable[..., Any]
) -> None:
    """Multiples of pi are looked up for all small numbers, whatever they stand beside."""
    x = np.random.default_rng(2).uniform(-1.2 * TABLED, 1.2 * TABLED, 40_000).astype(np.float32)
    x[:2000] = (np.arange(-1000, 1000) % 14 - 7) * (np.pi / 2)
    ends = np.array([7.5 * np.pi, 7.0 * np.pi, TABLED], np.float32)  # of the tables, and of the first test
    near = [s * (ends.view(np.int32) + k).view(np.float32) for k in range(-10, 10) for s in (1, -1)]
    x[2000:2120] = np.concatenate(near)
    alone = found(kernel, np.sort(x))[np.argsort(np.argsort(x))]  # in most blocks, all are small or all large
    np.testing.assert_array_equal(found(kernel, x), alone)
    mixed = x.copy()
    mixed[::7] = np.resize(
        np.array([22.0, 24.0, -26.0, np.nan, -500.0, 9999.0, 2e4, np.inf], np.float32), mixed[::7].shape
    )
    rest = np.arange(x.size) % 7 != 0
    np.testing.assert_array_equal(found(kernel, mixed)[rest], alone[rest])


@pytest.mark.parametrize(("kernel", "true"), BOTH)
@pytest.mark.parametrize("beside", [1.0, 3e38, np.inf, np.nan])
def test_large_ones_do_not_depend_on_the_vector_beside(
    bits: int, kernel: Any, true: Callable[..., Any], beside: float
) -> None:
    """Two vectors are tested at once; numbers just above the bound are among them."""
    x = np.random.default_rng(3).uniform(0.9 * LARGEST, 3.0 * LARGEST, 4000).astype(np.float32)
    x[:64] = np.nextafter(np.float32(LARGEST), np.float32(9e9))
    for first in (0, 16):
        mixed = np.full((125, 32), beside, np.float32)
        mixed[:, first : first + 16] = x.reshape(125, 32)[:, first : first + 16]
        y = found(kernel, mixed.reshape(-1)).reshape(125, 32)[:, first : first + 16]
        np.testing.assert_array_equal(y, found(kernel, x).reshape(125, 32)[:, first : first + 16])


@pytest.mark.parametrize("half", [False, True])
def test_tables_hold_the_multiples_of_pi(half: bool) -> None:
    """Each is the sum of two numbers, of which the second is the nearest to what the first leaves.

    Those without a counterpart of the other sign are 0.
    """
    pi = Fraction("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")
    high, low = _tables(half=half)
    for turns, one, other in zip([*range(8), *range(-8, 0)], high, low, strict=True):
        assert one == np.float32(one) and other == np.float32(other)
        multiple = turns - Fraction(half, 2)
        if abs(multiple) > MULTIPLES:
            assert (one, other) == (0.0, 0.0)
            continue
        left = multiple * pi - Fraction(one)
        assert abs(left) <= abs(Fraction(float(np.spacing(np.float32(one))))) / 2 or one == 0
        assert abs(Fraction(other) - left) <= abs(left) / 2**24


def test_roots_beside_sines_are_the_nearest_there_are(bits: int) -> None:
    """Roots are taken by vectors of 512 bits, of which a block of threads may be two."""
    x = np.random.default_rng(4).uniform(0.0, 20.0, 4000).astype(np.float32)
    np.testing.assert_array_equal(found(sines_and_roots, x), found(sines, x) + np.sqrt(x))


def test_zeros_keep_their_sign_and_the_smallest_numbers_their_value(bits: int) -> None:
    x = np.array([0.0, -0.0, 1e-45, -1e-45, 1e-39, -1e-39, 1e-38, -3e-20] * 5, np.float32)
    y = found(sines, x)
    np.testing.assert_array_equal(y, x)
    np.testing.assert_array_equal(np.signbit(y), np.signbit(x))
    np.testing.assert_array_equal(found(cosines, x), np.ones_like(x))


def test_other_functions_and_precisions_are_left_to_the_c_library() -> None:
    assert sine(Vectors(16, 512, fast=False), ("f32",)) is None
    assert sine(Vectors(8, 512, fast=True), ("f64",)) is None
    assert sine(Vectors(4, 128, fast=True), ("f32",)) is None


@pytest.mark.parametrize(("kernel", "true"), BOTH)
def test_twins_in_float64_call_vector_functions(bits: int, kernel: Any, true: Callable[..., Any]) -> None:
    """They err by up to four units of float64, a billionth of what differences resolve."""
    x = np.concatenate([np.linspace(-20.0, 20.0, 4001), np.geomspace(1.0, 1e6, 1000)])
    y = np.zeros_like(x)
    run(kernel, x.size, [x, y], f64=True, lanes=True)
    assert (np.abs(y - true(x)) / np.spacing(np.abs(true(x)))).max() <= 5
    name = kernel.key[:3]
    call = Vectors(bits // 32, bits, fast=True).library(name, ("f64",))
    if call is not None:
        text = kernel._text(Variant("forward", f64=True, lanes=True, math=True))
        assert f"_{name}(" in (backend._in_lanes(parsed(text.code), "entry", text.lanes) or "")

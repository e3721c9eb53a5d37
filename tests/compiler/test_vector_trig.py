"""Sines and cosines inline: near the true numbers, and the same wherever they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._syntax import parsed
from tapedebug.compiler import backend
from tapedebug.compiler.llvm.machine import vector_bits
from tapedebug.compiler.llvm.simd.vector_calls import Vectors
from tapedebug.compiler.variant import Variant
from tapedebug.lang.rules._vector_functions import LARGEST, sine
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

"""The number of threads that run together: two short vectors are joined if there is room."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

import tapedebug as wp
from tapedebug.compiler.llvm.machine import vector_bits
from tapedebug.compiler.llvm.simd import vectorize as translator
from tapedebug.compiler.llvm.simd.vector_calls import Vectors
from tapedebug.compiler.variant import Variant
from tapedebug.lang.rules._vector_functions import sine


@wp.kernel
def doubled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def multiplied(a: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = float(1.0)
    for k in range(a.shape[0]):
        s = s * a[k]
    y[i] = s


@wp.kernel
def picked(x: wp.array(dtype=float), which: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[which[i]]


@wp.kernel
def grown(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.exp(x[i])


@wp.kernel
def precise(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def of_rows(m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for k in range(m.shape[1]):
        s = s + m[i, k]
    y[i] = s


@wp.kernel
def waved(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sin(x[i])


@wp.kernel
def waved_twice(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * wp.cos(x[i])


@wp.kernel
def waved_and_grown(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.exp(wp.sin(x[i]))


@wp.kernel
def waved_often(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    s = x[i]
    for _ in range(n):
        s = wp.sin(s)
    y[i] = s


def lanes(kernel: Any, bits: int, *, math: bool = False) -> int:
    """Return how many threads run together with vectors of so many bits."""
    text = kernel._text(Variant("forward", lanes=True, math=math))
    assembly = translator.vectorize(text.code, "entry", replace(text.lanes, bits=bits))
    return int(re.findall(r"and i64 %\S+, -(\d+)", assembly)[0])


@pytest.mark.parametrize("kernel", [doubled, multiplied, picked], ids=lambda kernel: kernel.key)
def test_two_vectors_are_taken_for_one(kernel: Any) -> None:
    assert [lanes(kernel, bits) for bits in (512, 256, 128)] == [16, 16, 8]


@pytest.mark.parametrize("kernel", [grown, precise, of_rows], ids=lambda kernel: kernel.key)
def test_not_where_registers_or_places_in_the_cache_are_few(kernel: Any) -> None:
    assert [lanes(kernel, bits) for bits in (512, 256, 128)] == [16, 8, 4]


INLINE = pytest.mark.skipif(
    sine(Vectors(32, vector_bits(), fast=True), ("f32",)) is None or vector_bits() < 512,
    reason="sines are not computed inline",
)


@INLINE
def test_two_of_the_widest_vectors_share_a_branch() -> None:
    """One sine is all that is computed inline or called, and not in a loop."""
    kernels = (waved, waved_twice, waved_and_grown, waved_often)
    assert [lanes(kernel, 512, math=True) for kernel in kernels] == [32, 16, 16, 16]
    assert [lanes(kernel, 512) for kernel in kernels] == [16, 16, 16, 16]


@INLINE
def test_a_function_that_is_computed_inline_makes_a_block_long() -> None:
    """The memory of the next blocks is fetched, as it is beside calls: it answers later than a sine takes."""
    for math, fetched in ((True, True), (False, False)):
        text = waved._text(Variant("forward", lanes=True, math=math))
        assembly = translator.vectorize(text.code, "entry", replace(text.lanes, bits=512))
        assert ("call void @llvm.prefetch" in assembly) == fetched

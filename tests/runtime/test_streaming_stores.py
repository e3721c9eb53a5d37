"""Stores of launches that write more than the caches hold: past these, with the same results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.llvm.simd.vectorize import vectorize
from tapedebug.compiler.variant import Variant
from tapedebug.compiler.work_queue import on_x86
from tapedebug.runtime.memory.block_allocator import ALIGNMENT
from tapedebug.runtime.parallel import schedule
from tests.compiler import parallel_comparison

Floats = wp.array(dtype=float)
Grid = wp.array2d(dtype=float)


@pytest.fixture(autouse=True)
def _small_caches(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(schedule, "STREAMED", 1000)
    monkeypatch.setattr(schedule, "last_level_cache", lambda: 0)
    monkeypatch.setattr(wp.config, "num_threads", 2)
    with parallel_comparison.always_cut():
        yield


def kernels() -> dict[str, Any]:
    """New kernels, none of which has been launched."""

    @wp.kernel
    def double(x: Floats, y: Floats):
        i = wp.tid()
        y[i] = 2.0 * x[i]

    @wp.kernel
    def branch(x: Floats, y: Floats):
        i = wp.tid()
        if x[i] > 0.0:
            y[i] = 2.0 * x[i]

    @wp.kernel
    def wide(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
        i = wp.tid()
        y[i] = x[i] * x[i]

    @wp.kernel
    def rows(x: Grid, y: Grid):
        i, j = wp.tid()
        y[i, j] = 2.0 * x[i, j]

    @wp.kernel
    def again(x: Floats, y: Floats):
        i = wp.tid()
        y[i] = y[i] + x[i]

    @wp.kernel
    def adds(x: Floats, y: Floats):
        i = wp.tid()
        wp.atomic_add(y, i, x[i])

    @wp.kernel
    def loop(x: Floats, y: Floats):
        i = wp.tid()
        s = float(0.0)
        for k in range(40):
            s = s + x[i] * float(k)
        y[i] = s

    @wp.kernel
    def wave(x: Floats, y: Floats):
        i = wp.tid()
        y[i] = wp.sin(x[i])

    return {
        "double": double, "branch": branch, "wide": wide, "rows": rows, "again": again, "adds": adds,
        "loop": loop, "wave": wave,
    }  # fmt: skip


def streams(kernel: Any) -> set[str]:
    """The kinds of variants that were compiled with such stores."""
    return {variant.kind for variant in kernel._entries if variant.streams}


def results(name: str, dtype: Any, shape: tuple[int, ...], first: int) -> tuple[bytes, set[str]]:
    """The output of three launches on arrays that begin so many elements after an aligned address."""
    kernel = kernels()[name]
    values = np.random.default_rng(3).normal(size=shape).astype(wp.types.numpy_dtype(dtype))
    longer = (shape[0] + first, *shape[1:])
    x, y = (wp.zeros(longer, dtype=dtype)[first:] for _ in range(2))
    x.assign(values)
    for _ in range(3):
        wp.launch(kernel, shape, [x, y])
    return y.numpy().tobytes(), streams(kernel)


@pytest.mark.skipif(not on_x86(), reason="measured on x86 alone")
@pytest.mark.parametrize("first", [0, 1, 16])
@pytest.mark.parametrize(
    ("name", "dtype", "shape"),
    [
        ("double", float, (5003,)), ("branch", float, (5003,)), ("wide", wp.float64, (5003,)),
        ("wave", float, (5003,)),
        ("rows", float, (71, 83)), ("rows", float, (64, 96)),
    ],
)  # fmt: skip
def test_results_are_those_of_usual_stores(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: Any, shape: tuple[int, ...], first: int
) -> None:
    found, kinds = results(name, dtype, shape, first)
    assert kinds == {"forward"}
    monkeypatch.setattr(schedule, "STREAMED", 1 << 40)
    assert results(name, dtype, shape, first) == (found, set())


@pytest.mark.parametrize("name", ["again", "adds", "loop"])
def test_kernels_that_read_what_they_write_or_compute_long_use_the_caches(name: str) -> None:
    assert results(name, float, (5003,), 0)[1] == set()


@pytest.mark.skipif(not on_x86(), reason="measured on x86 alone")
def test_arrays_that_share_memory_and_reverse_passes_use_the_caches() -> None:
    kernel, n = kernels()["double"], 5003
    x = wp.zeros(n, dtype=float, requires_grad=True)
    for _ in range(3):
        wp.launch(kernel, n, [x, x])
    assert streams(kernel) == set()
    y = wp.zeros(n, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(kernel, n, [x, y])
    for _ in range(3):
        tape.backward(grads={y: np.ones(n, np.float32)})
    assert streams(kernel) == {"forward"}


def test_a_launch_that_fits_the_caches_uses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "last_level_cache", lambda: 1 << 40)
    assert results("double", float, (5003,), 0)[1] == set()


def test_only_such_a_variant_stores_past_the_caches() -> None:
    kernel = kernels()["double"]
    for wanted in (False, True):
        text = kernel._text(Variant("forward", lanes=True, streams=wanted))
        assert ("!nontemporal" in vectorize(text.code, "entry", text.lanes)) == wanted


@pytest.mark.parametrize("name", ["double", "wave"])
def test_arrays_need_not_be_aligned_more_than_vectors_are(name: str) -> None:
    """A block of threads may be two vectors, which are twice as long as arrays are aligned."""
    text = kernels()[name]._text(Variant("forward", lanes=True, math=True, streams=True))
    aligned = re.findall(r"align (\d+), !nontemporal", vectorize(text.code, "entry", text.lanes))
    assert aligned and all(int(number) <= ALIGNMENT for number in aligned)

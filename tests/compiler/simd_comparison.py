"""Kernels in lanes beside the same kernels thread by thread."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler import backend, objects, pipeline
from tapedebug.compiler.variant import Variant
from tapedebug.lang import types as t
from tests import sweeps
from tests.compiler.harness import run, twin
from tests.processes import ROOT

WIDTHS = (512, 256, 128)
SIZES = (37, 16, 5, 64, 33)
"""Numbers of threads: blocks that are full, and those that are not."""


KERNELS = ROOT / "build" / "test-kernels"
"""Compiled kernels of tests, shared by the processes that run them and kept for the next run."""


def kernels_of_width(bits: int) -> Path:
    """Return the folder for kernels with vectors of `bits`, a width that is not part of the cache's keys.

    It lies in a folder named after the compiler's source; those of other sources are removed.
    """
    compiler = KERNELS / hashlib.sha256(objects.processor().encode()).hexdigest()[:16]
    if not compiler.exists() and KERNELS.exists():
        for other in KERNELS.iterdir():
            if other != compiler:  # another process may have made it meanwhile
                shutil.rmtree(other, ignore_errors=True)
    folder = compiler / str(bits)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


@contextmanager
def scalar_functions(cache: Path | None = None) -> Iterator[None]:
    """Call no vector functions, and keep compiled kernels in a folder, by default that of this width."""
    before = wp.config.vector_math, wp.config.kernel_cache_dir
    folder = kernels_of_width(pipeline.vector_bits()) if cache is None else cache
    wp.config.vector_math, wp.config.kernel_cache_dir = False, str(folder)
    try:
        yield
    finally:
        wp.config.vector_math, wp.config.kernel_cache_dir = before


def set_width(monkeypatch: pytest.MonkeyPatch, bits: int) -> None:
    """Compile for vectors of `bits`, and keep compiled kernels in the folder of that width."""
    monkeypatch.setattr(pipeline, "vector_bits", lambda: bits)
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(kernels_of_width(bits)))


def is_in_lanes(kernel: Any, kind: str = "forward", *, f64: bool = False) -> bool:
    """True if a variant is compiled in lanes."""
    active = pipeline.differentiable(kernel.params)
    replay = kernel.adjoint_info(active).replay if kind == "adjoint" else frozenset()
    variant = Variant(kind, frozenset() if kind == "forward" else active, replay, f64, lanes=True)
    return backend.is_in_lanes(kernel._text(variant))


def numbers(args: list[Any]) -> list[Any]:
    return [a.copy() if isinstance(a, np.ndarray) else a for a in args]


def results(kernel: Any, dim: Any, args: list[Any], *, f64: bool, lanes: bool, replay: Any) -> dict[str, Any]:
    """Return what a kernel, its adjoint and its tangent leave in arrays."""
    rng = np.random.default_rng(3)
    found: dict[str, Any] = {}
    seeds = [
        rng.normal(size=a.shape).astype(a.dtype) if t.is_float(p.type.dtype) else None
        for p, a in zip(kernel.params, args, strict=True)
        if p.is_array
    ]
    for kind in ("forward", "adjoint", "tangent"):
        values, other = numbers(args), numbers(seeds)
        given = {"forward": {}, "adjoint": {"adjoints": other}, "tangent": {"tangents": other}}[kind]
        run(
            kernel,
            dim,
            values,
            f64=f64,
            lanes=lanes,
            replay=replay if kind == "adjoint" else frozenset(),
            **given,
        )
        found[kind] = [a for a in (*values, *other) if isinstance(a, np.ndarray)]
    return found


def compare(kernel: Any, dim: Any, args: list[Any], *, exact: bool = True) -> None:
    """Lanes and threads one by one give the same numbers in both precisions; sums may differ in rounding.

    Ordinary runs compare one precision, which differs between widths and kernels.
    """
    active = pipeline.differentiable(kernel.params)
    replay = kernel.adjoint_info(active).replay
    precision = (len(kernel.key) + pipeline.vector_bits() // 128) % 2 == 0
    for f64 in (True, False) if sweeps.FULL else (precision,):
        given = twin(args) if f64 else [_narrow(a, p) for a, p in zip(args, kernel.params, strict=True)]
        with np.errstate(all="ignore"):
            plain = results(kernel, dim, given, f64=f64, lanes=False, replay=replay)
            lanes = results(kernel, dim, given, f64=f64, lanes=True, replay=replay)
        for kind, arrays in plain.items():
            for one, two in zip(lanes[kind], arrays, strict=True):
                if exact:
                    np.testing.assert_array_equal(one, two, err_msg=f"{kind}, f64={f64}")
                    continue
                finite = two[np.isfinite(two)]
                scale = float(np.abs(finite).max()) if finite.size else 1.0
                rounding = 1e-9 if f64 else 2e-3
                np.testing.assert_allclose(
                    one, two, rtol=rounding, atol=rounding * max(1.0, scale), err_msg=f"{kind}, f64={f64}"
                )


def _narrow(a: Any, param: Any) -> Any:
    """The argument in its own type."""
    if not param.is_array:
        return a
    return a.astype(
        np.float64
        if t.scalar_of(param.type.dtype) is t.float64
        else a.dtype
        if a.dtype.kind != "f"
        else np.float32
    )

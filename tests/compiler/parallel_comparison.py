"""A kernel in chunks on several threads beside thread by thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

import tapedebug as wp
from tapedebug.compiler import pipeline
from tapedebug.lang import types as t
from tapedebug.runtime.parallel import cost_model, partition
from tapedebug.runtime.parallel.parallel_entry import ParallelEntry
from tests.compiler.harness import run, twin
from tests.compiler.test_generated import IllConditioned

THREADS = (1, 2, 3, 8)
"""Numbers of threads of which results must not depend."""


@contextmanager
def always_cut() -> Iterator[None]:
    """Small launches are cut, too, and others are woken each time."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(partition, "WORK", 64))
        stack.enter_context(patch.object(partition, "PAID", 1 << 20))
        for name in ("BREAK_EVEN", "SURE", "PATIENCE"):
            stack.enter_context(patch.object(cost_model, name, 0))
        try:
            yield
        finally:
            wp.config.num_threads = None


ROUNDING = 2.0**-52
"""A relative change of the inputs that no result can be sure to."""


def compare(kernel: Any, n: int, args: list[Any], seed: int) -> None:
    """Values, adjoints and tangents: as without chunks, and the same bits for any number of threads.

    Raises:
        IllConditioned: They differ from those without chunks by no more than these do if each input is
            changed by a rounding, as after hundreds of steps of a chaotic loop.
    """
    replay = kernel.adjoint_info(pipeline.differentiable(kernel.params)).replay
    rng = np.random.default_rng(seed)
    args = twin(args)
    seeds = [
        rng.normal(size=a.shape) if t.is_float(p.type.dtype) else None
        for p, a in zip(kernel.params, args, strict=True)
        if p.is_array
    ]

    def results(kind: str, wrapped: Any, args: list[Any] = args) -> list[np.ndarray]:
        values, other = twin(args), [None if a is None else a.copy() for a in seeds]
        given: dict[str, Any] = {
            "forward": {},
            "adjoint": {"adjoints": other, "replay": replay},
            "tangent": {"tangents": other},
        }
        with np.errstate(all="ignore"):
            run(kernel, n, values, f64=True, wrapped=wrapped, **given[kind])
        return [a for a in (*values, *other) if isinstance(a, np.ndarray)]

    for kind in ("forward", "adjoint", "tangent"):
        plain = results(kind, lambda entry: entry)
        found = {}
        for threads in THREADS:
            wp.config.num_threads = threads
            found[threads] = results(kind, lambda entry: ParallelEntry(entry, kernel))
        for threads in THREADS[1:]:
            for one, other in zip(found[1], found[threads], strict=True):
                assert one.tobytes() == other.tobytes(), f"{kind} on {threads} threads"
        try:
            _assert_close(found[1], plain, kind)
        except AssertionError:
            changed = [
                a * (1 + ROUNDING * rng.choice([-1, 1], a.shape))
                if isinstance(a, np.ndarray) and a.dtype == float
                else a
                for a in args
            ]
            try:
                _assert_close(results(kind, lambda entry: entry, changed), plain, kind)
            except AssertionError:
                raise IllConditioned from None
            raise


def _assert_close(found: list[np.ndarray], wanted: list[np.ndarray], kind: str) -> None:
    for one, other in zip(found, wanted, strict=True):
        finite = other[np.isfinite(other)]
        scale = float(np.abs(finite).max()) if finite.size else 1.0
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * max(1.0, scale), err_msg=kind)

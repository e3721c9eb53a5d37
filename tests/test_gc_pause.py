"""Contexts in which the garbage collector visits fewer objects, or visits them less often."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tapedebug as wp
from tapedebug import _gc_pause
from tapedebug._gc_pause import NEVER, PAUSE, lasting_objects, no_full_collections, rare_full_collections
from tapedebug.compiler import backend, pipeline


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[None]:
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    yield
    assert gc.callbacks == callbacks
    gc.set_threshold(*before)


def test_the_outermost_context_ends_for_all_lasting_objects() -> None:
    with lasting_objects():
        with lasting_objects():
            pass
        assert gc.get_freeze_count()
    assert not gc.get_freeze_count()


def test_full_collections_pause_and_other_settings_of_the_program_stay() -> None:
    before = gc.get_threshold()
    with no_full_collections():
        assert gc.get_threshold() == (*before[:2], NEVER)
    assert gc.get_threshold() == before
    with no_full_collections():
        gc.set_threshold(123, 4, 5)
    assert gc.get_threshold() == (123, 4, 5)


def test_full_collections_pause_for_a_multiple_of_their_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock moves on by a second with each of its readings."""
    now = [0.0]

    def clock() -> float:
        now[0] += 1.0
        return now[0]

    monkeypatch.setattr(_gc_pause.time, "perf_counter", clock)
    before = gc.get_threshold()
    gc.disable()
    try:
        with rare_full_collections():
            gc.collect(0)
            assert gc.get_threshold() == before
            gc.collect()
            paused = now[0]
            while gc.get_threshold() != before:
                assert gc.get_threshold() == (*before[:2], NEVER)
                gc.collect(0)
            assert PAUSE <= now[0] - paused <= PAUSE + 2
            gc.collect()
        assert gc.get_threshold() == before
    finally:
        gc.enable()


def test_no_full_collection_while_a_kernel_is_lowered_and_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @wp.kernel
    def doubled(x: wp.array(dtype=float)):
        i = wp.tid()
        x[i] = 2.0 * x[i]

    def noted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            seen.append((name, gc.get_threshold()[2]))
            return function(*args, **options)

        return call

    seen: list[tuple[str, int]] = []
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path))
    monkeypatch.setattr(pipeline, "lowered", noted("lowered", pipeline.lowered))
    monkeypatch.setitem(backend.COMPILERS, "llvm", noted("compiled", backend.COMPILERS["llvm"]))
    before = gc.get_threshold()
    doubled.forward()
    assert seen == [("lowered", NEVER), ("compiled", NEVER)]
    assert gc.get_threshold() == before

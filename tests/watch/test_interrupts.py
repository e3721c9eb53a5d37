"""Ctrl-C at random moments of watching and of diagnosing: Warp is as before, and so are all arrays."""

from __future__ import annotations

import contextlib
import signal
import time

import numpy as np
import pytest

import tapedebug as td
from tapedebug import _interception
from tapedebug.watch import hooks

pytestmark = [pytest.mark.peer, pytest.mark.slow]
wp = pytest.importorskip("warp")
programs = pytest.importorskip("tests.watch.programs")

INTERRUPTS = 50


@contextlib.contextmanager
def interrupted_after(seconds):
    """Raise KeyboardInterrupt in this thread once, unless the block ends before."""

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        yield
    except KeyboardInterrupt:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def codes():
    return [hooks.look_up(name).__code__ for name in hooks.INTERCEPTED.values()]


def test_interrupts_while_watching_leave_warp_as_it_was():
    with td.watch_warp():
        programs.springs()
    before, rng = codes(), np.random.default_rng(0)
    started = time.perf_counter()
    with td.watch_warp():
        programs.springs()
    duration, runtime = time.perf_counter() - started, hooks.look_up("warp._src.context:runtime")
    for _ in range(INTERRUPTS):
        with interrupted_after(max(1e-5, rng.uniform(0, duration))), td.watch_warp():
            programs.springs()
        runtime.tape = None  # as Warp leaves it if the interrupt comes before its `with` block is closed
        assert codes() == before
        assert not any(
            _interception._GLOBAL in hooks.look_up(name).__globals__ for name in hooks.INTERCEPTED.values()
        )
    with td.watch_warp() as session:
        programs.springs()
    assert [len(tape.operations) for tape in session.tapes] == [9]


def test_interrupts_while_diagnosing_leave_all_arrays_as_they_were():
    with td.watch_warp() as session:
        _, *arrays = programs.springs()
    (tape,) = session.tapes
    memories = [a.numpy() for array in arrays for a in (array, array.grad)]
    before, rng = [memory.copy() for memory in memories], np.random.default_rng(1)
    started = time.perf_counter()
    expected = td.diagnose(tape, progress=False)
    duration = time.perf_counter() - started
    for _ in range(INTERRUPTS):
        with interrupted_after(max(1e-5, rng.uniform(0, duration))):
            td.diagnose(tape, progress=False)
        for old, memory in zip(before, memories, strict=True):
            np.testing.assert_array_equal(memory, old)
    again = td.diagnose(tape, progress=False)
    assert [item.message for item in again.findings] == [item.message for item in expected.findings]

"""Ctrl-C at random moments of watching and of diagnosing: Warp is as before, and so are all arrays."""

from __future__ import annotations

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


def run_interrupted(program, seconds):
    """Run a program and press Ctrl-C after so many seconds; return whether that came before its end.

    The interrupt is raised once, and not after the program has ended: an alarm that rings later, when the
    timer is about to be stopped, would end the test run.
    """
    came, armed = [], True

    def interrupt(*_):
        if armed and not came:
            came.append(True)
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    alarm = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds)
            program()
        finally:
            armed = False
    except KeyboardInterrupt:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
        signal.signal(signal.SIGINT, before)
    return bool(came)


def test_an_alarm_that_rings_when_the_program_has_ended_is_not_raised(monkeypatch):
    stop = signal.setitimer

    def late(which, seconds):
        if not seconds:
            signal.raise_signal(signal.SIGALRM)
        return stop(which, seconds)

    monkeypatch.setattr(signal, "setitimer", late)
    assert not run_interrupted(lambda: None, 60.0)
    assert run_interrupted(lambda: signal.raise_signal(signal.SIGALRM), 60.0)


def codes():
    return [hooks.look_up(name).__code__ for name in hooks.INTERCEPTED.values()]


def watched():
    with td.watch_warp():
        programs.springs()


def test_interrupts_while_watching_leave_warp_as_it_was():
    watched()
    before, rng = codes(), np.random.default_rng(0)
    started = time.perf_counter()
    watched()
    duration, runtime = time.perf_counter() - started, hooks.look_up("warp._src.context:runtime")
    for _ in range(INTERRUPTS):
        run_interrupted(watched, max(1e-5, rng.uniform(0, duration)))
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
        run_interrupted(lambda: td.diagnose(tape, progress=False), max(1e-5, rng.uniform(0, duration)))
        for old, memory in zip(before, memories, strict=True):
            np.testing.assert_array_equal(memory, old)
    again = td.diagnose(tape, progress=False)
    assert [item.message for item in again.findings] == [item.message for item in expected.findings]

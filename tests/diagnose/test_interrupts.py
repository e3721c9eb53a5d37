"""Ctrl-C at any moment of a diagnosis leaves arrays, gradients, tape and settings untouched, to the bit."""

from __future__ import annotations

import gc
import random
import signal
import sys
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._config import is_debugging
from tapedebug._tape_observers import observers
from tapedebug.runtime.state import state
from tests.processes import ROOT
from tests.sweeps import cases

sys.path.insert(0, str(ROOT / "notebooks"))
import net as example

POINTS = cases(full=100, sample=8)
STEPS = cases(full=333, sample=100)
"""Steps of the longer tape, each with three launches."""


class World:
    """The net of the notebook on a tape, its gradient, and a picture of everything that must not change."""

    def __init__(self, steps: int, side: int = example.SIDE) -> None:
        self.net = example.make_net(side)
        self.throw = wp.array([example.FIRST_THROW], dtype=wp.vec3, requires_grad=True)
        self.loss = wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as self.tape:
            example.simulate(self.net, self.throw, self.loss, steps=steps)
        self.tape.backward(self.loss)

    def picture(self) -> list[Any]:
        gc.collect()
        tracker = self.tape.tracker
        buffers = list(tracker.ledgers)
        return [
            [(b.data.tobytes(), b.adjoint and b.adjoint.data.tobytes()) for b in buffers],
            [(b.fill, b.writes, b.windows, sum(ref() is not None for ref in b.watch)) for b in buffers],
            [(id(r), id(r.plan), tuple(map(id, r.needs)), id(r.packed)) for r in self.tape.records],
            [
                (n.clobber, n.copy is None or n.copy.tobytes())
                for v in tracker.ledgers.values()
                for n in v.needs
            ],
            [len(tracker.states), tracker.kept, len(tracker.outside), tracker.settled],
            [self.tape.preserved_bytes, self.tape.livein_bytes, len(self.tape.backward_calls)],
            [repr(wp.config), is_debugging(), state.tape, list(observers), signal.getsignal(signal.SIGINT)],
            [np.random.get_state()[1].tobytes(), random.getstate(), np.geterr(), gc.isenabled()],  # type: ignore[union-attr]
        ]

    def check(self, before: list[Any], where: str) -> None:
        for part, (was, now) in enumerate(zip(before, self.picture(), strict=True)):
            assert was == now, f"part {part} changed by an interrupt {where}"


class Stop:
    """Counts the calls of Python and C functions, and raises KeyboardInterrupt at one of them.

    Where a `with` block calls `__exit__` Python answers no signal before it has run: to stop there would keep
    a lock for ever, such as that of `functools.cached_property`.
    """

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.calls = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and argument.__name__ == "__exit__":
            return
        self.calls += 1
        if self.calls == self.at:
            self.stop()

    def stop(self) -> None:
        raise KeyboardInterrupt

    def diagnose(self, tape: Any) -> Any:
        sys.setprofile(self)
        try:
            return wp.diagnose(tape)
        finally:
            sys.setprofile(None)


class Alarm:
    """Ctrl-C after so much processor time of this process, however busy the machine is with others."""

    def __init__(self) -> None:
        self.rang = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.rang += 1
        raise KeyboardInterrupt

    def set(self, seconds: float) -> None:
        signal.setitimer(signal.ITIMER_PROF, seconds)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_at_random_points_of_the_program() -> None:
    world = World(steps=10, side=6)
    first = wp.diagnose(world.tape)  # compiles what diagnoses need
    before = world.picture()
    whole = Stop()
    whole.diagnose(world.tape)
    assert whole.calls > 10_000
    world.check(before, "that never came")
    rng = np.random.default_rng(0)
    landed = swallowed = late = 0
    while landed < POINTS:
        stop = Stop(int(rng.integers(1, whole.calls)))
        try:
            stop.diagnose(world.tape)
        except KeyboardInterrupt:
            landed += 1
        else:  # a run has some calls more or less: what takes long is told, memory is cleaned up
            came = stop.calls >= (stop.at or 0)
            swallowed, late = swallowed + came, late + (not came)
        world.check(before, f"at call {stop.at} of {whole.calls}")
        assert swallowed <= max(1, POINTS // 10), "Python itself swallows few: those in what it cleans up"
        assert late <= POINTS, "most points are before the end"
    again = wp.diagnose(world.tape)
    assert str(again) == str(first)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_at_random_moments_of_a_long_tape(alarm: Alarm) -> None:
    wp.diagnose(World(steps=10, side=4).tape)  # compiles what diagnoses need
    world = World(steps=STEPS, side=4)
    assert len(world.tape.records) > 3 * STEPS
    began = time.process_time()
    first = wp.diagnose(world.tape)
    whole = time.process_time() - began
    assert whole < 20.0, "hundreds of launches take seconds"
    before = world.picture()
    rng = np.random.default_rng(1)
    points = cases(full=100, sample=2)
    landed = late = 0
    while landed < points:
        moment = rng.uniform(0.0, whole)
        try:
            alarm.set(max(moment, 1e-4))
            wp.diagnose(world.tape)
            alarm.set(0.0)
        except KeyboardInterrupt:
            landed += 1
        else:
            late += 1
            whole *= 0.95  # the run that was measured was slower than others are
        world.check(before, f"after {moment:.3f} s of {whole:.3f} s")
        swallowed = alarm.rang - landed
        assert swallowed <= max(1, points // 10), "Python itself swallows few: those in what it cleans up"
        assert late <= points, "most moments are before the end"
    assert str(wp.diagnose(world.tape)) == str(first)
    world.tape.zero()
    world.tape.backward(world.loss)
    assert np.isfinite(world.throw.grad.numpy()).all()


@pytest.fixture
def alarm() -> Iterator[Alarm]:
    """An alarm that is Ctrl-C."""
    ours = Alarm()
    before = signal.signal(signal.SIGPROF, ours)
    yield ours
    ours.set(0.0)
    signal.signal(signal.SIGPROF, before)

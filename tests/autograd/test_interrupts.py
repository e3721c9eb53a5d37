"""Ctrl-C at any moment of a check leaves arrays, gradients, tape and settings untouched, to the bit."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.autograd import gradcheck, gradcheck_tape, jacobian
from tests.diagnose.test_interrupts import Stop, World
from tests.diagnose.test_interrupts import example as net
from tests.sweeps import cases

POINTS = cases(full=20, sample=8)
QUIET: dict[str, Any] = {"show_summary": False, "raise_exception": False, "progress": False}


class CtrlC(Stop):
    """Counts the calls of Python and C functions, and is Ctrl-C at one of them: who defers it can."""

    def stop(self) -> None:
        signal.raise_signal(signal.SIGINT)


def one_by_one(world: World) -> Any:
    return gradcheck_tape(world.tape, max_inputs_per_var=3, max_outputs_per_var=3, **QUIET)


def whole(world: World) -> Any:
    return gradcheck_tape(world.tape, end_to_end=True, loss=world.loss, **QUIET)


def of_a_kernel(world: World) -> Any:
    last = world.tape.records[-1]
    return gradcheck(last.kernel, last.dim, list(last.args), max_inputs_per_var=3, **QUIET)


def of_a_function(world: World) -> Any:
    def squared(x: Any) -> Any:
        y = wp.zeros(1, dtype=float, requires_grad=True)
        wp.launch(net.target_loss, 1, [x, world.net.side, net.TARGET], [y])
        return y

    x = wp.array(np.ones((world.net.side**2, 3)), dtype=wp.vec3, requires_grad=True)
    return jacobian(squared, inputs=[x])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("check", [one_by_one, whole, of_a_kernel, of_a_function], ids=lambda f: f.__name__)
def test_at_random_points_of_the_program(check: Callable[[World], Any]) -> None:
    world = World(steps=3, side=4)
    first = check(world)  # compiles what it needs
    before = world.picture()
    counter = Stop()
    sys.setprofile(counter)
    check(world)
    sys.setprofile(None)
    world.check(before, "that never came")
    rng = np.random.default_rng(0)
    landed = 0
    for _ in range(2 * POINTS):
        stop = CtrlC(int(rng.integers(1, counter.calls)))
        sys.setprofile(stop)
        try:
            check(world)
        except KeyboardInterrupt:
            landed += 1
        finally:
            sys.setprofile(None)
        world.check(before, f"at call {stop.at} of {counter.calls}")
        if landed == POINTS:
            break
    assert landed == POINTS, "Python itself swallows few: those in what it cleans up"
    assert repr(check(world)) == repr(first)

"""The net of `notebooks/net.py`: its kernels one by one, and 40 steps on a tape."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import numpy as np

from tests.benchmarks import by_hand
from tests.benchmarks.bound import BACKWARD, FORWARD, Results, compare, number_of_threads
from tests.benchmarks.engines import ALONE, NUMBA, OURS
from tests.benchmarks.timing import Run, Timed

SIDES = (16, 100, 300)
TINY = 6
DIAGNOSE = "diagnose"
TOLERANCE = 1e-3
"""Tolerance of losses and gradients after 40 steps."""


@dataclass
class Launch:
    """One kernel with its arguments, on one engine."""

    wp: Any
    kernel: Any
    dim: int
    inputs: list[Any]
    outputs: list[Any]
    reset: Any  # array to zero before a launch that accumulates, or None

    def forward(self) -> None:
        """Launch, off the tape."""
        self.wp.launch(self.kernel, dim=self.dim, inputs=self.inputs, outputs=self.outputs)

    def before(self) -> None:
        """Put back what the launch accumulates into."""
        if self.reset is not None:
            self.reset.zero_()


def launches(net: ModuleType, side: int) -> dict[str, Launch]:
    """Every kernel of the net at side² points, on arrays that are the same for both engines."""
    wp, points = net.wp, side * side
    fabric = net.make_net(side)
    random = np.random.default_rng(7)
    moved = fabric.x.numpy() + random.normal(scale=0.01, size=(points, 3))
    velocity = random.normal(size=(points, 3))

    def vectors(values: np.ndarray) -> Any:
        return wp.array(values.astype(np.float32), dtype=wp.vec3, requires_grad=True)

    def empty() -> Any:
        return vectors(np.zeros((points, 3)))

    x, v, force, gathered = vectors(moved), vectors(velocity), empty(), empty()
    x_next, v_next, thrown = empty(), empty(), empty()
    toss = vectors(np.array([[3.0, 4.0, 0.0]]))
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    weight, diagonal = net.GRAVITY * net.MASS, net.SPACING * 2.0**0.5
    springs = [x, v, gathered, side, net.SPACING, net.STIFFNESS, net.DRAG, weight]
    shear = [x, fabric.first, fabric.second, force, diagonal, net.STIFFNESS / 2]
    moving = [x, v, gathered, net.DT, 1.0 / net.MASS]
    return {
        "launch_net": Launch(wp, net.launch_net, points, [toss, fabric.grip], [thrown], None),
        "spring_forces": Launch(wp, net.spring_forces, points, springs, [], None),
        "shear_forces": Launch(wp, net.shear_forces, len(fabric.first), shear, [], force),
        "integrate": Launch(wp, net.integrate, points, moving, [x_next, v_next], None),
        "target_loss": Launch(wp, net.target_loss, 1, [x, side, net.TARGET], [loss], loss),
    }


class Thrown:
    """A throw on an engine with tapes: an array for each step, so that both have the right gradient."""

    def __init__(self, net: ModuleType, side: int) -> None:
        self.net, self.fabric = net, net.make_net(side)
        self.throw = net.wp.array([net.FIRST_THROW], dtype=net.wp.vec3, requires_grad=True)
        self.record()

    def record(self) -> None:
        """The simulation, on a tape."""
        self.tape, self.loss = self.net.record(self.fabric, self.throw, "distinct")

    def backward(self) -> None:
        """Its reverse."""
        self.tape.backward(self.loss)

    def zero(self) -> None:
        """No gradients."""
        self.tape.zero()

    def results(self) -> Results:
        """Loss and gradient."""
        self.record()
        self.backward()
        found = {"loss": self.loss.numpy().copy(), "throw": self.throw.grad.numpy().ravel().copy()}
        self.zero()
        return found

    def runs(self) -> dict[str, Run]:
        """Return the times by part; recording is the forward run."""
        return {FORWARD: Run(self.record), BACKWARD: Run(self.backward, before=self.zero)}


class ThrownByHand:
    """A throw in Numba: one way forward, one back."""

    def __init__(self, net: ModuleType, side: int, forward: Callable[..., Any], back: Callable[..., Any]):
        from tests.benchmarks.by_hand.net import Constants

        fabric = net.make_net(side)
        f4 = np.float32
        x, v = (np.zeros((net.STEPS + 1, side * side, 3), f4) for _ in range(2))
        x[0] = fabric.x.numpy()
        constants = Constants(
            f4(net.SPACING), f4(net.STIFFNESS), f4(net.DRAG), f4(net.GRAVITY[1] * net.MASS), f4(net.DT),
            f4(1.0 / net.MASS),
        )  # fmt: skip
        throw, target = np.array(net.FIRST_THROW, f4), np.array([*net.TARGET], f4)
        self.loss, self.adj_throw = np.zeros(1, f4), np.zeros(3, f4)
        arguments = (throw, fabric.grip.numpy().copy(), x, v, side, target, constants, self.loss)
        self.forward = lambda: forward(*arguments)
        self.backward = lambda: back(*arguments, self.adj_throw)

    def results(self) -> Results:
        """Loss and gradient."""
        self.adj_throw[...] = 0.0
        self.forward()
        self.backward()
        return {"loss": self.loss.copy(), "throw": self.adj_throw.copy()}

    def runs(self) -> dict[str, Run]:
        """Return the functions by part."""
        return {FORWARD: Run(self.forward), BACKWARD: Run(self.backward)}


def throws(modules: dict[str, ModuleType], side: int, *, parallel: bool = True) -> dict[str, Any]:
    """The throw on each engine.

    Args:
        modules: `notebooks/net.py` on each engine that has tapes.
        side: Points along one edge.
        parallel: Whether Numba's parallel ways take part.
    """
    both = zip(*(by_hand.ways("net", part, parallel=parallel) for part in (FORWARD, BACKWARD)), strict=True)
    hands = {
        f"{NUMBA}, {f.name}": ThrownByHand(modules[OURS], side, f.call, b.call) for f, b in both
    }  # fmt: skip
    return {**{engine: Thrown(net, side) for engine, net in modules.items()}, **hands}


def check(found: dict[str, Any]) -> None:
    """Stop if engines do not agree on the loss and its gradient."""
    reference = found[f"{NUMBA}, serial"].results()
    for engine, throw in found.items():
        compare(f"net, {engine}", throw.results(), reference, TOLERANCE)


def timed(modules: dict[str, ModuleType], side: int, threads: int | None) -> Iterator[Timed]:
    """Return the parts to time at one size, checked."""
    found = throws(modules, side)
    check(found)
    runs = {engine: throw.runs() for engine, throw in found.items()}
    steps = modules[OURS].STEPS
    size = f"{side} × {side} points, {steps} steps"
    chosen, alone = number_of_threads(threads), number_of_threads(1)
    for part in (FORWARD, BACKWARD):
        each = {engine: run[part] for engine, run in runs.items()}
        each[ALONE] = replace(each[OURS], enter=alone)
        each[OURS] = replace(each[OURS], enter=chosen)
        yield Timed("net", part, size, each, side == SIDES[-1])
    if side == SIDES[0]:  # else it takes minutes
        ours = found[OURS]
        yield Timed("net", DIAGNOSE, size, {OURS: Run(lambda: ours.net.wp.diagnose(ours.tape, ours.loss))})

"""Compares the adjoint of a single launch, for its incoming adjoints, with finite differences."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import TapeError
from tapedebug.contract import Array, Float64, SingleReplay, Values
from tapedebug.diagnose.experiments.experiment import LaunchFlow

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

DIRECTIONS = 2
STEPS = (1e-3, 1e-4, 1e-5)
STEPS_FLOAT32 = (1e-1, 3e-2, 1e-2, 3e-3)
"""The steps for a launch that computes in float32 only."""


@dataclass(frozen=True, slots=True)
class DirectionalSlope:
    """The derivative of a launch along a random direction in one of the arrays that it reads.

    Attributes:
        param: The parameter.
        given: The derivative by the launch's adjoint.
        right: The derivative by finite differences.
        bar: The error bar of the finite differences.
        size: The typical size of such a derivative.
    """

    param: int
    given: float
    right: float
    bar: float
    size: float

    @property
    def off(self) -> bool:
        """True if the adjoint is certainly not the derivative."""
        error = abs(self.given - self.right)
        return bool(self.bar < 0.1 * error and error > 1e-3 * max(abs(self.right), self.size))


def launch_slopes(replay: Replay, launch: int) -> list[DirectionalSlope]:
    """Compare the adjoint of a launch with finite differences, in float64 if that is possible.

    A direction that refutes the adjoint of an array is the last one of that array.

    Args:
        replay: The tape.
        launch: The launch.
    """
    record = replay.records[launch]
    flow = replay.flow(launch, "versions")
    seeds = {record.args[p]: values.astype(np.float64) for p, values in flow.incoming.items()}
    if not seeds:
        return []
    point = _Point(replay, launch, flow, seeds)
    found = []
    rng = np.random.default_rng(5)
    gradients = point.gradients()
    for param in sorted(set(record.active) & set(record.reads)):
        a, values = record.args[param], flow.values[param].astype(np.float64)
        gradient = gradients[a]
        directions = [
            rng.uniform(0.5, 1.0, values.shape) * rng.choice([-1.0, 1.0], values.shape)
            for _ in range(DIRECTIONS)
        ]
        for direction in directions:
            direction *= float(np.sqrt(np.mean(values**2))) or 1.0
            right, bar = point.difference(a, direction)
            size = float(np.linalg.norm(gradient * direction))
            found.append(DirectionalSlope(param, float(np.sum(gradient * direction)), right, bar, size))
            if found[-1].off:
                break
    return found


class _Point:
    """A launch with its values in the program: run alone if the engine can, else after its predecessors."""

    def __init__(self, replay: Replay, launch: int, flow: LaunchFlow, seeds: Mapping[Array, Values]) -> None:
        self.record = replay.records[launch]
        self.values = {self.record.args[p]: values for p, values in flow.values.items()}
        self.seeds = seeds
        wide = replay.recorded.tape.capability(Float64)
        self.narrow = wide is not None and bool(wide.obstacle())
        single = self.record.capability(SingleReplay)
        self.index = launch if single is None else 0
        if single is None:
            self.shadow = replay._shadow(double=True)
            return
        try:
            self.shadow = single.new_replay(float64=True)
        except TapeError:
            self.shadow = single.new_replay()
        self.shadow.pulse = replay.pulse
        for a, values in self.values.items():
            self.shadow.set(a, values)

    def run(self, array: Array | None = None, direction: Values | float = 0.0) -> float:
        """Run the launch with one array displaced; return its outputs weighted by the incoming adjoints."""
        return float(sum(map(np.sum, self.terms(array, direction))))

    def terms(self, array: Array | None = None, direction: Values | float = 0.0) -> list[Values]:
        """Run the launch with one array displaced; return the terms of `run`, by output."""
        self.shadow.forward(0, self.index)
        self.shadow.inject()
        if array is not None:
            self.shadow.set(array, self.values[array].astype(np.float64) + direction)
        self.shadow.forward(self.index, self.index + 1)
        return [seed * self.shadow.values(a).astype(np.float64) for a, seed in self.seeds.items()]

    def gradients(self) -> dict[Array, Values]:
        """Return the adjoints that the launch's adjoint computes for the arrays that it reads."""
        self.run()
        self.shadow.backward(self.seeds, start=self.index + 1, stop=self.index)
        arrays = [self.record.args[p] for p in self.record.reads if p in self.record.active]
        return {a: self.shadow.gradient(a).astype(np.float64) for a in arrays}

    def difference(self, array: Array, direction: Values) -> tuple[float, float]:
        """Return the central difference on which two successive steps agree best, and their disagreement."""
        slopes, steps = [], STEPS_FLOAT32 if self.narrow else STEPS
        for step in steps:
            ends = [self.run(array, sign * step * direction) for sign in (1.0, -1.0)]
            slopes.append((ends[0] - ends[1]) / (2 * step))
        terms = self.terms(array)  # restore: at position 0 an array keeps the values it was set to
        gaps = [abs(one - other) for one, other in itertools.pairwise(slopes)]
        if self.narrow:  # a staircase of float32 values can look perfectly smooth
            size = float(np.sqrt(sum(np.sum(each**2) for each in terms)))
            rounding = float(np.finfo(np.float32).eps) * size
            gaps = [max(gap, rounding / step) for gap, step in zip(gaps, steps[1:], strict=True)]
        best = int(np.argmin(gaps))
        return slopes[best + 1], gaps[best]


def values_before(replay: Replay, launches: Iterable[int]) -> dict[int, LaunchFlow]:
    """Return the values of the arrays of some launches before these run, from one forward run."""
    wanted = set(launches)
    found: dict[int, LaunchFlow] = {}
    shadow = replay._shadow()

    def note(index: int) -> None:
        if index in wanted:
            record = replay.records[index]
            arrays = [(p, record.args[p]) for p in record.touched]
            found[index] = LaunchFlow({p: shadow.values(a) for p, a in arrays}, {}, {}, {})

    shadow.forward(stop=0)
    note(0)
    shadow.forward(stop=max(wanted, default=0), on_operation=lambda record: note(record.index + 1))
    return found

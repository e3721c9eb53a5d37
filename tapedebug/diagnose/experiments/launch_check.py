"""One launch by itself: its adjoint, for the adjoints that arrived, against differences."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.diagnose.experiments.experiment import LaunchFlow

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

DIRECTIONS = 2
STEPS = (1e-3, 1e-4, 1e-5)


@dataclass(frozen=True, slots=True)
class DirectionalSlope:
    """The derivative of a launch along a random direction in one of the arrays that it reads.

    Attributes:
        param: The parameter.
        given: By its adjoint.
        right: By differences.
        bar: How far these are off at most.
        size: How large such a derivative typically is.
    """

    param: int
    given: float
    right: float
    bar: float
    size: float

    @property
    def off(self) -> bool:
        """Whether the adjoint is not the derivative, for sure."""
        error = abs(self.given - self.right)
        return bool(self.bar < 0.1 * error and error > 1e-3 * max(abs(self.right), self.size))


def launch_slopes(replay: Replay, launch: int) -> list[DirectionalSlope]:
    """Compare the adjoint of a launch with differences, in float64 where it has a twin.

    Args:
        replay: The tape.
        launch: The launch.
    """
    from tapedebug import TapeError, float64
    from tapedebug.runtime.replay.shadow import Shadow

    record = replay.records[launch]
    flow = replay.flow(launch, "versions")
    seeds = {record.args[p]: values.astype(np.float64) for p, values in flow.incoming.items()}
    if not seeds:
        return []
    try:
        shadow = Shadow.for_launch(record.kernel, record.dim, record.args, dtype=float64, flat=True)
    except TapeError:
        shadow = Shadow.for_launch(record.kernel, record.dim, record.args, flat=True)
    shadow.pulse = replay.pulse
    for param, values in flow.values.items():
        shadow.set(record.args[param], values)

    def objective() -> float:
        return float(sum(np.sum(seed * shadow.values(a)) for a, seed in seeds.items()))

    shadow.forward(0)
    shadow.backward(seeds)
    found = []
    rng = np.random.default_rng(5)
    for param in sorted(record.active & record.reads):
        a, values = record.args[param], flow.values[param].astype(np.float64)
        gradient = shadow.gradient(a).astype(np.float64)
        for _ in range(DIRECTIONS):
            direction = rng.uniform(0.5, 1.0, values.shape) * rng.choice([-1.0, 1.0], values.shape)
            direction *= float(np.sqrt(np.mean(values**2))) or 1.0
            right, bar = _difference(shadow, a, values, direction, objective)
            size = float(np.linalg.norm(gradient * direction))
            found.append(DirectionalSlope(param, float(np.sum(gradient * direction)), right, bar, size))
        shadow.forward(0, 0).set(a, flow.values[param])
        shadow.forward(0).backward(seeds)
    return found


def _difference(
    shadow: Any, a: Any, values: np.ndarray[Any, Any], direction: np.ndarray[Any, Any], objective: Any
) -> tuple[float, float]:
    """The central difference that two steps agree on best, and by how much they do not."""
    slopes = []
    for step in STEPS:
        ends = []
        for sign in (1.0, -1.0):
            shadow.forward(0, 0).set(a, values + sign * step * direction)
            shadow.forward(0)
            ends.append(objective())
        slopes.append((ends[0] - ends[1]) / (2 * step))
    gaps = [abs(one - other) for one, other in itertools.pairwise(slopes)]
    best = int(np.argmin(gaps))
    return slopes[best + 1], gaps[best]


def values_before(replay: Replay, launches: Iterable[int]) -> dict[int, LaunchFlow]:
    """What the arrays of some launches hold before they run, by one forward run."""
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

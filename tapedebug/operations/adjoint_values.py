"""Measurement of the values that an adjoint reads: those before its operation, or those after it.

The adjoint of an operation that overwrites its own inputs is often written for one of the two, and which one
differs by engine and kernel. An `ExactAdjoint` receives both and chooses; for all others the values are
determined by measurement that make the vjp the transpose of the derivative of `forward`.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Literal

import numpy as np

from tapedebug._float32_slope import slope
from tapedebug._float_types import float_info, is_float
from tapedebug.contract import Array, Values
from tapedebug.operations.memory import Memory
from tapedebug.operations.operation import ExactAdjoint, ExecutableOperation, RunsInFloat64, Step

if TYPE_CHECKING:
    from tapedebug.operations.tape import OperationTape

When = Literal["before", "after"]

TRIES = 2
"""Number of pairs of random directions in which a vjp must agree."""
AGREES = 1e-4
"""Largest relative difference between a vjp and the measured derivative that counts as agreement."""


def may_need_after(operation: ExecutableOperation) -> bool:
    """True if an adjoint may depend on reading the values before or after the operation."""
    return any(x.writes and (x.needs_before or x.needs_after) for x in operation.retained)


def given_values(tape: OperationTape) -> dict[int, When]:
    """Return, for each operation of a tape, which values to pass to its vjp as `before`.

    Operations with equal `code` that overwrite the same parameters are measured once.
    """
    if tape.given_values is None:
        tape.given_values = {}
        _measure(tape, tape.given_values)
    return tape.given_values


def _measure(tape: OperationTape, found: dict[int, When]) -> None:
    replay = tape.new_replay(float64=not tape.float64_obstacle())
    known: dict[Hashable, When] = {}
    for operation in tape.operations:
        found[operation.index] = "before"
        if operation.capability(ExactAdjoint) is not None or not may_need_after(operation):
            continue
        key = operation.code, tuple(x.param for x in operation.accesses if x.writes)
        if key not in known:
            step = operation.capability(RunsInFloat64) if replay.is_float64 else operation
            if step is None:
                continue
            if replay.position < operation.index:
                replay.forward(replay.position, operation.index)
            replay.load_outside(operation.index)
            decided = _Probe(operation, step, replay.memory).decide(np.random.default_rng(operation.index))
            if decided is None:
                continue
            known[key] = decided
        found[operation.index] = known[key]


class _Probe:
    """One operation at the values with which the program ran it.

    Args:
        operation: The operation.
        step: The operation, or its float64 form.
        found: The memory before the operation.
    """

    def __init__(self, operation: ExecutableOperation, step: Step, found: Memory) -> None:
        regions = {x.array.region for x in operation.accesses}
        sizes = {region: found.bytes[region].size // found.scale(region) for region in regions}
        self.step = step
        self.before, self.after, self.work, self.adjoint = (Memory.zeros(sizes, found.wide) for _ in range(4))
        for region in regions:
            for memory in (self.before, self.after):
                memory.bytes[region][:] = found.bytes[region]
        step.forward(self.after)
        accesses = [x for x in operation.accesses if is_float(x.array.scalar_dtype) and x.array.size]
        self.arrays = _apart([x.array for x in accesses])
        self.active = {x.array for x in accesses if x.active}
        self.precision = max(float(float_info(self.before.view(a).dtype).eps) for a in self.arrays or ())

    def decide(self, rng: np.random.Generator) -> When | None:
        """Return the values that make the vjp right; None if both are equivalent at this point."""
        right = {"before": True, "after": True}
        for _ in range(TRIES):
            adjoints: dict[Array, Values] = {
                a: np.asarray(rng.standard_normal(self.before.view(a).shape)) for a in self.arrays
            }
            directions = {a: self._direction(a, rng) for a in self.arrays}
            products = {
                "before": self._product(self.before, adjoints, directions),
                "after": self._product(self.after, adjoints, directions),
            }
            if products["before"] == products["after"]:
                continue
            slope, error = self._slope(adjoints, directions)
            for when, (product, size) in products.items():
                right[when] &= abs(slope - product) <= 4 * error + AGREES * abs(slope) + self.precision * size
        if right["before"]:
            return None if right["after"] else "before"
        return "after" if right["after"] else "before"

    def _direction(self, array: Array, rng: np.random.Generator) -> Values:
        held = self.before.view(array).astype(np.float64)
        if array not in self.active:
            return np.zeros(held.shape)
        scale = float(np.sqrt(np.mean(held**2))) if held.size else 0.0
        signs: Values = rng.choice([-1.0, 1.0], held.shape)
        return signs * (scale or 1.0)

    def _product(
        self, given: Memory, adjoints: dict[Array, Values], directions: dict[Array, Values]
    ) -> tuple[float, float]:
        """Return ⟨vjp(adjoints), directions⟩, and the sum of the absolute values of its terms."""
        for content in self.adjoint.bytes.values():
            content[:] = 0
        for array, values in adjoints.items():
            self.adjoint.view(array)[...] = values
        self.step.vjp(given, self.after, self.adjoint)
        terms = [self.adjoint.view(a).astype(np.float64) * d for a, d in directions.items()]
        return float(sum(t.sum() for t in terms)), float(sum(np.abs(t).sum() for t in terms))

    def _slope(self, adjoints: dict[Array, Values], directions: dict[Array, Values]) -> tuple[float, float]:
        noise = self.precision * float(
            np.sqrt(sum(((adjoints[a] * self.after.view(a)) ** 2).sum() for a in self.arrays))
        )

        def moved(t: float) -> float:
            for region, content in self.before.bytes.items():
                self.work.bytes[region][:] = content
            for array, direction in directions.items():
                if t and array in self.active:
                    self.work.view(array)[...] = self.before.view(array) + t * direction
            self.step.forward(self.work)
            return float(
                sum(
                    (u * (self.work.view(a).astype(np.float64) - self.after.view(a))).sum()
                    for a, u in adjoints.items()
                )
            )

        return slope(moved, noise)


def _apart(arrays: list[Array]) -> list[Array]:
    """Return arrays that share no bytes, the largest first: each element counts once in a product."""
    kept: list[Array] = []
    for array in sorted(arrays, key=lambda a: a.start - a.stop):
        if not any(a.region == array.region and a.start < array.stop and array.start < a.stop for a in kept):
            kept.append(array)
    return kept

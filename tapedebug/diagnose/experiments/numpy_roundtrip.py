"""Finds values that left the tape and returned: computed by a launch, read again from another array.

A conversion through NumPy is no data flow of the tape, but the values reveal it: an array that no record
wrote, and whose content equals (bit for bit, or up to factor and offset) an earlier result, came from there.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.autograd.thresholds import ROUNDTRIP_MULTIPLE
from tapedebug.diagnose.experiments.experiment import Values
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.trace_analysis.dependencies import Node, is_float

LIMIT = 1 << 26
"""Largest number of bytes that are compared."""
ENOUGH = 4
"""Number of different values from which equality shows a relation; fewer may be equal by chance."""


@dataclass(frozen=True, slots=True)
class NumpyRoundtrip:
    """A computed version `source` that returned as `target`, which launch `reader` reads.

    The values of `target` are `factor` times those of `source`, plus `offset`; 1 and 0 if they are identical.
    """

    source: Node
    target: Node
    reader: int
    count: int
    factor: float = 1.0
    offset: float = 0.0

    @property
    def same(self) -> bool:
        """True if the values are identical to the bit."""
        return (self.factor, self.offset) == (1.0, 0.0)


def find_roundtrips(
    case: RuleContext, leaf_bits: int, above: dict[Node, int], reached: Collection[Node]
) -> NumpyRoundtrip | None:
    """Return the roundtrip by which values computed from some inputs reached the loss off the tape.

    Args:
        case: The tape.
        leaf_bits: The inputs, as bits of `above`.
        above: The inputs that lead to each version.
        reached: The versions that lead to the loss.
    """
    versions = case.dependencies.versions
    computed = {
        node: version.written_by + 1
        for node, version in versions.items()
        if version.written_by is not None and above.get(node, 0) & leaf_bits and node not in reached
    }
    given = {
        node: version.reads[0]
        for node, version in versions.items()
        if version.written_by is None and version.reads and node in reached
    }
    sizes = {node: int(np.prod(case.trace.arrays[node[0]].shape)) for node in (*computed, *given)}
    pairs = [
        (one, other)
        for other in sorted(given, key=given.__getitem__)
        for one in sorted(computed, key=computed.__getitem__, reverse=True)
        if sizes[one] == sizes[other] and one[0] != other[0] and computed[one] <= given[other]
        if is_float(case.trace.arrays[one[0]]) and is_float(case.trace.arrays[other[0]])
    ]
    wanted = {(one[0], computed[one]) for one, _ in pairs} | {(other[0], given[other]) for _, other in pairs}
    if not pairs or sum(_nbytes(case, array) for array, _ in wanted) > LIMIT:
        return None
    values = case.experiment.values_at(wanted)
    found = [
        alike
        for one, other in pairs
        if (
            alike := match(
                one, other, given[other], values[one[0], computed[one]], values[other[0], given[other]]
            )
        )
    ]
    return min(found, key=lambda item: not item.same, default=None)


def _nbytes(case: RuleContext, array: int) -> int:
    info = case.trace.arrays[array]
    return info.stop - info.start


def match(one: Node, other: Node, reader: int, computed: Values, given: Values) -> NumpyRoundtrip | None:
    """Compare two arrays: identical, or equal up to a factor and an offset; None if neither."""
    x, y = computed.astype(np.float64).ravel(), given.astype(np.float64).ravel()
    if x.size != y.size or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return None
    if not tells_apart(x) or not tells_apart(y):
        return None
    if np.array_equal(computed.ravel(), given.ravel()):
        return NumpyRoundtrip(one, other, reader, x.size)
    if _straight(x) or _straight(y):
        return None  # any two ramps are equal up to factor and offset
    factor, offset = np.polyfit(x, y, 1)
    off = float(np.max(np.abs(factor * x + offset - y)))
    if off > ROUNDTRIP_MULTIPLE * float(np.max(np.abs(y - y.mean()))):
        return None
    return NumpyRoundtrip(one, other, reader, x.size, float(factor), float(offset))


def tells_apart(x: Values) -> bool:
    """Return True if values are so many, or so irregular, that equality of two arrays is no coincidence."""
    return np.unique(x).size >= ENOUGH or not np.any(
        np.round(x, 3).astype(np.float32) == x.astype(np.float32)
    )


def _straight(x: Values) -> bool:
    """Return True if values grow evenly, or few of them differ."""
    steps = np.diff(x)
    few = np.unique(x).size < 2 * ENOUGH
    return few or bool(np.ptp(steps) <= 1e-4 * np.max(np.abs(steps)))

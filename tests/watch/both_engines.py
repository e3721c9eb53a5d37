"""Launches run by a mirror and by Warp on copies of the same memory: results, and adjoints."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapedebug.contract import Access
from tapedebug.operations import Memory, Step
from tapedebug.watch.mirror.comparison import Difference, differences_between


def compare_forward(
    mirrored: Step, native: Step, accesses: Sequence[Access], before: Memory
) -> list[Difference]:
    """Run a launch both ways and compare what it writes.

    Args:
        mirrored: The launch as this engine runs it.
        native: The launch as Warp runs it.
        accesses: Its accesses.
        before: The values that it starts from, which stay unchanged.

    Returns:
        The largest difference in each array that it writes, the largest first; none where all are equal.
    """
    one, other = _copy(before, accesses), _copy(before, accesses)
    mirrored.forward(one)
    native.forward(other)
    return differences_between([access for access in accesses if access.writes], one, other)


def compare_adjoint(
    mirrored: Step,
    native: Step,
    accesses: Sequence[Access],
    before: Memory,
    after: Memory,
    adjoint: Memory,
) -> list[Difference]:
    """Run the adjoint of a launch both ways and compare the adjoints that it passes on.

    An adjoint kernel of Warp that overwrites its own inputs may be right with the values before the launch,
    or with those after it: both are tried, and the closer result counts.

    Args:
        mirrored: The launch as this engine runs it.
        native: The launch as Warp runs it.
        accesses: Its accesses.
        before: The values before it.
        after: The values after it.
        adjoint: The adjoints that come in. These memories stay unchanged.

    Returns:
        The largest difference in each array with a gradient, the largest first; none where all are equal.
    """
    active = [access for access in accesses if access.active and access.array.is_float]
    one = _copy(adjoint, accesses)
    mirrored.vjp(_copy(before, accesses), _copy(after, accesses), one)
    found = []
    for given in (before, after) if any(a.writes and a.reads for a in accesses) else (before,):
        other = _copy(adjoint, accesses)
        native.vjp(_copy(given, accesses), _copy(after, accesses), other)
        found.append(differences_between(active, one, other))
    return min(found, key=lambda differences: max((d.relative for d in differences), default=0.0))


def random_adjoints(accesses: Sequence[Access], like: Memory, seed: int = 0) -> Memory:
    """Return memory with random adjoints for all arrays with a gradient, to compare adjoints with."""
    made = Memory({region: np.zeros_like(content) for region, content in like.bytes.items()}, like.wide)
    rng = np.random.default_rng(seed)
    for access in accesses:
        if access.active and access.array.is_float:
            view = made.view(access.array)
            view[...] = rng.standard_normal(view.shape)
    return made


def _copy(memory: Memory, accesses: Sequence[Access]) -> Memory:
    """Return a copy of the regions that a launch accesses."""
    regions = {access.array.region for access in accesses}
    return Memory({region: memory.bytes[region].copy() for region in regions}, memory.wide)

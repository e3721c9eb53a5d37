"""Find the one of many that a miss is due to, by halves: log2(size) looks instead of size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tapedebug.autograd.kinds import Floats, Indices

Misses = Callable[[Floats], Floats]
"""Maps vectors, (2, size), to how much each misses."""


def halve(vector: Floats, misses: Misses) -> int:
    """The entry of `vector` to which the half that misses more leads again and again."""
    chosen: Indices = np.flatnonzero(vector)
    while len(chosen) > 1:
        halves = np.array_split(chosen, 2)
        both = np.zeros((2, len(vector)))
        for line, half in enumerate(halves):
            both[line, half] = vector[half]
        found = np.nan_to_num(misses(both), nan=np.inf)
        chosen = halves[int(found[1] > found[0])]
    return int(chosen[0])

"""A sample of positions, evenly spread over a sequence."""

from __future__ import annotations

import numpy as np


def evenly_spread(count: int, limit: int) -> list[int]:
    """Return at most `limit` evenly spread numbers below `count`, including the first and the last.

    A set and not `np.unique`, whose first call imports `numpy.ma`: 6 MB and 50 ms, as much as the whole
    diagnosis of a small tape.
    """
    if count <= limit:
        return list(range(count))
    return sorted(set(np.linspace(0, count - 1, limit).astype(int).tolist()))

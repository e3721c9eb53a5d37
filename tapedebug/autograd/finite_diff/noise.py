"""Estimate the rounding noise of a function from its values at neighbouring points.

A difference of a function is no better than the function's own rounding over the step, and that can be much
more than the rounding of its result: `(1e4 + x * x) - 1e4` is a staircase, along which a sweep of steps finds
the slope 0 without any error. Values at equal distances tell: their high differences vanish for what is
smooth, and are rounding (J. J. Moré and S. M. Wild, Estimating computational noise, SIAM J. Sci. Comput. 33
(2011) 1292, doi:10.1137/100786125).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tapedebug.autograd.array_types import Floats
from tapedebug.autograd.thresholds import STAIRS_ROUNDING

POINTS = 9
ORDERS = (4, 5, 6)  # of the differences: what is smooth has none of these, this close together
DISTANCES = (1e-10, 1e-8, 1e-6, 1e-4, 1e-3, 1e-2)  # a longer one where most values are the same


def computational_noise(f: Callable[[float], Floats], change: float) -> float:
    """Return the size of the rounding in `f` near 0; 0 where it shows none.

    Args:
        f: Maps a displacement to the value there, (1,) float64.
        change: By how much it changes over a displacement of 1.
    """
    for distance in DISTANCES:
        values = np.concatenate([f(distance * (i - POINTS // 2)) for i in range(POINTS)])
        if not np.isfinite(values).all():
            return 0.0
        if 2 * len(set(values.tolist())) <= POINTS:
            continue
        found = []
        for order in ORDERS:
            scale = math.factorial(order) ** 2 / math.factorial(2 * order)
            found.append(math.sqrt(scale * float(np.mean(np.diff(values, order) ** 2))))
        noise = min(found)
        return noise if noise <= STAIRS_ROUNDING * change else 0.0
    return 0.0

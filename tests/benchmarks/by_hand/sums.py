"""`total` and `deposit`: many threads add to few elements."""
# mypy: disable-error-code="no-untyped-def"

import math

import numpy as np
from numba import prange as span

from tests.benchmarks.by_hand.ways import PARTS, prange, serial

F1 = np.float32(1.0)
LANES = np.uintp(32)
"""Partial sums side by side: what makes a sum fast without leave to reorder it."""


@serial("total", "forward")
@prange("total", "forward")
def total(x, s):
    n = np.uintp(x.size)
    sums = np.zeros((PARTS, 32), np.float32)
    step = (n // np.uintp(PARTS) // LANES + np.uintp(1)) * LANES
    for part in span(PARTS):
        own = sums[part]
        begin = min(np.uintp(part) * step, n)
        end = min(begin + step, n)
        blocks = (end - begin) // LANES
        for block in range(blocks):
            for lane in range(LANES):
                own[lane] += x[begin + block * LANES + lane]
        for i in range(begin + blocks * LANES, end):
            own[0] += x[i]
    s[0] += sums.sum()


@serial("total", "backward")
@prange("total", "backward")
def adj_total(x, s, adj_x, adj_s):
    g = adj_s[0]
    for i in span(np.uintp(x.size)):
        adj_x[i] += g


@serial("deposit", "forward")
def deposit(p, mass, grid):
    one = np.uintp(1)
    for t in range(np.uintp(p.shape[0])):
        x, y, m = p[t, 0], p[t, 1], mass[t]
        left, low = math.floor(x), math.floor(y)
        i, j = np.uintp(left), np.uintp(low)
        s, r = x - np.float32(left), y - np.float32(low)
        grid[i, j] += (F1 - s) * (F1 - r) * m
        grid[i + one, j] += s * (F1 - r) * m
        grid[i, j + one] += (F1 - s) * r * m
        grid[i + one, j + one] += s * r * m


@prange("deposit", "forward")
def deposit_in_parts(p, mass, grid):
    """A grid for each part, added up at the end."""
    one = np.uintp(1)
    n = p.shape[0]
    parts = PARTS // 2
    own = np.zeros((parts, grid.shape[0], grid.shape[1]), np.float32)
    step = -(-n // parts)
    for part in span(parts):
        mine = own[part]
        for t in range(np.uintp(min(part * step, n)), np.uintp(min((part + 1) * step, n))):
            x, y, m = p[t, 0], p[t, 1], mass[t]
            left, low = math.floor(x), math.floor(y)
            i, j = np.uintp(left), np.uintp(low)
            s, r = x - np.float32(left), y - np.float32(low)
            mine[i, j] += (F1 - s) * (F1 - r) * m
            mine[i + one, j] += s * (F1 - r) * m
            mine[i, j + one] += (F1 - s) * r * m
            mine[i + one, j + one] += s * r * m
    for i in span(grid.shape[0]):
        for part in range(parts):
            for j in range(np.uintp(grid.shape[1])):
                grid[i, j] += own[part, i, j]


@serial("deposit", "backward")
@prange("deposit", "backward")
def adj_deposit(p, mass, grid, adj_p, adj_mass, adj_grid):
    one = np.uintp(1)
    for t in span(np.uintp(p.shape[0])):
        x, y, m = p[t, 0], p[t, 1], mass[t]
        left, low = math.floor(x), math.floor(y)
        i, j = np.uintp(left), np.uintp(low)
        s, r = x - np.float32(left), y - np.float32(low)
        a, b = adj_grid[i, j], adj_grid[i + one, j]
        c, d = adj_grid[i, j + one], adj_grid[i + one, j + one]
        adj_mass[t] += (F1 - s) * (F1 - r) * a + s * (F1 - r) * b + (F1 - s) * r * c + s * r * d
        adj_p[t, 0] += m * ((F1 - r) * (b - a) + r * (d - c))
        adj_p[t, 1] += m * ((F1 - s) * (c - a) + s * (d - b))

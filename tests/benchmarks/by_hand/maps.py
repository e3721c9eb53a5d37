"""`double`, `sine` and `heat`: each thread writes its own element."""
# mypy: disable-error-code="no-untyped-def"

import math

import numba
import numpy as np
from numba import prange as span

from tests.benchmarks.by_hand.ways import prange, serial

F2, F4 = np.float32(2.0), np.float32(4.0)


@serial("double", "forward")
@prange("double", "forward")
def double(x, y):
    for i in span(np.uintp(x.size)):
        y[i] = F2 * x[i]


@serial("double", "backward")
@prange("double", "backward")
def adj_double(x, y, adj_x, adj_y):
    for i in span(np.uintp(x.size)):
        adj_x[i] += F2 * adj_y[i]


@serial("sine", "forward")
@prange("sine", "forward")
def sine(x, a, y):
    a = np.float32(a)
    for i in span(np.uintp(x.size)):
        y[i] = math.sin(x[i]) * x[i] + a


@serial("sine", "backward")
@prange("sine", "backward")
def adj_sine(x, a, y, adj_x, adj_y):
    for i in span(np.uintp(x.size)):
        adj_x[i] += adj_y[i] * (math.cos(x[i]) * x[i] + math.sin(x[i]))


@serial("heat", "forward")
@prange("heat", "forward")
def heat(u, k, out):
    n, m = u.shape
    k = np.float32(k)
    for i in span(np.uintp(n)):
        if i == 0 or i == n - 1:
            for j in range(np.uintp(m)):
                out[i, j] = u[i, j]
        else:
            up, down = i - np.uintp(1), i + np.uintp(1)
            out[i, 0] = u[i, 0]
            for j in range(np.uintp(1), np.uintp(m - 1)):
                west, east = j - np.uintp(1), j + np.uintp(1)
                around = u[up, j] + u[down, j] + u[i, west] + u[i, east]
                out[i, j] = u[i, j] + k * (around - F4 * u[i, j])
            out[i, m - 1] = u[i, m - 1]


@numba.njit(nogil=True, error_model="numpy")
def inside(i, j, n, m):
    return 0 < i < n - 1 and 0 < j < m - 1


@numba.njit(nogil=True, error_model="numpy")
def gathered(i, j, n, m, k, adj_out):
    """The adjoint of one point, near the border."""
    f = adj_out[i, j]
    if inside(i, j, n, m):
        f -= F4 * k * adj_out[i, j]
    if i > 0 and inside(i - 1, j, n, m):
        f += k * adj_out[i - 1, j]
    if i < n - 1 and inside(i + 1, j, n, m):
        f += k * adj_out[i + 1, j]
    if j > 0 and inside(i, j - 1, n, m):
        f += k * adj_out[i, j - 1]
    if j < m - 1 and inside(i, j + 1, n, m):
        f += k * adj_out[i, j + 1]
    return f


@serial("heat", "backward")
@prange("heat", "backward")
def adj_heat(u, k, out, adj_u, adj_out):
    n, m = u.shape
    k = np.float32(k)
    centre = np.float32(1.0) - F4 * k
    for row in span(np.uintp(n)):
        i = np.uintp(row)
        if i < 2 or i > n - 3:
            for j in range(m):
                adj_u[i, j] += gathered(np.intp(i), j, n, m, k, adj_out)
        else:
            up, down = i - np.uintp(1), i + np.uintp(1)
            for j in (0, 1, m - 2, m - 1):
                adj_u[i, j] += gathered(np.intp(i), j, n, m, k, adj_out)
            for j in range(np.uintp(2), np.uintp(m - 2)):
                west, east = j - np.uintp(1), j + np.uintp(1)
                around = adj_out[up, j] + adj_out[down, j] + adj_out[i, west] + adj_out[i, east]
                adj_u[i, j] += centre * adj_out[i, j] + k * around

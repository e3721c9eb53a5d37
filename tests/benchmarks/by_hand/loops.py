"""`matvec` and `product`: a dynamic loop in each thread."""
# mypy: disable-error-code="no-untyped-def"

import numpy as np
from numba import prange as span

from tests.benchmarks.by_hand.ways import PARTS, prange, serial

F1 = np.float32(1.0)


@serial("matvec", "forward")
@prange("matvec", "forward")
def matvec(matrix, x, y):
    for i in span(np.uintp(matrix.shape[0])):
        s = np.float32(0.0)
        for j in range(np.uintp(x.size)):
            s += matrix[i, j] * x[j]
        y[i] = s


@serial("matvec", "backward")
def adj_matvec(matrix, x, y, adj_matrix, adj_x, adj_y):
    for i in range(np.uintp(matrix.shape[0])):
        g = adj_y[i]
        for j in range(np.uintp(x.size)):
            adj_matrix[i, j] += g * x[j]
            adj_x[j] += matrix[i, j] * g


@prange("matvec", "backward")
def adj_matvec_by_columns(matrix, x, y, adj_matrix, adj_x, adj_y):
    """Columns in parts: each adds to its own elements of `adj_x`."""
    n = x.size
    step = -(-n // PARTS)
    for part in span(PARTS):
        begin, end = np.uintp(min(part * step, n)), np.uintp(min((part + 1) * step, n))
        for i in range(np.uintp(matrix.shape[0])):
            g = adj_y[i]
            for j in range(begin, end):
                adj_matrix[i, j] += g * x[j]
                adj_x[j] += matrix[i, j] * g


@serial("product", "forward")
@prange("product", "forward")
def product(x, a, y):
    for t in span(np.uintp(x.size)):
        s = F1
        for k in range(np.uintp(a.size)):
            s *= F1 + a[k] * x[t]
        y[t] = s


@serial("product", "backward")
@prange("product", "backward")
def adj_product(x, a, y, adj_x, adj_a, adj_y):
    """Keep the values that each iteration began with, for one thread at a time."""
    n, length = x.size, a.size
    sums = np.zeros((PARTS, length), np.float32)
    step = -(-n // PARTS)
    for part in span(PARTS):
        kept = np.empty(length, np.float32)
        own = sums[part]
        for t in range(np.uintp(min(part * step, n)), np.uintp(min((part + 1) * step, n))):
            s = F1
            for k in range(np.uintp(length)):
                kept[k] = s
                s *= F1 + a[k] * x[t]
            g, adj = adj_y[t], np.float32(0.0)
            for back in range(np.uintp(1), np.uintp(length + 1)):
                k = np.uintp(length) - back
                inner = g * kept[k]
                adj += inner * a[k]
                own[k] += inner * x[t]
                g *= F1 + a[k] * x[t]
            adj_x[t] += adj
    for part in range(PARTS):
        for k in range(np.uintp(length)):
            adj_a[k] += sums[part, k]

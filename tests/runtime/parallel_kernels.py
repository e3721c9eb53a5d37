"""Kernels of every kind that chunks have to know, with arguments; and what a launch and its reverse leave."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapedebug as wp
from tapedebug.lang import types as t

Floats = wp.array(dtype=float)
Grid = wp.array(dtype=float, ndim=2)
Vectors = wp.array(dtype=wp.vec3)
Indices = wp.array(dtype=int)


@wp.kernel
def mapped(x: Floats, y: Floats):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * x[i] + y[i]


@wp.kernel
def stencil(u: Grid, out: Grid, n: int):
    i, j = wp.tid()
    if i > 0 and i < n - 1 and j > 0 and j < n - 1:
        out[i, j] = u[i, j] + 0.1 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) * u[i, j]


@wp.kernel
def periodic(u: Floats, out: Floats, n: int):
    i = wp.tid()
    out[i] = u[i - 2] * u[wp.min(i + 1, n - 1)] + u[wp.max(i - 3, 0)]


@wp.kernel
def window(u: Floats, out: Floats, r: int):
    i = wp.tid()
    total = float(0.0)
    for k in range(2 * r + 1):
        total += u[i + k] * u[i + k] * float(k)
    out[i] = total


@wp.kernel
def net(x: Vectors, neighbours: wp.array(dtype=int, ndim=2), f: Vectors):
    i = wp.tid()
    total = wp.vec3()
    for k in range(4):
        d = x[neighbours[i, k]] - x[i]
        total += d * (wp.length(d) - 1.0)
    f[i] = total


@wp.kernel
def bodies(x: Vectors, f: Vectors, n: int):
    i = wp.tid()
    total = wp.vec3()
    for j in range(n):
        d = x[j] - x[i]
        total += d / (wp.dot(d, d) + 0.1)
    f[i] = total


@wp.kernel
def total(x: Floats, y: Floats):
    i = wp.tid()
    wp.atomic_add(y, 0, x[i] * x[i])


@wp.kernel
def scattered(x: Floats, which: Indices, grid: Floats, counts: Indices):
    i = wp.tid()
    wp.atomic_add(grid, which[i], x[i] * x[i])
    wp.atomic_add(counts, which[i], 1)


@wp.kernel
def product(a: Grid, v: Floats, y: Floats):
    i = wp.tid()
    s = float(0.0)
    for j in range(a.shape[1]):
        s += a[i, j] * v[j]
    y[i] = s


@wp.kernel
def powers(x: Floats, y: Floats, n: int):
    i = wp.tid()
    p = float(1.0)
    for k in range(n):
        p = p * (x[i] + 0.01 * float(k))
    y[i] = p


@wp.kernel
def weighted(x: Floats, w: Floats, y: Floats):
    i = wp.tid()
    y[i] = x[i] * w[2] + w[-1]


@wp.kernel
def prefix(x: Floats, y: Floats):
    i = wp.tid()
    if i > 0:
        y[i] = y[i - 1] + x[i]


@wp.kernel
def largest(x: Floats, y: Floats):
    i = wp.tid()
    wp.atomic_max(y, 0, x[i])


RNG = np.random.default_rng(5)


def uniform(*shape: int) -> np.ndarray:
    return RNG.uniform(0.2, 1.2, shape).astype(np.float32)


def whole(high: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, high, shape).astype(np.int32)


N = 2000
CASES: dict[str, tuple[Any, Any, list[Any]]] = {
    "map": (mapped, N, [uniform(N), uniform(N)]),
    "stencil": (stencil, (60, 50), [uniform(60, 60), uniform(60, 60), 50]),
    "periodic": (periodic, N, [uniform(N), uniform(N), N]),
    "window": (window, N, [uniform(N + 9), uniform(N), 4]),
    "net": (net, N, [uniform(N, 3), whole(N, N, 4), uniform(N, 3)]),
    "bodies": (bodies, 500, [uniform(500, 3), uniform(500, 3), 500]),
    "sum": (total, N, [uniform(N), uniform(1)]),
    "scatter": (scattered, N, [uniform(N), whole(37, N), uniform(37), np.zeros(37, np.int32)]),
    "matrix": (product, 700, [uniform(700, 90), uniform(90), uniform(700)]),
    "loop": (powers, N, [uniform(N), uniform(N), 20]),
    "weights": (weighted, N, [uniform(N), uniform(9000), uniform(N)]),
    "prefix": (prefix, N, [uniform(N), uniform(N)]),
    "largest": (largest, N, [uniform(N), uniform(1)]),
}


def arrays_of(kernel: Any, args: list[Any]) -> list[Any]:
    made = []
    for param, value in zip(kernel.params, args, strict=True):
        if param.is_array:
            floats = t.is_float(param.type.dtype)
            value = wp.array(value, dtype=param.type.dtype, requires_grad=floats)
        made.append(value)
    return made


def passes(kernel: Any, dim: Any, args: list[Any]) -> list[bytes]:
    """Return what a launch and its reverse leave in arrays and gradients."""
    given = arrays_of(kernel, args)
    tape = wp.Tape()
    with tape:
        wp.launch(kernel, dim, inputs=given)
    floats = [a for a in given if isinstance(a, wp.array) and a.requires_grad]
    seed = floats[-1]
    weights = np.random.default_rng(9).normal(size=seed.numpy().shape).astype(np.float32)
    tape.backward(grads={seed: wp.array(weights, dtype=seed.dtype)})
    found = [a.numpy() for a in given if isinstance(a, wp.array)]
    return [*found, *(a.grad.numpy() for a in floats)]

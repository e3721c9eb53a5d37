"""Kernels of the runtime's tests."""

from __future__ import annotations

import tapedebug as wp


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def move(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]


@wp.kernel
def scale(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i]


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i])


@wp.kernel
def cube_in_place(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * x[i] * x[i]


@wp.kernel
def square_then_set(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    i = wp.tid()
    b[i] = a[i] * a[i]
    a[i] = 1.0


@wp.kernel
def gather(x: wp.array(dtype=float), index: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[index[i]]


@wp.kernel
def first_half(x: wp.array(dtype=float)):
    i = wp.tid()
    if i < 2:
        x[i] = 10.0


@wp.kernel
def add_matrix(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), c: wp.array2d(dtype=float)):
    i, j = wp.tid()
    c[i, j] = a[i, j] * b[i, j]


@wp.kernel
def drift(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    g: wp.vec3,
    dt: float,
    out: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    out[i] = x[i] + dt * (v[i] + dt * g)


@wp.kernel
def repeat(x: wp.array(dtype=float), n: int, flag: bool, y: wp.array(dtype=float)):
    i = wp.tid()
    s = 0.0
    for _ in range(n):
        s = s + x[i] * x[i]
    if flag:
        y[i] = s


@wp.kernel(enable_backward=False)
def square_without_adjoint(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]

"""A kernel whose gradient Warp's own adjoint kernel gets wrong: a dynamic loop feeds a later `if`."""

from typing import Any

import warp as wp


@wp.kernel
def shade(x: wp.array(dtype=float), c: wp.array(dtype=float), num: int, out: wp.array(dtype=float)):
    col = wp.vec3(0.0, 0.0, 0.0)
    if c[0] > 0.0:
        col = wp.vec3(1.0)
        s = float(0.0)
        for i in range(num):
            s = s + x[i]
        col = s * col
        if col[0] > 1.0:
            col = wp.vec3(1.0, col[1], col[2])
    out[0] = col[0]


def clamped_loop() -> tuple[Any, int, list[Any]]:
    x = wp.array([1.0, 0.5], dtype=float, requires_grad=True)
    c = wp.array([2.0], dtype=float, requires_grad=True)
    return shade, 1, [x, c, 2, wp.zeros(1, dtype=float, requires_grad=True)]


@wp.kernel
def doubled_by_tile(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    t = wp.tile_load(x, shape=4)
    wp.tile_store(y, t + t)

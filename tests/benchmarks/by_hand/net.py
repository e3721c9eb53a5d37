"""The net of `notebooks/net.py`, many steps: forward with all steps kept, and its reverse.

A diagonal spring leads to a neighbour on the grid, too: all eight are gathered, and a step is one loop.
"""
# mypy: disable-error-code="no-untyped-def"

from typing import NamedTuple

import numba
import numpy as np
from numba import prange as span

from tests.benchmarks.by_hand.springs import adj_between, pull
from tests.benchmarks.by_hand.ways import serial

F0, F2, QUARTER = np.float32(0.0), np.float32(2.0), np.float32(0.25)
ACROSS = np.float32(2.0**0.5)
HALF = np.float32(0.5)


class Constants(NamedTuple):
    """float32, as kernels get them; `heavy` is the weight of a point along y."""

    rest: np.float32
    stiffness: np.float32
    drag: np.float32
    heavy: np.float32
    dt: np.float32
    inverse_mass: np.float32


@numba.njit(nogil=True, error_model="numpy", inline="always")
def between(row, col, down, right, side):
    """Return whether there is a neighbour, and its number."""
    r, c = row + down, col + right
    return 0 <= r < side and 0 <= c < side, np.uintp(r * side + c)


def step(x, v, x_next, v_next, side, c):
    """One time step."""
    for row in span(side):
        for col in range(side):
            i = np.uintp(row * side + col)
            fx, fy, fz = -v[i, 0] * c.drag, c.heavy - v[i, 1] * c.drag, -v[i, 2] * c.drag
            for down in range(-1, 2):
                for right in range(-1, 2):
                    there, k = between(row, col, down, right, side)
                    if there and (down != 0 or right != 0):
                        slant = down != 0 and right != 0
                        rest = c.rest * ACROSS if slant else c.rest
                        stiffness = c.stiffness * HALF if slant else c.stiffness
                        px, py, pz = pull(x, i, k, rest, stiffness)
                        fx, fy, fz = fx + px, fy + py, fz + pz
            h = c.dt * c.inverse_mass
            mx, my, mz = v[i, 0] + fx * h, v[i, 1] + fy * h, v[i, 2] + fz * h
            v_next[i, 0], v_next[i, 1], v_next[i, 2] = mx, my, mz
            x_next[i, 0], x_next[i, 1], x_next[i, 2] = (
                x[i, 0] + mx * c.dt, x[i, 1] + my * c.dt, x[i, 2] + mz * c.dt
            )  # fmt: skip


def adj_step(x, adj_x, adj_v, adj_force, side, c):
    """Its reverse, in place: the adjoints of what comes after a step become those of what was before it."""
    h = c.dt * c.inverse_mass
    for i in span(np.uintp(x.shape[0])):
        for k in range(3):
            adj_v[i, k] += c.dt * adj_x[i, k]
            adj_force[i, k] = h * adj_v[i, k]
    for row in span(side):
        for col in range(side):
            i = np.uintp(row * side + col)
            ax, ay, az = adj_x[i, 0], adj_x[i, 1], adj_x[i, 2]
            for down in range(-1, 2):
                for right in range(-1, 2):
                    there, k = between(row, col, down, right, side)
                    if there and (down != 0 or right != 0):
                        slant = down != 0 and right != 0
                        rest = c.rest * ACROSS if slant else c.rest
                        stiffness = c.stiffness * HALF if slant else c.stiffness
                        px, py, pz = adj_between(x, i, k, rest, stiffness, adj_force)
                        ax, ay, az = ax + px, ay + py, az + pz
            adj_x[i, 0], adj_x[i, 1], adj_x[i, 2] = ax, ay, az
            for k in range(3):
                adj_v[i, k] -= c.drag * adj_force[i, k]


def made(parallel):
    """Both passes, around steps compiled for one thread or for all."""
    options = {"nogil": True, "error_model": "numpy"}
    forward_step = numba.njit(parallel=parallel, **options)(step)
    reverse_step = numba.njit(parallel=parallel, **options)(adj_step)

    def simulate(throw, grip, x, v, side, target, c, loss):
        """`x` and `v` have a row for each moment; `x[0]` is given."""
        v[0] = grip.reshape(-1, 1) * throw
        for number in range(x.shape[0] - 1):
            forward_step(x[number], v[number], x[number + 1], v[number + 1], side, c)
        m = (side // 2) * side + side // 2
        last = x[-1]
        loss[0] = F0
        for k in range(3):
            d = (last[m, k] + last[m - 1, k] + last[m - side, k] + last[m - side - 1, k]) * QUARTER
            loss[0] += (d - target[k]) * (d - target[k])

    def adj_simulate(throw, grip, x, v, side, target, c, loss, adj_throw):
        """From a seed of 1 for the loss."""
        adj_x, adj_v, adj_force = np.zeros_like(x[0]), np.zeros_like(x[0]), np.empty_like(x[0])
        m = (side // 2) * side + side // 2
        last = x[-1]
        for k in range(3):
            d = (last[m, k] + last[m - 1, k] + last[m - side, k] + last[m - side - 1, k]) * QUARTER
            g = F2 * (d - target[k]) * QUARTER
            for i in (m, m - 1, m - side, m - side - 1):
                adj_x[i, k] += g
        for number in range(x.shape[0] - 2, -1, -1):
            reverse_step(x[number], adj_x, adj_v, adj_force, side, c)
        for i in range(np.uintp(grip.size)):
            for k in range(3):
                adj_throw[k] += grip[i] * adj_v[i, k]

    return simulate, adj_simulate


forward, backward = made(False)
serial("net", "forward")(forward)
serial("net", "backward")(backward)
forward, backward = made(True)
serial("net", "forward", "prange")(forward)  # only what is called is parallel
serial("net", "backward", "prange")(backward)

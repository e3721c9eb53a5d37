"""`spring_forces` and `bodies`: forces between pairs.

The force of a pair is `f(d)` on one end and `-f(d)` on the other, and its Jacobian `J(d)` is symmetric. So
the adjoint of a point is the sum of `J(d) (adj_f of the other - adj_f of this one)`: it gathers, too.
"""
# mypy: disable-error-code="no-untyped-def"

import math

import numba
import numpy as np
from numba import prange as span

from tests.benchmarks.by_hand.ways import prange, serial

F1, SOFT = np.float32(1.0), np.float32(0.01)
inlined = numba.njit(nogil=True, error_model="numpy", inline="always")


@inlined
def pull(x, i, k, rest, stiffness):
    """The force on `i` of a spring to `k`."""
    dx, dy, dz = x[k, 0] - x[i, 0], x[k, 1] - x[i, 1], x[k, 2] - x[i, 2]
    long = np.float32(math.sqrt(dx * dx + dy * dy + dz * dz))
    s = stiffness * (long - rest) / long
    return dx * s, dy * s, dz * s


@inlined
def adj_pull(x, i, k, rest, stiffness, gx, gy, gz):
    """`J(d) g` for the spring from `i` to `k`: stiffness ((1 - rest/l) g + rest/l³ d (d·g))."""
    dx, dy, dz = x[k, 0] - x[i, 0], x[k, 1] - x[i, 1], x[k, 2] - x[i, 2]
    r2 = dx * dx + dy * dy + dz * dz
    ratio = rest / np.float32(math.sqrt(r2))
    straight = stiffness * (F1 - ratio)
    along = stiffness * ratio * (dx * gx + dy * gy + dz * gz) / r2
    return straight * gx + along * dx, straight * gy + along * dy, straight * gz + along * dz


@serial("spring_forces", "forward")
@prange("spring_forces", "forward")
def forces(x, v, force, side, rest, stiffness, drag, weight):
    rest, stiffness, drag = np.float32(rest), np.float32(stiffness), np.float32(drag)
    one, wide = np.uintp(1), np.uintp(side)
    for row in span(np.uintp(side)):
        for col in range(np.uintp(side)):
            i = np.uintp(row) * wide + col
            fx, fy, fz = (
                weight[0] - v[i, 0] * drag, weight[1] - v[i, 1] * drag, weight[2] - v[i, 2] * drag
            )  # fmt: skip
            if col > 0:
                px, py, pz = pull(x, i, i - one, rest, stiffness)
                fx, fy, fz = fx + px, fy + py, fz + pz
            if col < side - 1:
                px, py, pz = pull(x, i, i + one, rest, stiffness)
                fx, fy, fz = fx + px, fy + py, fz + pz
            if row > 0:
                px, py, pz = pull(x, i, i - wide, rest, stiffness)
                fx, fy, fz = fx + px, fy + py, fz + pz
            if row < side - 1:
                px, py, pz = pull(x, i, i + wide, rest, stiffness)
                fx, fy, fz = fx + px, fy + py, fz + pz
            force[i, 0], force[i, 1], force[i, 2] = fx, fy, fz


@inlined
def adj_between(x, i, k, rest, stiffness, adj_force):
    """Return what the spring between `i` and `k` adds to the adjoint of `x[i]`."""
    gx = adj_force[k, 0] - adj_force[i, 0]
    gy = adj_force[k, 1] - adj_force[i, 1]
    gz = adj_force[k, 2] - adj_force[i, 2]
    return adj_pull(x, i, k, rest, stiffness, gx, gy, gz)


@serial("spring_forces", "backward")
@prange("spring_forces", "backward")
def adj_forces(x, v, force, side, rest, stiffness, drag, weight, adj_x, adj_v, adj_force):
    rest, stiffness, drag = np.float32(rest), np.float32(stiffness), np.float32(drag)
    one, wide = np.uintp(1), np.uintp(side)
    for row in span(np.uintp(side)):
        for col in range(np.uintp(side)):
            i = np.uintp(row) * wide + col
            ax, ay, az = adj_x[i, 0], adj_x[i, 1], adj_x[i, 2]
            if col > 0:
                px, py, pz = adj_between(x, i, i - one, rest, stiffness, adj_force)
                ax, ay, az = ax + px, ay + py, az + pz
            if col < side - 1:
                px, py, pz = adj_between(x, i, i + one, rest, stiffness, adj_force)
                ax, ay, az = ax + px, ay + py, az + pz
            if row > 0:
                px, py, pz = adj_between(x, i, i - wide, rest, stiffness, adj_force)
                ax, ay, az = ax + px, ay + py, az + pz
            if row < side - 1:
                px, py, pz = adj_between(x, i, i + wide, rest, stiffness, adj_force)
                ax, ay, az = ax + px, ay + py, az + pz
            adj_x[i, 0], adj_x[i, 1], adj_x[i, 2] = ax, ay, az
            adj_v[i, 0] -= drag * adj_force[i, 0]
            adj_v[i, 1] -= drag * adj_force[i, 1]
            adj_v[i, 2] -= drag * adj_force[i, 2]


@serial("bodies", "forward")
@prange("bodies", "forward")
def bodies(x, n, force):
    for i in span(np.uintp(n)):
        px, py, pz = x[i, 0], x[i, 1], x[i, 2]
        fx = fy = fz = np.float32(0.0)
        for j in range(np.uintp(n)):
            dx, dy, dz = x[j, 0] - px, x[j, 1] - py, x[j, 2] - pz
            r2 = dx * dx + dy * dy + dz * dz + SOFT
            w = F1 / (r2 * np.float32(math.sqrt(r2)))
            fx, fy, fz = fx + dx * w, fy + dy * w, fz + dz * w
        force[i, 0], force[i, 1], force[i, 2] = fx, fy, fz


@serial("bodies", "backward")
@prange("bodies", "backward")
def adj_bodies(x, n, force, adj_x, adj_force):
    three = np.float32(3.0)
    for i in span(np.uintp(n)):
        px, py, pz = x[i, 0], x[i, 1], x[i, 2]
        hx, hy, hz = adj_force[i, 0], adj_force[i, 1], adj_force[i, 2]
        ax = ay = az = np.float32(0.0)
        for j in range(np.uintp(n)):
            dx, dy, dz = x[j, 0] - px, x[j, 1] - py, x[j, 2] - pz
            gx, gy, gz = adj_force[j, 0] - hx, adj_force[j, 1] - hy, adj_force[j, 2] - hz
            r2 = dx * dx + dy * dy + dz * dz + SOFT
            w = F1 / (r2 * np.float32(math.sqrt(r2)))
            along = three * w * (dx * gx + dy * gy + dz * gz) / r2
            ax, ay, az = ax + w * gx - along * dx, ay + w * gy - along * dy, az + w * gz - along * dz
        adj_x[i, 0] += ax
        adj_x[i, 1] += ay
        adj_x[i, 2] += az

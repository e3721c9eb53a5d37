"""A step of the material point method, the same text for Warp: an elastic block that falls.

The moving least squares method of Hu et al., "A Moving Least Squares Material Point Method with Displacement
Discontinuity and Two-Way Rigid Body Coupling" (2018), DOI 10.1145/3197517.3201293: particles give mass and
momentum to 27 nodes with quadratic B-splines, nodes are accelerated and stopped at the walls, particles take
velocity and its affine field back. Stress is that of fixed corotated elasticity, with the rotation from a
singular value decomposition: Stomakhin et al. (2012), DOI 10.2312/SCA/SCA12/025-032.
"""
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, untyped-decorator"

from typing import Any

import numpy as np

import tapedebug as wp

NODES, PARTICLES = 16, 343
INVERSE = float(NODES)
"""One over the distance of nodes: the grid is the unit cube."""
STEP, MASS, VOLUME = 1e-3, 1e-3, 1e-6
MU, LAMBDA, GRAVITY = 400.0, 600.0, 9.81
RESULTS = ("new_x", "new_v", "new_c", "new_f")
"""The arrays that a step computes."""


@wp.func
def spline(fraction: wp.vec3, k: int) -> wp.vec3:
    """Return the weights of the k-th of three nodes along each axis."""
    w = wp.vec3()
    for axis in range(3):
        f = fraction[axis]
        if k == 0:
            w[axis] = 0.5 * (1.5 - f) * (1.5 - f)
        elif k == 1:
            w[axis] = 0.75 - (f - 1.0) * (f - 1.0)
        else:
            w[axis] = 0.5 * (f - 0.5) * (f - 0.5)
    return w


@wp.func
def corotated(f: wp.mat33, mu: float, lam: float) -> wp.mat33:
    """Return the first Piola-Kirchhoff stress times the transpose of the deformation gradient."""
    u, _sigma, v = wp.svd3(f)
    rotation = u * wp.transpose(v)
    j = wp.determinant(f)
    identity = wp.identity(n=3, dtype=float)
    return 2.0 * mu * (f - rotation) * wp.transpose(f) + identity * (lam * j * (j - 1.0))


@wp.kernel
def particles_to_grid(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    c: wp.array(dtype=wp.mat33),
    f: wp.array(dtype=wp.mat33),
    new_f: wp.array(dtype=wp.mat33),
    grid_v: wp.array3d(dtype=wp.vec3),
    grid_m: wp.array3d(dtype=float),
    inverse: float,
    dt: float,
    mass: float,
    volume: float,
    mu: float,
    lam: float,
):
    p = wp.tid()
    at = x[p] * inverse
    bx = int(at[0] - 0.5)
    by = int(at[1] - 0.5)
    bz = int(at[2] - 0.5)
    fraction = at - wp.vec3(float(bx), float(by), float(bz))
    deformed = (wp.identity(n=3, dtype=float) + c[p] * dt) * f[p]
    new_f[p] = deformed
    stress = corotated(deformed, mu, lam) * (-4.0 * dt * volume * inverse * inverse)
    affine = stress + c[p] * mass
    for i in range(3):
        for j in range(3):
            for k in range(3):
                wi = spline(fraction, i)
                wj = spline(fraction, j)
                wk = spline(fraction, k)
                weight = wi[0] * wj[1] * wk[2]
                distance = (wp.vec3(float(i), float(j), float(k)) - fraction) / inverse
                momentum = (v[p] * mass + affine * distance) * weight
                wp.atomic_add(grid_v, bx + i, by + j, bz + k, momentum)
                wp.atomic_add(grid_m, bx + i, by + j, bz + k, weight * mass)


@wp.kernel
def move_grid(
    grid_v: wp.array3d(dtype=wp.vec3),
    grid_m: wp.array3d(dtype=float),
    grid_out: wp.array3d(dtype=wp.vec3),
    dt: float,
    gravity: float,
):
    i, j, k = wp.tid()
    n = grid_m.shape[0]
    m = grid_m[i, j, k]
    if m > 0.0:
        velocity = grid_v[i, j, k] / m + wp.vec3(0.0, -gravity * dt, 0.0)
        if i < 3:
            velocity = wp.vec3(wp.max(velocity[0], 0.0), velocity[1], velocity[2])
        if i > n - 4:
            velocity = wp.vec3(wp.min(velocity[0], 0.0), velocity[1], velocity[2])
        if j < 3:
            velocity = wp.vec3(velocity[0] * 0.5, wp.max(velocity[1], 0.0), velocity[2] * 0.5)
        if j > n - 4:
            velocity = wp.vec3(velocity[0], wp.min(velocity[1], 0.0), velocity[2])
        if k < 3:
            velocity = wp.vec3(velocity[0], velocity[1], wp.max(velocity[2], 0.0))
        if k > n - 4:
            velocity = wp.vec3(velocity[0], velocity[1], wp.min(velocity[2], 0.0))
        grid_out[i, j, k] = velocity


@wp.kernel
def grid_to_particles(
    x: wp.array(dtype=wp.vec3),
    grid_out: wp.array3d(dtype=wp.vec3),
    new_x: wp.array(dtype=wp.vec3),
    new_v: wp.array(dtype=wp.vec3),
    new_c: wp.array(dtype=wp.mat33),
    inverse: float,
    dt: float,
):
    p = wp.tid()
    at = x[p] * inverse
    bx = int(at[0] - 0.5)
    by = int(at[1] - 0.5)
    bz = int(at[2] - 0.5)
    fraction = at - wp.vec3(float(bx), float(by), float(bz))
    velocity = wp.vec3()
    affine = wp.mat33()
    for i in range(3):
        for j in range(3):
            for k in range(3):
                wi = spline(fraction, i)
                wj = spline(fraction, j)
                wk = spline(fraction, k)
                weight = wi[0] * wj[1] * wk[2]
                distance = wp.vec3(float(i), float(j), float(k)) - fraction
                g = grid_out[bx + i, by + j, bz + k]
                velocity = velocity + g * weight
                affine = affine + wp.outer(g, distance) * (4.0 * weight * inverse)
    new_x[p] = x[p] + velocity * dt
    new_v[p] = velocity
    new_c[p] = affine


KERNELS = (particles_to_grid, move_grid, grid_to_particles)


def arrays() -> dict[str, Any]:
    """Return the arrays of a step: a deformed block of particles, all else zero."""
    side = round(PARTICLES ** (1 / 3))
    random = np.random.default_rng(3)
    x = np.stack(np.meshgrid(*[np.linspace(0.3, 0.6, side)] * 3, indexing="ij"), -1).reshape(-1, 3)
    f = np.eye(3) * (1.0, 1.05, 0.93) + random.normal(size=(len(x), 3, 3)) * 0.02
    v = random.normal(size=x.shape) * 0.3
    given = {"x": (x, wp.vec3), "v": (v, wp.vec3), "f": (f, wp.mat33)}
    made = {
        name: wp.array(value.astype(np.float32), dtype=dtype, requires_grad=True)
        for name, (value, dtype) in given.items()
    }
    shapes = {"c": wp.mat33, "new_x": wp.vec3, "new_v": wp.vec3, "new_c": wp.mat33, "new_f": wp.mat33}
    grids = {"grid_v": wp.vec3, "grid_m": float, "grid_out": wp.vec3}
    made |= {name: wp.zeros(len(x), dtype=dtype, requires_grad=True) for name, dtype in shapes.items()}
    made |= {name: wp.zeros((NODES,) * 3, dtype=dtype, requires_grad=True) for name, dtype in grids.items()}
    return made


def launch(a: dict[str, Any]) -> None:
    """Compute the results of a step."""
    count = a["x"].shape[0]
    given = [a[name] for name in ("x", "v", "c", "f", "new_f", "grid_v", "grid_m")]
    wp.launch(particles_to_grid, dim=count, inputs=[*given, INVERSE, STEP, MASS, VOLUME, MU, LAMBDA])
    given = [a[name] for name in ("grid_v", "grid_m", "grid_out")]
    wp.launch(move_grid, dim=a["grid_m"].shape, inputs=[*given, STEP, GRAVITY])
    given = [a[name] for name in ("x", "grid_out", "new_x", "new_v", "new_c")]
    wp.launch(grid_to_particles, dim=count, inputs=[*given, INVERSE, STEP])

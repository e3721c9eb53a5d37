"""The kernels of the suite: the same text for both engines, with only its import exchanged.

`spring_forces` is that of `notebooks/net.py`.
"""
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, untyped-decorator"

import tapedebug as wp


@wp.kernel
def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    """Bound by memory."""
    i = wp.tid()
    y[i] = 2.0 * x[i]


@wp.kernel
def sine(x: wp.array(dtype=float), a: float, y: wp.array(dtype=float)):
    """Bound by an elementary function."""
    i = wp.tid()
    y[i] = wp.sin(x[i]) * x[i] + a


@wp.kernel
def bodies(x: wp.array(dtype=wp.vec3), n: int, force: wp.array(dtype=wp.vec3)):
    """Softened gravity of all pairs: a dynamic loop in each thread."""
    i = wp.tid()
    xi = x[i]
    f = wp.vec3(0.0, 0.0, 0.0)
    for j in range(n):
        d = x[j] - xi
        r2 = wp.dot(d, d) + 0.01
        f = f + d * (1.0 / (r2 * wp.sqrt(r2)))
    force[i] = f


@wp.kernel
def heat(u: wp.array2d(dtype=float), k: float, out: wp.array2d(dtype=float)):
    """One explicit step of the heat equation, its border held."""
    i, j = wp.tid()
    if i > 0 and i < u.shape[0] - 1 and j > 0 and j < u.shape[1] - 1:
        out[i, j] = u[i, j] + k * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4.0 * u[i, j])
    else:
        out[i, j] = u[i, j]


@wp.kernel
def total(x: wp.array(dtype=float), s: wp.array(dtype=float)):
    """A sum: all threads add to one element."""
    i = wp.tid()
    wp.atomic_add(s, 0, x[i])


@wp.kernel
def deposit(p: wp.array(dtype=wp.vec2), mass: wp.array(dtype=float), grid: wp.array2d(dtype=float)):
    """Particles share their mass among the four nodes around them; many meet in a cell."""
    t = wp.tid()
    at = p[t]
    m = mass[t]
    i = int(wp.floor(at[0]))
    j = int(wp.floor(at[1]))
    s = at[0] - float(i)
    r = at[1] - float(j)
    wp.atomic_add(grid, i, j, (1.0 - s) * (1.0 - r) * m)
    wp.atomic_add(grid, i + 1, j, s * (1.0 - r) * m)
    wp.atomic_add(grid, i, j + 1, (1.0 - s) * r * m)
    wp.atomic_add(grid, i + 1, j + 1, s * r * m)


@wp.kernel
def matvec(matrix: wp.array2d(dtype=float), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    """A row for each thread, its products added in order."""
    i = wp.tid()
    s = float(0.0)
    for j in range(x.shape[0]):
        s = s + matrix[i, j] * x[j]
    y[i] = s


@wp.kernel
def product(x: wp.array(dtype=float), a: wp.array(dtype=float), y: wp.array(dtype=float)):
    """A long loop that multiplies: its reverse needs what every iteration began with."""
    t = wp.tid()
    s = float(1.0)
    for k in range(a.shape[0]):
        s = s * (1.0 + a[k] * x[t])
    y[t] = s


@wp.kernel
def relax(x: wp.array(dtype=float), dt: float, y: wp.array(dtype=float)):
    """Next to nothing: what a launch costs by itself."""
    i = wp.tid()
    y[i] = x[i] + dt * (1.0 - x[i])

"""The kernels of the suite in JAX, as one writes them there: whole arrays, and its own derivatives."""
# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tests.benchmarks.bound import ADJOINT, BACKWARD, FORWARD, Results
from tests.benchmarks.cases import Setup
from tests.benchmarks.timing import Run


def double(x, setup):
    return 2.0 * x


def sine(x, setup):
    return jnp.sin(x) * x + setup.arguments["a"]


def pull(a, b, rest, stiffness):
    """The force on `a` of a spring to `b`."""
    d = b - a
    long = jnp.sqrt((d * d).sum(axis=-1, keepdims=True))
    return d * (stiffness * (long - rest) / long)


def along_grid(x, rest, stiffness):
    """Forces of the springs to neighbours in rows and columns; `x` is (side, side, 3)."""
    across = pull(x[:, :-1], x[:, 1:], rest, stiffness)
    down = pull(x[:-1], x[1:], rest, stiffness)
    force = jnp.zeros_like(x).at[:, :-1].add(across).at[:, 1:].add(-across)
    return force.at[:-1].add(down).at[1:].add(-down)


def spring_forces(x, v, setup):
    given = setup.arguments
    grid = x.reshape(given["side"], given["side"], 3)
    force = along_grid(grid, given["rest"], given["stiffness"]).reshape(x.shape)
    return jnp.asarray(given["weight"], x.dtype) - v * given["drag"] + force


def bodies(x, setup):
    # components apart: as one array with a last axis of three, XLA takes four times as long
    dx, dy, dz = (c[None, :] - c[:, None] for c in x.T)
    r2 = dx * dx + dy * dy + dz * dz + 0.01
    w = 1.0 / (r2 * jnp.sqrt(r2))
    return jnp.stack([(d * w).sum(axis=1) for d in (dx, dy, dz)], axis=1)


def heat(u, setup):
    around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
    return u.at[1:-1, 1:-1].add(setup.arguments["k"] * (around - 4.0 * u[1:-1, 1:-1]))


def total(x, setup):
    return x.sum(keepdims=True)


def deposit(p, mass, setup):
    low = jnp.floor(p)
    i, j = low.astype(jnp.int32).T
    s, r = (p - low).T
    grid = jnp.zeros(setup.arguments["grid"].shape, p.dtype)
    grid = grid.at[i, j].add((1.0 - s) * (1.0 - r) * mass).at[i + 1, j].add(s * (1.0 - r) * mass)
    return grid.at[i, j + 1].add((1.0 - s) * r * mass).at[i + 1, j + 1].add(s * r * mass)


def matvec(matrix, x, setup):
    return matrix @ x


def product(x, a, setup):
    return jax.lax.scan(lambda s, factor: (s * (1.0 + factor * x), None), jnp.ones_like(x), a)[0]


ALL = (double, sine, spring_forces, bodies, heat, total, deposit, matvec, product)
KERNELS = {function.__name__: function for function in ALL}


class InJax:
    """A case in JAX: the gradient is computed from inputs and seed alone, as an adjoint launch does."""

    def __init__(self, setup: Setup) -> None:
        function = KERNELS[setup.kernel]

        def forward(*arrays):
            return function(*arrays, setup=setup)

        self.setup = setup
        self.arrays = [jnp.asarray(setup.arguments[name]) for name in setup.reads]
        self.tangents = [jnp.asarray(setup.tangents[name]) for name in setup.reads]
        self.seed = jnp.asarray(setup.seed)
        self._forward = jax.jit(forward)
        self._pull = jax.jit(lambda arrays, seed: jax.vjp(forward, *arrays)[1](seed))
        self._push = jax.jit(lambda arrays, tangents: jax.jvp(forward, arrays, tangents))

    def call(self, part: str) -> Any:
        """Run a part and wait for it."""
        if part == FORWARD:
            return self._forward(*self.arrays).block_until_ready()
        if part in (BACKWARD, ADJOINT):
            return jax.block_until_ready(self._pull(self.arrays, self.seed))
        return jax.block_until_ready(self._push(tuple(self.arrays), tuple(self.tangents)))

    def run(self, part: str) -> Run:
        """Return a function that runs a part."""
        return Run(lambda: self.call(part))

    def results(self, part: str) -> Results:
        """Return what it writes, the gradients of what it reads, or the tangent of what it writes."""
        found = self.call(part)
        if part in (BACKWARD, ADJOINT):
            return {name: np.asarray(g) for name, g in zip(self.setup.reads, found, strict=True)}
        return {self.setup.writes: np.asarray(found if part == FORWARD else found[1])}

"""Second derivatives of kernels: the tangent of the adjoint against its differences, and symmetry."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug.compiler.kernel import Kernel
from tests.compiler.harness import run, twin

Arrays = dict[int, np.ndarray]


class Second:
    """A kernel at given arguments: its gradient for random seeds, and derivatives of that.

    Every float array in `active` (by default all) is an input and an output at once, as in `check_gradient`.
    """

    def __init__(
        self,
        kernel: Kernel,
        dim: Any,
        args: list[Any],
        *,
        active: list[int] | None = None,
        interpreted: bool = False,
    ) -> None:
        self.kernel, self.dim, self.interpreted = kernel, dim, interpreted
        self.args = twin(args)
        floats = [i for i, a in enumerate(self.args) if isinstance(a, np.ndarray) and a.dtype == np.float64]
        self.active = floats if active is None else active
        self.rng = np.random.default_rng(11)
        self.seeds = self.direction()

    def direction(self) -> Arrays:
        return {i: self.rng.normal(size=self.args[i].shape) for i in self.active}

    def _given(self, arrays: Arrays) -> list[Any]:
        return [arrays.get(p.index) for p in self.kernel.params if p.is_array]

    def gradient(self, args: list[Any]) -> Arrays:
        """The product of the seeds and the Jacobian at `args`."""
        found = {i: s.copy() for i, s in self.seeds.items()}
        run(self.kernel, self.dim, args, f64=True, adjoints=self._given(found), interpreted=self.interpreted)
        return found

    def product(self, v: Arrays) -> tuple[Arrays, Arrays]:
        """The gradient, and its derivative along v."""
        found = {i: s.copy() for i, s in self.seeds.items()}
        moved, dots = {i: np.zeros_like(s) for i, s in found.items()}, {i: d.copy() for i, d in v.items()}
        run(
            self.kernel,
            self.dim,
            twin(self.args),
            f64=True,
            adjoints=self._given(found),
            tangents=self._given(dots),
            adjoint_tangents=self._given(moved),
            interpreted=self.interpreted,
        )
        return found, moved

    def difference(self, v: Arrays, u: Arrays, step: float) -> float:
        """⟨u, H v⟩ by central differences of the gradient."""
        sides = []
        for sign in (step, -step):
            moved = twin(self.args)
            for i in self.active:
                moved[i] += sign * v[i]
            sides.append(inner(self.gradient(moved), u))
        return (sides[0] - sides[1]) / (2 * step)

    def check(self, tolerance: float = 1e-6) -> tuple[float, float]:
        """Asserts that H is the derivative of the gradient, and symmetric; ⟨u, H v⟩ and its difference."""
        u, v = self.direction(), self.direction()
        gradient, moved = self.product(v)
        plain = self.gradient(twin(self.args))
        for i in self.active:
            np.testing.assert_array_equal(gradient[i], plain[i])
        one, other = inner(moved, u), inner(self.product(u)[1], v)
        size = max(1.0, sum(float(np.abs(moved[i] * u[i]).sum()) for i in self.active))
        assert abs(one - other) <= 1e-10 * size, ("symmetry", one, other)
        slope = self.difference(v, u, 1e-5)
        assert abs(one - slope) <= tolerance * size, ("differences", one, slope)
        return one, slope


def inner(a: Arrays, b: Arrays) -> float:
    return float(sum((a[i] * b[i]).sum() for i in a))

"""Operations of the reference engine, right ones and one that is wrong on purpose."""

from __future__ import annotations

import numpy as np

from tests.reference_engine import operation


@operation(needs=["x"])
def square(x):
    return x * x


@square.adjoint
def _(g, x):
    return 2 * x * g


@operation(writes="y")
def axpy(a, x, y):
    return y + a * x


@axpy.adjoint
def _(g, a, x, y):
    return None, a * g, g


@operation(writes="x")
def scale(x, a):
    return a * x


@scale.adjoint
def _(g, x, a):
    return a * g


@operation(writes="x", needs=["x"])
def square_in_place(x):
    return x * x


@square_in_place.adjoint
def _(g, x):
    return 2 * x * g


@operation(writes="x", needs=["x"])
def exponentiate_in_place(x):
    return np.exp(x)


@exponentiate_in_place.adjoint
def _(g, x):
    return x * g  # right with the values after it, which are exp(x)


@operation(needs=["a", "b"])
def matmul(a, b):
    return a @ b


@matmul.adjoint
def _(g, a, b):
    return g @ b.T, a.T @ g


@operation(needs=["x"])
def relu(x):
    return np.maximum(x, 0)


@relu.adjoint
def _(g, x):
    return g * (x > 0)


@operation(needs=["x"])
def root(x):
    return np.sqrt(x)


@root.adjoint
def _(g, x):
    with np.errstate(divide="ignore", invalid="ignore"):
        return g / (2 * np.sqrt(x))


@operation()
def total(x):
    return x.sum(keepdims=True).reshape(1)


@total.adjoint
def _(g, x):
    return np.broadcast_to(g, x.shape)


@operation(needs=["x"])
def cube_with_wrong_adjoint(x):
    return x**3


@cube_with_wrong_adjoint.adjoint
def _(g, x):
    return 2 * x**2 * g


@operation()
def detached(x):
    return x.copy()


@detached.adjoint
def _(g, x):
    return None

"""Kernels whose Jacobians have a known sparsity, with arguments: for patterns and coloured Jacobians."""
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, untyped-decorator"

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tapedebug as wp
from tests.benchmarks.stencils import five_point


@wp.kernel
def tridiagonal(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = 2.0 * x[i] * x[i]
    if i > 0:
        s = s - wp.sin(x[i - 1])
    if i < x.shape[0] - 1:
        s = s - x[i + 1]
    y[i] = s


@wp.kernel
def gathered(x: wp.array(dtype=float), index: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[index[i]] * x[index[i]]


@wp.kernel
def springs(
    x: wp.array(dtype=wp.vec3),
    first: wp.array(dtype=int),
    second: wp.array(dtype=int),
    force: wp.array(dtype=wp.vec3),
):
    k = wp.tid()
    i = first[k]
    j = second[k]
    d = x[j] - x[i]
    f = d * (wp.length(d) - 1.0)
    wp.atomic_add(force, i, f)
    wp.atomic_sub(force, j, f)


@wp.kernel
def rotated(m: wp.array(dtype=wp.mat33), v: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = m[i] * v[i]


@wp.kernel
def component_wise(v: wp.array(dtype=wp.vec3), out: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    out[i] = wp.cw_mul(v[i], v[i]) * 0.5


@wp.struct
class State:
    q: wp.array(dtype=float)
    v: wp.array(dtype=float)


@wp.kernel
def stepped(state: State, dt: float, q: wp.array(dtype=float), v: wp.array(dtype=float)):
    i = wp.tid()
    force = -wp.sin(state.q[i])
    v[i] = state.v[i] + dt * force
    q[i] = state.q[i] + dt * (state.v[i] + dt * force)


@wp.kernel
def in_place(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = y[i] * x[i] + 1.0


@wp.kernel
def added_in_place(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] += x[i] * x[i]


@wp.kernel
def every_second(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i % 2 == 0:
        y[i] = x[i] * 3.0


@wp.kernel
def scanned(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i == 0:
        y[0] = x[0]
    if i > 0:
        y[i] = y[i - 1] * 0.5 + x[i]


@wp.kernel
def all_pairs(x: wp.array(dtype=wp.vec3), a: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    s = wp.vec3(0.0)
    for j in range(x.shape[0]):
        d = x[j] - x[i]
        s += d / (wp.dot(d, d) + 0.1)
    a[i] = s


@wp.kernel
def arrow(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, i, x[i] * x[0])
    wp.atomic_add(y, 0, x[i] * x[i])


@wp.func
def half_right(x: float):
    return x * x


@wp.func_grad(half_right)
def adj_half_right(x: float, adj_ret: float):
    wp.adjoint[x] += x * adj_ret


@wp.kernel
def wrong_arrow(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, i, half_right(x[i]) * half_right(x[0]))
    wp.atomic_add(y, 0, half_right(x[i]))


@wp.kernel
def every_input(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    for j in range(x.shape[0]):
        y[i] += wp.sin(x[j] * float(i + 1))


@wp.kernel
def environments(x: wp.array2d(dtype=float), w: wp.array(dtype=float), y: wp.array2d(dtype=float)):
    e, i = wp.tid()
    s = float(0.0)
    for j in range(x.shape[1]):
        s += x[e, j] * float(i + j) * w[e]
    y[e, i] = wp.tanh(s)


@wp.kernel
def neighbours(x: wp.array(dtype=float), radius: float, y: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for j in range(x.shape[0]):
        d = x[j] - x[i]
        if wp.abs(d) < radius:
            s += d * d * d
    y[i] = s


@wp.kernel
def window(x: wp.array(dtype=float), width: int, y: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for j in range(wp.min(width, x.shape[0] - i)):
        s += x[i + j] * x[i + j]
    y[i] = s


@wp.kernel
def far_away(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i + 100]


@wp.kernel
def upwind(u: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    n = u.shape[0]
    if u[i] > 0.0:
        out[i] = u[i] * (u[i] - u[(i + n - 1) % n])
    else:
        out[i] = u[i] * (u[(i + 1) % n] - u[i])


@wp.kernel
def while_loop(x: wp.array(dtype=float), steps: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    s = x[i]
    k = int(0)  # noqa: RUF046 - an int32 that changes
    while k < steps[i]:
        k += 1
        s = s * x[(i + k) % x.shape[0]]
    y[i] = s


@wp.kernel
def temporary(x: wp.array(dtype=float), t: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    t[i] = x[i] * x[i]
    y[i] = t[i] + x[(i + 1) % x.shape[0]]


@wp.kernel
def own_index(order: wp.array(dtype=int), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    order[i] = (i * 3) % x.shape[0]
    y[i] = x[order[i]] * 2.0


@wp.kernel
def counted(counter: wp.array(dtype=int), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] > 0.0:
        k = wp.atomic_add(counter, 0, 1)
        y[k] = x[i] * x[i]


@wp.kernel
def halves(x: wp.array(dtype=wp.float16), y: wp.array(dtype=wp.float16)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def doubles(x: wp.array(dtype=wp.float64), y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = x[i] * x[(i + 1) % x.shape[0]]


@wp.kernel
def maximum(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_max(y, i / 4, x[i])


@dataclass
class Case:
    """A kernel with arguments; `count` entries of its Jacobians may be other than zero."""

    kernel: Any
    dim: Any
    inputs: list[Any]
    outputs: list[Any]
    counts: dict[tuple[int, int], int]


def numbers(*shape: int, dtype: Any = float, seed: int = 1) -> Any:
    """Random values with a gradient."""
    values = np.random.default_rng(seed).normal(size=shape)
    return wp.array(values, dtype=dtype, requires_grad=True)


def nothing(*shape: int, dtype: Any = float) -> Any:
    """Zeros with a gradient."""
    return wp.zeros(shape, dtype=dtype, requires_grad=True)


def integers(values: Any) -> Any:
    """An array of indices."""
    return wp.array(np.asarray(values), dtype=int)


def _state() -> Any:
    state = State()
    state.q, state.v = numbers(9), numbers(9, seed=2)
    return state


def _every_second() -> Any:
    return numbers(24)[::2]


CASES: dict[str, Callable[[], Case]] = {
    "tridiagonal": lambda: Case(tridiagonal, 17, [numbers(17)], [nothing(17)], {(0, 0): 49}),
    "five points": lambda: Case(five_point, (5, 6), [numbers(5, 6)], [nothing(5, 6)], {(0, 0): 128}),
    "gathered": lambda: Case(
        gathered, 6, [numbers(9), integers([3, 3, 0, 8, 1, 3])], [nothing(6)], {(0, 0): 6}
    ),
    "springs": lambda: Case(
        springs,
        4,
        [numbers(5, 3, dtype=wp.vec3), integers([0, 1, 2, 3]), integers([1, 2, 3, 4])],
        [nothing(5, dtype=wp.vec3)],
        {(0, 0): 13 * 9},
    ),
    "rotated": lambda: Case(
        rotated,
        4,
        [numbers(4, 3, 3, dtype=wp.mat33), numbers(4, 3, dtype=wp.vec3)],
        [nothing(4, dtype=wp.vec3)],
        {(0, 0): 36, (1, 0): 36},
    ),
    "component-wise": lambda: Case(
        component_wise, 4, [numbers(4, 3, dtype=wp.vec3)], [nothing(4, dtype=wp.vec3)], {(0, 0): 12}
    ),
    "in place": lambda: Case(in_place, 6, [numbers(6)], [numbers(6, seed=3)], {(0, 0): 6, (1, 0): 6}),
    "added in place": lambda: Case(added_in_place, 6, [numbers(6)], [numbers(6, seed=3)], {(0, 0): 6}),
    "every second": lambda: Case(every_second, 7, [numbers(7)], [nothing(7)], {(0, 0): 4}),
    "scanned": lambda: Case(scanned, 6, [numbers(6)], [nothing(6)], {(0, 0): 21}),
    "all pairs": lambda: Case(
        all_pairs, 5, [numbers(5, 3, dtype=wp.vec3)], [nothing(5, dtype=wp.vec3)], {(0, 0): 225}
    ),
    "arrow": lambda: Case(arrow, 12, [numbers(12)], [nothing(12)], {(0, 0): 34}),
    "environments": lambda: Case(
        environments,
        (4, 3),
        [numbers(4, 3), numbers(4, seed=2)],
        [nothing(4, 3)],
        {(0, 0): 36, (1, 0): 12},
    ),
    "neighbours": lambda: Case(neighbours, 12, [numbers(12), 0.5], [nothing(12)], {}),
    "upwind": lambda: Case(upwind, 12, [numbers(12)], [nothing(12)], {(0, 0): 24}),
    "while loop": lambda: Case(
        while_loop, 6, [numbers(6), integers([0, 1, 2, 3, 1, 0])], [nothing(6)], {(0, 0): 13}
    ),
    "temporary": lambda: Case(temporary, 6, [numbers(6)], [nothing(6), nothing(6)], {(0, 0): 6, (0, 1): 12}),
    "own index": lambda: Case(own_index, 7, [integers(range(7)), numbers(7)], [nothing(7)], {(0, 0): 7}),
    "counted": lambda: Case(counted, 7, [integers([0]), numbers(7)], [nothing(7)], {}),
    "struct": lambda: Case(stepped, 9, [_state(), 0.1], [nothing(9), nothing(9)], {}),
    "halves": lambda: Case(
        halves, 5, [numbers(5, dtype=wp.float16)], [nothing(5, dtype=wp.float16)], {(0, 0): 5}
    ),
    "doubles": lambda: Case(
        doubles, 5, [numbers(5, dtype=wp.float64)], [nothing(5, dtype=wp.float64)], {(0, 0): 10}
    ),
    "strided": lambda: Case(tridiagonal, 12, [_every_second()], [nothing(12)], {(0, 0): 34}),
    "maximum": lambda: Case(maximum, 12, [numbers(12)], [nothing(3)], {}),
}

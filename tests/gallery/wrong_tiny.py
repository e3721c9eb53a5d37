"""Adjoints that are wrong by little, at tolerances that can see it."""

import numpy as np

import tapedebug as wp
from tests.gallery.entry import Picture, Values


@wp.func
def cubed(x: float, error: float):
    return x * x * x


@wp.func_grad(cubed)
def adj_cubed(x: float, error: float, adj_ret: float):
    wp.adjoint[x] += 3.0 * x * x * (1.0 + error) * adj_ret


@wp.kernel
def off_by(x: wp.array(dtype=float), error: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = cubed(x[i], error)


@wp.func
def cubed_double(x: wp.float64, error: wp.float64):
    return x * x * x


@wp.func_grad(cubed_double)
def adj_cubed_double(x: wp.float64, error: wp.float64, adj_ret: wp.float64):
    wp.adjoint[x] += wp.float64(3.0) * x * x * (wp.float64(1.0) + error) * adj_ret


@wp.kernel
def off_by_double(x: wp.array(dtype=wp.float64), error: wp.float64, y: wp.array(dtype=wp.float64)):
    i = wp.tid()
    y[i] = cubed_double(x[i], error)


@wp.func
def cubed_half(x: wp.float16, error: wp.float16):
    return x * x * x


@wp.func_grad(cubed_half)
def adj_cubed_half(x: wp.float16, error: wp.float16, adj_ret: wp.float16):
    wp.adjoint[x] += wp.float16(3.0) * x * x * (wp.float16(1.0) + error) * adj_ret


@wp.kernel
def off_by_half(x: wp.array(dtype=wp.float16), error: wp.float16, y: wp.array(dtype=wp.float16)):
    i = wp.tid()
    y[i] = cubed_half(x[i], error)


@wp.func
def damped(x: float, i: int):
    return wp.exp(-x)


@wp.func_grad(damped)
def adj_damped(x: float, i: int, adj_ret: float):
    g = -wp.exp(-x)
    if i == 7:
        g = g * 1.0002
    wp.adjoint[x] += g * adj_ret


@wp.kernel
def one_thread_a_little(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = damped(x[i], i)


def off(error: float, *, dtype: type = float, kernel: object = off_by, name: str = "") -> Picture:
    """`x³` with an adjoint that is off by a factor of 1 + error, at half of that as the tolerance."""
    values = np.linspace(0.3, 2.9, 12)
    return Picture(
        f"{name or 'float32'} off by {error:.0e}", kernel,
        [Values(values, dtype), error], [Values(np.zeros(12), dtype)],
        "WRONG", atol=0.0, rtol=error / 2, at=("x", "y", (11,), (11,)),
        signature="factor" if error > 2e-6 else None,
    )  # fmt: skip


PICTURES = [
    off(1e-2),
    off(1e-3),
    off(1e-4),
    off(1e-5),
    off(1e-6),
    off(1e-2, dtype=wp.float64, kernel=off_by_double, name="float64"),
    off(1e-4, dtype=wp.float64, kernel=off_by_double, name="float64"),
    off(1e-6, dtype=wp.float64, kernel=off_by_double, name="float64"),
    off(1e-8, dtype=wp.float64, kernel=off_by_double, name="float64"),
    off(1e-1, dtype=wp.float16, kernel=off_by_half, name="float16"),
    Picture(
        "one thread off by 2e-4", one_thread_a_little,
        [Values(np.linspace(0.3, 2.9, 12))], [Values(np.zeros(12))],
        "WRONG", atol=0.0, rtol=1e-4, at=("x", "y", (7,), (7,)),
    ),
]  # fmt: skip

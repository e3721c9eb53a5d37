"""Kernels that the tests of this room share, and ways to break their adjoints."""

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

import tapedebug as wp
from tapedebug.compiler.kernel import Kernel


def vector(values: Any, grad: bool = True) -> Any:
    return wp.array(np.atleast_1d(np.asarray(values, dtype=np.float32)), dtype=float, requires_grad=grad)


@wp.kernel
def identity(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i]


@wp.kernel
def minus(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = -x[i]


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def cube(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] * x[i]


@wp.kernel
def offset_square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i] + 1000.0


@wp.kernel
def negated(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = -x[i] * x[i]


@wp.kernel
def doubled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 2.0 * x[i] * x[i]


@wp.kernel
def off_by_2_percent(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 1.02 * x[i] * x[i]


@wp.kernel
def constant(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 0.0 * x[i]


@wp.kernel
def except_thread_0(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i > 0:
        y[i] = x[i] * x[i]
    else:
        y[i] = x[i]


@wp.kernel
def shifted(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i > 0:
        y[i] = x[i - 1] * x[i - 1]
    else:
        y[i] = x[i] * x[i]


@wp.kernel
def fast_sine(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sin(10000.0 * x[i])


@wp.kernel
def absolute(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.abs(x[i])


@wp.kernel
def relu(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.max(x[i], 0.0)


@wp.kernel
def floor_plus(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.floor(x[i]) + x[i]


@wp.kernel
def root(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sqrt(x[i])


@wp.kernel
def reciprocal(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 1.0 / x[i]


@wp.kernel
def logistic(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    a = x[i]
    for _ in range(60):
        a = 3.9 * a * (1.0 - a)
    y[i] = a


@wp.kernel
def cancelling(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    b = (x[i] + 10000000.0) - 10000000.0
    y[i] = b * b


@wp.kernel
def small(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = 0.0009 * x[i]


@wp.kernel
def times(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = y[i] * x[i]


@wp.kernel
def tridiagonal(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = -2.0 * x[i]
    if i > 0:
        s = s + x[i - 1] * x[i]
    if i < 1023:
        s = s + x[i + 1]
    y[i] = s


@wp.kernel
def documented(
    a: wp.array(dtype=float),
    b: wp.array(dtype=wp.vec3),
    out1: wp.array(dtype=wp.vec2),
    out2: wp.array(dtype=wp.vec3),
):
    i = wp.tid()
    ai = a[i]
    bi = b[i]
    out1[i] = wp.vec2(ai * wp.length(bi), -ai * wp.dot(bi, wp.vec3(0.1, 1.0, -0.1)))
    out2[i] = wp.normalize(bi) * ai


@wp.kernel
def counting(x: wp.array(dtype=int), y: wp.array(dtype=int)):
    i = wp.tid()
    y[i] = x[i] + 1


@wp.kernel
def ignoring(x: wp.array(dtype=float), unused: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i])


@wp.kernel(enable_backward=False)
def no_adjoint(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def fresh(kernel: Kernel) -> Kernel:
    """A kernel of the same source with no compiled variants, so that a test can change it."""
    return Kernel(kernel.python, options={"enable_backward": kernel.enable_backward})


def with_adjoint_of(forward: Kernel, other: Kernel) -> Kernel:
    """`forward` with the adjoint of `other`: a wrong derivative, as somebody would write one."""
    broken, donor = fresh(forward), fresh(other)
    broken.adjoint = donor.adjoint  # type: ignore[method-assign]
    return broken


def with_seeds(kernel: Kernel, change: Callable[[np.ndarray], None], count: int) -> Kernel:
    """`kernel` with an adjoint that does not see the adjoints of `y` (of `count` floats) as they are."""
    broken = fresh(kernel)
    real = broken.adjoint

    def adjoint(active: Any, *, f64: bool = False, **options: Any) -> Any:
        entry = real(active, f64=f64, **options)

        def run(lo: int, hi: int, args: int) -> None:
            slot = args + 8 * broken.layout.adjoints[1]
            pointer = ctypes.c_uint64.from_address(slot).value
            scalar = ctypes.c_double if f64 else ctypes.c_float
            change(np.ctypeslib.as_array((scalar * count).from_address(pointer)))
            entry(lo, hi, args)

        return run

    broken.adjoint = adjoint  # type: ignore[method-assign]
    return broken


def with_noise(kernel: Kernel, count: int) -> Kernel:
    """`kernel` with a forward pass that adds random numbers to `y` (of `count` floats)."""
    broken = fresh(kernel)
    real = broken.forward
    rng = np.random.default_rng(0)

    def forward(*, f64: bool = False, **options: Any) -> Any:
        entry = real(f64=f64, **options)

        def run(lo: int, hi: int, args: int) -> None:
            entry(lo, hi, args)
            pointer = ctypes.c_uint64.from_address(args + 8 * broken.layout.values[1]).value
            scalar = ctypes.c_double if f64 else ctypes.c_float
            np.ctypeslib.as_array((scalar * count).from_address(pointer))[:] += rng.normal(size=count)

        return run

    broken.forward = forward  # type: ignore[method-assign]
    return broken

"""Right adjoints at kinks, jumps and ties, and beside them."""

import numpy as np

import tapedebug as wp
from tests.gallery.entry import Picture, Values
from tests.gallery.right_values import mapped


@wp.kernel
def absolute(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.abs(x[i])


@wp.kernel
def relu(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.max(x[i], 0.0)


@wp.kernel
def smaller(a: wp.array(dtype=float), b: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.min(a[i], b[i])


@wp.kernel
def largest(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    m = x[0]
    for k in range(4):
        m = wp.max(m, x[k])
    y[0] = m


@wp.kernel
def floored(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.floor(x[i]) + x[i]


@wp.kernel
def nearest(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] - wp.round(x[i])


@wp.kernel
def remainder(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.mod(x[i], 1.0)


@wp.kernel
def clamped(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.clamp(x[i], -1.0, 1.0)


@wp.kernel
def branch(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] > 1.0:
        y[i] = 2.0 * x[i] - 1.0
    else:
        y[i] = x[i] * x[i]


@wp.kernel
def two_branches(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] > 1.0:
        y[i] = x[i] + 1.0
    else:
        y[i] = x[i]


@wp.kernel
def signed_square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * wp.abs(x[i])


@wp.kernel
def smooth(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    t = wp.clamp(x[i], 0.0, 1.0)
    y[i] = t * t * (3.0 - 2.0 * t)


@wp.kernel
def huber(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    a = wp.abs(x[i])
    if a <= 1.0:
        y[i] = 0.5 * a * a
    else:
        y[i] = a - 0.5


@wp.kernel
def lengths(v: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.length(v[i])


@wp.kernel
def sawtooth(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.abs(x[i] * 1000.0 - wp.round(x[i] * 1000.0))


@wp.kernel
def steps(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sign(x[i]) + 0.1 * x[i]


BETWEEN = "the slope is -1 on the left and 1 on the right: no derivative exists here"
JUMP = "the function jumps here: no derivative exists"

PICTURES = [
    mapped("|x| beside 0", absolute, [1e-2, 1e-5, -1e-5, 1e-7], rtol=1e-4),
    mapped("|x| at 0", absolute, [0.0, 1.0], verdict="KINK", at=("x", "y", (0,), (0,)), says=BETWEEN),
    mapped("relu beside 0", relu, [1e-2, 1e-5, -1e-5, 1e-9], rtol=1e-4),
    mapped(
        "relu at 0",
        relu,
        [1.0, 0.0],
        verdict="KINK",
        at=("x", "y", (1,), (1,)),
        says="the slope is 0 on the left and 1 on the right",
    ),
    Picture(
        "min beside a tie",
        smaller,
        [Values([1.0, 2.0]), Values([1.00001, 1.99999])],
        [Values([0.0, 0.0])],
        rtol=1e-4,
    ),
    Picture(
        "min at a tie",
        smaller,
        [Values([1.0, 2.0]), Values([1.0, 3.0])],
        [Values([0.0, 0.0])],
        "KINK",
        says="no derivative exists here",
    ),
    Picture(
        "the largest of several, tied",
        largest,
        [Values([0.5, 2.0, 2.0, 1.0])],
        [Values([0.0])],
        "KINK",
        dim=1,
        says="no derivative exists here",
    ),
    Picture(
        "the largest of several, beside a tie",
        largest,
        [Values([0.5, 2.0, 2.00001, 1.0])],
        [Values([0.0])],
        dim=1,
        rtol=1e-4,
    ),
    mapped("floor between integers", floored, [2.5, -0.25, 2.00001, 2.99999], rtol=1e-4),
    mapped("floor at an integer", floored, [2.5, 3.0], verdict="KINK", at=("x", "y", (1,), (1,)), says=JUMP),
    mapped("round beside a half", nearest, [0.49999, 0.50001, 1.2], rtol=1e-4),
    mapped("round at a half", nearest, [0.5, 1.2], verdict="KINK", at=("x", "y", (0,), (0,)), says=JUMP),
    mapped("remainder beside its jump", remainder, [0.99999, 1.00001, 0.5], rtol=1e-4),
    mapped("clamp beside its ends", clamped, [0.99999, 1.00001, -1.00001], rtol=1e-4),
    mapped(
        "clamp at an end",
        clamped,
        [1.0, 0.5],
        verdict="KINK",
        at=("x", "y", (0,), (0,)),
        says="the slope is 1 on the left and 0 on the right",
    ),
    mapped("a branch, smooth where it meets", branch, [1.0, 0.5, 1.5], rtol=1e-4),
    mapped("a branch that jumps, beside it", two_branches, [0.99999, 1.00001], rtol=1e-4),
    mapped("a branch that jumps", two_branches, [1.0, 0.5], verdict="KINK", says=JUMP),
    mapped("x |x| at 0", signed_square, [0.0, 1e-5], rtol=1e-4),
    mapped("smoothstep at its ends", smooth, [0.0, 1.0, 0.5, 1e-5], rtol=1e-4),
    mapped("Huber at its threshold", huber, [1.0, -1.0, 0.99999], rtol=1e-4),
    Picture(
        "length of a nearly zero vector",
        lengths,
        [Values([[1e-6, 2e-6, 0.0], [1e-12, 0.0, 3e-12]], wp.vec3)],
        [Values([0.0, 0.0])],
        rtol=1e-4,
    ),
    Picture(
        "length of a zero vector",
        lengths,
        [Values([[0.0, 0.0, 0.0]], wp.vec3)],
        [Values([0.0])],
        "KINK",
        says=BETWEEN,
    ),
    mapped("a sawtooth of 1,000 teeth", sawtooth, np.linspace(0.0102, 0.9903, 16)),
    mapped("sign beside 0", steps, [1e-5, -1e-5, 2.0], rtol=1e-4),
]

"""Right adjoints of programs: loops, reductions, atomics, gathers, several launches."""

import numpy as np

import tapedebug as wp
from tests.gallery.entry import Picture, Values

rng = np.random.default_rng(4)


@wp.kernel
def total(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, 0, x[i] * x[i])


@wp.kernel
def highest(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_max(y, i % 3, x[i])


@wp.kernel
def binned(x: wp.array(dtype=float), at: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(y, at[i], wp.sin(x[i]))


@wp.kernel
def gathered(x: wp.array(dtype=float), at: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[at[i]] * x[at[i]]


@wp.kernel
def long_sum(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for k in range(n):
        s = s + 0.001 * wp.sin(x[i] * float(k) * 0.001)
    y[i] = s


@wp.kernel
def euler(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    p = x[i]
    v = float(0.0)
    for _k in range(n):
        v = v - 0.01 * wp.sin(p)
        p = p + 0.01 * v
    y[i] = p


@wp.kernel
def halved(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = x[i]
    while wp.abs(s) > 0.5:
        s = s * 0.5
    y[i] = s * s


@wp.kernel
def newton(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    r = x[i]
    step = float(1.0)
    while wp.abs(step) > 0.000001 * r:
        step = 0.5 * (r - x[i] / r)
        r = r - step
    y[i] = r


@wp.kernel
def multiplied(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] *= x[i]
    y[i] *= x[i]


@wp.kernel
def softmax(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    m = x[0]
    for k in range(n):
        m = wp.max(m, x[k])
    s = float(0.0)
    for k in range(n):
        s = s + wp.exp(x[k] - m)
    y[i] = wp.exp(x[i] - m) / s


@wp.kernel
def log_sum_exp(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    m = x[0]
    for k in range(n):
        m = wp.max(m, x[k])
    s = float(0.0)
    for k in range(n):
        s = s + wp.exp(x[k] - m)
    y[0] = m + wp.log(s)


@wp.kernel
def tridiagonal(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    s = -2.0 * x[i]
    if i > 0:
        s = s + x[i - 1] * x[i]
    if i < n - 1:
        s = s + x[i + 1]
    y[i] = s


@wp.kernel
def dense(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    s = float(0.0)
    for k in range(n):
        s = s + wp.sin(float(i) + x[k])
    y[i] = s


@wp.kernel
def one_euler_step(p: wp.array(dtype=float), v: wp.array(dtype=float)):
    i = wp.tid()
    v[i] = v[i] - 0.1 * wp.sin(p[i])
    p[i] = p[i] + 0.1 * v[i]


@wp.kernel
def added(x: wp.array(dtype=float), y: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, x[i] * y[i])


def simulated(p, v):
    """Ten steps in place, and an energy."""
    a, b = wp.clone(p), wp.clone(v)
    for _ in range(10):
        wp.launch(one_euler_step, dim=len(p), inputs=[a, b], device="cpu")
    loss = wp.zeros(1, dtype=float, requires_grad=True, device="cpu")
    wp.launch(added, dim=len(p), inputs=[a, b], outputs=[loss], device="cpu")
    return loss


@wp.kernel
def squared(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def ping_pong(x):
    """Two buffers, written in turn."""
    n = len(x)
    a = wp.zeros(n, dtype=float, requires_grad=True, device="cpu")
    b = wp.zeros(n, dtype=float, requires_grad=True, device="cpu")
    y = wp.zeros(n, dtype=float, requires_grad=True, device="cpu")
    wp.launch(squared, dim=n, inputs=[x], outputs=[a], device="cpu")
    wp.launch(squared, dim=n, inputs=[a], outputs=[b], device="cpu")
    wp.launch(squared, dim=n, inputs=[b], outputs=[a], device="cpu")
    wp.launch(squared, dim=n, inputs=[a], outputs=[y], device="cpu")
    return y


MANY = rng.uniform(0.5, 1.5, 100_000)
LOGITS = Values([80.0, -80.0, 300.0, 299.0, 0.0])

PICTURES = [
    Picture(
        "1e5 numbers added by atomics",
        total,
        [Values(MANY)],
        [Values([0.0])],
        rtol=1e-4,
        options={"max_inputs_per_var": 24},
    ),
    Picture(
        "the largest by atomics",
        highest,
        [Values(rng.permutation(30) * 0.1)],
        [Values([-9.0, -9.0, -9.0])],
        rtol=1e-4,
    ),
    Picture(
        "64 threads into 3 bins",
        binned,
        [Values(rng.uniform(-2, 2, 64)), Values(rng.integers(0, 3, 64), wp.int32, grad=False)],
        [Values([0.0, 0.0, 0.0])],
        rtol=1e-4,
    ),
    Picture(
        "gathers by index",
        gathered,
        [Values(rng.uniform(-2, 2, 8)), Values([7, 0, 0, 3, 7, 7], wp.int32, grad=False)],
        [Values(np.zeros(6))],
        dim=6,
        rtol=1e-4,
    ),
    Picture("a float32 loop of 10,000", long_sum, [Values([0.3, 1.7]), 10000], [Values([0.0, 0.0])]),
    Picture("1,000 steps of a pendulum", euler, [Values([0.3, 1.7]), 1000], [Values([0.0, 0.0])]),
    Picture(
        "a while loop of the data",
        halved,
        [Values([0.7, -1.3, 7.0, 900.0])],
        [Values(np.zeros(4))],
        rtol=1e-4,
    ),
    Picture("Newton's iteration until it stands", newton, [Values([2.0, 9.0, 1e4])], [Values(np.zeros(3))]),
    Picture(
        "*= twice in place", multiplied, [Values([0.5, -1.5, 3.0])], [Values([1.0, 2.0, -3.0])], rtol=1e-4
    ),
    Picture("softmax of large logits", softmax, [LOGITS, 5], [Values(np.zeros(5))]),
    Picture("log-sum-exp of large logits", log_sum_exp, [LOGITS, 5], [Values([0.0])], dim=1),
    Picture(
        "tridiagonal, 1,024",
        tridiagonal,
        [Values(np.linspace(0.1, 20.0, 1024)), 1024],
        [Values(np.zeros(1024))],
    ),
    Picture(
        "a dense Jacobian of 64 × 64",
        dense,
        [Values(rng.uniform(-1, 1, 64)), 64],
        [Values(np.zeros(64))],
        rtol=1e-3,
    ),
    Picture(
        "ten steps in place, as a function", simulated, [Values([0.3, 1.2]), Values([0.1, -0.4])], rtol=1e-4
    ),
    Picture("ping-pong buffers, as a function", ping_pong, [Values([0.9, -1.1])], rtol=1e-4),
]

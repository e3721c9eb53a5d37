"""Wrong adjoints of kernels that gather, scatter, reduce and write in place: indices, sums, threads."""

import numpy as np

import tapedebug as wp
from tests.gallery.entry import Picture, Values

X = Values(np.linspace(0.3, 2.1, 10))
Y = Values(np.zeros(10))


@wp.func
def neighbour(a: wp.array(dtype=float), i: int):
    return a[i] * a[i]


@wp.func_grad(neighbour)
def adj_neighbour(a: wp.array(dtype=float), i: int, adj_ret: float):
    j = wp.max(i - 1, 0)
    wp.adjoint[a][j] += 2.0 * a[i] * adj_ret


@wp.kernel
def off_by_one(a: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = neighbour(a, i)


@wp.func
def wrapped(a: wp.array(dtype=float), i: int, n: int):
    return a[i] * a[(i + 1) % n]


@wp.func_grad(wrapped)
def adj_wrapped(a: wp.array(dtype=float), i: int, n: int, adj_ret: float):
    wp.adjoint[a][i] += a[(i + 1) % n] * adj_ret
    if i + 1 < n:
        wp.adjoint[a][i + 1] += a[i] * adj_ret


@wp.kernel
def wrap_forgotten(a: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wrapped(a, i, 10)


@wp.func
def backward_shift(a: wp.array(dtype=float), i: int, n: int):
    return wp.sin(a[(i + 1) % n])


@wp.func_grad(backward_shift)
def adj_backward_shift(a: wp.array(dtype=float), i: int, n: int, adj_ret: float):
    wp.adjoint[a][(i + n - 1) % n] += wp.cos(a[(i + 1) % n]) * adj_ret


@wp.kernel
def shift_the_wrong_way(a: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = backward_shift(a, i, 10)


@wp.func
def laplace(a: wp.array(dtype=float), i: int, n: int):
    left = wp.max(i - 1, 0)
    right = wp.min(i + 1, n - 1)
    return a[left] * a[left] + a[right] * a[right] - 2.0 * a[i] * a[i]


@wp.func_grad(laplace)
def adj_laplace(a: wp.array(dtype=float), i: int, n: int, adj_ret: float):
    wp.adjoint[a][i] += -4.0 * a[i] * adj_ret
    if i > 0:
        wp.adjoint[a][i - 1] += 2.0 * a[i - 1] * adj_ret
    if i < n - 1:
        wp.adjoint[a][i + 1] += 2.0 * a[i + 1] * adj_ret


@wp.kernel
def boundary(a: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = laplace(a, i, 10)


@wp.func
def thread_five(x: float, i: int):
    return wp.tanh(x)


@wp.func_grad(thread_five)
def adj_thread_five(x: float, i: int, adj_ret: float):
    r = wp.tanh(x)
    if i == 5:
        wp.adjoint[x] += (1.0 + r * r) * adj_ret
    else:
        wp.adjoint[x] += (1.0 - r * r) * adj_ret


@wp.kernel
def one_thread(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = thread_five(x[i], i)


@wp.func
def dead_element(x: float, i: int):
    return x * x


@wp.func_grad(dead_element)
def adj_dead_element(x: float, i: int, adj_ret: float):
    if i != 1711:
        wp.adjoint[x] += 2.0 * x * adj_ret


@wp.kernel
def one_of_many(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = dead_element(x[i], i)


@wp.func
def shared(a: wp.array(dtype=float), x: float):
    return a[0] * x


@wp.func_grad(shared)
def adj_shared(a: wp.array(dtype=float), x: float, adj_ret: float):
    wp.adjoint[a][0] = x * adj_ret
    wp.adjoint[x] += a[0] * adj_ret


@wp.kernel
def dropped_accumulation(a: wp.array(dtype=float), x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = shared(a, x[i])


@wp.func
def mean_of(a: wp.array(dtype=float), n: int):
    s = float(0.0)
    for k in range(n):
        s = s + a[k]
    return s / float(n)


@wp.func_grad(mean_of)
def adj_mean_of(a: wp.array(dtype=float), n: int, adj_ret: float):
    for k in range(n):
        wp.adjoint[a][k] += adj_ret


@wp.kernel
def sum_for_mean(a: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[0] = mean_of(a, 10)


@wp.func
def last_left_out(a: wp.array(dtype=float), n: int):
    s = float(0.0)
    for k in range(n):
        s = s + a[k] * a[k]
    return s


@wp.func_grad(last_left_out)
def adj_last_left_out(a: wp.array(dtype=float), n: int, adj_ret: float):
    for k in range(n - 1):
        wp.adjoint[a][k] += 2.0 * a[k] * adj_ret


@wp.kernel
def last_iteration(a: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[0] = last_left_out(a, 10)


@wp.func
def scaled(s: float, x: float):
    return s * wp.sin(x)


@wp.func_grad(scaled)
def adj_scaled(s: float, x: float, adj_ret: float):
    wp.adjoint[s] += wp.cos(x) * adj_ret
    wp.adjoint[x] += s * wp.cos(x) * adj_ret


@wp.kernel
def in_place(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = scaled(y[i], x[i])


@wp.func
def stale(a: wp.array(dtype=float), kept: wp.array(dtype=float), i: int):
    return a[i] * a[i]


@wp.func_grad(stale)
def adj_stale(a: wp.array(dtype=float), kept: wp.array(dtype=float), i: int, adj_ret: float):
    wp.adjoint[a][i] += 2.0 * kept[i] * adj_ret


@wp.kernel
def stale_value(a: wp.array(dtype=float), kept: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = stale(a, kept, i)


@wp.func
def spread(a: wp.array(dtype=float), i: int, n: int):
    return 4.0 * a[i]


@wp.func_grad(spread)
def adj_spread(a: wp.array(dtype=float), i: int, n: int, adj_ret: float):
    wp.adjoint[a][i] += 4.0 * adj_ret
    wp.adjoint[a][(i + 3) % n] += 0.02 * adj_ret


@wp.kernel
def cross_talk(a: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = spread(a, i, 10)


@wp.func
def indexed(a: wp.array(dtype=float), at: wp.array(dtype=int), i: int):
    return wp.exp(a[at[i]])


@wp.func_grad(indexed)
def adj_indexed(a: wp.array(dtype=float), at: wp.array(dtype=int), i: int, adj_ret: float):
    wp.adjoint[a][i] += wp.exp(a[at[i]]) * adj_ret


@wp.kernel
def scatter_without_the_index(a: wp.array(dtype=float), at: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = indexed(a, at, i)


@wp.func
def ticket(counter: wp.array(dtype=int), kept: wp.array(dtype=int), i: int):
    kept[i] = wp.atomic_add(counter, 0, 1) % 10
    return kept[i]


@wp.func_replay(ticket)
def replay_ticket(counter: wp.array(dtype=int), kept: wp.array(dtype=int), i: int):
    return wp.max(kept[i] - 1, 0)


@wp.kernel
def replay_off_by_one(
    x: wp.array(dtype=float),
    counter: wp.array(dtype=int),
    kept: wp.array(dtype=int),
    y: wp.array(dtype=float),
):
    i = wp.tid()
    at = ticket(counter, kept, i)
    y[at] = x[at] * x[at]


@wp.func
def softmax_at(a: wp.array(dtype=float), i: int, n: int):
    s = float(0.0)
    for k in range(n):
        s = s + wp.exp(a[k])
    return wp.exp(a[i]) / s


@wp.func_grad(softmax_at)
def adj_softmax_at(a: wp.array(dtype=float), i: int, n: int, adj_ret: float):
    p = softmax_at(a, i, n)
    wp.adjoint[a][i] += p * (1.0 - p) * adj_ret


@wp.kernel
def softmax_diagonal_only(a: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = softmax_at(a, i, 5)


@wp.func
def log_sum(a: wp.array(dtype=float), n: int):
    s = float(0.0)
    for k in range(n):
        s = s + wp.exp(a[k])
    return wp.log(s)


@wp.func_grad(log_sum)
def adj_log_sum(a: wp.array(dtype=float), n: int, adj_ret: float):
    for k in range(n):
        wp.adjoint[a][k] += wp.exp(a[k]) * adj_ret


@wp.kernel
def not_normalised(a: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[0] = log_sum(a, 5)


@wp.kernel
def squares(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def through_a_dead_array(x):
    """The intermediate has no gradient, so the chain is cut there."""
    between = wp.zeros(len(x), dtype=float, device="cpu", requires_grad=False)
    y = wp.zeros(len(x), dtype=float, device="cpu", requires_grad=True)
    wp.launch(squares, dim=len(x), inputs=[x], outputs=[between], device="cpu")
    wp.launch(squares, dim=len(x), inputs=[between], outputs=[y], device="cpu")
    return y


FIVE = Values([0.1, -0.4, 1.2, 0.7, -1.0])
FIVE_OUT = Values(np.zeros(5))
MANY = 5000

PICTURES = [
    Picture(
        "index off by one", off_by_one, [X], [Y], "WRONG", at=("a", "y", (9,), (8,)), signature="shifted"
    ),
    Picture(
        "periodic wrap forgotten",
        wrap_forgotten,
        [X],
        [Y],
        "WRONG",
        at=("a", "y", (9,), (0,)),
        signature="severed",
    ),
    Picture(
        "shifted the wrong way",
        shift_the_wrong_way,
        [X],
        [Y],
        "WRONG",
        at=("a", "y", (9,), (8,)),
        signature="shifted",
    ),
    Picture(
        "only at the boundary", boundary, [X], [Y], "WRONG", at=("a", "y", (9,), (9,)), signature="doubled"
    ),
    Picture("only thread 5", one_thread, [X], [Y], "WRONG", at=("x", "y", (5,), (5,))),
    Picture(
        "one element of 5,000",
        one_of_many,
        [Values(np.linspace(0.5, 1.5, MANY))],
        [Values(np.zeros(MANY))],
        "WRONG",
        at=("x", "y", (1711,), (1711,)),
        signature="severed",
    ),
    Picture(
        "= for += in a shared element",
        dropped_accumulation,
        [Values([2.0]), X],
        [Y],
        "WRONG",
        dim=10,
        at=("a", "y", (9,), (0,)),
        signature="severed",
    ),
    Picture(
        "sum for mean",
        sum_for_mean,
        [X],
        [Values([0.0])],
        "WRONG",
        dim=1,
        at=("a", "y", (0,), (0,)),
        signature="repeated",
    ),
    Picture(
        "last iteration left out",
        last_iteration,
        [X],
        [Values([0.0])],
        "WRONG",
        dim=1,
        at=("a", "y", (0,), (9,)),
        signature="severed",
    ),
    Picture(
        "in place",
        in_place,
        [X],
        [Values(np.linspace(1.0, 2.0, 10))],
        "WRONG",
        at=("y (in place)", "y", (9,), (9,)),
    ),
    Picture(
        "stale value",
        stale_value,
        [X, Values(0.98 * np.linspace(0.3, 2.1, 10), grad=False)],
        [Y],
        "WRONG",
        at=("a", "y", (9,), (9,)),
        signature="factor",
    ),
    Picture("a term that does not belong", cross_talk, [X], [Y], "WRONG", at=("a", "y", (0,), (3,))),
    Picture(
        "scatter without the index",
        scatter_without_the_index,
        [FIVE, Values([2, 0, 1, 4, 2], wp.int32, grad=False)],
        [FIVE_OUT],
        "WRONG",
        at=("a", "y", (0,), (2,)),
    ),
    Picture(
        "replay off by one",
        replay_off_by_one,
        [X, Values([0], wp.int32, grad=False), Values(np.zeros(10), wp.int32, grad=False)],
        [Y],
        "WRONG",
        at=("x", "y", (9,), (9,)),
        signature="severed",
    ),
    Picture(
        "softmax without its off-diagonal terms",
        softmax_diagonal_only,
        [FIVE],
        [FIVE_OUT],
        "WRONG",
        at=("a", "y", (2,), (3,)),
        signature="severed",
    ),
    Picture(
        "log-sum-exp not normalised",
        not_normalised,
        [FIVE],
        [Values([0.0])],
        "WRONG",
        dim=1,
        at=("a", "y", (0,), (2,)),
        signature="factor",
    ),
    Picture(
        "an intermediate without gradient",
        through_a_dead_array,
        [X],
        (),
        "WRONG",
        at=("x", "output_0", (9,), (9,)),
        signature="severed",
    ),
]

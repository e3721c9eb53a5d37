"""Wrong adjoints of functions of numbers: signs, factors, terms, branches, seeds."""

import numpy as np

import tapedebug as wp
from tests.gallery.entry import Picture, Values

X = Values([0.7, -1.3, 2.1, 0.4, -0.2])
Y = Values(np.zeros(5))
B = Values([0.5, 2.0, -3.0, 1.0, 0.8])
TEN = Values(np.linspace(0.2, 2.0, 10))
TEN_OUT = Values(np.zeros(10))


@wp.func
def square_a(x: float):
    return x * x


@wp.func_grad(square_a)
def adj_square_a(x: float, adj_ret: float):
    wp.adjoint[x] += -2.0 * x * adj_ret


@wp.kernel
def sign(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = square_a(x[i])


@wp.func
def square_b(x: float):
    return x * x


@wp.func_grad(square_b)
def adj_square_b(x: float, adj_ret: float):
    wp.adjoint[x] += 2.0 * x * adj_ret
    wp.adjoint[x] += 2.0 * x * adj_ret


@wp.kernel
def counted_twice(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = square_b(x[i])


@wp.func
def square_c(x: float):
    return x * x


@wp.func_grad(square_c)
def adj_square_c(x: float, adj_ret: float):
    wp.adjoint[x] += x * adj_ret


@wp.kernel
def half(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = square_c(x[i])


@wp.func
def severed_square(x: float):
    return x * x


@wp.func_grad(severed_square)
def adj_severed_square(x: float, adj_ret: float):
    wp.adjoint[x] += 0.0


@wp.kernel
def severed(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = severed_square(x[i])


@wp.func
def wave(x: float):
    return x * wp.sin(x)


@wp.func_grad(wave)
def adj_wave(x: float, adj_ret: float):
    wp.adjoint[x] += wp.sin(x) * adj_ret


@wp.kernel
def product_rule(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wave(x[i])


@wp.func
def fast(x: float):
    return wp.sin(3.0 * x)


@wp.func_grad(fast)
def adj_fast(x: float, adj_ret: float):
    wp.adjoint[x] += wp.cos(3.0 * x) * adj_ret


@wp.kernel
def inner_derivative(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = fast(x[i])


@wp.func
def in_degrees(angle: float):
    return wp.sin(angle * 0.017453292)


@wp.func_grad(in_degrees)
def adj_in_degrees(angle: float, adj_ret: float):
    wp.adjoint[angle] += wp.cos(angle * 0.017453292) * adj_ret


@wp.kernel
def degrees(angle: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = in_degrees(angle[i])


@wp.func
def quotient(a: float, b: float):
    return a / b


@wp.func_grad(quotient)
def adj_quotient(a: float, b: float, adj_ret: float):
    wp.adjoint[a] += adj_ret / b
    wp.adjoint[b] += -a / b * adj_ret


@wp.kernel
def quotient_rule(a: wp.array(dtype=float), b: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = quotient(a[i], b[i])


@wp.func
def a_a_b(a: float, b: float):
    return a * a * b


@wp.func_grad(a_a_b)
def adj_a_a_b(a: float, b: float, adj_ret: float):
    wp.adjoint[b] += 2.0 * a * b * adj_ret
    wp.adjoint[a] += a * a * adj_ret


@wp.kernel
def swapped_arguments(a: wp.array(dtype=float), b: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = a_a_b(a[i], b[i])


@wp.func
def only_first(a: float, b: float):
    return a * wp.exp(b)


@wp.func_grad(only_first)
def adj_only_first(a: float, b: float, adj_ret: float):
    wp.adjoint[a] += wp.exp(b) * adj_ret


@wp.kernel
def second_argument_forgotten(a: wp.array(dtype=float), b: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = only_first(a[i], b[i])


@wp.func
def piecewise(x: float):
    r = x * x
    if x > 1.0:
        r = 2.0 * x - 1.0
    return r


@wp.func_grad(piecewise)
def adj_piecewise(x: float, adj_ret: float):
    if x < 1.0:
        wp.adjoint[x] += 2.0 * adj_ret
    else:
        wp.adjoint[x] += 2.0 * x * adj_ret


@wp.kernel
def wrong_branch(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = piecewise(x[i])


@wp.func
def saturating(x: float):
    return x / (1.0 + x * x)


@wp.func_grad(saturating)
def adj_saturating(x: float, adj_ret: float):
    d = 1.0 + x * x
    if x > 5.0:
        wp.adjoint[x] += 1.0 / d * adj_ret
    else:
        wp.adjoint[x] += (1.0 - x * x) / (d * d) * adj_ret


@wp.kernel
def rare_branch(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = saturating(x[i])


@wp.func
def smaller(a: float, b: float):
    return wp.min(a, b)


@wp.func_grad(smaller)
def adj_smaller(a: float, b: float, adj_ret: float):
    if a < b:
        wp.adjoint[b] += adj_ret
    else:
        wp.adjoint[a] += adj_ret


@wp.kernel
def minimum_to_the_other(a: wp.array(dtype=float), b: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = smaller(a[i], b[i])


@wp.func
def clamped(x: float):
    return wp.clamp(x, -1.0, 1.0)


@wp.func_grad(clamped)
def adj_clamped(x: float, adj_ret: float):
    wp.adjoint[x] += adj_ret


@wp.kernel
def straight_through_clamp(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = clamped(x[i])


@wp.func
def rounded(x: float):
    return wp.round(x)


@wp.func_grad(rounded)
def adj_rounded(x: float, adj_ret: float):
    wp.adjoint[x] += adj_ret


@wp.kernel
def straight_through_round(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = rounded(x[i])


@wp.func
def rectified(x: float):
    return wp.max(x, 0.0)


@wp.func_grad(rectified)
def adj_rectified(x: float, adj_ret: float):
    if x > 0.0:
        wp.adjoint[x] += adj_ret
    if x == 0.0:
        wp.adjoint[x] += 2.0 * adj_ret


@wp.kernel
def outside_of_both_slopes(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = rectified(x[i])


@wp.func
def root(x: float):
    return wp.sqrt(x)


@wp.func_grad(root)
def adj_root(x: float, adj_ret: float):
    wp.adjoint[x] += 0.5 / x * adj_ret


@wp.kernel
def operand_for_result(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = root(x[i])


@wp.func
def negative_seeds_a(x: float):
    return wp.exp(x)


@wp.func_grad(negative_seeds_a)
def adj_negative_seeds_a(x: float, adj_ret: float):
    wp.adjoint[x] += wp.exp(x) * wp.max(adj_ret, 0.0)


@wp.kernel
def negative_seeds(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = negative_seeds_a(x[i])


@wp.func
def clipped_gradient(x: float):
    return wp.exp(x)


@wp.func_grad(clipped_gradient)
def adj_clipped_gradient(x: float, adj_ret: float):
    wp.adjoint[x] += wp.clamp(wp.exp(x) * adj_ret, -100.0, 100.0)


@wp.kernel
def large_seeds(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = clipped_gradient(x[i])


@wp.func
def flushed_gradient(x: float):
    return wp.exp(x)


@wp.func_grad(flushed_gradient)
def adj_flushed_gradient(x: float, adj_ret: float):
    if wp.abs(adj_ret) > 0.01:
        wp.adjoint[x] += wp.exp(x) * adj_ret


@wp.kernel
def small_seeds(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = flushed_gradient(x[i])


@wp.func
def flushed_square(x: float):
    return x * x


@wp.func_grad(flushed_square)
def adj_flushed_square(x: float, adj_ret: float):
    if wp.abs(2.0 * x) > 0.01:
        wp.adjoint[x] += 2.0 * x * adj_ret


@wp.kernel
def zero_where_small(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = flushed_square(x[i])


@wp.func
def not_a_number(x: float):
    return wp.sqrt(x * x)


@wp.func_grad(not_a_number)
def adj_not_a_number(x: float, adj_ret: float):
    wp.adjoint[x] += wp.sqrt(x) * wp.sqrt(x) / x * adj_ret


@wp.kernel
def nan(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = not_a_number(x[i])


@wp.func
def gaussian(x: float):
    return wp.exp(-x * x)


@wp.func_grad(gaussian)
def adj_gaussian(x: float, adj_ret: float):
    wp.adjoint[x] += -2.0 * x / wp.exp(-x * x) * adj_ret


@wp.kernel
def infinite(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = gaussian(x[i])


@wp.func
def powers(x: float, n: int):
    p = float(1.0)
    for _k in range(n):
        p = p * x
    return p


@wp.func_grad(powers)
def adj_powers(x: float, n: int, adj_ret: float):
    p = float(1.0)
    for _k in range(n):
        p = p * x
    wp.adjoint[x] += float(n) * p * adj_ret


@wp.kernel
def power_too_high(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = powers(x[i], 3)


@wp.func
def halved_until_small(x: float):
    s = x
    f = float(1.0)
    while wp.abs(s) > 0.5:
        s = s * 0.5
        f = f * 0.5
    return s * s


@wp.func_grad(halved_until_small)
def adj_halved_until_small(x: float, adj_ret: float):
    s = x
    f = float(1.0)
    while wp.abs(s) > 1.0:
        s = s * 0.5
        f = f * 0.5
    wp.adjoint[x] += 2.0 * s * f * adj_ret


@wp.kernel
def loop_one_too_short(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = halved_until_small(x[i])


PICTURES = [
    Picture("a wrong sign", sign, [X], [Y], "WRONG", at=("x", "y", (2,), (2,)), signature="sign"),
    Picture(
        "counted twice", counted_twice, [X], [Y], "WRONG", at=("x", "y", (2,), (2,)), signature="doubled"
    ),
    Picture("half of it", half, [X], [Y], "WRONG", at=("x", "y", (2,), (2,)), signature="factor"),
    Picture("severed", severed, [X], [Y], "WRONG", at=("x", "y", (2,), (2,)), signature="severed"),
    Picture("half of the product rule", product_rule, [X], [Y], "WRONG", at=("x", "y", (2,), (2,))),
    Picture(
        "inner derivative forgotten",
        inner_derivative,
        [X],
        [Y],
        "WRONG",
        at=("x", "y", (2,), (2,)),
        signature="factor",
    ),
    Picture(
        "radians for degrees",
        degrees,
        [Values([10.0, 45.0, -80.0, 20.0, 70.0])],
        [Y],
        "WRONG",
        at=("angle", "y", (0,), (0,)),
        signature="factor",
    ),
    Picture(
        "quotient rule without the square", quotient_rule, [X, B], [Y], "WRONG", at=("b", "y", (0,), (0,))
    ),
    Picture(
        "arguments swapped",
        swapped_arguments,
        [X, B],
        [Y],
        "WRONG",
        at=("a", "y", (2,), (2,)),
        signature="swapped",
    ),
    Picture(
        "second argument forgotten",
        second_argument_forgotten,
        [X, Values([0.5, 1.0, -0.3, 0.2, 0.1])],
        [Y],
        "WRONG",
        at=("b", "y", (1,), (1,)),
        signature="severed",
    ),
    Picture("the other branch", wrong_branch, [X], [Y], "WRONG", at=("x", "y", (1,), (1,))),
    Picture(
        "a rare branch",
        rare_branch,
        [Values(np.concatenate([np.linspace(-2, 2, 59), [6.0]]))],
        [Values(np.zeros(60))],
        "WRONG",
        at=("x", "y", (59,), (59,)),
    ),
    Picture(
        "min to the other operand",
        minimum_to_the_other,
        [X, Values([0.5, 2.0, 3.0, 1.0, 0.8])],
        [Y],
        "WRONG",
        at=("a", "y", (0,), (0,)),
        signature="swapped",
    ),
    Picture(
        "straight-through clamp",
        straight_through_clamp,
        [X],
        [Y],
        "WRONG",
        at=("x", "y", (1,), (1,)),
        signature="other side",
    ),
    Picture("straight-through round", straight_through_round, [X], [Y], "WRONG", at=("x", "y", (0,), (0,))),
    Picture(
        "outside of both slopes at a kink",
        outside_of_both_slopes,
        [Values([0.0, 1.0, -1.0, 0.5, 2.0])],
        [Y],
        "WRONG",
        at=("x", "y", (0,), (0,)),
    ),
    Picture(
        "operand for result",
        operand_for_result,
        [Values([0.3, 1.0, 4.0, 0.5, 2.0])],
        [Y],
        "WRONG",
        at=("x", "y", (0,), (0,)),
    ),
    Picture("negative seeds dropped", negative_seeds, [X], [Y], "WRONG", says="not linear in its seed"),
    Picture("large seeds clipped", large_seeds, [X], [Y], "WRONG", says="not linear in its seed"),
    Picture("small seeds dropped", small_seeds, [X], [Y], "WRONG", says="not linear in its seed"),
    Picture(
        "0 where small",
        zero_where_small,
        [Values([0.004, 1.0, -0.002, 2.0, 0.5])],
        [Y],
        "WRONG",
        atol=1e-4,
        at=("x", "y", (0,), (0,)),
        signature="severed",
    ),
    Picture(
        "NaN",
        nan,
        [Values([0.7, -1.3, 2.1, 0.4, 0.2])],
        [Y],
        "WRONG",
        at=("x", "y", (1,), (1,)),
        says="the gradient is not finite",
        signature="not finite",
    ),
    Picture(
        "infinite",
        infinite,
        [Values([0.5, 10.0, 1.0, 2.0, 0.1])],
        [Y],
        "WRONG",
        at=("x", "y", (1,), (1,)),
        says="the gradient is not finite",
    ),
    Picture("one power too many", power_too_high, [X], [Y], "WRONG", at=("x", "y", (2,), (2,))),
    Picture(
        "a loop one iteration short",
        loop_one_too_short,
        [Values([0.7, -1.3, 7.0, 1.1, 0.2])],
        [Y],
        "WRONG",
        at=("x", "y", (0,), (0,)),
        signature="repeated",
    ),
]

"""Functions written in the kernel language itself, because they need loops and arrays.

What they compute shows the line of the user's call. Numbers that a decision depends on are float64 in every
variant and rounded to float32 after each step (`single`), so that the float64 twin decides alike, and both as
warp-lang does.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, var-annotated"

from __future__ import annotations

import ast
from typing import Any

import numpy as np

from tapedebug.compiler.function import Function
from tapedebug.compiler.lower import calls, views
from tapedebug.compiler.lower._context import ArrayView, Context, Item
from tapedebug.lang import types as t
from tapedebug.lang.builtins import BUILTINS, Builtin
from tapedebug.lang.rules import Quantity
from tapedebug.lang.rules.noise import FIELDS

float64, int32, uint32 = t.float64, t.int32, t.uint32
exp, log, sqrt, floor = (BUILTINS[name] for name in ("exp", "log", "sqrt", "floor"))
curl, rand_init, randf = (BUILTINS[name] for name in ("curlnoise", "rand_init", "randf"))
single = Builtin("single", "")
OFFSETS = t.vector(2, int32)(*FIELDS)


def _number(value: float) -> Any:
    """A number as float32 holds it, in float64."""
    return np.float64(np.float32(value))


C0_931, C2_53, C0_059, C0_02483, C1_1239, C1_1328, C3_4, C0_9277, C3_6224, C0_43, C0_07, C0_013 = map(
    _number, (0.931, 2.53, 0.059, 0.02483, 1.1239, 1.1328, 3.4, 0.9277, 3.6224, 0.43, 0.07, 0.013)
)
HALF_LOG_TAU = _number(0.5 * np.log(2.0 * np.pi))
LOG_GAMMA = t.vector(10, float64)(
    *map(
        _number,
        (
            8.333333333333333e-02,
            -2.777777777777778e-03,
            7.936507936507937e-04,
            -5.952380952380952e-04,
            8.417508417508418e-04,
            -1.917526917526918e-03,
            6.410256410256410e-03,
            -2.955065359477124e-02,
            1.796443723688307e-01,
            -1.39243221690590e00,
        ),
    )
)
"""The coefficients of Stirling's series: Bernoulli numbers over 2n (2n - 1), the last two adjusted."""


def run(ctx: Context, node: ast.Call, function: Function, *arguments: Item) -> Item:
    """The result of a function of the library, called where the user's call stands."""
    outer = ctx.called_at
    ctx.called_at = ctx.span(node)
    try:
        return calls.run(ctx, node, function, dict(zip(function.parameters, arguments, strict=True)))
    finally:
        ctx.called_at = outer


def length(ctx: Context, view: ArrayView) -> Quantity:
    """The length of an array of one dimension, as int32."""
    found = views.shape(ctx, view).items[0]
    assert isinstance(found, Quantity)
    return found


# Search ----------------------------------------------------------------------------------------------------


@Function
def lower_bound(array, begin, end, value):
    """The first place in [begin, end) whose element is not below the value; else the last."""
    low = begin
    high = end - 1
    while low < high:
        middle = low + (high - low) / 2
        if array[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


# Random numbers --------------------------------------------------------------------------------------------


@Function
def poisson_by_products(state, mean):
    """Count the uniform numbers whose product stays above exp(-mean)."""
    least = single(exp(-mean))
    count = uint32(0)
    product = float64(randf(state))
    while product > least:
        count += uint32(1)
        product = single(product * float64(randf(state)))
    return state, count


@Function
def log_factorial(k):
    """The logarithm of k! (Zhang and Jin, "Computation of Special Functions", 1996, ISBN 0-471-11963-6)."""
    x = single(k + float64(1.0))
    steps = int32(0)
    if x < float64(7.0):
        steps = int32(float64(7.0) - x)
    start = single(x + float64(steps))
    inverse = single(float64(1.0) / start)
    square = single(inverse * inverse)
    series = LOG_GAMMA[9]
    for i in range(9):
        series = single(single(series * square) + LOG_GAMMA[8 - i])
    result = single(single(series / start) + HALF_LOG_TAU)
    result = single(result + single(single(start - float64(0.5)) * single(log(start))))
    result = single(result - start)
    for _step in range(steps):
        result = single(result - single(log(start - float64(1.0))))
        start = start - float64(1.0)
    if x == float64(1.0) or x == float64(2.0):
        result = float64(0.0)
    return result


@Function
def poisson_by_rejection(state, mean):
    """For means from 10 (Hörmann, 1993, DOI 10.1016/0167-6687(93)90997-4: transformed rejection)."""
    log_mean = single(log(mean))
    b = single(C0_931 + single(C2_53 * single(sqrt(mean))))
    a = single(-C0_059 + single(C0_02483 * b))
    inverse_alpha = single(C1_1239 + single(C1_1328 / single(b - C3_4)))
    v_r = single(C0_9277 - single(C3_6224 / single(b - float64(2.0))))
    k = float64(0.0)
    trying = True
    while trying:
        u = float64(randf(state)) - float64(0.5)
        v = float64(randf(state))
        us = float64(0.5) - abs(u)
        width = single(single(single(float64(2.0) * a) / us) + b)
        k = floor(single(single(single(width * u) + mean) + C0_43))
        if us >= C0_07 and v <= v_r:
            trying = False
        elif k >= float64(0.0) and not (us < C0_013 and v > us):
            density = single(log(single(single(a / single(us * us)) + b)))
            left = single(single(single(log(v)) + single(log(inverse_alpha))) - density)
            right = single(single(single(k * log_mean) - mean) - log_factorial(k))
            trying = left > right
    return state, uint32(k)


@Function
def poisson(state, lam):
    """The state after, and a number of the Poisson distribution."""
    mean = single(float64(lam))
    count = uint32(0)
    if mean >= float64(10.0):
        state, count = poisson_by_rejection(state, mean)
    elif mean != float64(0.0):
        state, count = poisson_by_products(state, mean)
    return state, count


@Function
def sample_cdf(state, cdf, count):
    """The state after, and the index of an interval of [0, 1]."""
    u = randf(state)
    return state, lower_bound(cdf, 0, count, u)


# Noise -----------------------------------------------------------------------------------------------------


@Function
def curlnoise_in_plane(state, x, octaves, lacunarity, gain, total, one):
    """Octaves of one field; `total` is 0 and `one` is 1, in the types of the result."""
    frequency = one
    amplitude = one
    for _octave in range(octaves):
        total += curl(state, frequency * x) * amplitude
        amplitude *= gain
        frequency *= lacunarity
    return total


@Function
def curlnoise_in_space(state, x, octaves, lacunarity, gain, total, one):
    """Octaves, each of fields of its own."""
    frequency = one
    amplitude = one
    for _octave in range(octaves):
        total += curl(state, frequency * x) * amplitude
        state = rand_init(int(rand_init(int(state), OFFSETS[0])), OFFSETS[1])
        amplitude *= gain
        frequency *= lacunarity
    return total

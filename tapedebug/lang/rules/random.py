"""Random numbers: hashed states, and the distributions drawn from them.

A state is a uint32 that every draw replaces by its hash (PCG; Jarzynski and Olano, "Hash Functions for GPU
Rendering", JCGT 9(3), 2020), so that the numbers are a pure function of it: adjoints and float64 twins draw
the same ones. Streams and formulas are those of warp-lang 1.19.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.lang import types as t
from tapedebug.lang.lowering import Instructions, cast, fitting, function
from tapedebug.lang.rules._quantities import scalar, vector
from tapedebug.lang.rules.table import (
    NOT_DIFFERENTIABLE,
    Expr,
    Quantity,
    RuleError,
    composite,
    name_list,
    rule,
    typed,
)

UNIT = 2.0**-24
"""The distance of neighbouring numbers of `randf`, which has 24 random bits."""
LEAST = float(np.float32(5.96e-8))
"""Added to what the logarithm of `randn` is taken of, which may be 0."""


def _pcg(state: Any) -> Any:
    word = (int(state) * 747796405 + 2891336453) % 2**32
    word = ((word >> ((word >> 28) + 4)) ^ word) * 277803737 % 2**32
    return np.uint32((word >> 22) ^ word)


def _pcg_instructions(state: str) -> Instructions:
    fitting(state == "u32", state)
    return Instructions(
        "u32",
        """{r}.times = mul i32 {0}, 747796405
{r}.word = add i32 {r}.times, -1403630843
{r}.top = lshr i32 {r}.word, 28
{r}.count = add i32 {r}.top, 4
{r}.moved = lshr i32 {r}.word, {r}.count
{r}.mixed = xor i32 {r}.moved, {r}.word
{r}.spread = mul i32 {r}.mixed, 277803737
{r}.low = lshr i32 {r}.spread, 22
{r} = xor i32 {r}.low, {r}.spread""",
    )


def _single(x: str) -> Instructions:
    down, up = cast(x, "f32"), cast("f32", x)
    fitting(x == "f64", x)
    text = down.text.replace("{r}", "{r}.narrow") + "\n" + up.text.replace("{0}", "{r}.narrow")
    return Instructions(x, text)


rule(
    "rand_pcg",
    "The state after a state of random numbers.",
    result=typed(t.uint32, t.uint32),
    lowering=function("rand_pcg", _pcg, _pcg_instructions),
    partials=NOT_DIFFERENTIABLE,
)
rule(
    "single",
    "A float64, rounded to the nearest float32.",
    result=typed(t.float64, t.float64),
    lowering=function("single", lambda x: np.float64(np.float32(x)), _single),
    partials=NOT_DIFFERENTIABLE,
)


@dataclass(slots=True)
class Stream:
    """A state that is advanced by what is drawn."""

    state: Expr

    def bits(self) -> Expr:
        """32 random bits (uint32)."""
        self.state = self.state.apply("rand_pcg")
        return self.state

    def uniform(self) -> Expr:
        """A float32 in [0, 1), a multiple of 2^-24."""
        return self.bits().apply("rshift", 8).apply("to_f32") * UNIT

    def angle(self) -> Expr:
        """A float32 in [0, 2π)."""
        return self.uniform() * (2.0 * math.pi)


@dataclass(frozen=True, slots=True)
class Draw:
    """An operation that draws from a state, which its call advances.

    Attributes:
        name: Its name in kernels.
        doc: One line.
        signature: Its parameters, as the documentation shows them.
        build: The value, from a stream and the operands after the state; None for one that is written in the
            kernel language (`compiler.lower.library`).
        arities: The numbers of operands that it takes after the state.
    """

    name: str
    doc: str
    signature: str
    build: Callable[..., Quantity] | None
    arities: tuple[int, ...]


DRAWS: dict[str, Draw] = {}


def draw(
    name: str, doc: str, *, signature: str = "state", arities: tuple[int, ...] = (0,)
) -> Callable[[Callable[..., Quantity]], Callable[..., Quantity]]:
    """Enter an operation on a stream into the table."""

    def enter(build: Callable[..., Quantity]) -> Callable[..., Quantity]:
        DRAWS[name] = Draw(name, doc, signature, build, arities)
        return build

    return enter


@composite("rand_init", "A state of random numbers (uint32) for a seed, and an offset.", differentiable=False)
def rand_init(*seeds: Quantity) -> Quantity:
    if len(seeds) not in (1, 2):
        raise RuleError(f"takes a seed, and an offset; got {len(seeds)} values", "rand_init(seed, offset)")
    kinds = [q.type for q in seeds]
    if any(kind is not t.int32 for kind in kinds):
        raise RuleError(f"takes integers (int32); got {name_list(kinds)}", "convert them with int(…)")
    seed, *offset = (q.scalar.apply("to_u32") for q in seeds)
    return scalar(next_field(seed, offset[0]) if offset else seed.apply("rand_pcg"))


def next_field(state: Expr, offset: Expr | int) -> Expr:
    """The state for a seed and an offset, both uint32."""
    return (state + state.lift(offset).apply("rand_pcg")).apply("rand_pcg")


def _bounds(kind: type[t.Scalar], low: Quantity, high: Quantity) -> tuple[Expr, Expr]:
    kinds = [low.type, high.type]
    if any(k is not kind for k in kinds):
        name = t.type_name(kind)
        hint = f"convert them with {t.conversion(kind)}, or write literals as 0.0 and 1.0"
        if kind is not t.float32:
            hint = f"convert them with {t.conversion(kind)}"
        raise RuleError(f"takes bounds of {name}; got {name_list(kinds)}", hint)
    return low.scalar, high.scalar


def _whole(kind: type[t.Scalar]) -> Callable[..., Quantity]:
    """An integer of a type: any, or one of [low, high)."""

    def build(stream: Stream, *bounds: Quantity) -> Quantity:
        if not bounds:
            return scalar(stream.bits().apply(f"to_{kind.code}"))
        low, high = _bounds(kind, *bounds)
        part = stream.bits().apply("mod", (high - low).apply("to_u32"))
        return scalar((part + low.apply("to_u32")).apply(f"to_{kind.code}"))

    return build


draw(
    "randi",
    "A random int32: any, or one of [low, high).",
    signature="state, low, high",
    arities=(0, 2),
)(_whole(t.int32))
draw(
    "randu",
    "A random uint32: any, or one of [low, high).",
    signature="state, low, high",
    arities=(0, 2),
)(_whole(t.uint32))


@draw(
    "randf",
    "A random float in [0, 1), or in [low, high); differentiable in both bounds.",
    signature="state, low, high",
    arities=(0, 2),
)
def randf(stream: Stream, *bounds: Quantity) -> Quantity:
    if not bounds:
        return scalar(stream.uniform())
    low, high = _bounds(t.float32, *bounds)
    return scalar((high - low) * stream.uniform() + low)


@draw("randn", "A random float of the normal distribution with mean 0 and variance 1.")
def randn(stream: Stream) -> Quantity:
    radius = ((stream.uniform() + LEAST).apply("log") * -2.0).apply("sqrt")
    return scalar(radius * stream.angle().apply("cos"))


DRAWS["poisson"] = Draw(
    "poisson",
    "A random uint32 of the Poisson distribution with this mean.",
    "state, lam",
    None,
    (1,),
)
DRAWS["sample_cdf"] = Draw(
    "sample_cdf",
    "A random index (int32) of a distribution, given the sums of its probabilities up to each.",
    "state, cdf",
    None,
    (1,),
)


@draw("sample_triangle", "Two of the three weights (vec2) of a random point of a triangle.")
def sample_triangle(stream: Stream) -> Quantity:
    root = stream.uniform().apply("sqrt")
    return vector([1.0 - root, stream.uniform() * root])


@draw("sample_unit_ring", "A random point (vec2) on the circle of radius 1.")
def sample_unit_ring(stream: Stream) -> Quantity:
    angle = stream.angle()
    return vector([angle.apply("cos"), angle.apply("sin")])


@draw("sample_unit_disk", "A random point (vec2) in the circle of radius 1.")
def sample_unit_disk(stream: Stream) -> Quantity:
    radius, angle = stream.uniform().apply("sqrt"), stream.angle()
    return vector([radius * angle.apply("cos"), radius * angle.apply("sin")])


def _round(half: bool, inside: bool) -> Callable[[Stream], Quantity]:
    def build(stream: Stream) -> Quantity:
        height = stream.uniform()
        polar = (1.0 - (height if half else 2.0 * height)).apply("acos")
        angle = stream.angle()
        parts = [angle.apply("cos"), angle.apply("sin"), polar.apply("cos")]
        if inside:
            radius = stream.uniform().apply("pow", 1.0 / 3.0)
            parts = [radius * part for part in parts]
        across = polar.apply("sin")
        return vector([parts[0] * across, parts[1] * across, parts[2]])

    return build


for _name, _word, _half in (("sphere", "sphere", False), ("hemisphere", "half (z >= 0) of the sphere", True)):
    draw(f"sample_unit_{_name}", f"A random point (vec3) in the {_word} of radius 1.")(_round(_half, True))
    draw(f"sample_unit_{_name}_surface", f"A random point (vec3) on the {_word} of radius 1.")(
        _round(_half, False)
    )


def _box(sides: int) -> Callable[[Stream], Quantity]:
    return lambda stream: vector([stream.uniform() - 0.5 for _ in range(sides)])


draw("sample_unit_square", "A random point (vec2) of the square of side 1 about the origin.")(_box(2))
draw("sample_unit_cube", "A random point (vec3) of the cube of side 1 about the origin.")(_box(3))


def require_state(state: Quantity) -> Expr:
    """The state, which must be one."""
    if state.type is not t.uint32:
        raise RuleError(
            f"takes a state of rand_init() first (uint32); got {t.type_name(state.type)}",
            "make one: state = wp.rand_init(seed, i)",
        )
    return state.scalar

"""Integer rules, and those of floats like C's: division, remainder, shifts, iteration counts."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tapedebug.lang import types as t
from tapedebug.lang.lowering import (
    BITS,
    FLOATS,
    INTEGERS,
    Instructions,
    fitting,
    function,
    intrinsic_call,
    llvm_type,
    same_integer,
)
from tapedebug.lang.rules.scalar import SELECT
from tapedebug.lang.rules.table import (
    NOT_DIFFERENTIABLE,
    bits,
    integers,
    numbers,
    numpy_fold,
    rule,
    typed,
)

# Division --------------------------------------------------------------------------------------------------


def _divide(x: Any, y: Any) -> Any:
    if not y:
        return same_integer(x, 0)
    quotient = abs(int(x)) // abs(int(y))
    return same_integer(x, quotient if (x < 0) == (y < 0) else -quotient)


def _floor_divide(x: Any, y: Any) -> Any:
    if isinstance(x, np.floating):
        return np.floor(x / y)
    return same_integer(x, int(x) // int(y) if y else 0)


def _remainder(x: Any, y: Any) -> Any:
    if isinstance(x, np.floating):
        return np.fmod(x, y)
    rest = abs(int(x)) % abs(int(y)) if y else 0
    return same_integer(x, rest if x > 0 else -rest)


def _division(quotient: bool, floor: bool) -> Callable[..., Instructions]:
    """Integer division (x / 0 is 0) and remainder as in C; of floats as in C's `fmod` and `floor(x / y)`."""

    def divide(x: str, y: str) -> Instructions:
        fitting(x == y and (x in INTEGERS or x in FLOATS), x, y)
        kind = llvm_type(x)
        if x in FLOATS:
            if not quotient:
                return Instructions(x, f"{{r}} = frem {kind} {{0}}, {{1}}")
            rounded = intrinsic_call("floor", x)
            ratio = f"{{r}}.ratio = fdiv {kind} {{0}}, {{1}}\n"
            return Instructions(x, ratio + rounded.text.replace("{0}", "{r}.ratio"), rounded.needs)
        text = _naturals(kind, quotient) if x[0] == "u" else _integers(kind, quotient, floor)
        return Instructions(x, text)

    return divide


def _naturals(kind: str, quotient: bool) -> str:
    return f"""{{r}}.zero = icmp eq {kind} {{1}}, 0
{{r}}.safe = select i1 {{r}}.zero, {kind} 1, {kind} {{1}}
{{r}}.plain = {"udiv" if quotient else "urem"} {kind} {{0}}, {{r}}.safe
{{r}} = select i1 {{r}}.zero, {kind} 0, {kind} {{r}}.plain"""


def _integers(kind: str, quotient: bool, floor: bool) -> str:
    # -1 would overflow for the least integer; its quotient is the negation.
    start = f"""{{r}}.zero = icmp eq {kind} {{1}}, 0
{{r}}.minus = icmp eq {kind} {{1}}, -1
{{r}}.either = or i1 {{r}}.zero, {{r}}.minus
{{r}}.safe = select i1 {{r}}.either, {kind} 1, {kind} {{1}}
"""
    if not quotient:
        rest = f"{{r}}.rest = srem {kind} {{0}}, {{r}}.safe\n"
        return f"{start}{rest}{{r}} = select i1 {{r}}.either, {kind} 0, {kind} {{r}}.rest"
    text = f"{start}{{r}}.plain = sdiv {kind} {{0}}, {{r}}.safe\n"
    result = "{r}.plain"
    if floor:
        result = "{r}.floor"
        text += f"""{{r}}.rest = srem {kind} {{0}}, {{r}}.safe
{{r}}.some = icmp ne {kind} {{r}}.rest, 0
{{r}}.sign = xor {kind} {{r}}.rest, {{r}}.safe
{{r}}.apart = icmp slt {kind} {{r}}.sign, 0
{{r}}.below = and i1 {{r}}.some, {{r}}.apart
{{r}}.one = zext i1 {{r}}.below to {kind}
{{r}}.floor = sub {kind} {{r}}.plain, {{r}}.one
"""
    return f"""{text}{{r}}.negated = sub {kind} 0, {{0}}
{{r}}.whole = select i1 {{r}}.minus, {kind} {{r}}.negated, {kind} {result}
{{r}} = select i1 {{r}}.zero, {kind} 0, {kind} {{r}}.whole"""


rule(
    "idiv",
    "Quotient of integers, rounded toward zero as in C; x / 0 is 0.",
    result=integers,
    lowering=function("c_div", _divide, _division(quotient=True, floor=False)),
    partials=NOT_DIFFERENTIABLE,
)
rule(
    "floordiv",
    "Quotient rounded toward minus infinity; an integer divided by 0 is 0.",
    result=numbers,
    lowering=function("floor_div", _floor_divide, _division(quotient=True, floor=True)),
    partials=NOT_DIFFERENTIABLE,
    public=True,
    operands=("a", "b"),
    natural=True,
)
rule(
    "mod",
    "Remainder with the sign of the dividend, as in C.",
    result=numbers,
    lowering=function("c_mod", _remainder, _division(quotient=False, floor=False)),
    partials=(lambda x, y, r: 1.0, lambda x, y, r: -((x - r) / y)),
    natural=True,
)

# Bits ------------------------------------------------------------------------------------------------------


def _shift(left: bool) -> Callable[..., Any]:
    def shift(x: Any, y: Any) -> Any:
        width = 64 if isinstance(x, int) else 8 * x.dtype.itemsize
        count = int(y) if 0 <= int(y) < width else width
        return same_integer(x, int(x) << count if left else int(x) >> count)

    return shift


def _shift_instructions(left: bool) -> Callable[..., Instructions]:
    """Shifted by `y` bits; a number of bits that the type does not have shifts all of them out."""

    def shift(x: str, y: str) -> Instructions:
        fitting(x == y and x in INTEGERS, x, y)
        kind, width = llvm_type(x), BITS[x]
        inside = f"{{r}}.inside = icmp ult {kind} {{1}}, {width}\n"
        if not left and x[0] == "i":
            # The sign is what a signed number has beyond its highest bit.
            safe = f"{{r}}.safe = select i1 {{r}}.inside, {kind} {{1}}, {kind} {width - 1}\n"
            return Instructions(x, f"{inside}{safe}{{r}} = ashr {kind} {{0}}, {{r}}.safe")
        return Instructions(
            x,
            f"{inside}{{r}}.safe = select i1 {{r}}.inside, {kind} {{1}}, {kind} 0\n"
            f"{{r}}.moved = {'shl' if left else 'lshr'} {kind} {{0}}, {{r}}.safe\n"
            f"{{r}} = select i1 {{r}}.inside, {kind} {{r}}.moved, {kind} 0",
        )

    return shift


for _name, _text, _doc, _fold in (
    ("bit_and", "{0} & {1}", "Bits that both integers have.", operator.and_),
    ("bit_or", "{0} | {1}", "Bits that at least one integer has.", operator.or_),
    ("bit_xor", "{0} ^ {1}", "Bits that exactly one integer has.", operator.xor),
    ("invert", "~{0}", "Bits that an integer does not have.", operator.invert),
):
    rule(
        _name,
        _doc,
        result=bits,
        lowering=_text,
        partials=NOT_DIFFERENTIABLE,
        fold=numpy_fold(_fold),
        natural=_name == "bit_and",
    )
for _name, _called, _way in (("lshift", "shl", "up"), ("rshift", "shr", "down")):
    _left = _called == "shl"
    rule(
        _name,
        f"Bits of the first, moved {_way} by the second; a signed integer keeps its sign.",
        result=bits,
        lowering=function(_called, _shift(_left), _shift_instructions(_left)),
        partials=NOT_DIFFERENTIABLE,
    )

# Loops and indices -----------------------------------------------------------------------------------------


def _trip_count(start: str, stop: str, step: str) -> Instructions:
    """Number of iterations of range(start, stop, step); 0 for a step of 0."""
    fitting((start, stop, step) == ("i64",) * 3, start, stop, step)
    return Instructions(
        "i64",
        """{r}.up = icmp sgt i64 {2}, 0
{r}.forth = sub i64 {1}, {0}
{r}.back = sub i64 {0}, {1}
{r}.distance = select i1 {r}.up, i64 {r}.forth, i64 {r}.back
{r}.minus = sub i64 0, {2}
{r}.size = select i1 {r}.up, i64 {2}, i64 {r}.minus
{r}.still = icmp eq i64 {2}, 0
{r}.safe = select i1 {r}.still, i64 1, i64 {r}.size
{r}.more = add i64 {r}.distance, {r}.safe
{r}.most = sub i64 {r}.more, 1
{r}.count = sdiv i64 {r}.most, {r}.safe
{r}.ahead = icmp sgt i64 {r}.distance, 0
{r}.moving = icmp ne i64 {2}, 0
{r}.some = and i1 {r}.ahead, {r}.moving
{r} = select i1 {r}.some, i64 {r}.count, i64 0""",
    )


rule(
    "trip_count",
    "Number of iterations of range(start, stop, step).",
    result=typed(t.int64, t.int64, t.int64, t.int64),
    lowering=function(
        "trip_count",
        lambda start, stop, step: len(range(int(start), int(stop), int(step))) if step else 0,
        _trip_count,
    ),
    partials=NOT_DIFFERENTIABLE,
)
rule(
    "from_end",
    "An index into so many elements: a negative one counts from the end.",
    result=typed(t.int64, t.int64, t.int64),
    lowering=f"{SELECT.name}({{0}} < 0, {{0}} + {{1}}, {{0}})",
    partials=NOT_DIFFERENTIABLE,
    fold=lambda index, length: index + length if index < 0 else index,
    natural=True,
)

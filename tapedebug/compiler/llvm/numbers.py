"""Functions of numbers that generated code calls, in LLVM."""

from __future__ import annotations

from collections.abc import Callable

from tapedebug.compiler.llvm.library import (
    BITS,
    FLOATS,
    INTEGERS,
    PURE,
    Call,
    c_function,
    entry,
    fitting,
    llvm_type,
    number,
)


def _intrinsic(name: str) -> Callable[..., Call]:
    """A function of one float that LLVM knows."""

    def function(x: str) -> Call:
        fitting(x in FLOATS, x)
        kind, symbol = llvm_type(x), f"@llvm.{name}.f{BITS[x]}"
        return Call(x, f"{{r}} = call {kind} {symbol}({kind} {{0}})", (f"declare {kind} {symbol}({kind})",))

    return function


def _libm(name: str, *operands: str) -> Call:
    """A function of the C library, in the operands' precision."""
    kind = operands[0]
    fitting(kind in ("f32", "f64") and set(operands) == {kind}, *operands)
    return c_function(name + ("f" if kind == "f32" else ""), kind, operands, PURE)


for _name in ("sqrt", "exp", "log", "log2", "log10", "sin", "cos"):
    entry(f"m_{_name}")(_intrinsic(_name))
for _name in ("floor", "ceil", "trunc", "rint", "round"):
    entry(f"m_{_name}")(_intrinsic(_name))
for _name in [
    "tan",
    "asin",
    "acos",
    "atan",
    "sinh",
    "cosh",
    "tanh",
    "asinh",
    "acosh",
    "atanh",
    "erf",
    "erfc",
    "cbrt",
]:
    entry(f"m_{_name}")(lambda x, name=_name: _libm(name, x))
for _name in ("atan2", "pow"):
    entry(f"m_{_name}")(lambda x, y, name=_name: _libm(name, x, y))


@entry("m_abs")
def _abs(x: str) -> Call:
    if x in FLOATS:
        return _intrinsic("fabs")(x)
    fitting(x in INTEGERS, x)
    if x[0] == "u":
        return Call(x, "")
    kind = llvm_type(x)
    return Call(
        x,
        f"{{r}}.below = icmp slt {kind} {{0}}, 0\n{{r}}.minus = sub {kind} 0, {{0}}\n"
        f"{{r}} = select i1 {{r}}.below, {kind} {{r}}.minus, {kind} {{0}}",
    )


def _sign(at_zero: int) -> Callable[..., Call]:
    """-1 or 1 by the sign, and what is agreed at 0."""

    def sign(x: str) -> Call:
        fitting(x in FLOATS or x in INTEGERS, x)
        kind, minus, one, zero = llvm_type(x), number(-1, x), number(1, x), number(0, x)
        compare = "fcmp o" if x in FLOATS else "icmp u" if x[0] == "u" else "icmp s"
        return Call(
            x,
            f"{{r}}.below = {compare}lt {kind} {{0}}, {zero}\n"
            f"{{r}}.above = {compare}gt {kind} {{0}}, {zero}\n"
            f"{{r}}.rest = select i1 {{r}}.above, {kind} {one}, {kind} {number(at_zero, x)}\n"
            f"{{r}} = select i1 {{r}}.below, {kind} {minus}, {kind} {{r}}.rest",
        )

    return sign


entry("m_sign")(_sign(1))
entry("m_sign0")(_sign(0))


@entry("unit")
def _unit(x: str) -> Call:
    """The operand, held in [-1, 1]; NaN stays."""
    fitting(x in FLOATS, x)
    kind = llvm_type(x)
    return Call(
        x,
        f"{{r}}.below = fcmp olt {kind} {{0}}, -1.0\n"
        f"{{r}}.raised = select i1 {{r}}.below, {kind} -1.0, {kind} {{0}}\n"
        f"{{r}}.above = fcmp ogt {kind} {{r}}.raised, 1.0\n"
        f"{{r}} = select i1 {{r}}.above, {kind} 1.0, {kind} {{r}}.raised",
    )


@entry("select")
def _select(condition: str, yes: str, no: str) -> Call:
    """`yes` where the condition holds, else `no`; no branch."""
    fitting(condition == "b1" and yes == no, condition, yes, no)
    kind = llvm_type(yes)
    return Call(yes, f"{{r}} = select i1 {{0}}, {kind} {{1}}, {kind} {{2}}")


def _division(quotient: bool, floor: bool) -> Callable[..., Call]:
    """Integer division (x / 0 is 0) and remainder as in C; of floats as in C's `fmod` and `floor(x / y)`."""

    def divide(x: str, y: str) -> Call:
        fitting(x == y and (x in INTEGERS or x in FLOATS), x, y)
        kind = llvm_type(x)
        if x in FLOATS:
            if not quotient:
                return Call(x, f"{{r}} = frem {kind} {{0}}, {{1}}")
            rounded = _intrinsic("floor")(x)
            ratio = f"{{r}}.ratio = fdiv {kind} {{0}}, {{1}}\n"
            return Call(x, ratio + rounded.text.replace("{0}", "{r}.ratio"), rounded.needs)
        text = _naturals(kind, quotient) if x[0] == "u" else _integers(kind, quotient, floor)
        return Call(x, text)

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


entry("c_div")(_division(quotient=True, floor=False))
entry("floor_div")(_division(quotient=True, floor=True))
entry("c_mod")(_division(quotient=False, floor=False))


def _shift(left: bool) -> Callable[..., Call]:
    """Shifted by `y` bits; a number of bits that the type does not have shifts all of them out."""

    def shift(x: str, y: str) -> Call:
        fitting(x == y and x in INTEGERS, x, y)
        kind, bits = llvm_type(x), BITS[x]
        inside = f"{{r}}.inside = icmp ult {kind} {{1}}, {bits}\n"
        if not left and x[0] == "i":
            # The sign is what a signed number has beyond its highest bit.
            safe = f"{{r}}.safe = select i1 {{r}}.inside, {kind} {{1}}, {kind} {bits - 1}\n"
            return Call(x, f"{inside}{safe}{{r}} = ashr {kind} {{0}}, {{r}}.safe")
        return Call(
            x,
            f"{inside}{{r}}.safe = select i1 {{r}}.inside, {kind} {{1}}, {kind} 0\n"
            f"{{r}}.moved = {'shl' if left else 'lshr'} {kind} {{0}}, {{r}}.safe\n"
            f"{{r}} = select i1 {{r}}.inside, {kind} {{r}}.moved, {kind} 0",
        )

    return shift


entry("shl")(_shift(left=True))
entry("shr")(_shift(left=False))


@entry("trip_count")
def _trip_count(start: str, stop: str, step: str) -> Call:
    """Number of iterations of range(start, stop, step); 0 for a step of 0."""
    fitting((start, stop, step) == ("i64",) * 3, start, stop, step)
    return Call(
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


@entry("inside")
def _inside(index: str, length: str) -> Call:
    """An index where it is one of `length` elements, else 0."""
    fitting((index, length) == ("i64", "i64"), index, length)
    return Call("i64", "{r}.is = icmp ult i64 {0}, {1}\n{r} = select i1 {r}.is, i64 {0}, i64 0")

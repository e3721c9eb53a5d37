"""What generated code calls, in LLVM: a table from names to instructions.

Numbers keep the types that the IR gave them: nothing widens, and nothing refers to a runtime besides the C
library. The Numba backend embeds the same instructions; `python_library` has the same functions in NumPy.

An entry is a function from the types of the operands (codes such as `f32`, `i64`, `b1`, a pointer as `*f32`)
to a `Call`. Add one with `@entry("name")`; refuse operands that do not fit with `fitting`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from tapedebug.lang import types as t

HELD = frozenset(s for s in t.SCALARS if s is not t.float16)
"""The types of values in generated code: a half is held as a float32 (`llvm.half`)."""
FLOATS = frozenset(s.code for s in t.FLOATS if s in HELD)
INTEGERS = frozenset(s.code for s in t.INTEGERS)
SCALARS = tuple(s.code for s in t.SCALARS if s in HELD)
STACK = "*i64"
"""A stack is two words: the address of its memory, and its capacity in words."""
BITS = {s.code: 8 * s.numpy.itemsize for s in t.SCALARS if s in HELD} | {"b1": 1}


class Misfit(Exception):
    """A library function does not take operands of these types."""


@dataclass(frozen=True, slots=True)
class Call:
    """A library function for operands of certain types.

    Attributes:
        result: The type of its value; `"void"` for none.
        text: Its instructions, with `{0}`, `{1}`, … for the operands and `{r}` for the register of the
            result; registers between have names such as `{r}.low`. Empty where the value is the operand's.
        needs: Declarations and definitions that the instructions refer to.
    """

    result: str
    text: str
    needs: tuple[str, ...] = ()


LIBRARY: dict[str, Callable[..., Call]] = {}


def entry(name: str) -> Callable[[Callable[..., Call]], Callable[..., Call]]:
    """Enter a function into the table."""

    def enter(make: Callable[..., Call]) -> Callable[..., Call]:
        if name in LIBRARY:
            raise ValueError(f"{name!r} is in the library already")
        LIBRARY[name] = make
        return make

    return enter


@cache
def call_of(name: str, operands: tuple[str, ...]) -> Call:
    """The instructions of a library function.

    Raises:
        Misfit: There is no such function, or it does not take these operands.
    """
    if name not in LIBRARY:
        raise Misfit(f"there is no library function {name!r}")
    try:
        return LIBRARY[name](*operands)
    except TypeError:
        raise Misfit(f"{name!r} does not take {len(operands)} operands") from None


def module_of(name: str, operands: tuple[str, ...], symbol: str) -> str:
    """LLVM assembly of a function `symbol` that holds the instructions, for compilers that link."""
    call = call_of(name, operands)
    types = [llvm_type(o) for o in operands]
    lines = call.text.format(*(f"%{place}" for place in range(len(operands))), r="%r").splitlines()
    value = "%r" if lines else "%0"
    lines.append("ret void" if call.result == "void" else f"ret {llvm_type(call.result)} {value}")
    header = (
        f"define linkonce_odr {llvm_type(call.result)} @{symbol}({', '.join(types)}) alwaysinline nounwind"
    )
    return "\n".join([*call.needs, header + " {", *lines, "}"])


def _mangled(name: str, operands: tuple[str, ...]) -> str:
    return "_".join((name, *(o.replace("*", "p") for o in operands)))


def fitting(condition: bool, *operands: str) -> None:
    """Refuse operands unless the condition holds."""
    if not condition:
        raise Misfit(f"operands {', '.join(operands)}")


def llvm_type(kind: str) -> str:
    """The type of a value in LLVM."""
    if kind[0] == "*":
        return "ptr"
    if kind in FLOATS:
        return {32: "float", 64: "double"}[BITS[kind]]
    return kind if kind == "void" else f"i{BITS[kind]}"


def in_memory(kind: str) -> str:
    """The type under which memory holds a value: a truth value is a byte."""
    return "u8" if kind == "b1" else kind


def number(value: int | float, kind: str) -> str:
    """A constant of LLVM."""
    return f"{value}.0" if kind in FLOATS else str(value)


def defined(name: str, result: str, operands: tuple[str, ...], body: str, *needs: str) -> Call:
    """A call of an LLVM function with this body, whose operands are `%0`, `%1`, …; it is inlined.

    For what has control flow. Values are named (`%rest`), and labels, too; the block of entry has none.
    """
    symbol = "@td." + _mangled(name, operands)
    types = [llvm_type(o) for o in operands]
    header = f"define internal {llvm_type(result)} {symbol}({', '.join(types)}) alwaysinline nounwind"
    passed = ", ".join(f"{kind} {{{place}}}" for place, kind in enumerate(types))
    target = "" if result == "void" else "{r} = "
    text = f"{target}call {llvm_type(result)} {symbol}({passed})"
    return Call(result, text, (*needs, f"{header} {{\n{body.strip()}\n}}"))


def c_function(name: str, result: str, operands: tuple[str, ...], attributes: str = "") -> Call:
    """A call of a function of the C library."""
    types = [llvm_type(o) for o in operands]
    declaration = f"declare {llvm_type(result)} @{name}({', '.join(types)}) nounwind {attributes}".rstrip()
    passed = ", ".join(f"{kind} {{{place}}}" for place, kind in enumerate(types))
    target = "" if result == "void" else "{r} = "
    return Call(result, f"{target}call {llvm_type(result)} @{name}({passed})", (declaration,))


PURE = "willreturn memory(none)"
"""Functions of numbers only: nobody looks at the `errno` that they may set."""


# Arguments --------------------------------------------------------------------------------------------------


def slot_of(result: str) -> Callable[..., Call]:
    """What an argument slot holds, as a value of this type."""

    def slot(args: str, place: str) -> Call:
        fitting((args, place) == ("*i64", "i64"), args, place)
        text = "{r}.slot = getelementptr i64, ptr {0}, i64 {1}\n{r} = load " + llvm_type(result)
        return Call(result, f"{text}, ptr {{r}}.slot")

    return slot


entry("arg_f64")(slot_of("f64"))
for _code in SCALARS:
    entry(f"ptr_{_code}")(slot_of("*" + in_memory(_code)))


# Casts ------------------------------------------------------------------------------------------------------


def cast(source: str, target: str) -> Call:
    """A number in another type; a float out of an integer's range gives the nearest integer, NaN 0."""
    fitting(source in BITS and target in BITS, source, target)
    old, new = llvm_type(source), llvm_type(target)
    bits, wanted = BITS[source], BITS[target]
    unsigned = source == "b1" or source[0] == "u"
    if source == target or (old == new and source not in FLOATS):
        return Call(target, "")
    if target == "b1":
        compare = "fcmp une" if source in FLOATS else "icmp ne"
        return Call(target, f"{{r}} = {compare} {old} {{0}}, {number(0, source)}")
    if source in FLOATS and target in FLOATS:
        kind = "fpext" if wanted > bits else "fptrunc"
    elif source in FLOATS:
        symbol = f"llvm.fpto{'u' if target[0] == 'u' else 's'}i.sat.i{wanted}.f{bits}"
        return Call(
            target, f"{{r}} = call {new} @{symbol}({old} {{0}})", (f"declare {new} @{symbol}({old})",)
        )
    elif target in FLOATS:
        kind = "uitofp" if unsigned else "sitofp"
    elif wanted < bits:
        kind = "trunc"
    else:
        kind = "zext" if unsigned else "sext"
    return Call(target, f"{{r}} = {kind} {old} {{0}} to {new}")


for _code in SCALARS:
    entry(f"to_{_code}")(lambda source, target=_code: cast(source, target))


def _of_bits(target: str) -> Callable[..., Call]:
    def of_bits(source: str) -> Call:
        """The same bits in another type."""
        fitting(source in BITS and BITS[source] == BITS[target], source)
        old, new = llvm_type(source), llvm_type(target)
        return Call(target, "" if old == new else f"{{r}} = bitcast {old} {{0}} to {new}")

    return of_bits


for _code in (*sorted(INTEGERS), *sorted(FLOATS)):
    entry(f"{_code}_of_bits")(_of_bits(_code))


# Functions of numbers ---------------------------------------------------------------------------------------


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


# Integers ---------------------------------------------------------------------------------------------------


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


# Stacks -----------------------------------------------------------------------------------------------------

GROW = """define internal ptr @td.grow(ptr %old, i64 %words) noinline cold nounwind {
  %bytes = mul i64 %words, 8
  %new = call ptr @realloc(ptr %old, i64 %bytes)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %none, label %some
none:
  call void @abort()
  unreachable
some:
  ret ptr %new
}"""
"""More memory; what cannot be had ends the process, as in C."""


@entry("stack_ensure")
def _stack_ensure(stack: str, count: str) -> Call:
    """Room for `count` words; what is kept stays."""
    fitting((stack, count) == (STACK, "i64"), stack, count)
    body = """
  %place = getelementptr i64, ptr %0, i64 1
  %capacity = load i64, ptr %place
  %short = icmp sgt i64 %1, %capacity
  br i1 %short, label %grow, label %done
grow:
  %double = mul i64 %1, 2
  %size = add i64 %double, 64
  %old = load ptr, ptr %0
  %new = call ptr @td.grow(ptr %old, i64 %size)
  store ptr %new, ptr %0
  store i64 %size, ptr %place
  br label %done
done:
  ret void"""
    needs = ("declare ptr @realloc(ptr, i64) nounwind", "declare void @abort() noreturn nounwind", GROW)
    return defined("stack_ensure", "void", (stack, count), body, *needs)


@entry("stack_free")
def _stack_free(stack: str) -> Call:
    """Give the stack's memory back."""
    fitting(stack == STACK, stack)
    text = "{r}.at = load ptr, ptr {0}\ncall void @free(ptr {r}.at)"
    return Call("void", text, ("declare void @free(ptr) nounwind",))


def _put(kind: str) -> Callable[..., Call]:
    def put(stack: str, place: str, value: str) -> Call:
        fitting((stack, place, value) == (STACK, "i64", kind), stack, place, value)
        text = "{r}.base = load ptr, ptr {0}\n{r}.word = getelementptr i64, ptr {r}.base, i64 {1}\n"
        stored = "{2}"
        if kind == "b1":
            text, stored = text + "{r}.byte = zext i1 {2} to i8\n", "{r}.byte"
        return Call("void", f"{text}store {llvm_type(in_memory(kind))} {stored}, ptr {{r}}.word")

    return put


def _get(kind: str) -> Callable[..., Call]:
    def get(stack: str, place: str) -> Call:
        fitting((stack, place) == (STACK, "i64"), stack, place)
        text = "{r}.base = load ptr, ptr {0}\n{r}.word = getelementptr i64, ptr {r}.base, i64 {1}\n"
        if kind == "b1":
            return Call(kind, text + "{r}.byte = load i8, ptr {r}.word\n{r} = trunc i8 {r}.byte to i1")
        return Call(kind, f"{text}{{r}} = load {llvm_type(kind)}, ptr {{r}}.word")

    return get


for _code in SCALARS:
    entry(f"put_{_code}")(_put(_code))
    entry(f"get_{_code}")(_get(_code))

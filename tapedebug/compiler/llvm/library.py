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
NATIVES: dict[str, Callable[..., Call]] = {}
"""Native functions of this process, by symbol."""


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
    make = LIBRARY.get(name) or NATIVES.get(name)
    if make is None:
        raise Misfit(f"there is no library function {name!r}")
    try:
        return make(*operands)
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


def scalar(kind: str) -> str:
    """The type of one lane: a value that differs between lanes has the type of one, with a `~` before it."""
    return kind.removeprefix("~")


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

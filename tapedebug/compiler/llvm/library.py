"""LLVM functions that generated code calls: those of `lang.lowering`, and those of the emitter.

Numbers keep the types that the IR gave them: nothing widens, and nothing refers to a runtime besides the C
library. The Numba backend embeds the same instructions; `python_library` has the same functions in NumPy.

Operations of the language are declared with their rules. An entry here is for what the generated text does
besides: arguments, stacks, the print buffer. It is a function from the types of the operands (codes such as
`f32`, `i64`, `b1`, a pointer as `*f32`) to `Instructions`; add one with `@entry("name")`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import cache

from tapedebug.compiler.llvm.machine import has_feature
from tapedebug.lang.lowering import FUNCTIONS, SCALARS, Instructions, Misfit, fitting, llvm_type

STACK = "*i64"
"""A stack is two words: the address of its memory, and its capacity in words."""

LIBRARY: dict[str, Callable[..., Instructions]] = {}
NATIVES: dict[str, Callable[..., Instructions]] = {}
"""Native functions of this process, by symbol."""


def entry(name: str) -> Callable[[Callable[..., Instructions]], Callable[..., Instructions]]:
    """Enter a function into the table."""

    def enter(make: Callable[..., Instructions]) -> Callable[..., Instructions]:
        if name in LIBRARY:
            raise ValueError(f"{name!r} is in the library already")
        LIBRARY[name] = make
        return make

    return enter


@cache
def call_of(name: str, operands: tuple[str, ...]) -> Instructions:
    """The instructions of a library function.

    Raises:
        Misfit: There is no such function, or it does not take these operands.
    """
    function = FUNCTIONS.get(name)
    if function is not None:
        for feature, short in function.with_feature.items():
            if has_feature(feature):
                with contextlib.suppress(Misfit):
                    return short(*operands)
    make = function.llvm if function is not None else LIBRARY.get(name) or NATIVES.get(name)
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


def scalar(kind: str) -> str:
    """The type of one lane: a value that differs between lanes has the type of one, with a `~` before it."""
    return kind.removeprefix("~")


def in_memory(kind: str) -> str:
    """The type under which memory holds a value: a truth value is a byte."""
    return "u8" if kind == "b1" else kind


# Arguments --------------------------------------------------------------------------------------------------


def slot_of(result: str) -> Callable[..., Instructions]:
    """Return a lowering that reads an argument slot as a value of this type."""

    def slot(args: str, place: str) -> Instructions:
        fitting((args, place) == ("*i64", "i64"), args, place)
        text = "{r}.slot = getelementptr i64, ptr {0}, i64 {1}\n{r} = load " + llvm_type(result)
        return Instructions(result, f"{text}, ptr {{r}}.slot")

    return slot


entry("arg_f64")(slot_of("f64"))
for _code in SCALARS:
    entry(f"ptr_{_code}")(slot_of("*" + in_memory(_code)))


@entry("inside")
def _inside(index: str, length: str) -> Instructions:
    """An index where it is one of `length` elements, else 0."""
    fitting((index, length) == ("i64", "i64"), index, length)
    return Instructions("i64", "{r}.is = icmp ult i64 {0}, {1}\n{r} = select i1 {r}.is, i64 {0}, i64 0")

"""Library functions on vectors: by instructions, or by the C library's vector functions.

What has neither, because it has control flow or is a function of numbers only, is called for one lane after
the other.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from functools import cache

from tapedebug._dataclass import dataclass
from tapedebug.compiler.linker import VECTOR_LIBRARY
from tapedebug.compiler.llvm.instruction_types import ALIGNED_STACK
from tapedebug.compiler.llvm.library import call_of
from tapedebug.lang.lowering import FUNCTIONS, Instructions, in_parts, llvm_type, splat, vector_type

KIND = r"(float|double|half|i\d+)"
BINARY = re.compile(rf"([a-z]+(?: (?:nsw|nuw|exact))*)(?: (\w+))? {KIND} ([^ ,]+), ([^ ,]+)")
CONVERT = re.compile(rf"(\w+) {KIND} ([^ ,]+) to {KIND}")
CHOICE = re.compile(r"select i1 ([^ ,]+), (\S+) ([^ ,]+), (\S+) ([^ ,]+)")
UNARY = re.compile(r"fneg (float|double) ([^ ,]+)")
CALLED = re.compile(r"call (float|double|i\d+) @(llvm\.[\w.]+)\((.*)\)")
DIVISION = re.compile(r"([su](?:div|rem)) (i8|i16|i32) (\{[^ ,]+), (\{[^ ,]+)")
PREDICATED = frozenset({"icmp", "fcmp"})
SUFFIX = re.compile(r"\.([fi])(\d+)")


class Unvectored(Exception):
    """An instruction has no form for vectors here."""


@cache
def vectored(name: str, operands: tuple[str, ...], width: int, *, by_constant: bool) -> Instructions | None:
    """The instructions of a library function on vectors; None where it has other than simple ones.

    Args:
        name: The function.
        operands: The types of its operands.
        width: The number of lanes.
        by_constant: The last operand is a constant. LLVM divides integers by it with products and shifts.
    """
    call = call_of(name, operands)
    try:
        lines = [_line(line, width, by_constant) for line in call.text.splitlines()]
    except Unvectored:
        return None
    return Instructions(call.result, "\n".join(lines))


def _line(line: str, width: int, by_constant: bool) -> str:
    target, _, instruction = line.partition(" = ")
    division = None if by_constant else DIVISION.fullmatch(instruction)
    if division is not None:
        return _divided(target, division, width)
    return f"{target} = {_instruction(instruction, width)}"


def _divided(target: str, division: re.Match[str], width: int) -> str:
    """A quotient or remainder of integers by way of float64, whose truncated quotient is exact for 32 bits.

    Processors divide vectors of floats, but not of integers.
    """
    word, kind, x, y = division.groups()
    whole, wide = vector_type(kind, width), vector_type("double", width)
    sign = word[0]
    lines = [
        f"{target}.x = {sign}itofp {whole} {x} to {wide}",
        f"{target}.y = {sign}itofp {whole} {y} to {wide}",
        f"{target}.ratio = fdiv {wide} {target}.x, {target}.y",
    ]
    quotient = target if word.endswith("div") else f"{target}.whole"
    lines.append(f"{quotient} = fpto{sign}i {wide} {target}.ratio to {whole}")
    if quotient != target:
        lines.append(f"{target}.most = mul {whole} {quotient}, {y}")
        lines.append(f"{target} = sub {whole} {x}, {target}.most")
    return "\n".join(lines)


def _instruction(text: str, width: int) -> str:
    def of(kind: str) -> str:
        return vector_type(kind, width)

    def operand(kind: str, value: str) -> str:
        return value if value.startswith("{") else splat(kind, value)

    if found := CHOICE.fullmatch(text):
        condition, kind, yes, other, no = found.groups()
        return (
            f"select {of('i1')} {operand('i1', condition)}, {of(kind)} {operand(kind, yes)}, "
            f"{of(other)} {operand(other, no)}"
        )
    if found := CONVERT.fullmatch(text):
        word, kind, value, target = found.groups()
        return f"{word} {of(kind)} {operand(kind, value)} to {of(target)}"
    if found := UNARY.fullmatch(text):
        return f"fneg {of(found[1])} {operand(found[1], found[2])}"
    if found := CALLED.fullmatch(text):
        kind, symbol, passed = found.groups()
        arguments = [argument.strip().split(" ") for argument in passed.split(",")]
        listed = ", ".join(f"{of(k)} {operand(k, value)}" for k, value in arguments)
        symbol = SUFFIX.sub(rf".v{width}\1\2", symbol)
        return f"call {of(kind)} @{symbol}({listed})"
    if found := BINARY.fullmatch(text):
        word, predicate, kind, x, y = found.groups()
        if (word in PREDICATED) != bool(predicate):
            raise Unvectored(text)
        opening = f"{word} {predicate}" if predicate else word
        return f"{opening} {of(kind)} {operand(kind, x)}, {operand(kind, y)}"
    raise Unvectored(text)


def each(name: str, operands: tuple[str, ...], width: int) -> Instructions:
    """A call of a function that calls a library function for one lane after the other."""
    call = call_of(name, operands)
    types = [llvm_type(kind) for kind in operands]
    result = llvm_type(call.result)
    symbol = "@td.each." + "_".join((name, *operands))
    passed = ", ".join(f"{vector_type(kind, width)} %{place}" for place, kind in enumerate(types))
    lines = [
        f"define internal {vector_type(result, width)} {symbol}({passed}) noinline nounwind "
        f"{ALIGNED_STACK} {{",
        "start:",
        "  br label %lane",
        "lane:",
        "  %number = phi i64 [ 0, %start ], [ %next, %done ]",
        f"  %found = phi {vector_type(result, width)} [ zeroinitializer, %start ], [ %more, %done ]",
        *(
            f"  %x{place} = extractelement {vector_type(kind, width)} %{place}, i64 %number"
            for place, kind in enumerate(types)
        ),
        *call.text.format(*(f"%x{place}" for place in range(len(types))), r="%r").splitlines(),
        "  br label %done",
        "done:",
        f"  %more = insertelement {vector_type(result, width)} %found, {result} %r, i64 %number",
        "  %next = add i64 %number, 1",
        f"  %again = icmp ult i64 %next, {width}",
        "  br i1 %again, label %lane, label %end",
        "end:",
        f"  ret {vector_type(result, width)} %more",
        "}",
    ]
    listed = ", ".join(f"{vector_type(kind, width)} {{{place}}}" for place, kind in enumerate(types))
    text = f"{{r}} = call {vector_type(result, width)} {symbol}({listed})"
    return Instructions(call.result, text, (*call.needs, "\n".join(lines)))


# Vector functions of the C library --------------------------------------------------------------------------


@cache
def _vector_library() -> Callable[[str], bool]:
    """Return a predicate: True if glibc's vector library has a symbol."""
    try:
        library = ctypes.CDLL(VECTOR_LIBRARY)
    except OSError:
        return lambda symbol: False
    return lambda symbol: hasattr(library, symbol)


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors that a function is compiled for: a `VectorTarget`.

    Attributes:
        width: The number of lanes.
        bits: The width of the processor's vectors: 512 (AVX-512), 256 (AVX2) or 128.
        fast: Whether vector functions of the C library are called.
    """

    width: int
    bits: int
    fast: bool

    def library(self, symbol: str, operands: tuple[str, ...]) -> Instructions | None:
        """Return a call of the C library's vector function, or None where it has none."""
        return _from_c_library(symbol, operands, self)


@cache
def at_once(
    name: str, operands: tuple[str, ...], vectors: Vectors, *, by_constant: bool = False
) -> Instructions:
    """The instructions of a function for all lanes: its own, the C library's, the scalar ones, or a loop.

    `by_constant` says that its last operand is a constant; see `vectored`.
    """
    function = FUNCTIONS.get(name)
    found = None
    if function is not None:
        if function.vector is not None:
            found = function.vector(vectors, operands)
        if found is None and vectors.fast:
            found = library_call(name, operands, vectors)
        if found is None and function.by_lane and not vectors.fast:
            found = each(name, operands, vectors.width)
    width = vectors.width
    return found or vectored(name, operands, width, by_constant=by_constant) or each(name, operands, width)


def library_call(name: str, operands: tuple[str, ...], vectors: Vectors) -> Instructions | None:
    """Return the call of the C library's vector function that a function stands for, or None."""
    function = FUNCTIONS.get(name)
    return vectors.library(function.symbol, operands) if function is not None and function.symbol else None


@cache
def _from_c_library(symbol: str, operands: tuple[str, ...], vectors: Vectors) -> Instructions | None:
    if set(operands) not in ({"f32"}, {"f64"}):
        return None
    kind, width = operands[0], vectors.width
    size = 32 if kind == "f32" else 64
    lanes = min(vectors.bits // size, width)
    letter = {512: "e", 256: "d", 128: "b"}.get(lanes * size)
    if letter is None:
        return None
    symbol = f"_ZGV{letter}N{lanes}{'v' * len(operands)}_{symbol}{'f' if kind == 'f32' else ''}"
    if not _vector_library()(symbol):
        return None
    of = llvm_type(kind)
    part = vector_type(of, lanes)
    taken = ", ".join([part] * len(operands))
    declared = f"declare {part} @{symbol}({taken}) nounwind willreturn memory(none)"
    if lanes == width:
        passed = ", ".join(f"{part} {{{place}}}" for place in range(len(operands)))
        return Instructions(kind, f"{{r}} = call {part} @{symbol}({passed})", (declared,))
    return Instructions(kind, in_parts(symbol, of, len(operands), width, lanes), (declared,))

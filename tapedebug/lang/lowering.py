"""Lowerings of operations: what each target runs for them, declared beside their typing and derivatives.

Generated text (Python) is what is shown and stepped through, what Numba compiles, and what is translated to
LLVM. A rule is written there with operators, which every target has, or as the call of a `Function`, which
has a lowering for each target:

- `python`: on NumPy scalars, for plain Python and for calls outside kernels;
- `llvm`: the instructions for operands of certain types; Numba embeds the same ones;
- `vector`, `symbol` or `by_lane`: for vectors of lanes, where that is not the same instructions on vectors.

Most are a line: `libm("sinh", np.sinh)`, `intrinsic("floor", np.floor)`, `formula("m_erfinv", erfinv)`.
Types are codes (`f32`, `i64`, `b1`, a pointer as `*f32`); operands that do not fit are refused by `fitting`.
"""

from __future__ import annotations

import inspect
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.lang import types as t


class ShortFloat(NamedTuple):
    """The functions of generated text for a type whose values are held as the float32 of the same value.

    Attributes:
        round: Rounds a number to one of the type.
        bits: The bits that memory holds, of a value.
        value: The value, of these bits.
    """

    round: str
    bits: str
    value: str


SHORT_FLOATS: dict[type[t.Scalar], ShortFloat] = {
    t.float16: ShortFloat("to_f16", "half_bits", "half_value"),
    t.bfloat16: ShortFloat("to_bf16", "bfloat16_bits", "bfloat16_value"),
}
"""Types of 16 bits (`rules._halves`, `rules._bfloat16`)."""
STORED_TYPES = frozenset(s for s in t.SCALARS if s not in SHORT_FLOATS)
"""Types of values in generated code."""
FLOATS = frozenset(s.code for s in t.FLOATS if s in STORED_TYPES)
INTEGERS = frozenset(s.code for s in t.INTEGERS)
SCALARS = tuple(s.code for s in t.SCALARS if s in STORED_TYPES)
BITS = {s.code: 8 * s.numpy.itemsize for s in t.SCALARS if s in STORED_TYPES} | {"b1": 1}
NUMPY: dict[str, Any] = {s.code: s.numpy.type for s in t.SCALARS if s in STORED_TYPES}
"""By code, the scalar type of NumPy."""


class Misfit(Exception):
    """A function does not take operands of these types."""


@dataclass(frozen=True, slots=True)
class Instructions:
    """The LLVM instructions of a function for operands of certain types.

    Attributes:
        result: The type of its value; `"void"` for none.
        text: The instructions, with `{0}`, `{1}`, … for the operands and `{r}` for the register of the
            result; registers between have names such as `{r}.low`. Empty where the value is the operand's.
        needs: Declarations and definitions that the instructions refer to.
    """

    result: str
    text: str
    needs: tuple[str, ...] = ()


class VectorTarget(Protocol):
    """A target that runs as many threads at once as its vectors have lanes."""

    @property
    def width(self) -> int:
        """The number of lanes."""

    @property
    def bits(self) -> int:
        """The width of the processor's vectors; with 256 or more it has fused products."""

    @property
    def fast(self) -> bool:
        """True if vector functions with errors of up to 4 units in the last place may be used."""

    def library(self, symbol: str, operands: tuple[str, ...]) -> Instructions | None:
        """Return a call of the C library's vector function, or None where it has none."""


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function of generated text, with its lowering for each target.

    Attributes:
        name: Its name in generated text.
        python: Its value on NumPy scalars.
        llvm: Its instructions, from the types of the operands.
        symbol: The C library's function whose vector form computes it for several lanes.
        by_lane: Whether lanes are computed one after the other where that form is not to be used: LLVM has
            vectors of these functions, too, whose rounding is not known.
        vector: Its instructions for all lanes where others are better than the same ones on vectors; None
            for operands of which there are none.
        with_feature: Shorter instructions for processors with a feature, tried before `llvm`.
        numpy: NumPy's function that means the same, which kernels may call by that name; None for none.
    """

    name: str
    python: Callable[..., Any]
    llvm: Callable[..., Instructions]
    symbol: str = ""
    by_lane: bool = False
    vector: Callable[[VectorTarget, tuple[str, ...]], Instructions | None] | None = None
    with_feature: Mapping[str, Callable[..., Instructions]] = field(default_factory=dict)
    numpy: Callable[..., Any] | None = None

    @property
    def arity(self) -> int:
        """The number of operands."""
        parameters = inspect.signature(self.llvm).parameters.values()
        return sum(p.default is p.empty for p in parameters)

    def call(self) -> str:
        """Return its call in generated text, with `{0}`, `{1}`, … for the operands."""
        return f"{self.name}({', '.join(f'{{{place}}}' for place in range(self.arity))})"


FUNCTIONS: dict[str, Function] = {}


def function(
    name: str,
    python: Callable[..., Any],
    llvm: Callable[..., Instructions],
    *,
    symbol: str = "",
    by_lane: bool = False,
    vector: Callable[[VectorTarget, tuple[str, ...]], Instructions | None] | None = None,
    with_feature: Mapping[str, Callable[..., Instructions]] | None = None,
    numpy: Callable[..., Any] | None = None,
) -> Function:
    """Enter a function of generated text into the table; the arguments are those of `Function`."""
    if name in FUNCTIONS:
        raise ValueError(f"function {name!r} is in the table already")
    made = Function(name, python, llvm, symbol, by_lane, vector, with_feature or {}, numpy)
    FUNCTIONS[name] = made
    return made


def libm(symbol: str, python: Callable[..., Any]) -> Function:
    """A function of floats that the C library has, in both precisions and on vectors; `python` is NumPy's."""

    def one(x: str) -> Instructions:
        return _libm(symbol, x)

    def two(x: str, y: str) -> Instructions:
        return _libm(symbol, x, y)

    ufunc = python if isinstance(python, np.ufunc) else None
    llvm = two if ufunc is not None and ufunc.nin == 2 else one
    return function(f"m_{symbol}", of_its_type(python), llvm, symbol=symbol, numpy=ufunc)


def intrinsic(
    symbol: str,
    python: Callable[..., Any],
    *,
    exact: bool = False,
    vector: Callable[[VectorTarget, tuple[str, ...]], Instructions | None] | None = None,
) -> Function:
    """Register a function of one float that is an intrinsic of LLVM.

    Args:
        symbol: Its name in LLVM, and in the C library.
        python: The same in NumPy.
        exact: Whether LLVM's vectors give the same as its scalars, because nothing is left to rounding.
        vector: As for `Function`.
    """
    return function(
        f"m_{symbol}",
        of_its_type(python),
        lambda x: intrinsic_call(symbol, x),
        symbol="" if exact else symbol,
        by_lane=not exact,
        vector=vector,
        numpy=python if isinstance(python, np.ufunc) else None,
    )


def intrinsic_call(symbol: str, x: str) -> Instructions:
    """A call of an LLVM intrinsic of one float."""
    fitting(x in FLOATS, x)
    kind, called = llvm_type(x), f"@llvm.{symbol}.f{BITS[x]}"
    return Instructions(
        x, f"{{r}} = call {kind} {called}({kind} {{0}})", (f"declare {kind} {called}({kind})",)
    )


def _libm(symbol: str, *operands: str) -> Instructions:
    kind = operands[0]
    fitting(kind in ("f32", "f64") and set(operands) == {kind}, *operands)
    return c_function(symbol + ("f" if kind == "f32" else ""), kind, operands, PURE)


# Python ----------------------------------------------------------------------------------------------------


@cache
def in_python() -> dict[str, Callable[..., Any]]:
    """The functions that texts of rules call, by name, on NumPy scalars."""
    return {function.name: function.python for function in FUNCTIONS.values()}


def of_its_type(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose value has the type of its first operand."""
    return lambda *x: x[0].dtype.type(f(*x))


def converted(code: str) -> Callable[[Any], Any]:
    """Conversion to a scalar type of NumPy, as `cast` does it: floats saturate, integers wrap."""
    number: Callable[..., Any] = NUMPY[code]
    if code[0] not in "iu":
        return number
    limits = np.iinfo(NUMPY[code])

    def convert(x: Any) -> Any:
        if isinstance(x, np.floating):
            whole = 0 if np.isnan(x) else int(min(max(float(x), float(limits.min)), float(limits.max)))
            return number(min(whole, int(limits.max)))
        # Wraps as machine integers do; NumPy refuses Python integers that are too large.
        return number((int(x) - int(limits.min)) % 2**limits.bits + int(limits.min))

    return convert


def same_integer(x: Any, value: int) -> Any:
    """An integer in the type of `x`: int64 may be a Python integer in generated code."""
    return converted("i64" if isinstance(x, int) else f"{x.dtype.kind}{8 * x.dtype.itemsize}")(value)


# LLVM ------------------------------------------------------------------------------------------------------

PURE = "willreturn memory(none)"
"""Attributes of functions of numbers only: the `errno` that they may set is not read."""


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


def alignment(kind: str) -> int:
    """Return the bytes that the address of a scalar in memory is a multiple of."""
    return max(BITS[kind] // 8, 1)


def number(value: int | float, kind: str) -> str:
    """A constant of LLVM."""
    return f"{value}.0" if kind in FLOATS else str(value)


def double(value: float) -> str:
    """A double of LLVM, by its bits: it is rounded once."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def vector_type(kind: str, width: int) -> str:
    """The type of so many lanes in LLVM."""
    return f"<{width} x {kind}>"


def splat(kind: str, value: str) -> str:
    """A number in every lane, as a constant of LLVM."""
    return f"splat ({kind} {value})"


def shuffle(part: str, x: str, y: str, lanes: Iterable[int]) -> str:
    """These lanes of two vectors of one type, numbered through."""
    chosen = [f"i32 {lane}" for lane in lanes]
    return f"shufflevector {part} {x}, {part} {y}, <{len(chosen)} x i32> <{', '.join(chosen)}>"


def in_parts(symbol: str, of: str, arity: int, width: int, lanes: int) -> str:
    """Calls of a function of fewer lanes for one part of them after the other, and the parts put together."""
    whole, part = vector_type(of, width), vector_type(of, lanes)
    lines, parts = [], []
    for first in range(0, width, lanes):
        for place in range(arity):
            piece = shuffle(whole, f"{{{place}}}", "poison", range(first, first + lanes))
            lines.append(f"{{r}}.x{place}.{first} = {piece}")
        passed = ", ".join(f"{part} {{r}}.x{place}.{first}" for place in range(arity))
        lines.append(f"{{r}}.y{first} = call {part} @{symbol}({passed})")
        parts.append(f"{{r}}.y{first}")
    size = lanes
    while len(parts) > 1:
        joined = []
        for left, right in zip(parts[::2], parts[1::2], strict=True):
            name = "{r}" if len(parts) == 2 else f"{left}.{2 * size}"
            lines.append(f"{name} = {shuffle(vector_type(of, size), left, right, range(2 * size))}")
            joined.append(name)
        parts, size = joined, 2 * size
    return "\n".join(lines)


def c_function(name: str, result: str, operands: tuple[str, ...], attributes: str = "") -> Instructions:
    """A call of a function of the C library."""
    types = [llvm_type(o) for o in operands]
    declaration = f"declare {llvm_type(result)} @{name}({', '.join(types)}) nounwind {attributes}".rstrip()
    passed = ", ".join(f"{kind} {{{place}}}" for place, kind in enumerate(types))
    target = "" if result == "void" else "{r} = "
    return Instructions(result, f"{target}call {llvm_type(result)} @{name}({passed})", (declaration,))


def defined(name: str, result: str, operands: tuple[str, ...], body: str, *needs: str) -> Instructions:
    """A call of an LLVM function with this body, whose operands are `%0`, `%1`, …; it is inlined.

    For what has control flow. Values are named (`%rest`), and labels, too; the block of entry has none.
    """
    symbol = "@td." + "_".join((name, *(o.replace("*", "p") for o in operands)))
    types = [llvm_type(o) for o in operands]
    header = f"define internal {llvm_type(result)} {symbol}({', '.join(types)}) alwaysinline nounwind"
    passed = ", ".join(f"{kind} {{{place}}}" for place, kind in enumerate(types))
    target = "" if result == "void" else "{r} = "
    text = f"{target}call {llvm_type(result)} {symbol}({passed})"
    return Instructions(result, text, (*needs, f"{header} {{\n{body.strip()}\n}}"))


def cast(source: str, target: str) -> Instructions:
    """A number in another type; a float out of an integer's range gives the nearest integer, NaN 0."""
    fitting(source in BITS and target in BITS, source, target)
    old, new = llvm_type(source), llvm_type(target)
    bits, wanted = BITS[source], BITS[target]
    unsigned = source == "b1" or source[0] == "u"
    if source == target or (old == new and source not in FLOATS):
        return Instructions(target, "")
    if target == "b1":
        compare = "fcmp une" if source in FLOATS else "icmp ne"
        return Instructions(target, f"{{r}} = {compare} {old} {{0}}, {number(0, source)}")
    if source in FLOATS and target in FLOATS:
        kind = "fpext" if wanted > bits else "fptrunc"
    elif source in FLOATS:
        symbol = f"llvm.fpto{'u' if target[0] == 'u' else 's'}i.sat.i{wanted}.f{bits}"
        return Instructions(
            target, f"{{r}} = call {new} @{symbol}({old} {{0}})", (f"declare {new} @{symbol}({old})",)
        )
    elif target in FLOATS:
        kind = "uitofp" if unsigned else "sitofp"
    elif wanted < bits:
        kind = "trunc"
    else:
        kind = "zext" if unsigned else "sext"
    return Instructions(target, f"{{r}} = {kind} {old} {{0}} to {new}")

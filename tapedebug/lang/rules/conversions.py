"""Conversions between scalar types: of values, and of bits."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapedebug.lang import types as t
from tapedebug.lang.lowering import (
    BITS,
    FLOATS,
    NUMPY,
    SHORT_FLOATS,
    Function,
    Instructions,
    VectorTarget,
    cast,
    converted,
    double,
    fitting,
    function,
    llvm_type,
    splat,
    vector_type,
)
from tapedebug.lang.rules._bfloat16 import to_bfloat16
from tapedebug.lang.rules._halves import to_half
from tapedebug.lang.rules.table import NOT_DIFFERENTIABLE, RuleError, numpy_fold, rule

IS_X86 = platform.machine().lower() in ("x86_64", "amd64")


def _conversion(target: type[t.Scalar]) -> Function:
    code = target.code
    if target is t.float16:
        return to_half
    if target is t.bfloat16:
        return to_bfloat16
    vector = _saturated(code) if target in t.INTEGERS else None
    return function(f"to_{code}", converted(code), lambda source: cast(source, code), vector=vector)


def _saturated(code: str) -> Callable[[VectorTarget, tuple[str, ...]], Instructions | None]:
    """Return the conversion of floats to an integer type in every lane, for x86.

    Its processors convert vectors, but do not saturate, and LLVM converts one lane after the other for
    `llvm.fptosi.sat`: a step of advection in float64 took twice as long. So the floats are limited before.
    """
    limits = np.iinfo(NUMPY[code])

    def instructions(target: VectorTarget, operands: tuple[str, ...]) -> Instructions | None:
        (source,) = operands
        if source not in FLOATS or not IS_X86:
            return None
        kind, width = llvm_type(source), target.width
        of, into, condition = (vector_type(each, width) for each in (kind, llvm_type(code), "i1"))
        least, most = (NUMPY[source](limit) for limit in (limits.min, limits.max))
        is_exact = int(most) == limits.max
        if not is_exact:  # it was rounded up, to a power of two
            most = np.nextafter(most, least)
        low, high = (splat(kind, double(float(limit))) for limit in (least, most))
        lines = [
            f"{{r}}.above = fcmp ogt {of} {{0}}, {low}",  # false for NaN
            f"{{r}}.raised = select {condition} {{r}}.above, {of} {{0}}, {of} {low}",
            f"{{r}}.below = fcmp olt {of} {{r}}.raised, {high}",
            f"{{r}}.limited = select {condition} {{r}}.below, {of} {{r}}.raised, {of} {high}",
        ]
        word = "fptosi" if limits.min else "fptoui"
        choices = (
            [] if is_exact else [(f"fcmp ogt {of} {{0}}, {high}", splat(llvm_type(code), str(limits.max)))]
        )
        choices += [(f"fcmp uno {of} {{0}}, {{0}}", "zeroinitializer")] if limits.min else []
        names = [f"{{r}}.whole{place}" for place in range(len(choices))] + ["{r}"]
        lines.append(f"{names[0]} = {word} {of} {{r}}.limited to {into}")
        for (test, value), before, after in zip(choices, names, names[1:], strict=False):
            lines.append(f"{after}.test = {test}")
            lines.append(f"{after} = select {condition} {after}.test, {into} {value}, {into} {before}")
        return Instructions(code, "\n".join(lines))

    return instructions


def _convert(target: type[t.Scalar]) -> None:
    rule(
        f"to_{target.code}",
        f"Conversion to {target.__name__}; from a float to an integer it truncates.",
        result=lambda operands: target,
        lowering=_conversion(target),
        # Conversions between float types are differentiable; the compiler skips operands that are not floats.
        partials=(lambda x, r: 1.0,) if target in t.FLOATS else NOT_DIFFERENTIABLE,
        fold=numpy_fold(target),
        exact=target in SHORT_FLOATS,
        natural=target in (t.int32, t.int64),
    )


for _target in t.SCALARS:
    _convert(_target)


# Bits: the same memory as another type of its size ---------------------------------------------------------


def _same_size(target: type[t.Scalar]) -> Any:
    def result(operands: Sequence[Any]) -> Any:
        (source,) = operands
        bits = t.bits_of(target)
        if source is t.bool or t.bits_of(source) != bits:
            raise RuleError(
                f"takes a type of {bits} bits for {t.type_name(target)}; got {t.type_name(source)}",
                f"convert the value first, or use {t.conversion(target)} for its nearest number",
            )
        return target

    return result


def _bits_in_python(target: type[t.Scalar]) -> Callable[[Any], Any]:
    def of_bits(x: Any) -> Any:
        number = np.int64(x) if isinstance(x, int) else np.asarray(x)
        return np.frombuffer(number.tobytes(), target.numpy)[0]

    return of_bits


def _bits_in_llvm(target: str) -> Callable[..., Instructions]:
    def of_bits(source: str) -> Instructions:
        fitting(source in BITS and BITS[source] == BITS[target], source)
        old, new = llvm_type(source), llvm_type(target)
        return Instructions(target, "" if old == new else f"{{r}} = bitcast {old} {{0}} to {new}")

    return of_bits


def _of_bits(target: type[t.Scalar]) -> Function | str:
    """The function; of a type that generated code holds as a float32, the value of its bits."""
    code = target.code
    if target in SHORT_FLOATS:
        return f"{SHORT_FLOATS[target].value}(u16_of_bits({{0}}))"
    return function(f"{code}_of_bits", _bits_in_python(target), _bits_in_llvm(code))


_TARGETS: tuple[type[t.Scalar], ...] = (*t.INTEGERS, *t.FLOATS)
for _target in _TARGETS:
    rule(
        f"{_target.code}_of_bits",
        f"The {_target.__name__} that has the bits of a number of another type.",
        result=_same_size(_target),
        lowering=_of_bits(_target),
        partials=NOT_DIFFERENTIABLE,
        exact=_target in SHORT_FLOATS,
    )

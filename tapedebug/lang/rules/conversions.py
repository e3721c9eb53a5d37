"""Conversions between scalar types: of values, and of bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapedebug.lang import types as t
from tapedebug.lang.rules._table import NOT_DIFFERENTIABLE, RuleError, numpy_fold, rule


def _convert(target: type[t.Scalar]) -> None:
    rule(
        f"to_{target.code}",
        f"Conversion to {target.__name__}; from a float to an integer it truncates.",
        result=lambda operands: target,
        text=f"to_{target.code}({{0}})",
        # Conversions between float types are differentiable; the compiler skips operands that are not floats.
        partials=(lambda x, r: 1.0,) if target in t.FLOATS else NOT_DIFFERENTIABLE,
        fold=numpy_fold(target.numpy.type),
    )


for _target in t.SCALARS:
    _convert(_target)


# Bits: the same memory as another type of its size ---------------------------------------------------------


def _same_size(target: type[t.Scalar]) -> Any:
    def result(operands: Sequence[Any]) -> Any:
        (source,) = operands
        if source is t.bool or source.numpy.itemsize != target.numpy.itemsize:
            bits = 8 * target.numpy.itemsize
            raise RuleError(
                f"takes a type of {bits} bits for {t.type_name(target)}; got {t.type_name(source)}",
                f"convert the value first, or use {t.conversion(target)} for its nearest number",
            )
        return target

    return result


for _target in (*t.INTEGERS, *t.FLOATS):
    rule(
        f"{_target.code}_of_bits",
        f"The {_target.__name__} that has the bits of a number of another type.",
        result=_same_size(_target),
        text=f"{_target.code}_of_bits({{0}})",
        partials=NOT_DIFFERENTIABLE,
    )

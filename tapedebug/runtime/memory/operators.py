"""Arithmetic on arrays: `a + b`, `2.0 * a`, `-a`, `a += b`; elementwise, broadcast, recorded on a tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapedebug.lang import types


def _fits(value: Any) -> bool:
    return isinstance(value, Arithmetic | np.ndarray | int | float | np.generic | types.Compound)


def _binary(name: str, sign: str, reflected: bool = False) -> Callable[[Any, Any], Any]:
    template = f"{{0}} {sign} {{1}}"

    def operation(self: Any, other: Any) -> Any:
        if not _fits(other):
            return NotImplemented
        from tapedebug.runtime.launch.map import apply

        pair = (other, self) if reflected else (self, other)
        return apply(f"map_{name}", None, template, pair, what=f"array {sign} array")

    operation.__doc__ = f"Elementwise `{sign}`, with arrays that broadcast, numbers, vectors and matrices."
    return operation


def _augmented(name: str, sign: str) -> Callable[[Any, Any], Any]:
    template = f"{{0}} {sign} {{1}}"

    def operation(self: Any, other: Any) -> Any:
        if not _fits(other):
            return NotImplemented
        from tapedebug.runtime.launch.map import apply

        what = f"array {sign}= array"
        return apply(f"map_{name}", None, template, (self, other), in_place=True, what=what)

    operation.__doc__ = f"Elementwise `{sign}` in place."
    return operation


class Arithmetic:
    """The arithmetic operators of arrays and indexed arrays.

    Comparison is by identity, so that arrays can be keys.
    """

    __slots__ = ()

    __array_priority__ = 1000.0
    """Priority that makes NumPy defer `number * array` to the array."""

    __add__ = _binary("add", "+")
    __radd__ = _binary("add", "+", reflected=True)
    __iadd__ = _augmented("add", "+")
    __sub__ = _binary("sub", "-")
    __rsub__ = _binary("sub", "-", reflected=True)
    __isub__ = _augmented("sub", "-")
    __mul__ = _binary("mul", "*")
    __rmul__ = _binary("mul", "*", reflected=True)
    __imul__ = _augmented("mul", "*")
    __truediv__ = _binary("div", "/")
    __rtruediv__ = _binary("div", "/", reflected=True)
    __itruediv__ = _augmented("div", "/")
    __floordiv__ = _binary("floordiv", "//")
    __rfloordiv__ = _binary("floordiv", "//", reflected=True)
    __ifloordiv__ = _augmented("floordiv", "//")
    __mod__ = _binary("mod", "%")
    __rmod__ = _binary("mod", "%", reflected=True)
    __imod__ = _augmented("mod", "%")
    __pow__ = _binary("pow", "**")
    __rpow__ = _binary("pow", "**", reflected=True)
    __ipow__ = _augmented("pow", "**")

    def __neg__(self: Any) -> Any:
        """Return a new array of the negated elements."""
        from tapedebug.runtime.launch.map import apply

        return apply("map_neg", None, "-{0}", (self,), what="-array")

    def __pos__(self: Any) -> Any:
        """Return a new array of the same elements."""
        from tapedebug.runtime.launch.map import apply

        return apply("map_pos", None, "+{0}", (self,), what="+array")

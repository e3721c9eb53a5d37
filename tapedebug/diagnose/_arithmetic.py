"""The rules of the kernel language on NumPy scalars: what generated code calls, evaluated in Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class Lost(Exception):
    """A thread can not be followed: too long, an index out of bounds, or an operation that is not known."""


def _c_div(x: Any, y: Any) -> Any:
    return type(x)(math.trunc(int(x) / int(y))) if y else type(x)(0)


def _floor_div(x: Any, y: Any) -> Any:
    if isinstance(x, np.integer):
        return x // y if y else type(x)(0)
    return np.floor(x / y)


def _c_mod(x: Any, y: Any) -> Any:
    if isinstance(x, np.integer):
        return x - _c_div(x, y) * y if y else type(x)(0)
    return np.fmod(x, y)


def _round(x: Any) -> Any:
    return np.trunc(x + np.copysign(type(x)(0.5), x))


def _trip_count(start: Any, stop: Any, step: Any) -> int:
    return len(range(int(start), int(stop), int(step))) if step else 0


def _cast(kind: type) -> Callable[[Any], Any]:
    def cast(x: Any) -> Any:
        if issubclass(kind, np.integer) and isinstance(x, (float, np.floating)):
            limits = np.iinfo(kind)
            return kind(0 if math.isnan(x) else int(max(limits.min, min(limits.max, float(x)))))
        return np.asarray(x).astype(kind)[()]  # wraps, as machine integers do

    return cast


def _shift(left: bool) -> Callable[..., Any]:
    def shift(x: Any, y: Any) -> Any:
        bits = 8 * x.dtype.itemsize
        count = int(y) if 0 <= int(y) < bits else bits
        whole = int(x) << count if left else int(x) >> count
        return np.asarray(whole % 2**bits, np.uint64).astype(x.dtype)[()]

    return shift


_NAMES: dict[str, Callable[..., Any]] = {
    "select": lambda condition, yes, no: yes if condition else no,
    "c_div": _c_div,
    "floor_div": _floor_div,
    "c_mod": _c_mod,
    "trip_count": _trip_count,
    "m_pow": lambda x, y: x**y if x >= 0 or float(y).is_integer() else type(x)("nan"),
    "m_atan2": np.arctan2,
    "m_abs": abs,
    "m_sign": lambda x: type(x)(-1 if x < 0 else 1),
    "m_sign0": lambda x: type(x)(-1 if x < 0 else 1 if x > 0 else 0),
    "m_round": _round,
    "unit": lambda x: x if math.isnan(x) else type(x)(min(max(x, -1), 1)),
    "m_asin": np.arcsin,
    "m_acos": np.arccos,
    "m_atan": np.arctan,
    "m_asinh": np.arcsinh,
    "m_acosh": np.arccosh,
    "m_atanh": np.arctanh,
    "m_erf": lambda x: type(x)(math.erf(x)),
    "m_erfc": lambda x: type(x)(math.erfc(x)),
    **{
        f"m_{name}": getattr(np, name)
        for name in (
            *("sqrt", "cbrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
            *("floor", "ceil", "trunc", "rint"),
        )
    },
    "to_f32": _cast(np.float32),
    "to_f64": _cast(np.float64),
    **{f"to_i{bits}": _cast(np.dtype(f"int{bits}").type) for bits in (8, 16, 32, 64)},
    **{f"to_u{bits}": _cast(np.dtype(f"uint{bits}").type) for bits in (8, 16, 32, 64)},
    "to_b1": bool,
    "shl": _shift(left=True),
    "shr": _shift(left=False),
}
_CODE: dict[str, Any] = {}


def evaluate(text: str, operands: Sequence[Any]) -> Any:
    """Return the value of a rule's text on NumPy scalars."""
    code = _CODE.get(text)
    if code is None:
        names = [f"x{i}" for i in range(9)]
        code = _CODE[text] = compile(text.format(*names), "<rule>", "eval")
    try:
        return eval(
            code, {"__builtins__": {}, **_NAMES, **{f"x{i}": item for i, item in enumerate(operands)}}
        )
    except (NameError, TypeError) as error:
        raise Lost(f"the operation {text} is not known here ({error})") from None

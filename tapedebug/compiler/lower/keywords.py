"""Keyword arguments of functions of the language (`lerp(a, b, t=0.5)`), and Python's equivalents."""

from __future__ import annotations

import ast
import math
from typing import Any

import numpy as np

from tapedebug.compiler.lower._context import Context, hashable
from tapedebug.lang.builtins import BUILTINS
from tapedebug.lang.lowering import FUNCTIONS
from tapedebug.lang.rules import COMPOSITES, DRAWS, RULES

Signature = tuple[str, ...]

_INDICES = ("i", "j", "k", "l")
_DRAWN: dict[str, tuple[Signature, ...]] = {
    "randf": (("state", "low", "high"),),
    "randi": (("state", "low", "high"),),
    "randu": (("state", "low", "high"),),
    "poisson": (("state", "lam"),),
    "sample_cdf": (("state", "cdf"),),
}
_POINTS = ("x", "xy", "xyz", "xyzt")


def _atomic(*values: str) -> tuple[Signature, ...]:
    return tuple(("arr", *_INDICES[:axes], *values) for axes in range(1, len(_INDICES) + 1))


_OWN: dict[str, tuple[Signature, ...]] = {
    **{f"atomic_{word}": _atomic("value") for word in ("add", "sub", "min", "max", "exch")},
    **{f"atomic_{word}": _atomic("value") for word in ("and", "or", "xor")},
    "atomic_cas": _atomic("compare", "value"),
    "view": (("arr", "i"), ("arr", "i", "j"), ("arr", "i", "j", "k")),
    "lower_bound": (("arr", "value"), ("arr", "arr_begin", "arr_end", "value")),
    "transform_set_rotation": (("xform", "q"),),
    "transform_set_translation": (("xform", "p"),),
    **_DRAWN,
    **dict.fromkeys(("add", "sub", "mul", "div"), (("a", "b"),)),
    "invert": (("a",),),
    "isfinite": (("a",),),
    "isinf": (("a",),),
    "isnan": (("a",),),
    "quat_to_rpy": (("q",),),
    "rand_init": (("seed",), ("seed", "offset")),
    "noise": tuple(("state", point) for point in _POINTS),
    "pnoise": tuple(("state", point, *(f"p{axis}" for axis in point)) for point in _POINTS),
}
"""The names of arguments that do not follow from the rule table."""


def signatures(name: str) -> tuple[Signature, ...]:
    """The names of the arguments of a function, one tuple for each number of them that it takes."""
    if name in _OWN:
        return _OWN[name]
    if name in COMPOSITES:
        entry = COMPOSITES[name]
        return (entry.operands,) if not entry.operands[0].startswith("*") else ()
    if name in RULES:
        return (RULES[name].operands,)
    return ()


def in_order(ctx: Context, node: ast.Call, name: str) -> ast.Call:
    """A call of a function of the language with its keywords as further arguments in order."""
    if not node.keywords:
        return node
    named = {keyword.arg: keyword.value for keyword in node.keywords}
    count = len(node.args)
    for signature in signatures(name):
        rest = signature[count:]
        given = rest[: len(named)]
        # What is left out must be at the end; the state of random numbers is a variable that changes.
        fits = set(given) == named.keys() and not (name in DRAWS and count == 0)
        if fits and (len(rest) == len(named) or name in COMPOSITES or name in DRAWS):
            call = ast.Call(node.func, [*node.args, *(named[key] for key in given)], [])
            return ast.copy_location(call, node)
    shown = " or ".join(f"{name}({', '.join(signature)})" for signature in signatures(name))
    words = ", ".join(f"`{key or '**'}`" for key in named)
    ctx.syntax_error(
        node,
        f"these arguments do not fit {name}(): {count} in order, then {words} by name",
        f"write {shown}" if shown else "pass the values in order",
    )


# Python's functions -----------------------------------------------------------------------------------------

_ELEMENTARY = {name: FUNCTIONS[f"m_{name}"] for name in RULES if f"m_{name}" in FUNCTIONS}
_COMPOSITE = ("degrees", "radians", "isnan", "isinf", "isfinite")
_NAMES = [*(name for name, function in _ELEMENTARY.items() if function.numpy or function.symbol), *_COMPOSITE]
"""Functions of `math` that give the same in a kernel (rounding gives floats there)."""
PYTHON: dict[Any, str] = {
    **{getattr(math, name): name for name in _NAMES if hasattr(math, name)},
    **{function.numpy: name for name, function in _ELEMENTARY.items() if function.numpy is not None},
    **{getattr(np, name): name for name in _COMPOSITE},
    **{np.absolute: "abs", np.minimum: "min", np.maximum: "max", np.fmod: "mod"},
    **{abs: "abs", min: "min", max: "max", round: "round", pow: "pow", math.fabs: "abs", math.fmod: "mod"},
}
"""Names in the language of functions of Python, `math` and NumPy with the same meaning."""
PYTHON = {function: name for function, name in PYTHON.items() if name in BUILTINS}


def of_python(target: Any) -> str | None:
    """The name in the language of a function of Python's, where it means the same."""
    return PYTHON.get(target) if hashable(target) else None


def folded(node: ast.Call, target: Any) -> ast.Call:
    """`min(a, b, c)` as calls with two arguments each."""
    if target in (min, max) and len(node.args) > 2:
        inner = ast.copy_location(ast.Call(node.func, node.args[:-1], []), node)
        return ast.copy_location(ast.Call(node.func, [folded(inner, target), node.args[-1]], []), node)
    return node

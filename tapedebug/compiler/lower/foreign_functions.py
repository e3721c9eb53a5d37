"""Functions of other libraries that kernels cannot call, and what the kernel language has instead."""

from __future__ import annotations

import ast
import sys
from types import ModuleType
from typing import Any

from tapedebug.compiler.lower._context import Context
from tapedebug.lang.builtins import BOTH, BUILTINS, CONSTANTS

LIBRARIES = {
    "cupy": "CuPy",
    "jax": "JAX",
    "numpy": "NumPy",
    "scipy": "SciPy",
    "tensorflow": "TensorFlow",
    "torch": "PyTorch",
}

_ARRAYS = "a kernel makes no arrays: pass one as a parameter, or use a vector, such as wp.vec3(0.0, 0.0, 0.0)"
_SUM = "add in a loop, or over all threads with wp.atomic_add(result, 0, value)"
_EXTREMUM = "compare in a loop with wp.{0}(a, b), or over all threads with wp.atomic_{0}(result, 0, value)"
_ROWS = (
    (
        "arange array asarray concatenate copy diff empty empty_like eye full full_like linspace list "
        "logspace meshgrid ones ones_like repeat reshape stack tensor tile zeros zeros_like",
        _ARRAYS,
    ),
    ("average cumsum fsum mean nansum std sum var", _SUM),
    ("prod", "multiply in a loop"),
    ("max amax", _EXTREMUM.format("max")),
    ("min amin", _EXTREMUM.format("min")),
    (
        "choice gauss normal normalvariate permutation rand randint randn random randrange shuffle uniform",
        "wp.randf(wp.rand_init(seed, wp.tid())) is a random number of a thread",
    ),
    ("all", "combine the conditions with `and`"),
    ("any", "combine the conditions with `or`"),
    ("clip clamp", "use wp.clamp(x, low, high)"),
    ("isclose allclose", "write wp.abs(a - b) < 1.0e-6"),
    ("hypot norm dist", "use wp.length(v) of a vector, such as wp.vec2(a, b)"),
    ("matmul einsum tensordot", "write a @ b for matrices, wp.dot(a, b) for vectors"),
    ("inv solve", "use wp.inverse(a) of a matrix"),
    ("det", "use wp.determinant(a)"),
    ("square", "write x * x"),
    ("reciprocal", "write 1.0 / x"),
    ("remainder", "use wp.mod(a, b)"),
    ("expm1", "write wp.exp(x) - 1.0"),
    ("exp2", "write wp.pow(2.0, x)"),
    ("log1p", "write wp.log(1.0 + x)"),
    ("relu", "use wp.max(x, 0.0)"),
    ("sigmoid", "write 1.0 / (1.0 + wp.exp(-x))"),
    ("softplus", "write wp.log(1.0 + wp.exp(x))"),
    ("rsqrt", "write 1.0 / wp.sqrt(x)"),
    ("append", "a kernel has no lists: write to an element of an array"),
    ("enumerate zip", "write `for i in range(n):`, and index with i"),
    ("time", "measure around the launch"),
    ("input", "pass the value as an argument of the launch"),
    ("open", "read the file before the launch, and pass its values"),
)
_BY_NAME = {name: hint for names, hint in _ROWS for name in names.split()}
"""Replacements of functions, by name: the same for NumPy, PyTorch, JAX and Python's own."""
_SAME = {"arctan2": "atan2", "absolute": "abs", "fabs": "abs", "maximum": "max", "minimum": "min"}
"""Functions that the kernel language has by another name."""
REDUCTIONS = frozenset(("average", "max", "mean", "min", "prod", "std", "sum", "var"))
"""The subset that arrays of other libraries have as methods."""


def hint(name: str) -> str | None:
    """Return the replacement, in a kernel, of a function that other libraries call `name`."""
    name = name.rpartition(".")[2]
    same = _SAME.get(name, name.replace("arc", "a", 1) if name.startswith("arc") else name)
    if name not in _BY_NAME and same in BUILTINS and same not in BOTH:
        return f"use wp.{same}"
    if name in CONSTANTS:
        return f"use wp.{name}"
    return _BY_NAME.get(name)


def library(ctx: Context, node: ast.expr, target: Any) -> str | None:
    """The library of a function, by the module that it is written with or its own; None: the user's code.

    Args:
        ctx: Where names are looked up.
        node: The function as it is written.
        target: The function.
    """
    root = node
    while isinstance(root, ast.Attribute):
        root = root.value
    module: Any = None
    if isinstance(root, ast.Name) and root.id not in ctx.env and root.id not in ctx.locals:
        try:
            module = ctx.names(root.id)
        except KeyError:
            return None
    name = module.__name__ if isinstance(module, ModuleType) else getattr(target, "__module__", None)
    package = str(name or "").partition(".")[0]
    if package in LIBRARIES:
        return LIBRARIES[package]
    return "Python" if package in sys.stdlib_module_names and package != "__main__" else None


def refuse(ctx: Context, node: ast.expr, target: Any) -> None:
    """Refuse a function of another library, in a message that names what to write; return for any other."""
    origin = library(ctx, node, target)
    if origin is None:
        return
    shown = ast.unparse(node)
    ctx.name_error(
        node,
        f"`{shown}` is a function of {origin}, which a kernel cannot call",
        hint(shown)
        or "write it with functions of the kernel language, or compute it before the launch and pass it",
    )

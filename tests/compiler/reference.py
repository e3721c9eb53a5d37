"""Programs of `generator.py` as plain Python in float64, which shares nothing with the compiler."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np


class Vec:
    """Three components that can be changed in place; perhaps a view into an array."""

    def __init__(self, *values: Any) -> None:
        self.values = values[0] if len(values) == 1 else np.array(values, float)

    def __getitem__(self, k: int) -> Any:
        return self.values[k]

    def __setitem__(self, k: int, value: Any) -> None:
        self.values[k] = value

    x = property(lambda self: self.values[0], lambda self, v: self.values.__setitem__(0, v))
    y = property(lambda self: self.values[1], lambda self, v: self.values.__setitem__(1, v))
    z = property(lambda self: self.values[2], lambda self, v: self.values.__setitem__(2, v))

    def __add__(self, other: Vec) -> Vec:
        return Vec(self.values + other.values)

    def __sub__(self, other: Vec) -> Vec:
        return Vec(self.values - other.values)

    def __mul__(self, other: Any) -> Vec:
        return Vec(self.values * other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Vec:
        return Vec(self.values / other)

    def __neg__(self) -> Vec:
        return Vec(-self.values)


class VecArray:
    """A NumPy array of shape (n, 3) as an array of `Vec`."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __getitem__(self, k: int) -> Vec:
        return Vec(self.values[k])

    def __setitem__(self, k: int, value: Vec) -> None:
        self.values[k] = value.values


def copied(value: Any) -> Any:
    """The value, no longer a view: assignments copy vectors in the kernel language."""
    return Vec(value.values.copy()) if isinstance(value, Vec) else value


def _parts(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b: Vec(f(a.values, b.values)) if isinstance(a, Vec) else f(a, b)


class Library:
    """What programs call as `wp`."""

    def __init__(self) -> None:
        self.thread = 0

    def tid(self) -> int:
        return self.thread

    def kernel(self, f: Any) -> Any:
        return f

    def func(self, f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: f(*map(copied, args))

    def atomic_add(self, array: Any, k: int, value: Any) -> Any:
        before = copied(array[k])
        array[k] = before + value
        return before

    def atomic_sub(self, array: Any, k: int, value: Any) -> Any:
        return self.atomic_add(array, k, -value)

    vec3 = Vec
    lerp = staticmethod(lambda a, b, s: a * (1 - s) + b * s)
    sin, cos, tanh, sqrt, atan, abs = (
        staticmethod(getattr(np, n)) for n in ["sin", "cos", "tanh", "sqrt", "arctan", "abs"]
    )
    min, max = staticmethod(_parts(np.minimum)), staticmethod(_parts(np.maximum))
    cw_mul = staticmethod(_parts(np.multiply))
    cross = staticmethod(_parts(np.cross))
    clamp = staticmethod(np.clip)
    where = staticmethod(lambda c, a, b: a if c else b)
    dot = staticmethod(lambda a, b: (a.values * b.values).sum())
    length_sq = staticmethod(lambda a: (a.values * a.values).sum())
    length = staticmethod(lambda a: np.sqrt((a.values * a.values).sum()))
    normalize = staticmethod(lambda a: a / np.sqrt((a.values * a.values).sum()))


class _Plain(ast.NodeTransformer):
    """Removes the import and annotations, and makes assignments to variables copy."""

    def visit_Import(self, node: ast.Import) -> None:
        return None

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        self.generic_visit(node)
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        if isinstance(node.targets[0], ast.Name):
            node.value = ast.Call(ast.Name("copied", ast.Load()), [node.value], [])
        return node


def reference(source: str) -> Callable[[int, list[Any]], None]:
    """The program as a function of the number of threads and the arguments, which it changes in place."""
    library = Library()
    tree = ast.fix_missing_locations(_Plain().visit(ast.parse(source)))
    names: dict[str, Any] = {"wp": library, "copied": copied}
    exec(compile(tree, "<reference>", "exec"), names)

    def run(dim: int, args: list[Any]) -> None:
        wrapped = [VecArray(a) if isinstance(a, np.ndarray) and a.shape[1:] == (3,) else a for a in args]
        for thread in range(dim):
            library.thread = thread
            names["program"](*wrapped)

    return run

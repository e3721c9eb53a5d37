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

    def _new(self, values: Any) -> Any:
        return Vec(values)

    def __add__(self, other: Vec) -> Any:
        return self._new(self.values + other.values)

    def __sub__(self, other: Vec) -> Any:
        return self._new(self.values - other.values)

    def __mul__(self, other: Any) -> Any:
        return self._new(self.values * other)

    def __rmul__(self, other: Any) -> Any:
        return self._new(self.values * other)

    def __truediv__(self, other: Any) -> Any:
        return self._new(self.values / other)

    def __neg__(self) -> Any:
        return self._new(-self.values)


class Mat(Vec):
    """Three rows of three, as `Vec`; a row is a view."""

    def __init__(self, *values: Any) -> None:
        self.values = values[0] if len(values) == 1 else np.array(values, float).reshape(3, 3)

    def __getitem__(self, k: Any) -> Any:
        return self.values[k] if isinstance(k, tuple) else Vec(self.values[k])

    def __setitem__(self, k: Any, value: Any) -> None:
        self.values[k] = value.values if isinstance(value, Vec) else value

    def _new(self, values: Any) -> Any:
        return Mat(values)

    def __mul__(self, other: Any) -> Any:
        return self @ other if isinstance(other, Vec) else Mat(self.values * other)

    def __matmul__(self, other: Any) -> Any:
        return type(other)(self.values @ other.values)


class Quat(Vec):
    """Four components, the real one last."""

    w = property(lambda self: self.values[3], lambda self, v: self.values.__setitem__(3, v))

    def _new(self, values: Any) -> Any:
        return Quat(values)

    def __mul__(self, other: Any) -> Quat:
        if not isinstance(other, Quat):
            return Quat(self.values * other)
        u, v, s, t = self.values[:3], other.values[:3], self.values[3], other.values[3]
        return Quat(np.append(s * v + t * u + np.cross(u, v), s * t - u @ v))

    def inverse(self) -> Quat:
        return Quat(self.values * [-1, -1, -1, 1])

    def rotate(self, v: Vec) -> Vec:
        turned = self * Quat(np.append(v.values, 0.0)) * self.inverse()
        return Vec(turned.values[:3])

    def matrix(self) -> Mat:
        return Mat(np.array([self.rotate(Vec(axis)).values for axis in np.eye(3)]).T)


KINDS = {(3,): Vec, (3, 3): Mat, (4,): Quat}


class CompoundArray:
    """A NumPy array as an array of vectors, matrices or quaternions."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values
        self.kind = KINDS[values.shape[1:]]

    def __getitem__(self, k: int) -> Vec:
        return self.kind(self.values[k])

    def __setitem__(self, k: int, value: Vec) -> None:
        self.values[k] = value.values


FIELDS = {"pos": Vec, "mass": None, "turn": Quat, "count": None}


class Body:
    """A struct: element `k` of the arrays of its fields."""

    def __init__(self, arrays: tuple[np.ndarray, ...] = (), k: int = 0) -> None:
        if not arrays:
            arrays = (np.zeros((1, 3)), np.zeros(1), np.zeros((1, 4)), np.zeros(1, int))
        self.__dict__["arrays"] = dict(zip(FIELDS, arrays, strict=True))
        self.__dict__["k"] = k

    def __getattr__(self, name: str) -> Any:
        if name not in FIELDS:
            raise AttributeError(name)
        value = self.arrays[name][self.k]
        kind = FIELDS[name]
        return kind(value) if kind is not None else value

    def __setattr__(self, name: str, value: Any) -> None:
        self.arrays[name][self.k] = value.values if isinstance(value, Vec) else value

    def copy(self) -> Body:
        return Body(tuple(a[self.k : self.k + 1].copy() for a in self.arrays.values()))


class BodyArray:
    """The arrays of the fields as an array of structs."""

    def __init__(self, *arrays: np.ndarray) -> None:
        self.arrays = arrays

    def __getitem__(self, k: int) -> Body:
        return Body(self.arrays, k)

    def __setitem__(self, k: int, value: Body) -> None:
        for into, source in zip(self.arrays, value.copy().arrays.values(), strict=True):
            into[k] = source[0]


def copied(value: Any) -> Any:
    """The value, no longer a view: assignments copy vectors in the kernel language."""
    if isinstance(value, Body):
        return value.copy()
    return value._new(value.values.copy()) if isinstance(value, Vec) else value


def _parts(f: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b: a._new(f(a.values, b.values)) if isinstance(a, Vec) else f(a, b)


class Library:
    """The namespace that programs call as `wp`."""

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

    def atomic_max(self, array: Any, k: int, value: Any) -> Any:
        before = array[k]
        array[k] = value if value > before else before
        return before

    def atomic_min(self, array: Any, k: int, value: Any) -> Any:
        before = array[k]
        array[k] = value if value < before else before
        return before

    def atomic_exch(self, array: Any, k: int, value: Any) -> Any:
        before, array[k] = array[k], value
        return before

    def mat33(self, *values: Any) -> Mat:
        return Mat(*values) if len(values) == 9 else Mat(np.full((3, 3), float(values[0])))

    def quat_from_axis_angle(self, axis: Vec, angle: Any) -> Quat:
        return Quat(np.append(np.sin(angle / 2) * axis.values, np.cos(angle / 2)))

    vec3 = Vec
    quat = Quat
    struct = staticmethod(lambda kind: Body)
    array = staticmethod(lambda dtype: None)
    float64 = float
    identity = staticmethod(lambda n, dtype: Mat(np.eye(n)))
    transpose = staticmethod(lambda m: Mat(m.values.T.copy()))
    determinant = staticmethod(lambda m: np.linalg.det(m.values))
    inverse = staticmethod(lambda m: Mat(np.linalg.inv(m.values)))
    trace = staticmethod(lambda m: np.trace(m.values))
    ddot = staticmethod(lambda a, b: (a.values * b.values).sum())
    outer = staticmethod(lambda a, b: Mat(np.outer(a.values, b.values)))
    skew = staticmethod(lambda a: Mat(np.cross(np.eye(3), a.values).T * -1.0))
    diag = staticmethod(lambda a: Mat(np.diag(a.values)))
    get_diag = staticmethod(lambda m: Vec(np.diag(m.values).copy()))
    quat_inverse = staticmethod(Quat.inverse)
    quat_rotate = staticmethod(Quat.rotate)
    quat_rotate_inv = staticmethod(lambda q, v: q.inverse().rotate(v))
    quat_to_matrix = staticmethod(Quat.matrix)
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
        *plain, pos, mass, turn, count = args
        wrapped = [
            CompoundArray(a) if isinstance(a, np.ndarray) and a.shape[1:] in KINDS else a for a in plain
        ]
        wrapped.append(BodyArray(pos, mass, turn, count))
        for thread in range(dim):
            library.thread = thread
            names["program"](*wrapped)

    return run

"""Find, in a program's source, the numbers that it computes from values read off a tape.

`float(np.mean(error.numpy()))` is followed outwards from the read, through names that are assigned once and
out of the function that returns it, to the place where it is printed, stored or compared. The result is an
expression of known functions, which can also be evaluated for other values. No code of the program runs.
"""

from __future__ import annotations

import ast
import linecache
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import islice
from types import CodeType
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._float_types import is_float
from tapedebug._source import display_file
from tapedebug.contract import Array, FrameValues, Length
from tapedebug.trace import Location

REDUCTIONS = frozenset(
    {"mean", "sum", "average", "max", "min", "median", "std", "var", "ptp", "prod", "amax", "amin"}
)
FUNCTIONS = REDUCTIONS | {
    *("abs", "absolute", "fabs", "sqrt", "square", "exp", "log", "log10", "power", "maximum", "minimum"),
    *("array", "asarray", "ravel", "reshape", "squeeze", "float32", "float64", "nanmean", "nansum"),
    *("add", "subtract", "multiply", "divide", "dot", "vdot", "linspace", "arange", "ones", "zeros", "full"),
}
"""NumPy functions that can be evaluated again."""
METHODS = REDUCTIONS | {"item", "copy", "astype", "ravel", "flatten", "reshape", "squeeze", "tolist", "dot"}
"""Methods of NumPy arrays that can be evaluated again."""
_HOST: dict[str, Callable[..., Any]] = {
    "float": float,
    "int": int,
    "abs": abs,
    "sum": np.sum,
    "max": lambda *each: np.max(each if len(each) > 1 else each[0]),
    "min": lambda *each: np.min(each if len(each) > 1 else each[0]),
}
"""Python functions that can be evaluated again, including `len`, and `round`, which only affects display."""
READS = frozenset({"numpy", "list"})
"""Methods that read arrays."""
OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.Pow: lambda a, b: a**b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.MatMult: lambda a, b: a @ b,
}


_KEPT_ON = (ast.AugAssign, ast.comprehension, ast.GeneratorExp, ast.ListComp, ast.Lambda)
"""Statements that pass values on to code that is not followed."""


class UnknownExpression(Exception):
    """Raised for an expression that cannot be evaluated."""


@dataclass(frozen=True, slots=True)
class HostNumber:
    """A number that a program reports.

    Attributes:
        text: Its expression.
        place: The place of the expression.
        value: Computes the number from the values of the array that was read.
        divisors: The divisors in the expression, as written.
        passed: True if it is an argument of an unknown function.
    """

    text: str
    place: Location
    value: Callable[[Any], Any]
    divisors: tuple[str, ...]
    passed: bool = False


@dataclass(frozen=True, slots=True)
class Module:
    """The source of a file: its syntax tree, and the parent of each node."""

    tree: ast.Module
    parents: dict[ast.AST, ast.AST]


@dataclass(frozen=True, slots=True)
class _Step:
    """An expression in which `hole` is the part with a known value: all of it, if that is a name."""

    node: ast.expr
    hole: ast.expr
    frame: FrameValues

    def is_hole(self, node: ast.expr) -> bool:
        """True if an expression is the known part."""
        if isinstance(self.hole, ast.Name) and isinstance(node, ast.Name):
            return node.id == self.hole.id
        return node is self.hole


def numbers(frames: Sequence[FrameValues]) -> list[HostNumber] | None:
    """Return the numbers computed from a read; None if its further use is unknown."""
    if not frames:
        return None
    try:
        module = _module(frames[0].code)
        node = _at(module, frames[0])
        read = node
        if isinstance(node, ast.Subscript):
            read = node.value  # array[0]
        elif isinstance(node, ast.Call) and not _is_read(node):
            read = node.args[0]  # np.mean(array), which reads it through its interface
        return list(_follow(module, read, [], frames))
    except (UnknownExpression, IndexError, KeyError):
        return None


@lru_cache(maxsize=32)
def parsed(file: str, text: str) -> Module | None:
    """Return the syntax tree of some source and the parent of each node; None if it does not parse."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    return Module(tree, parents)


def _module(code: CodeType) -> Module:
    found = parsed(code.co_filename, "".join(linecache.getlines(code.co_filename)))
    if found is None:
        raise UnknownExpression
    return found


def _at(module: Module, frame: FrameValues) -> ast.expr:
    """Return the expression that a frame was executing.

    In a chain of methods over several lines, the place of a call begins at the name of the method.
    """
    position = next(islice(frame.code.co_positions(), frame.instruction // 2, None), None)
    ends: list[ast.expr] = []
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.Call, ast.Subscript)):
            own = node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
            if own == position:
                return node
            if position is not None and own[1::2] == position[1::2]:
                ends.append(node)
    if len(ends) != 1:
        raise UnknownExpression
    return ends[0]


def _is_read(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr in READS


def _follow(
    module: Module, hole: ast.expr, steps: list[_Step], frames: Sequence[FrameValues]
) -> Iterator[HostNumber]:
    """Return the numbers that are computed from an expression."""
    top = _top(module, hole)
    steps = [*steps, _Step(top, hole, frames[0])]
    parent = module.parents.get(top)
    if isinstance(parent, ast.keyword):
        parent = module.parents.get(parent)
    target = parent.targets[0] if isinstance(parent, ast.Assign) and len(parent.targets) == 1 else None
    try:
        if isinstance(target, ast.Name):
            uses = _uses(module, target)
            for use in uses:
                yield from _follow(module, use, steps, frames)
            return
        if isinstance(parent, ast.Return) and len(frames) > 1:
            outer = _module(frames[1].code)
            yield from _follow(outer, _at(outer, frames[1]), steps, frames[1:])
            return
    except UnknownExpression:  # what becomes of it; up to there it is known
        yield replace(_number(steps), passed=True)
        return
    shown = ("print", "str", "repr", "format")
    named = isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id not in shown
    yield replace(_number(steps), passed=named or isinstance(parent, _KEPT_ON))


def _top(module: Module, node: ast.expr) -> ast.expr:
    """Return the largest expression around a value that can be computed from it."""
    while True:
        parent = module.parents.get(node)
        if isinstance(parent, ast.Attribute):
            call = module.parents.get(parent)
            known = parent.attr in METHODS and isinstance(call, ast.Call) and call.func is parent
            if not known:
                return node
            parent = call
        elif isinstance(parent, ast.Call):
            if node is parent.func or not _known(parent):
                return node
        elif isinstance(parent, ast.Subscript):
            if node is not parent.value:
                return node
        elif not isinstance(parent, (ast.BinOp, ast.UnaryOp)):
            return node
        assert isinstance(parent, ast.expr)
        node = parent


def _known(call: ast.Call) -> bool:
    function = call.func
    if isinstance(function, ast.Name):
        return function.id in _HOST or function.id in ("len", "round")
    return isinstance(function, ast.Attribute) and _is_numpy(function.value) and function.attr in FUNCTIONS


def _is_numpy(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("np", "numpy", "math")


def _uses(module: Module, target: ast.Name) -> list[ast.Name]:
    """Return the uses of a name that is assigned once in its function."""
    scope: ast.AST = target
    while not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
        scope = module.parents[scope]
    names = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == target.id]
    if sum(isinstance(node.ctx, ast.Store) for node in names) != 1:
        raise UnknownExpression
    return [node for node in names if isinstance(node.ctx, ast.Load)]


def _number(steps: Sequence[_Step]) -> HostNumber:
    def value(values: Any) -> Any:
        for step in steps:
            values = _evaluate(step.node, step, values)
        return values

    node = next(step.node for step in reversed(steps) if step.node is not step.hole or step is steps[0])
    code = next(step for step in steps if step.node is node).frame.code
    place = Location(
        file=display_file(code.co_filename), line=node.lineno, column=node.col_offset, function=code.co_name
    )
    divisors = [
        ast.unparse(inner.right)
        for step in steps
        for inner in ast.walk(step.node)
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Div)
    ]
    return HostNumber(ast.unparse(node), place, value, tuple(divisors))


def _evaluate(node: ast.expr, step: _Step, hole: Any) -> Any:
    """Return the value of an expression of known functions."""
    if step.is_hole(node):
        return hole
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](_evaluate(node.left, step, hole), _evaluate(node.right, step, hole))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _evaluate(node.operand, step, hole)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.Subscript):
        return _evaluate(node.value, step, hole)[_index(node.slice, step, hole)]
    if isinstance(node, ast.Call):
        return _called(node, step, hole)
    if isinstance(node, ast.Attribute) and node.attr in ("size", "shape"):
        owner = hole if step.is_hole(node.value) else _named(node.value, step)
        return getattr(owner, node.attr)
    return _values_of(_named(node, step))


def _index(node: ast.expr, step: _Step, hole: Any) -> Any:
    if isinstance(node, ast.Tuple):
        return tuple(_index(each, step, hole) for each in node.elts)
    if isinstance(node, ast.Slice):
        parts = (node.lower, node.upper, node.step)
        return slice(*[None if part is None else _evaluate(part, step, hole) for part in parts])
    return _evaluate(node, step, hole)


def _called(node: ast.Call, step: _Step, hole: Any) -> Any:
    function, keywords = node.func, {}
    for each in node.keywords:
        if each.arg not in ("axis", "weights", "keepdims"):
            raise UnknownExpression
        keywords[each.arg] = _evaluate(each.value, step, hole)
    if isinstance(function, ast.Name) and function.id == "len" and len(node.args) == 1:
        if any(isinstance(inner, ast.expr) and step.is_hole(inner) for inner in ast.walk(node.args[0])):
            return len(_evaluate(node.args[0], step, hole))
        found = _named(node.args[0], step)
        return found.value if isinstance(found, Length) else len(found)
    if isinstance(function, ast.Attribute) and function.attr in READS and not node.args:
        return _values_of(_named(function.value, step))
    if isinstance(function, ast.Name) and function.id == "round":
        return _evaluate(node.args[0], step, hole)
    arguments = [_evaluate(each, step, hole) for each in node.args if not _is_type(each)]
    if isinstance(function, ast.Name) and function.id in _HOST:
        return _HOST[function.id](*arguments)
    if isinstance(function, ast.Attribute) and _is_numpy(function.value) and function.attr in FUNCTIONS:
        return getattr(np, function.attr)(*arguments, **keywords)
    if isinstance(function, ast.Attribute) and function.attr in METHODS:
        owner = np.asarray(_evaluate(function.value, step, hole))
        if function.attr in ("copy", "astype", "tolist"):
            return owner
        return getattr(owner, function.attr)(*arguments, **keywords)
    raise UnknownExpression


def _is_type(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr.startswith(("float", "int"))


def _named(node: ast.expr, step: _Step) -> Any:
    """Return the value of a name at that time: a number, a length or an array."""
    found = step.frame.values.get(ast.unparse(node))
    if isinstance(found, weakref.ref):
        found = found()
    if found is None:
        raise UnknownExpression
    return found


def _values_of(found: Any) -> Any:
    if isinstance(found, Length):
        raise UnknownExpression
    values = found.current() if isinstance(found, Array) else found
    real = isinstance(values, np.ndarray) and is_float(values.dtype)
    return values.astype(np.float64) if real else values

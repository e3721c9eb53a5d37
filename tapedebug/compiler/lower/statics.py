"""Compile-time values: `static(expr)`, and the sequences that a `for` can unroll."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any, NoReturn

import numpy as np

from tapedebug.compiler.builder import constant_of
from tapedebug.compiler.function import scope_of
from tapedebug.compiler.lower import components, expressions
from tapedebug.compiler.lower._context import Context, Item, Items, Static, View, hashable
from tapedebug.lang import types as t
from tapedebug.lang.builtins import static
from tapedebug.lang.rules import Quantity

MISSING = object()


def evaluate(ctx: Context, node: ast.Call) -> Item:
    """`static(expr)`: what the Python expression gives, in the scope of the function that it stands in.

    It sees what its function saw where it was decorated, and the variables of the function that are known, as
    those of loops that are written out.
    """
    if len(node.args) != 1 or node.keywords or isinstance(node.args[0], ast.Starred):
        ctx.type_error(node, "static() takes one expression", "write static(expression)")
    expression = _Lengths(ctx).visit(deepcopy(node.args[0]))
    bound = _bound(expression)
    known = {name: value for name, item in ctx.env.items() if (value := python_value(item)) is not MISSING}
    for part in ast.walk(expression):
        if isinstance(part, ast.Name) and part.id in {*ctx.env, *ctx.locals} - known.keys() - bound:
            ctx.name_error(
                part,
                f"`{part.id}` is not known when the kernel is compiled, so that static() cannot use it",
                "use what is known: captured values, and variables of loops over constants",
            )
    text = ast.unparse(expression)
    try:
        value = eval(text, {**scope_of(ctx.python), **known})
    except Exception as error:
        ctx.syntax_error(
            node,
            f"static({text}) raised {type(error).__name__}: {error}",
            "let it be an expression that Python can compute before the launch",
        )
    ctx.captured.append((ctx.python, text, known, value))
    return Static(value)


class _Lengths(ast.NodeTransformer):
    """Writes the lengths of vectors, matrices and tuples, which are known, for `len(v)`."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A call: of `len`, where nothing else has that name."""
        match node:
            case ast.Call(func=ast.Name("len"), args=[ast.Name(name)], keywords=[]):
                item = self.ctx.env.get(name)
                length = None if "len" in self.ctx.env else components.known_length(item)
                if length is not None:
                    return ast.copy_location(ast.Constant(length), node)
        self.generic_visit(node)
        return node


def _bound(expression: ast.expr) -> set[str]:
    """The variables of comprehensions and lambda functions in an expression."""
    nodes = list(ast.walk(expression))
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in nodes if isinstance(node, ast.arg)}


def python_value(item: Item) -> Any:
    """The Python value of an item that is known when the kernel is compiled, else `MISSING`."""
    if isinstance(item, Static):
        return item.value
    if isinstance(item, Items):
        values = [python_value(part) for part in item.items]
        return MISSING if any(v is MISSING for v in values) else tuple(values)
    if not isinstance(item, Quantity):
        return MISSING
    numbers = [constant_of(part.value) for part in item.parts]
    if any(number is None for number in numbers):
        return MISSING
    if t.is_compound(item.type):
        return item.type(*numbers)
    # float32 and int32 are what Python's numbers become again.
    return numbers[0] if item.type in (t.float32, t.int32, t.bool) else item.type(numbers[0])


COMPARE: dict[type[ast.cmpop], tuple[str, Callable[[Any, Any], bool]]] = {
    ast.Eq: ("==", operator.eq),
    ast.NotEq: ("!=", operator.ne),
    ast.Is: ("is", operator.is_),
    ast.IsNot: ("is not", operator.is_not),
    ast.In: ("in", lambda a, b: a in b),
    ast.NotIn: ("not in", lambda a, b: a not in b),
}


def compared(ctx: Context, node: ast.Compare, left: Item, sign: ast.cmpop, right: Item) -> Quantity | None:
    """A comparison of Python objects (types, strings, None), known now; None where numbers are compared."""
    of_numbers = type(sign) not in (ast.Is, ast.IsNot, ast.In, ast.NotIn)
    if type(sign) not in COMPARE or (
        of_numbers and not (_is_object(ctx, node, left) or _is_object(ctx, node, right))
    ):
        return None
    name, compare = COMPARE[type(sign)]
    one, two = (python_value(item) for item in (left, right))
    if one is MISSING or two is MISSING:
        if not of_numbers:
            ctx.syntax_error(node, f"a kernel cannot use `{name}`", "compare with < <= > >= == !=")
        return None
    if isinstance(one, type) and isinstance(two, type):
        one, two = _canonical(one), _canonical(two)
    try:
        found = bool(compare(one, two))
    except Exception as error:
        ctx.type_error(node, f"Python cannot compute this comparison: {error}", "compare values that fit")
    return expressions.wrap(ctx, ctx.builder.constant(found, t.bool))


def _is_object(ctx: Context, node: ast.AST, item: Item) -> bool:
    return isinstance(item, Static) and ctx.number(node, item.value) is None


def _canonical(kind: type) -> Any:
    try:
        return t.canonical(kind)
    except TypeError:
        return kind


def subscript(ctx: Context, node: ast.Subscript, base: Any) -> Item:
    """An item of a captured sequence or dictionary, at an index that is known; of an array it is refused."""
    if getattr(base, "kernel_type", None) is not None:
        name = ast.unparse(node.value)
        ctx.type_error(
            node,
            f"`{name}` is an array outside the kernel: launches would not see its later values, and it would "
            "get no gradient",
            as_parameter(name, base),
        )
    key = (
        python_value(expressions.lower(ctx, node.slice)) if not isinstance(node.slice, ast.Slice) else MISSING
    )
    if key is MISSING:
        _varying(ctx, node, base)
    try:
        value = base[key]
    except Exception as error:
        ctx.type_error(
            node, f"Python cannot compute this: {type(error).__name__}: {error}", "use what is there"
        )
    ctx.captured.append((ctx.python, ast.unparse(node.value), {}, base))
    return Static(value)


def _varying(ctx: Context, node: ast.Subscript, base: Any) -> NoReturn:
    """Refuse an index that is known to a running thread only, into what a kernel captures."""
    name, index = ast.unparse(node.value), ast.unparse(node.slice).strip("()")
    plain = _KINDS.get(type(base), f"a Python {type(base).__name__}")
    what = "an array" if hasattr(base, "__array_interface__") else plain
    seen = "is a slice" if isinstance(node.slice, ast.Slice) else "is known when a thread runs"
    ctx.type_error(
        node,
        f"`{name}` is {what} outside the kernel, which reads it at constant indices only; `{index}` {seen}",
        as_parameter(name, base),
    )


def as_parameter(name: str, base: Any, *, written: bool = False) -> str:
    """Return the advice to pass a captured array to the kernel as the parameter `name`."""
    parameter = name.rpartition(".")[2]
    if isinstance(base, dict):
        return "pass the values as an array, and index it with a number"
    if getattr(base, "kernel_type", None) is not None:
        where = "outputs" if written else "inputs"
        return f"add a parameter `{parameter}: {t.type_name(base.kernel_type)}`, and pass {name} in {where}"
    kind, ndim = _numbers(base)
    more = f", ndim={ndim}" if ndim > 1 else ""
    given = "an array in outputs" if written else f"wp.array({name}, dtype={kind}) in inputs"
    return f"add a parameter `{parameter}: wp.array(dtype={kind}{more})`, and pass {given}"


def _numbers(base: Any) -> tuple[str, int]:
    """The dtype and the number of dimensions for an array with the numbers of a sequence."""
    try:
        values = np.asarray(base)
    except ValueError:  # rows of several lengths
        return "float", 1
    return {"i": "int", "b": "bool"}.get(values.dtype.kind, "float"), max(1, values.ndim)


_KINDS: dict[type, str] = {list: "a Python list", tuple: "a Python tuple", dict: "a Python dictionary"}


def needed(ctx: Context, loop: ast.For) -> bool:
    """True if a loop contains a `static(…)`, which may need its variable."""
    return any(
        isinstance(node, ast.Call) and is_static(ctx, node.func) for s in loop.body for node in ast.walk(s)
    )


def is_static(ctx: Context, node: ast.expr) -> bool:
    """True if the callee of a call is `static`."""
    path: list[str] = []
    while isinstance(node, ast.Attribute):
        path.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name) or (path or [node.id])[0] != "static":
        return False
    if node.id in ctx.env or node.id in ctx.locals:
        return False
    try:
        value = ctx.names(node.id)
    except KeyError:
        return False
    for name in reversed(path):
        value = getattr(value, name, None)
    return value is static


def items(ctx: Context, node: ast.expr) -> list[Item]:
    """Return the items that an unrolled `for` runs over."""
    if isinstance(node, ast.Tuple | ast.List):
        for part in node.elts:
            if isinstance(part, ast.Starred):
                ctx.syntax_error(part, "a kernel cannot use starred expressions", "write the values out")
        return [expressions.lower(ctx, part) for part in node.elts]
    if isinstance(node, ast.Call) and not node.keywords:
        function = expressions.lower(ctx, node.func)
        combine = (
            COMBINED.get(function.value)
            if isinstance(function, Static) and hashable(function.value)
            else None
        )
        if combine is not None:
            return combine([items(ctx, argument) for argument in node.args])
        if isinstance(function, Static) and function.value is range:
            return _range(ctx, node)
    return sequence(ctx, node, expressions.lower(ctx, node))


def _range(ctx: Context, node: ast.Call) -> list[Item]:
    bounds = [python_value(expressions.lower(ctx, argument)) for argument in node.args]
    try:
        return [Static(number) for number in range(*bounds)]
    except (TypeError, ValueError):
        ctx.type_error(
            node, "a range that stands here has bounds that are known", "use range(…) itself in the `for`"
        )


def sequence(ctx: Context, node: ast.expr, item: Item) -> list[Item]:
    """The items of something that is known to have so many; refuses what does not."""
    if isinstance(item, Items):
        return list(item.items)
    if isinstance(item, Quantity) and t.is_compound(item.type):
        return [components.get(item, (k,)) for k in range(item.type.shape[0])]
    if (
        isinstance(item, Static)
        and isinstance(item.value, Iterable)
        and not isinstance(item.value, str | bytes)
    ):
        return [Static(value) for value in item.value]
    hint = "write `for i in range(n):`, or run over a tuple or something else known when it is compiled"
    if isinstance(item, View):
        ctx.syntax_error(
            node,
            "a kernel's `for` does not run over an array",
            f"write `for i in range({item.name}.shape[0]):`",
        )
    ctx.syntax_error(node, "a kernel's `for` runs over range(…), or over values that are known", hint)


def _enumerated(given: list[list[Item]]) -> list[Item]:
    return [Items((Static(k), item)) for k, item in enumerate(given[0])]


def _zipped(given: list[list[Item]]) -> list[Item]:
    return [Items(row) for row in zip(*given, strict=False)]


COMBINED: dict[Any, Callable[[list[list[Item]]], list[Item]]] = {
    enumerate: _enumerated,
    zip: _zipped,
    reversed: lambda given: given[0][::-1],
    list: lambda given: given[0],
    tuple: lambda given: given[0],
}
"""Python's functions of sequences, on what is known."""

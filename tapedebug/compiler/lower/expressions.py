"""Expressions: from syntax to values."""

from __future__ import annotations

import ast
import difflib
import enum
from collections.abc import Callable
from typing import Any

import numpy as np

from tapedebug.compiler.builder import constant_of
from tapedebug.compiler.function import Function
from tapedebug.compiler.lower import (
    arguments,
    calls,
    components,
    conditions,
    custom,
    foreign_functions,
    in_place,
    statics,
    structs,
    views,
)
from tapedebug.compiler.lower._context import (
    Context,
    Item,
    Items,
    Static,
    StructArray,
    StructValue,
    View,
)
from tapedebug.lang import types as t
from tapedebug.lang.builtins import Builtin
from tapedebug.lang.rules import COMPOSITES, Quantity

BINARY = {
    ast.Add: ("add", "`+`"),
    ast.Sub: ("sub", "`-`"),
    ast.Mult: ("mul", "`*`"),
    ast.Div: ("div", "`/`"),
    ast.FloorDiv: ("floordiv", "`//`"),
    ast.Mod: ("mod", "`%`"),
    ast.Pow: ("pow", "`**`"),
    ast.MatMult: ("matmul", "`@`"),
    ast.BitAnd: ("bit_and", "`&`"),
    ast.BitOr: ("bit_or", "`|`"),
    ast.BitXor: ("bit_xor", "`^`"),
    ast.LShift: ("lshift", "`<<`"),
    ast.RShift: ("rshift", "`>>`"),
}


def lower(ctx: Context, node: ast.expr) -> Item:
    """The value of an expression."""
    return structs.loaded(ctx, node, reference(ctx, node))


def reference(ctx: Context, node: ast.expr) -> Item:
    """Lower an expression without reading the element of an array that it may be."""
    for kind, handler in HANDLERS.items():
        if isinstance(node, kind):
            ctx.at(node)
            return handler(ctx, node)
    word = type(node).__name__
    ctx.syntax_error(
        node,
        f"a kernel cannot use {UNSUPPORTED.get(word, f'this expression ({word})')}",
        HINTS.get(word, "kernels compute with numbers, vectors and array elements"),
    )


UNSUPPORTED = {
    "List": "lists",
    "Dict": "dictionaries",
    "Set": "sets",
    "ListComp": "list comprehensions",
    "GeneratorExp": "generator expressions",
    "DictComp": "dictionary comprehensions",
    "SetComp": "set comprehensions",
    "Lambda": "lambda functions",
    "JoinedStr": "formatted strings",
    "NamedExpr": "assignment expressions (`:=`)",
    "Starred": "starred expressions",
    "Await": "await",
    "Yield": "yield",
    "YieldFrom": "yield",
}


HINTS = {
    "List": "use a vector, such as wp.vec3(a, b, c), or an array parameter",
    "Dict": "pass arrays, or several parameters",
    "ListComp": "write a `for` loop",
    "GeneratorExp": "write a `for` loop",
    "Lambda": "define a function outside, decorated with @wp.func",
    "NamedExpr": "assign in a statement of its own",
}


def value(ctx: Context, node: ast.expr, what: str = "a value") -> Quantity:
    """The value of an expression that must be a number or a compound value."""
    return ctx.quantity(node, lower(ctx, node), what)


def is_call_of(ctx: Context, node: ast.Call, name: str) -> bool:
    """True if a call is one of the language's function `name`."""
    if not isinstance(node.func, ast.Name | ast.Attribute):
        return False
    item = lower(ctx, node.func)
    return isinstance(item, Static) and isinstance(item.value, Builtin) and item.value.name == name


def argument(ctx: Context, node: ast.expr) -> Quantity:
    """The value of an argument of a call."""
    return value(ctx, node)


def literal(ctx: Context, node: ast.expr) -> int | float | None:
    """The Python number that an expression writes down or captures, before it has a type; else None."""
    match node:
        case ast.Constant(value=number):
            pass
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            number = literal(ctx, operand)
            return -number if number is not None else None
        case ast.Name() | ast.Attribute():
            root: ast.expr = node
            while isinstance(root, ast.Attribute):
                root = root.value
            if not isinstance(root, ast.Name) or root.id in ctx.env:
                return None
            item = lower(ctx, node)
            number = item.value if isinstance(item, Static) else None
        case ast.Call() if statics.is_static(ctx, node.func):
            item = statics.evaluate(ctx, node)
            number = item.value if isinstance(item, Static) else None
        case _:
            return None
    if isinstance(number, int | float) and not isinstance(number, bool | np.generic):
        return number
    return None


def wrap(ctx: Context, scalar: Any) -> Quantity:
    """A scalar value as a quantity."""
    return Quantity(scalar.type, (ctx.builder.expr(scalar),))


def _constant(ctx: Context, node: ast.Constant) -> Item:
    if node.value is None or isinstance(node.value, str):
        return Static(node.value)
    q = ctx.number(node, node.value)
    if q is None:
        ctx.syntax_error(
            node,
            f"a kernel cannot use {node.value!r}",
            "kernels compute with numbers, vectors and array elements",
        )
    return q


def _name(ctx: Context, node: ast.Name) -> Item:
    return ctx.lookup(node)


def _tuple(ctx: Context, node: ast.Tuple) -> Item:
    return Items(tuple(part(ctx, e, lower(ctx, e)) for e in node.elts))


def part(ctx: Context, node: ast.expr, item: Item) -> Item:
    """An element of a tuple: a captured number becomes a constant, as in an assignment."""
    number = ctx.number(node, item.value) if isinstance(item, Static) else None
    return item if number is None else number


def _attribute(ctx: Context, node: ast.Attribute) -> Item:
    base = reference(ctx, node.value)
    ctx.at(node)
    base = structs.as_value(ctx, node.value, base) or base
    if isinstance(base, StructValue):
        return in_place.copied(ctx, structs.field(ctx, node, base))
    number = t.Compound | int | float | np.generic
    if isinstance(base, Static) and (isinstance(base.value, enum.Enum) or not isinstance(base.value, number)):
        return _static_attribute(ctx, node, base.value)
    if isinstance(base, View) and base.free:
        return _array_attribute(ctx, node, base)
    if isinstance(base, StructArray):
        return structs.element_field(ctx, node, base)
    q = ctx.quantity(node.value, structs.loaded(ctx, node.value, base))
    ctx.at(node)
    if node.attr == "dtype":
        return Static(t.scalar_of(q.type))
    if node.attr in ("length", "shape") and t.is_compound(q.type):
        return Static(getattr(q.type, node.attr))
    return in_place.copied(ctx, components.get(q, (components.named(ctx, node, q.type, node.attr),)))


def _array_attribute(ctx: Context, node: ast.Attribute, base: View) -> Item:
    if node.attr == "shape":
        return views.shape(ctx, base)
    if node.attr == "ndim":
        return wrap(ctx, ctx.builder.constant(base.free, t.int32))
    if node.attr == "dtype":
        return Static(base.type.dtype)
    name, indices = base.name, ", ".join("ijkl"[: base.free])
    if t.is_struct(base.type.dtype) and node.attr in base.type.dtype.fields:
        ctx.type_error(
            node,
            f"`{node.attr}` is a field of the elements of the array `{name}`",
            f"index it first: {name}[{indices}].{node.attr}",
        )
    hint = f"inside kernels an array has `shape`; index it to reach its values: {name}[i]"
    if node.attr in foreign_functions.REDUCTIONS:
        hint = foreign_functions.hint(node.attr) or hint
    ctx.type_error(node, f"the array `{name}` has no attribute `{node.attr}` in a kernel", hint)


def _static_attribute(ctx: Context, node: ast.Attribute, base: Any) -> Item:
    if node.attr == "dtype" and t.is_compound(base):
        return Static(base.scalar)
    try:
        value = getattr(base, node.attr)
        ctx.captured.append((ctx.python, ast.unparse(node), {}, value))
        return Static(value)
    except AttributeError as error:
        name = getattr(base, "__name__", type(base).__name__)
        from tapedebug._unsupported import ELSEWHERE, kernel_name_hint

        hint = kernel_name_hint(node.attr)
        if name == "tapedebug":  # which knows what is planned, and what was meant
            known = "the documentation of the kernel language lists what it has"
            ctx.name_error(node, str(error), hint or known)
        hint = hint or ELSEWHERE.get(node.attr) or _near(node.attr, dir(base))
        ctx.name_error(node, f"`{name}` has no attribute `{node.attr}`", hint)


def _near(name: str, known: list[str]) -> str | None:
    near = difflib.get_close_matches(name, known, 1)
    return f"did you mean `{near[0]}`?" if near else None


def _subscript(ctx: Context, node: ast.Subscript) -> Item:
    if custom.is_adjoint(ctx, node.value):
        return custom.adjoint_of(ctx, node)
    base = lower(ctx, node.value)
    if isinstance(base, View):
        return views.view_at(ctx, node, base)
    if isinstance(base, Static) and not isinstance(base.value, t.Compound | int | float | np.generic):
        return statics.subscript(ctx, node, base.value)
    if isinstance(base, Items):
        index = _static_index(ctx, node, len(base.items))
        return base.items[index]
    q = ctx.quantity(node.value, base)
    where = components.path(ctx, node, q.type)
    ctx.at(node)
    return in_place.copied(ctx, components.get(q, where))


def _static_index(ctx: Context, node: ast.Subscript, length: int) -> int:
    number = constant_of(value(ctx, node.slice).scalar.value)
    if number is None:
        ctx.type_error(node, "several values are indexed with a constant only", "use an array or a vector")
    if not 0 <= number < length:
        ctx.type_error(
            node, f"there are {length} values and none has the index {number}", f"use 0 to {length - 1}"
        )
    return int(number)


def binary(ctx: Context, node: ast.AST, operator: ast.operator, left: Quantity, right: Quantity) -> Quantity:
    """The result of an arithmetic operator."""
    name, sign = BINARY[type(operator)]
    if left.type is t.bool and right.type is t.bool:
        name = {"bit_and": "and", "bit_or": "or", "bit_xor": "ne"}.get(name, name)
    ctx.at(node)
    return apply(ctx, node, name, sign, left, right)


def apply(ctx: Context, node: ast.AST, name: str, shown: str, *operands: Quantity) -> Quantity:
    """A composite or scalar rule on operands, with misfits shown at `node`."""
    entry = COMPOSITES.get(name)
    operands = in_place.stopped(ctx, name, operands)
    if entry is not None:
        result: Quantity = ctx.guarded(node, shown, entry.build, *operands)
        return result
    for q in operands:
        if t.is_compound(q.type):
            ctx.type_error(
                node, f"{shown} takes numbers; got {t.type_name(q.type)}", "apply it to each component"
            )
    values = [q.scalar.value for q in operands]
    return wrap(ctx, ctx.guarded(node, shown, ctx.builder.apply, name, *values))


def _binary(ctx: Context, node: ast.BinOp) -> Item:
    for side in (node.left, node.right):
        if isinstance(side, ast.Constant) and isinstance(side.value, str):
            ctx.syntax_error(
                node,
                f"a kernel cannot compute with text: {side.value!r}",
                'to print values, list them: print("x is", x), or wp.printf("x is %f\\n", x)',
            )
    left, right = lower(ctx, node.left), lower(ctx, node.right)
    own = of_structs(ctx, node, BINARY[type(node.op)][0], left, right)
    if own is not None:
        return own
    return binary(ctx, node, node.op, ctx.quantity(node.left, left), ctx.quantity(node.right, right))


def of_structs(ctx: Context, node: ast.expr | ast.stmt, name: str, *operands: Item) -> Item | None:
    """An operator on structs, which calls the user's function of its name (`add`, …); None without one."""
    if not any(structs.as_value(ctx, node, operand) for operand in operands):
        return None
    try:
        function = ctx.names(name)
    except KeyError:
        return None
    if not isinstance(function, Function):
        return None
    given = {f"%operand{k}": operand for k, operand in enumerate(operands)}
    called: list[ast.expr] = [ast.Name(key, ast.Load()) for key in given]
    call = ast.Call(ast.Name(name, ast.Load()), called, [])
    for made in ast.walk(call):
        ast.copy_location(made, node)
    ctx.env |= given
    try:
        version, env = arguments.resolved(ctx, call, function)
    finally:
        for key in given:
            del ctx.env[key]
    return calls.inlined(ctx, call, version, env)


def _unary(ctx: Context, node: ast.UnaryOp) -> Item:
    if isinstance(node.op, ast.Not):
        q = conditions.condition(ctx, node.operand)
        return wrap(ctx, ctx.builder.apply("not", q.scalar.value))
    item = lower(ctx, node.operand)
    own = of_structs(ctx, node, {ast.USub: "neg", ast.UAdd: "pos"}.get(type(node.op), "invert"), item)
    if own is not None:
        return own
    q = ctx.quantity(node.operand, item)
    ctx.at(node)
    if isinstance(node.op, ast.USub):
        return apply(ctx, node, "neg", "`-`", q)
    if isinstance(node.op, ast.UAdd):
        return q
    return apply(ctx, node, "invert", "`~`", q)


def _compare(ctx: Context, node: ast.Compare) -> Item:
    return conditions.compare(ctx, node)


def _boolean(ctx: Context, node: ast.BoolOp) -> Item:
    return conditions.boolean(ctx, node)


def _conditional(ctx: Context, node: ast.IfExp) -> Item:
    return conditions.conditional(ctx, node)


def _call(ctx: Context, node: ast.Call) -> Item:
    return calls.lower(ctx, node)


HANDLERS: dict[type[ast.expr], Callable[[Context, Any], Item]] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Tuple: _tuple,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _boolean,
    ast.IfExp: _conditional,
    ast.Call: _call,
}

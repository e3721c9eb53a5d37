"""`grad(f)(…)` in kernels: the derivatives of a function's results by its inputs, as part of the kernel."""

from __future__ import annotations

import ast
from types import FunctionType
from typing import Any

from tapedebug.compiler.function import Function, Gradient
from tapedebug.compiler.ir import Block, Op, Value, ops_of
from tapedebug.compiler.lower import arguments, calls, contents, in_place, keywords, operations
from tapedebug.compiler.lower._context import (
    Context,
    Item,
    Items,
    Static,
    StructValue,
    Undefined,
    View,
    counted,
)
from tapedebug.compiler.passes.pullback import pulled_back_to
from tapedebug.lang import types as t
from tapedebug.lang.builtins import Builtin
from tapedebug.lang.rules import COMPOSITES, RULES, Quantity


def of(ctx: Context, node: ast.Call) -> Static:
    """Lower `grad(f)` to a function of the arguments of `f`."""
    if len(node.args) != 1 or node.keywords:
        given = counted(len(node.args) + len(node.keywords), "argument")
        ctx.type_error(node, f"grad() takes one function; got {given}", "write wp.grad(f)(x, y)")
    from tapedebug.compiler.lower import expressions

    item = expressions.lower(ctx, node.args[0])
    target = item.value if isinstance(item, Static) else None
    if isinstance(target, Function):
        return Static(Gradient(target))
    name = target.name if isinstance(target, Builtin) else keywords.of_python(target)
    if name is None or (name not in COMPOSITES and name not in RULES):
        shown = ast.unparse(node.args[0])
        plain = isinstance(target, FunctionType)
        ctx.type_error(
            node.args[0],
            f"grad() takes a function of values; `{shown}` is {_described(item)}",
            f"decorate `{shown}` with @wp.func" if plain else "write wp.grad(f)(x, y), with a @wp.func f",
        )
    if not (COMPOSITES.get(name) or RULES[name]).differentiable:
        ctx.type_error(
            node.args[0],
            f"{name}() has no derivative: it is constant wherever it is continuous",
            "differentiate a smooth function",
        )
    return Static(Gradient(Builtin(name, "")))


def _described(item: Item) -> str:
    from tapedebug.compiler.kernel import Kernel

    if not isinstance(item, Static):
        return contents.kind_of(item)
    if isinstance(item.value, FunctionType):
        return "a plain Python function"
    return "a kernel" if isinstance(item.value, Kernel) else "none"


def call(ctx: Context, node: ast.Call, gradient: Gradient) -> Item:
    """The derivatives of the sum of all results by each input, in the order of the inputs."""
    function, given = _inputs(ctx, node, gradient.function)
    inputs = {name: _own(ctx, item) for name, item in given.items()}
    floats = [q for item in inputs.values() for q in contents.leaves_of(item) or () if _is_float(q)]
    if not floats:
        ctx.type_error(
            node,
            f"`{function.__name__}` takes no floats, so that grad({function.__name__}) is by nothing",
            "differentiate a function of floats, or of vectors and matrices of them",
        )
    builder = ctx.builder
    with builder.scope():
        with builder.region() as body, ctx.differentiated():
            result = _run(ctx, node, function, inputs)
        for inner in body.ops:
            builder.append(inner)
        results = _results(ctx, node, function, body, result)
        values = [part.value for q in floats for part in q.parts]
        found = dict(zip(values, pulled_back_to(builder, body, values, results), strict=True))
    ctx.at(node)
    items = tuple(
        in_place.stopped_result(ctx, "grad", _derivative(ctx, function, name, item, found))
        for name, item in inputs.items()
        if not isinstance(item, Static)
    )
    return items[0] if len(items) == 1 else Items(items)


def _inputs(
    ctx: Context, node: ast.Call, function: Function | Builtin
) -> tuple[Function | Builtin, dict[str, Item]]:
    """The function, or the version of it that takes these inputs, and the inputs by name."""
    if isinstance(function, Function):
        return arguments.resolved(ctx, node, function)
    values = operations.operands(ctx, node, function.name, node.args)
    return function, {f"{k}": value for k, value in enumerate(values)}


def _run(ctx: Context, node: ast.Call, function: Function | Builtin, inputs: dict[str, Item]) -> Item:
    if isinstance(function, Function):
        if function.references:
            ctx.type_error(
                node,
                f"grad({function.name}) has no value: {function.name}() changes what it is passed by "
                "reference",
                "let the function return its results",
            )
        return calls.inlined(ctx, node, function, dict(inputs))
    given = (q for q in inputs.values() if isinstance(q, Quantity))
    return operations.applied(ctx, node, function.name, *given)


def _is_float(item: Item) -> bool:
    return isinstance(item, Quantity) and t.scalar_of(item.type) in t.FLOATS


def _own(ctx: Context, item: Item) -> Item:
    """An input as values of its own, which nothing outside of the function uses."""
    if isinstance(item, StructValue):
        return StructValue(item.kind, tuple(_own(ctx, field) for field in item.fields))
    if not isinstance(item, Quantity) or not _is_float(item):
        return item
    parts = []
    for part in item.parts:
        own = Value(part.type, part.value.hint)
        own.op = Op(f"to_{part.type.code}", (part.value,), own, ctx.builder.span)
        ctx.builder.append(own.op)
        parts.append(ctx.builder.expr(own))
    return Quantity(item.type, tuple(parts))


def _results(ctx: Context, node: ast.Call, function: Any, body: Block, result: Item) -> list[Value]:
    """The float values that a function returns; it must return some, and write nothing."""
    for op in ops_of(body):
        if op.kind in ("store", "atomic_add"):
            line = f" (line {op.span.line})" if op.span is not None else ""
            ctx.syntax_error(
                node,
                f"`{function.__name__}` writes to an array{line}; grad() takes functions of values",
                "let it return what it computes",
            )
    leaves = contents.leaves_of(result) or []
    floats = [part.value for q in leaves if _is_float(q) for part in q.parts]
    if not floats:
        returns = contents.kind_of(result) if leaves else "nothing"
        ctx.type_error(
            node, f"`{function.__name__}` returns {returns}, which has no derivative", "let it return a float"
        )
    return floats


def _derivative(ctx: Context, function: Any, name: str, item: Item, found: dict[Value, Value | None]) -> Item:
    """The derivative by one input: of its type; 0 of an integer; none of an array."""
    if isinstance(item, StructValue):
        named = zip(item.kind.fields, item.fields, strict=True)
        fields = (_derivative(ctx, function, f"{name}.{label}", f, found) for label, f in named)
        return StructValue(item.kind, tuple(fields))
    if isinstance(item, View):
        return Undefined(
            f"is the derivative of `{function.__name__}` by the array `{name}`, which is constant here",
            f"pass elements of `{name}` as numbers to differentiate by them",
        )
    if not isinstance(item, Quantity):
        return item
    b = ctx.builder
    parts = [found.get(p.value) or b.constant(0, p.type) for p in item.parts]
    return Quantity(item.type, tuple(b.expr(v) for v in parts))

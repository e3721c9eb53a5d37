"""Starred arguments: `f(*v)` passes the components of a value, or the items of a tuple, one by one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from tapedebug.compiler.lower import components, contents, expressions
from tapedebug.compiler.lower._context import Context, Item, Items, Static
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity


@contextmanager
def plain(ctx: Context, node: ast.Call) -> Iterator[ast.Call]:
    """The call with its starred arguments written out; what they stand for is known meanwhile."""
    if not any(isinstance(argument, ast.Starred) for argument in node.args):
        yield node
        return
    given: list[ast.expr] = []
    names: list[str] = []
    for argument in node.args:
        if not isinstance(argument, ast.Starred):
            given.append(argument)
            continue
        sliced = _elements(ctx, argument)
        if sliced is not None:
            given += sliced
            continue
        for item in _items(ctx, argument):
            # No name of a program has a blank in it.
            name = f"{ast.unparse(argument)} {len(ctx.env)}"
            ctx.env[name] = item
            names.append(name)
            given.append(ast.copy_location(ast.Name(name, ast.Load()), argument))
    try:
        yield ast.copy_location(ast.Call(node.func, given, node.keywords), node)
    finally:
        for name in names:
            ctx.env.pop(name, None)


def _items(ctx: Context, node: ast.Starred) -> list[Item]:
    item = expressions.lower(ctx, node.value)
    if isinstance(item, Static) and isinstance(item.value, (tuple, list)):
        return [Static(one) for one in item.value]
    if isinstance(item, Items):
        return list(item.items)
    if isinstance(item, Static):
        item = ctx.quantity(node.value, item)
    if isinstance(item, Quantity) and t.is_compound(item.type):
        return [components.get(item, (place,)) for place in range(item.type.shape[0])]
    ctx.type_error(
        node,
        f"`{ast.unparse(node)}` cannot be taken apart: it is {contents.kind_of(item)}",
        "unpack a vector, a matrix (its rows), a quaternion, a tuple, or elements of an array: *a[0:3]",
    )


def _elements(ctx: Context, node: ast.Starred) -> list[ast.expr] | None:
    """The elements of `*a[0:3]`, where `a` is an array; None of anything else."""
    match node.value:
        case ast.Subscript(value=base, slice=ast.Slice() as part):
            item = expressions.lower(ctx, base)
        case _:
            return None
    if isinstance(item, Quantity | Items | Static):
        return None
    bounds = [_written(ctx, bound) for bound in (part.lower or 0, part.upper, part.step or 1)]
    if any(bound is None for bound in bounds):
        ctx.syntax_error(
            node,
            f"how many elements `{ast.unparse(node)}` has must be known when the kernel is compiled",
            "write both ends as numbers, such as *a[0:3]",
        )
    return [
        ast.copy_location(
            ast.Subscript(base, ast.copy_location(ast.Constant(place), part), ast.Load()), node.value
        )
        for place in range(*(bound or 0 for bound in bounds))
    ]


def _written(ctx: Context, bound: ast.expr | int | None) -> int | None:
    """A bound that is a number of the program's, not counted from the end; None for any other."""
    number = expressions.literal(ctx, bound) if isinstance(bound, ast.expr) else bound
    return number if isinstance(number, int) and number >= 0 else None

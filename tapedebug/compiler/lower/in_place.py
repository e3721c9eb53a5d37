"""Lower a kernel with the user's variables kept, for Warp's reverse (`passes.adjoint_warp`).

Where a kernel is lowered for itself, all of this does nothing. Else every variable and every part that is
read is a value of its own, so that `Variables` can tell which values are one variable; and a call of a
function is a region, as its local variables live anew in each reverse of it.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tapedebug.compiler.builder import is_free
from tapedebug.compiler.ir import Custom, For, Value, While
from tapedebug.compiler.lower import contents
from tapedebug.compiler.lower._context import Context, Item, Items
from tapedebug.compiler.source_variables import Carried, InPlace, Stopped
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity
from tapedebug.lang.warp_adjoints import NONE, RIGHT, adjoints_of

if TYPE_CHECKING:
    from tapedebug.compiler.function import Function


def copied(ctx: Context, item: Item, *, constants: bool = False) -> Item:
    """An item whose numbers are values of their own: all but constants, or these too."""
    if ctx.variables is None:
        return item
    leaves = contents.leaves_of(item)
    if leaves is None:
        return item
    return contents.rebuilt(item, iter([_fresh(ctx, leaf, constants) for leaf in leaves]))


def _fresh(ctx: Context, q: Quantity, constants: bool = False) -> Quantity:
    return Quantity(q.type, tuple(ctx.builder.expr(_copy(ctx, part.value, constants)) for part in q.parts))


def _copy(ctx: Context, value: Value, constants: bool) -> Value:
    if is_free(value) and not constants:
        return value
    copy: Value = ctx.builder.emit(f"to_{value.type.code}", (value,), value.type)
    copy.hint = value.hint
    return copy


def stopped(ctx: Context, name: str, operands: tuple[Quantity, ...]) -> tuple[Quantity, ...]:
    """Return the operands of a function, marked if Warp lacks their adjoint or gets it wrong."""
    if ctx.variables is None:
        return operands
    known = adjoints_of(name, [q.type for q in operands])
    return tuple(
        q if status == RIGHT else _stop(ctx, q, name, f"argument {k + 1}", status)
        for k, (q, status) in enumerate(zip(operands, known, strict=True))
    )


def stopped_result(ctx: Context, name: str, item: Item) -> Item:
    """The result of a function through which Warp passes nothing on."""
    leaves = None if ctx.variables is None else contents.leaves_of(item)
    if leaves is None:
        return item
    return contents.rebuilt(item, iter([_stop(ctx, q, name, "the result", NONE) for q in leaves]))


def stored(ctx: Context, name: str, given: Value, new: Value) -> Value:
    """Return what an atomic other than a sum stores; Warp's adjoint does not look at how it was chosen."""
    if ctx.variables is None or new.type not in t.FLOATS:
        return new
    own = _copy(ctx, new, constants=True)
    ctx.variables.atomics[own] = (name, given)
    return own


def _stop(ctx: Context, q: Quantity, name: str, what: str, status: str) -> Quantity:
    assert ctx.variables is not None
    if t.scalar_of(q.type) not in t.FLOATS:
        return q
    own = _fresh(ctx, q)
    for part in own.parts:
        if not is_free(part.value):
            ctx.variables.stopped[part.value] = Stopped(name, what, status)
    return own


def replaced(ctx: Context, old: Item, new: Item, how: InPlace) -> Item:
    """The new content of a part of a variable, which is assigned in place."""
    before, after = contents.leaves_of(old), contents.leaves_of(new)
    if ctx.variables is None or before is None or after is None:
        return new
    leaves = []
    for was, now in zip(before, after, strict=True):
        parts = [_replaced(ctx, a.value, b.value, how) for a, b in zip(was.parts, now.parts, strict=True)]
        leaves.append(Quantity(now.type, tuple(ctx.builder.expr(part) for part in parts)))
    return contents.rebuilt(new, iter(leaves))


def _replaced(ctx: Context, old: Value, new: Value, how: InPlace) -> Value:
    assert ctx.variables is not None
    if new is old:
        return old
    own: Value = ctx.builder.emit(f"to_{new.type.code}", (new,), new.type)
    own.hint = old.hint
    ctx.variables.assigned[own] = (old, how)
    return own


def loop(ctx: Context, node: For | While, names: list[str], own: frozenset[str]) -> None:
    """Note what a loop carries; `own` are its counter, and what is assigned inside only."""
    if ctx.variables is not None:
        ctx.variables.loops[id(node)] = Carried(tuple(names), own)


def call(ctx: Context, node: ast.Call, function: Function, env: dict[str, Item]) -> Item:
    """A call of a function, as a region: its reverse computes it again from its arguments."""
    from tapedebug.compiler.lower import calls, custom

    with ctx.builder.scope():
        with ctx.builder.region() as body:
            result = calls.run(ctx, node, function, arguments(ctx, env))
        leaves = contents.leaves_of(result)
        if leaves is None:  # it gives a part of an array: nothing to differentiate
            for inner in body.ops:
                ctx.builder.append(inner)
            return result
        with ctx.builder.region() as copies:
            leaves = [_fresh(ctx, leaf) for leaf in leaves]
        body.ops += copies.ops
        custom.own_yields(ctx, body, [part.value for leaf in leaves for part in leaf.parts])
        ctx.builder.append(Custom(function.name, body, None, None, [], [], [], ctx.span(node)))
        values = iter(body.yields)
        own = (Quantity(q.type, tuple(ctx.builder.expr(next(values)) for _ in q.parts)) for q in leaves)
        return result if isinstance(result, Items) and not leaves else contents.rebuilt(result, own)


def rewritten(ctx: Context, node: ast.AugAssign, param: int) -> None:
    """Note that an operator such as `*=` changes elements of an array."""
    if ctx.variables is not None:
        ctx.variables.rewritten[ctx.span(node)] = param


def arguments(ctx: Context, env: dict[str, Item]) -> dict[str, Item]:
    """The arguments of a call, each a value of its own: in Warp no parameter is a constant."""
    passed = {name: copied(ctx, item, constants=True) for name, item in env.items()}
    if ctx.variables is not None:
        leaves = (leaf for item in passed.values() for leaf in contents.leaves_of(item) or ())
        ctx.variables.passed.update(part.value for leaf in leaves for part in leaf.parts)
    return passed

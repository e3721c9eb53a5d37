"""Branches in the IR: what variables hold where paths meet."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tapedebug.compiler.builder import constant_of, same_values
from tapedebug.compiler.ir import Block, If, Op, Value, results_of, walk
from tapedebug.compiler.lower import contents
from tapedebug.compiler.lower._context import (
    ArrayView,
    ChosenView,
    Context,
    HeldView,
    Item,
    Items,
    StructValue,
    Undefined,
    View,
)
from tapedebug.lang import types as t
from tapedebug.lang.rules import RULES, Quantity

RESULT = "%result"
GONE = "%gone"
"""Holds on the side of an `if` where control has left, by whichever jump."""


MAX_DEPTH = 80
"""Branches and loops inside each other; Python, which generated code is, takes 100 levels."""


def check_depth(ctx: Context, node: ast.AST) -> None:
    """Refuse branches and loops that are nested too deeply."""
    if ctx.builder.depth >= MAX_DEPTH:
        ctx.syntax_error(
            node,
            f"branches and loops are nested more than {MAX_DEPTH} deep (what follows a `return` counts)",
            "combine conditions with `or`, or return once at the end",
        )


def branch(
    ctx: Context,
    node: ast.AST,
    condition: Value,
    yes: Callable[[], None],
    no: Callable[[], None],
    *,
    flatten: bool = False,
) -> None:
    """Run `yes` and `no` into the two blocks of an `If` and merge the variables they leave."""
    check_depth(ctx, node)
    before, builder = ctx.env, ctx.builder
    span = ctx.span(node)
    epoch = builder.epoch
    envs: list[dict[str, Item]] = []
    blocks: list[Block] = []
    for run in (yes, no):
        ctx.env = dict(before)
        with builder.block() as block:
            run()
        envs.append(ctx.env)
        blocks.append(block)
    node_if = If(condition, blocks[0], blocks[1], [], span)
    # Most variables stay what they were: a step for each of them, at each branch, would take most of the
    # time of long kernels.
    one, two = envs
    ctx.env = before | one | two
    for name in [name for name in ctx.env if one.get(name) is not two.get(name) or name not in one]:
        _merge_name(ctx, node, name, envs, node_if)
    if flatten and _selectable(node_if):
        _as_selection(ctx, node_if)
        return
    if node_if.results or blocks[0].ops or blocks[1].ops:
        builder.append(node_if)
    if builder.epoch != epoch:
        builder.forget_loads()


def _merge_name(ctx: Context, node: ast.AST, name: str, envs: list[dict[str, Item]], node_if: If) -> None:
    one, two = (_or_filler(ctx, name, envs[k], envs[1 - k]) for k in (0, 1))
    inner = next((item for item in (one, two) if isinstance(item, Undefined) and item.early), None)
    if inner is not None:  # a branch or loop inside one of the two assigns it
        ctx.env[name] = inner
        return
    if _is_missing(one) != _is_missing(two):
        like = ctx.early.get((ctx.span(node), ctx.calls, name))
        if like is None:
            assigned = two if _is_missing(one) else one
            assert assigned is not None  # it is not missing
            ctx.env[name] = _one_sided(ctx, node, name, assigned)
            return
        zeros = contents.zeros_like(ctx, like)
        one, two = (zeros, two) if _is_missing(one) else (one, zeros)
    if one is None or two is None:
        ctx.env[name] = one or two or Undefined("is not assigned")
        return
    ctx.env[name] = merged(ctx, node, name, one, two, node_if)


def _is_missing(item: Item | None) -> bool:
    return item is None or isinstance(item, Undefined)


def _one_sided(ctx: Context, node: ast.AST, name: str, item: Item) -> Undefined:
    """Return a variable after an `if` one branch of which assigns it: 0 on the other once it is read."""
    span = ctx.span(node)
    reason = f"is assigned on one branch of the `if` in line {span.line} only"
    if contents.leaves_of(item) is None:
        return Undefined(reason)
    # Inside a loop it must be there before the outermost one, so that it lasts from iteration to iteration.
    place = ctx.outermost or (span, ctx.calls)
    return Undefined(reason, early=((*place, name), item), branch=span)


def _or_filler(ctx: Context, name: str, env: dict[str, Item], other: dict[str, Item]) -> Item | None:
    """Return a variable on one side of an `if`, or zeros if it is unassigned there and never read.

    It is never read if that side has jumped: statements after the `if` run only if the side was not taken.
    (The variable is not defined after a loop that the side breaks from either, because it was not defined
    before the loop.) A missing result is that of a function that has not returned yet.
    """
    item, there = env.get(name), other.get(name)
    missing = item is None or isinstance(item, Undefined)
    present = there is not None and not isinstance(there, Undefined)
    if missing and present and (name == RESULT or _jumped(env)):
        assert there is not None
        return contents.zeros_like(ctx, there)
    return item


def _jumped(env: dict[str, Item]) -> bool:
    """True if control has certainly left by break, continue or return."""
    flags = (env.get(name) for name in ("%break", "%continue", "%return", GONE))
    return any(isinstance(f, Quantity) and bool(constant_of(f.scalar.value)) for f in flags)


def merged(ctx: Context, node: ast.AST, name: str, one: Item, two: Item, node_if: If) -> Item:
    """Return the value of a variable after an `If`."""
    if one is two:
        return one
    if isinstance(one, Quantity) and isinstance(two, Quantity):
        if one.type is not two.type:
            what = "this" if name.startswith("%") else f"`{name}`"  # `%choice`: of a conditional expression
            ctx.type_error(
                node,
                f"{what} is {t.type_name(one.type)} on one branch and {t.type_name(two.type)} on the other",
                "give it one type on both, for example with float(…)",
            )
        return _merged_quantity(ctx, name, one, two, node_if)
    if isinstance(one, Items) and isinstance(two, Items) and len(one.items) == len(two.items):
        pairs = zip(one.items, two.items, strict=True)
        return Items(tuple(merged(ctx, node, name, a, b, node_if) for a, b in pairs))
    if isinstance(one, View) and isinstance(two, View) and one.form == two.form:
        numbers = zip(contents.leaves_of(one, ctx) or [], contents.leaves_of(two, ctx) or [], strict=True)
        return contents.rebuilt(one, (_merged_quantity(ctx, name, a, b, node_if) for a, b in numbers))
    if are_alternatives(one, two):
        yes, no = (_after(ctx, name, view, node_if, block) for view, block in ((one, 0), (two, 1)))
        return ChosenView(node_if.condition, yes, no)
    if isinstance(one, StructValue) and isinstance(two, StructValue) and one.kind is two.kind:
        fields = zip(one.kind.fields, one.fields, two.fields, strict=True)
        parts = (merged(ctx, node, f"{name}.{field}", a, b, node_if) for field, a, b in fields)
        return StructValue(one.kind, tuple(parts))
    for item in (one, two):
        if isinstance(item, Undefined):
            return item
    if type(one) is type(two) and one == two:
        return one
    line = ctx.span(node).line
    here, there = contents.kind_of(one), contents.kind_of(two)
    return Undefined(
        f"is {here} on one branch of the `if` in line {line} and {there} on the other",
        f"use another name on each branch, and do there what needs `{plain(name)}`",
    )


def choosable(item: Item) -> bool:
    """True for arrays of numbers and compound values whose elements can be found in one of two of them."""
    return isinstance(item, ArrayView | HeldView | ChosenView) and not t.is_struct(item.type.dtype)


def are_alternatives(one: Item | None, two: Item | None) -> bool:
    """True for two such arrays of one element type and number of dimensions."""
    both = one is not None and two is not None and choosable(one) and choosable(two)
    return both and _kind(one) == _kind(two)


def another_array(was: Item | None, now: Item | None) -> ArrayView | None:
    """Return the one other whole array that a variable may hold after an iteration of a loop, or None."""
    if now is was or not (isinstance(was, ArrayView) and are_alternatives(was, now)):
        return None
    forms = {one.form: one for one in _options(now) if isinstance(one, ArrayView) and not one.indices}
    others = [one for form, one in forms.items() if form != was.form]
    whole = not was.indices and len(forms) == len({one.form for one in _options(now)})
    return others[0] if whole and len(others) == 1 else None


def as_choice(ctx: Context, was: Item | None, now: Item | None) -> Item | None:
    """Return one of two whole arrays as a choice between these two in the order of `was`, if that is one."""
    if not isinstance(was, ChosenView) or not are_alternatives(was, now):
        return now
    forms = [was.yes.form, was.no.form]
    if was.yes.numbers or was.no.numbers or any(one.form not in forms for one in _options(now)):
        return now

    def is_first(view: Any) -> Value:
        if isinstance(view, ChosenView):
            sides = is_first(view.yes), is_first(view.no)
            return ctx.builder.apply("where", view.condition, *sides)
        return ctx.builder.constant(view.form == forms[0], t.bool)

    return ChosenView(is_first(now), was.yes, was.no)


def _options(view: Any) -> list[Any]:
    """Return the arrays that a view is one of."""
    return [*_options(view.yes), *_options(view.no)] if isinstance(view, ChosenView) else [view]


def _after(ctx: Context, name: str, view: Any, node_if: If, block: int) -> Any:
    """Return a view of one block of an `If` as it is after it: the numbers that the block makes leave it."""
    made = {value for node in walk((node_if.then, node_if.orelse)[block]) for value in results_of(node)}

    def number(value: Value) -> Value:
        if value not in made:
            return value
        pair = [value, ctx.builder.constant(0, value.type)]  # the other block leaves a 0, which is not used
        one, two = (Quantity(v.type, (ctx.builder.expr(v),)) for v in (pair if block == 0 else pair[::-1]))
        after: Value = _merged_quantity(ctx, name, one, two, node_if).scalar.value
        return after

    return view.remade(number(value) for value in view.numbers)


def _kind(item: Any) -> tuple[Any, ...]:
    return item.type.dtype, item.free, item.adjoint


def _merged_quantity(ctx: Context, name: str, one: Quantity, two: Quantity, node_if: If) -> Quantity:
    values: list[Value] = []
    for a, b in zip(one.parts, two.parts, strict=True):
        if same_values([a.value], [b.value]):
            values.append(a.value)
            continue
        result = Value(a.type, hint=a.value.hint or plain(name))
        node_if.then.yields.append(a.value)
        node_if.orelse.yields.append(b.value)
        node_if.results.append(result)
        values.append(result)
    return Quantity(one.type, tuple(ctx.builder.expr(v) for v in values))


def plain(name: str) -> str:
    """The name of a variable as generated code may have it."""
    return name.replace("%", "")


def _selectable(node: If) -> bool:
    """True if computing both sides is safe and changes no derivative: constants, or truth values."""
    ops = [*node.then.ops, *node.orelse.ops]
    pure = all(isinstance(op, Op) and op.kind in RULES for op in ops)
    return not ops or (pure and all(r.type is t.bool for r in node.results))


def _as_selection(ctx: Context, node: If) -> None:
    for op in [*node.then.ops, *node.orelse.ops]:
        ctx.builder.append(op)
    replaced: dict[int, Value] = {}
    for result, yes, no in zip(node.results, node.then.yields, node.orelse.yields, strict=True):
        replaced[id(result)] = ctx.builder.apply("where", node.condition, yes, no)

    def swap(item: Item) -> Item:
        if not isinstance(item, Quantity):
            return item
        values = [replaced.get(id(p.value), p.value) for p in item.parts]
        if all(value is part.value for value, part in zip(values, item.parts, strict=True)):
            return item  # the same object, so that branches around this one do not merge it
        return Quantity(item.type, tuple(ctx.builder.expr(v) for v in values))

    ctx.env = {name: swap(item) for name, item in ctx.env.items()}

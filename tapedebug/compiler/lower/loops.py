"""Loops: over ranges, while a condition holds, and unrolled over compile-time values."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tapedebug.compiler.builder import constant_of, widened
from tapedebug.compiler.ir import Value
from tapedebug.compiler.lower import (
    assignment,
    carried,
    conditions,
    control,
    custom,
    expressions,
    random,
    references,
    statics,
    syntax,
)
from tapedebug.compiler.lower._context import Context, Item, Static, Undefined
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity

UNROLLED_NODES = 4000
"""Nodes of syntax that unrolling may make of one statement: beyond, a loop stays a loop."""

EXITS = frozenset({"%break", "%return"})


def for_(ctx: Context, node: ast.For) -> None:
    """A `for` over a range, or over something known, whose iterations are written out."""
    _refuse_else(ctx, node)
    backward = _reversed_range(ctx, node.iter)
    if backward is None and not _is_range(ctx, node.iter):
        _unrolled(ctx, node, statics.items(ctx, node.iter))
        return
    if not isinstance(node.target, ast.Name):
        ctx.syntax_error(node.target, "a loop over a range has one variable", "write `for i in range(n):`")
    start, step, count = _range(ctx, node.iter if backward is None else backward)
    if backward is not None:
        start, step = _backward(ctx, start, step, count)
    numbers = [constant_of(value) for value in (start, step, count)]
    if None not in numbers and _is_unrolled(ctx, node, numbers[2]):
        if numbers[2] == 0 and isinstance(ctx.env.get(node.target.id, Undefined("")), Undefined):
            ctx.env[node.target.id] = expressions.wrap(ctx, ctx.builder.apply("to_i32", start))
        numbers_run = range(numbers[0], numbers[0] + numbers[1] * numbers[2], numbers[1])
        # Whether it is written out is no matter of meaning: variables keep their types either way.
        _unrolled(ctx, node, [Static(number) for number in numbers_run], strict=not statics.needed(ctx, node))
    else:
        _dynamic(ctx, node, node.target.id, start, step, count)


def _refuse_else(ctx: Context, node: ast.For | ast.While) -> None:
    if node.orelse:
        ctx.syntax_error(node, "a kernel's loop has no `else`", "use a variable that says how the loop ended")


def _is_range(ctx: Context, node: ast.expr) -> bool:
    return _calls(ctx, node, range)


def _calls(ctx: Context, node: ast.expr, what: Any) -> bool:
    function = expressions.lower(ctx, node.func) if isinstance(node, ast.Call) else None
    return isinstance(function, Static) and function.value is what


def _reversed_range(ctx: Context, node: ast.expr) -> ast.expr | None:
    """The range of `reversed(range(n))`."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return None
    return node.args[0] if _calls(ctx, node, reversed) and _is_range(ctx, node.args[0]) else None


def _backward(ctx: Context, start: Value, step: Value, count: Value) -> tuple[Value, Value]:
    """Start and step of a range that is run through from its end."""
    builder = ctx.builder
    last = builder.apply("sub", count, builder.constant(1, t.int64))
    return builder.apply("add", start, builder.apply("mul", last, step)), builder.apply("neg", step)


def _range(ctx: Context, call: ast.expr) -> tuple[Value, Value, Value]:
    """Start, step and number of iterations (int64) of a `for`."""
    assert isinstance(call, ast.Call)
    if call.keywords or not 1 <= len(call.args) <= 3:
        ctx.syntax_error(
            call, "range takes one to three integers", "write range(stop) or range(start, stop, step)"
        )
    bounds = []
    for argument in call.args:
        q = expressions.value(ctx, argument, "an integer")
        if q.type is t.bool and constant_of(q.scalar.value) is not None:  # a Python bool, as in Python
            q = expressions.wrap(ctx, ctx.builder.constant(int(constant_of(q.scalar.value)), t.int32))
        if q.type not in t.INTEGERS:
            ctx.type_error(
                argument, f"range takes integers; got {t.type_name(q.type)}", "convert it with int(…)"
            )
        bounds.append(widened(ctx.builder, q.scalar.value))
    zero, one = ctx.builder.constant(0, t.int64), ctx.builder.constant(1, t.int64)
    start, stop, step = {1: [zero, *bounds, one], 2: [*bounds, one], 3: bounds}[len(bounds)]
    if constant_of(step) == 0:
        ctx.type_error(call, "the step of range is 0", "use a step that is not 0")
    return start, step, ctx.builder.apply("trip_count", start, stop, step)


# Iterations that are written out ----------------------------------------------------------------------------


def _is_unrolled(ctx: Context, node: ast.For, count: int) -> bool:
    """True if a loop over known numbers is unrolled: it is short, or `static` needs its variable."""
    if statics.needed(ctx, node):
        return True
    size = sum(1 for statement in node.body for _ in ast.walk(statement))
    return (
        count <= ctx.max_unroll
        and not syntax.jumps(node.body) & EXITS
        and ctx.copies * count * size <= UNROLLED_NODES
    )


def _unrolled(ctx: Context, node: ast.For, items: list[Item], *, strict: bool = False) -> None:
    """Write the iterations out; where `strict`, variables keep their types."""
    found = syntax.jumps(node.body)
    assigned = references.assigned_names(ctx, node.body)
    before = [(name, ctx.env.get(name)) for name in assigned if strict]
    other: dict[str, Item] = {}  # of another type inside, where each iteration assigns them first
    outer = _enter(ctx)
    ctx.copies *= max(1, len(items))

    def iterations(first: int) -> None:
        """Lower iterations from `first` on; those after a possible `break` run only if it was not taken."""
        for position in range(first, len(items)):
            _set_continue(ctx)
            ctx.at(node)
            assignment.assign_to(ctx, node.target, items[position], node.iter)
            _body(ctx, node.body)
            for name, was in before:
                now = ctx.env.get(name)
                if control.are_alternatives(was, now):  # the next iteration is known to use the other array
                    continue
                if not carried.is_kept(ctx, was, now) and syntax.assigns_first(node, name):
                    other[name] = carried.retyped(ctx, node, name, was, now)
                elif name not in other:
                    carried.require_kept(ctx, node, name, was, now)
            stopped = flag(ctx, found & EXITS).scalar.value
            known = constant_of(stopped)
            if known is None and position + 1 < len(items):
                going = ctx.builder.apply("not", stopped)
                control.branch(ctx, node, going, lambda after=position + 1: iterations(after), lambda: None)  # type: ignore[misc]
            if known is not False:
                return

    iterations(0)
    ctx.env |= other
    ctx.copies //= max(1, len(items))
    _leave(ctx, outer)


# Loops that stay loops --------------------------------------------------------------------------------------


def _dynamic(ctx: Context, node: ast.For, target: str, start: Value, step: Value, count: Value) -> None:
    before = ctx.env.get(target, Undefined(""))
    first = expressions.wrap(ctx, ctx.builder.apply("to_i32", start))
    if isinstance(before, Undefined) or not carried.is_kept(ctx, before, first):
        # After the loop it has its last value; where the loop does not run, the start of the range.
        ctx.env[target] = first
    names = [*custom.changed_names(ctx, node.body), target]
    found = syntax.jumps(node.body)
    outer = _enter(ctx)
    names += _carried_flags(found)

    def iteration(index: Value) -> None:
        builder = ctx.builder
        place = builder.apply("add", start, builder.apply("mul", index, step))
        user = expressions.wrap(ctx, builder.apply("to_i32", place))
        user.scalar.value.hint = user.scalar.value.hint or target
        ctx.env[target] = user
        _set_continue(ctx)
        _body(ctx, node.body)

    ctx.in_loop += 1
    if ctx.variables is not None:
        names = [n for n in names if n != target] + ["%continue", target]
        carried.for_loop(ctx, node, names, count, _unless_left(ctx, node, found, iteration), target)
    elif found & EXITS:
        _with_exit(ctx, node, names, count, found, iteration)
    else:
        carried.for_loop(ctx, node, [n for n in names if n != target] + [target], count, iteration)
    ctx.in_loop -= 1
    _leave(ctx, outer)


def _unless_left(
    ctx: Context, node: ast.For, found: set[str], iteration: Callable[[Value], None]
) -> Callable[[Value], None]:
    """An iteration that does nothing once the loop was left, so that the loop keeps its count."""

    def guarded(index: Value) -> None:
        going = ctx.builder.apply("not", flag(ctx, found & EXITS).scalar.value)
        control.branch(ctx, node, going, lambda: iteration(index), lambda: None)

    return guarded if found & EXITS else iteration


def _carried_flags(found: set[str]) -> list[str]:
    """Return the flags that a loop with these jumps carries besides the user's variables."""
    names = {"%break": ["%break"], "%return": ["%return", control.RESULT]}
    return [name for jump in sorted(found & names.keys()) for name in names[jump]]


def _with_exit(
    ctx: Context,
    node: ast.For,
    names: list[str],
    count: Value,
    found: set[str],
    iteration: Callable[[Value], None],
) -> None:
    """A counted loop that can end early: a `while` that counts."""
    counter = f"%count{ctx.builder.depth}"
    ctx.env[counter] = expressions.wrap(ctx, ctx.builder.constant(0, t.int64))

    def current() -> Value:
        item = ctx.env[counter]
        assert isinstance(item, Quantity)
        count_now: Value = item.scalar.value
        return count_now

    def test() -> Value:
        more = ctx.builder.apply("lt", current(), count)
        stopped = flag(ctx, found & EXITS)
        going = ctx.builder.apply("not", stopped.scalar.value)
        return ctx.builder.apply("and", more, going)

    def body() -> None:
        now = current()
        ctx.builder.counters.add(now)
        iteration(now)
        ctx.env[counter] = expressions.wrap(
            ctx, ctx.builder.apply("add", now, ctx.builder.constant(1, t.int64))
        )

    carried.while_loop(ctx, node, [*names, counter], test, body)
    del ctx.env[counter]


def while_(ctx: Context, node: ast.While) -> None:
    """A `while`."""
    _refuse_else(ctx, node)
    if any(random.draws_from(ctx, [node.test])):  # the state that a test leaves is carried by bodies only
        before = node
        stop = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
        node = ast.While(ast.Constant(True), [stop, *node.body], [])
        ast.fix_missing_locations(ast.copy_location(node, before))
    found = syntax.jumps(node.body)
    outer = _enter(ctx)
    names = list(custom.changed_names(ctx, node.body))
    names += _carried_flags(found)
    if ctx.variables is not None:
        names.append("%continue")

    def test() -> Value:
        stopped = flag(ctx, found & EXITS)
        going = expressions.wrap(ctx, ctx.builder.apply("not", stopped.scalar.value))
        holds: Value = conditions.choose(
            ctx,
            node.test,
            going,
            lambda: conditions.condition(ctx, node.test),
            lambda: expressions.wrap(ctx, ctx.builder.constant(False, t.bool)),
        ).scalar.value
        return holds

    def body() -> None:
        _set_continue(ctx)
        _body(ctx, node.body)

    ctx.in_loop += 1
    carried.while_loop(ctx, node, names, test, body)
    ctx.in_loop -= 1
    _leave(ctx, outer)


def _body(ctx: Context, body: list[ast.stmt]) -> None:
    from tapedebug.compiler.lower import statements

    statements.block(ctx, body)


# What says that a jump was taken ----------------------------------------------------------------------------


def flag(ctx: Context, names: set[str] | frozenset[str]) -> Quantity:
    """Return a flag: one of these jumps was taken."""
    taken = expressions.wrap(ctx, ctx.builder.constant(False, t.bool))
    for name in sorted(names):
        item = ctx.env[name]
        assert isinstance(item, Quantity)
        taken = expressions.wrap(ctx, ctx.builder.apply("or", taken.scalar.value, item.scalar.value))
    return taken


def set_flag(ctx: Context, name: str) -> None:
    """Note that a jump is taken."""
    ctx.env[name] = expressions.wrap(ctx, ctx.builder.constant(True, t.bool))


def _set_continue(ctx: Context) -> None:
    ctx.env["%continue"] = expressions.wrap(ctx, ctx.builder.constant(False, t.bool))


def _enter(ctx: Context) -> dict[str, Any]:
    """Fresh `break` and `continue` flags for a loop; those of the loop around it."""
    outer = {name: ctx.env.get(name) for name in ("%break", "%continue")}
    ctx.env["%break"] = expressions.wrap(ctx, ctx.builder.constant(False, t.bool))
    _set_continue(ctx)
    return outer


def _leave(ctx: Context, outer: dict[str, Any]) -> None:
    for name, item in outer.items():
        if item is None:
            ctx.env.pop(name, None)
        else:
            ctx.env[name] = item

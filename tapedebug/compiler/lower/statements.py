"""Statements: branches, loops and returns."""

from __future__ import annotations

import ast
from typing import Any

from tapedebug.compiler.builder import constant_of, widened
from tapedebug.compiler.ir import Value
from tapedebug.compiler.lower import assignment, calls, control, custom, expressions, random
from tapedebug.compiler.lower._context import Context, Static, Undefined
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity

UNSUPPORTED = {
    "With": "`with`",
    "Try": "`try`",
    "Raise": "`raise`",
    "Import": "`import`",
    "ImportFrom": "`import`",
    "FunctionDef": "a function defined inside",
    "AsyncFunctionDef": "`async`",
    "ClassDef": "a class defined inside",
    "Global": "`global`",
    "Nonlocal": "`nonlocal`",
    "Delete": "`del`",
    "Assert": "`assert` in this version",
    "Match": "`match`",
    "AsyncFor": "`async`",
    "AsyncWith": "`async`",
}


MENDS = {
    "FunctionDef": "define it outside, decorated with @wp.func",
    "ClassDef": "define it outside",
    "Import": "import it outside",
    "ImportFrom": "import it outside",
    "Global": "pass an array to write to",
    "Nonlocal": "pass an array to write to",
    "Assert": "write what happened into an array, and test it after the launch",
    "Raise": "write what happened into an array, and test it after the launch",
    "Match": "use if, elif and else",
}


def block(ctx: Context, body: list[ast.stmt]) -> None:
    """Lower statements in order; what follows a possible jump runs only if none was taken."""
    for position, statement in enumerate(body):
        rest = body[position + 1 :]
        ctx.at(statement)
        if isinstance(statement, ast.If) and _jumping_if(ctx, statement, rest):
            return
        _statement(ctx, statement)
        found = control.jumps([statement])
        if not found:
            continue
        taken = _flag(ctx, found)
        known = constant_of(taken.scalar.value)
        if known:
            return
        if known is None and rest:
            going = ctx.builder.apply("not", taken.scalar.value)
            control.branch(ctx, statement, going, lambda rest=rest: block(ctx, rest), lambda: _gone(ctx))  # type: ignore[misc]
            del ctx.env[control.GONE]
            return


def _gone(ctx: Context) -> None:
    """Nothing more is done on this side: a jump was taken."""
    _set_flag(ctx, control.GONE)


def _flag(ctx: Context, names: set[str]) -> Quantity:
    """Whether any of these jumps was taken."""
    taken = expressions.wrap(ctx, ctx.builder.constant(False, t.bool))
    for name in sorted(names):
        flag = ctx.env[name]
        assert isinstance(flag, Quantity)
        taken = expressions.wrap(ctx, ctx.builder.apply("or", taken.scalar.value, flag.scalar.value))
    return taken


def _jumping_if(ctx: Context, node: ast.If, rest: list[ast.stmt]) -> bool:
    """An `if` one side of which always jumps: the rest of the block belongs to the other side."""
    if control.always_jumps(node.body):
        sides = (node.body, [*node.orelse, *rest])
    elif node.orelse and control.always_jumps(node.orelse):
        sides = ([*node.body, *rest], node.orelse)
    else:
        return False
    _if(ctx, node, *sides)
    return True


def _statement(ctx: Context, node: ast.stmt) -> None:
    match node:
        case ast.Assign():
            assignment.assign(ctx, node)
        case ast.AnnAssign():
            assignment.annotated(ctx, node)
        case ast.AugAssign():
            assignment.augmented(ctx, node)
        case ast.If():
            _if(ctx, node, node.body, node.orelse)
        case ast.For():
            _for(ctx, node)
        case ast.While():
            _while(ctx, node)
        case ast.Return():
            _return(ctx, node)
        case ast.Break():
            _set_flag(ctx, "%break")
        case ast.Continue():
            _set_flag(ctx, "%continue")
        case ast.Pass():
            pass
        case ast.Expr():
            _expression(ctx, node)
        case _:
            word = type(node).__name__
            ctx.syntax_error(
                node,
                f"a kernel cannot use {UNSUPPORTED.get(word, f'this statement ({word})')}",
                MENDS.get(
                    word, "kernels have assignments, if, for … in range(…), while, break, continue and return"
                ),
            )


def _set_flag(ctx: Context, name: str) -> None:
    ctx.env[name] = expressions.wrap(ctx, ctx.builder.constant(True, t.bool))


def _expression(ctx: Context, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):  # a docstring, or `...`
        return
    if type(node.value).__name__ in expressions.UNSUPPORTED:
        expressions.lower(ctx, node.value)  # which refuses it
    if not isinstance(node.value, ast.Call):
        ctx.syntax_error(node, "this expression has no effect", "assign its value, or remove it")
    calls.lower(ctx, node.value, used=False)


# Control flow ----------------------------------------------------------------------------------------------


def _if(ctx: Context, node: ast.If, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
    test = expressions.condition(ctx, node.test)
    known = constant_of(test.scalar.value)
    if known is not None:
        block(ctx, body if known else orelse)
        return
    control.branch(ctx, node, test.scalar.value, lambda: block(ctx, body), lambda: block(ctx, orelse))


def _range(ctx: Context, node: ast.For) -> tuple[Value, Value, Value]:
    """Start, step and number of iterations (int64) of a `for`."""
    call = node.iter
    function = expressions.lower(ctx, call.func) if isinstance(call, ast.Call) else None
    if not isinstance(call, ast.Call) or not isinstance(function, Static) or function.value is not range:
        ctx.syntax_error(node.iter, "a kernel's `for` runs over range(…) only", "write `for i in range(n):`")
    if not isinstance(node.target, ast.Name):
        ctx.syntax_error(node.target, "a loop's variable is one name", "write `for i in range(n):`")
    if call.keywords or not 1 <= len(call.args) <= 3:
        ctx.syntax_error(
            call, "range takes one to three integers", "write range(stop) or range(start, stop, step)"
        )
    bounds = []
    for argument in call.args:
        q = expressions.value(ctx, argument, "an integer")
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


def _for(ctx: Context, node: ast.For) -> None:
    if node.orelse:
        ctx.syntax_error(node, "a kernel's loop has no `else`", "use a variable that says how the loop ended")
    start, step, count = _range(ctx, node)
    assert isinstance(node.target, ast.Name)  # _range has checked it
    target = node.target.id
    if isinstance(ctx.env.get(target, Undefined("")), Undefined):
        # After the loop it has its last value; where the loop does not run, the start of the range.
        ctx.env[target] = expressions.wrap(ctx, ctx.builder.apply("to_i32", start))
    names = [*custom.changed_names(ctx, node.body), target]
    found = control.jumps(node.body)
    outer = _enter_loop(ctx, found)
    names += _carried_flags(ctx, node, found)

    def iteration(index: Value) -> None:
        builder = ctx.builder
        place = builder.apply("add", start, builder.apply("mul", index, step))
        user = expressions.wrap(ctx, builder.apply("to_i32", place))
        user.scalar.value.hint = user.scalar.value.hint or target
        ctx.env[target] = user
        _set_continue(ctx)
        block(ctx, node.body)

    if found & {"%break", "%return"}:
        _for_with_exit(ctx, node, names, count, found, iteration)
    else:
        control.for_loop(ctx, node, [n for n in names if n != target] + [target], count, iteration)
    _leave_loop(ctx, outer)


def _carried_flags(ctx: Context, node: ast.stmt, found: set[str]) -> list[str]:
    """What a loop with these jumps carries besides the user's variables."""
    names = {"%break": ["%break"], "%return": ["%return", control.RESULT]}
    return [name for flag in sorted(found & names.keys()) for name in names[flag]]


def _for_with_exit(
    ctx: Context, node: ast.For, names: list[str], count: Value, found: set[str], iteration: Any
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
        stopped = _flag(ctx, found & {"%break", "%return"})
        going = ctx.builder.apply("not", stopped.scalar.value)
        return ctx.builder.apply("and", more, going)

    def body() -> None:
        now = current()
        iteration(now)
        ctx.env[counter] = expressions.wrap(
            ctx, ctx.builder.apply("add", now, ctx.builder.constant(1, t.int64))
        )

    control.while_loop(ctx, node, [*names, counter], test, body)
    del ctx.env[counter]


def _while(ctx: Context, node: ast.While) -> None:
    if node.orelse:
        ctx.syntax_error(node, "a kernel's loop has no `else`", "use a variable that says how the loop ended")
    if any(random.draws_from(ctx, [node.test])):  # the state that a test leaves is carried by bodies only
        before = node
        stop = ast.If(ast.UnaryOp(ast.Not(), node.test), [ast.Break()], [])
        node = ast.While(ast.Constant(True), [stop, *node.body], [])
        ast.fix_missing_locations(ast.copy_location(node, before))
    found = control.jumps(node.body)
    outer = _enter_loop(ctx, found)
    names = list(custom.changed_names(ctx, node.body))
    names += _carried_flags(ctx, node, found)

    def test() -> Value:
        stopped = _flag(ctx, found & {"%break", "%return"})
        going = expressions.wrap(ctx, ctx.builder.apply("not", stopped.scalar.value))
        holds: Value = expressions.choose(
            ctx,
            node.test,
            going,
            lambda: expressions.condition(ctx, node.test),
            lambda: expressions.wrap(ctx, ctx.builder.constant(False, t.bool)),
        ).scalar.value
        return holds

    def body() -> None:
        _set_continue(ctx)
        block(ctx, node.body)

    control.while_loop(ctx, node, names, test, body)
    _leave_loop(ctx, outer)


def _set_continue(ctx: Context) -> None:
    ctx.env["%continue"] = expressions.wrap(ctx, ctx.builder.constant(False, t.bool))


def _enter_loop(ctx: Context, found: set[str]) -> dict[str, Any]:
    """Fresh `break` and `continue` flags for a loop; those of the loop around it."""
    outer = {name: ctx.env.get(name) for name in ("%break", "%continue")}
    ctx.in_loop += 1
    ctx.env["%break"] = expressions.wrap(ctx, ctx.builder.constant(False, t.bool))
    _set_continue(ctx)
    return outer


def _leave_loop(ctx: Context, outer: dict[str, Any]) -> None:
    ctx.in_loop -= 1
    for name, item in outer.items():
        if item is None:
            ctx.env.pop(name, None)
        else:
            ctx.env[name] = item


def _return(ctx: Context, node: ast.Return) -> None:
    if ctx.in_kernel:
        if node.value is not None:
            ctx.syntax_error(node, "a kernel returns nothing", "write the result into an array")
    elif node.value is not None:
        _function_result(ctx, node, node.value)
    elif ctx.returned is not None:
        ctx.type_error(
            node, f"this returns nothing, where {ctx.returned[1]} {ctx.returned[0]}", "return a value"
        )
    _set_flag(ctx, "%return")


def _function_result(ctx: Context, node: ast.Return, value: ast.expr) -> None:
    if control.RESULT not in ctx.env and ctx.in_loop:
        ctx.syntax_error(
            node,
            "a function that returns a value from inside a loop needs a declared result",
            "annotate it, for example `-> float`, or return after the loop",
        )
    item = expressions.lower(ctx, value)
    if isinstance(item, Static):
        item = ctx.quantity(value, item)
    kind = control.kind_of(item)
    if ctx.returned is None:
        ctx.returned = (kind, f"line {ctx.span(node).line} returns")
    elif ctx.returned[0] != kind:
        expected, where = ctx.returned
        ctx.type_error(value, f"this returns {kind}, where {where} {expected}", "return one type everywhere")
    ctx.env[control.RESULT] = item

"""Statements: branches and returns."""

from __future__ import annotations

import ast

from tapedebug.compiler.builder import constant_of
from tapedebug.compiler.lower import (
    assignment,
    calls,
    conditions,
    contents,
    control,
    diagnostics,
    expressions,
    loops,
    structs,
    syntax,
)
from tapedebug.compiler.lower._context import Context, Early, Static, View
from tapedebug.lang import types as t

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
    "Match": "`match`",
    "AsyncFor": "`async`",
    "AsyncWith": "`async`",
}


HINTS = {
    "FunctionDef": "define it outside, decorated with @wp.func",
    "ClassDef": "define it outside",
    "Import": "import it outside",
    "ImportFrom": "import it outside",
    "Global": "pass an array to write to",
    "Nonlocal": "pass an array to write to",
    "Raise": "use assert, or write what happened into an array and test it after the launch",
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
        found = syntax.jumps([statement])
        if not found:
            continue
        taken = loops.flag(ctx, found)
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
    loops.set_flag(ctx, control.GONE)


def _jumping_if(ctx: Context, node: ast.If, rest: list[ast.stmt]) -> bool:
    """An `if` one side of which always jumps: the rest of the block belongs to the other side."""
    if syntax.always_jumps(node.body):
        sides = (node.body, [*node.orelse, *rest])
    elif node.orelse and syntax.always_jumps(node.orelse):
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
            loops.for_(ctx, node)
        case ast.While():
            loops.while_(ctx, node)
        case ast.Return():
            _return(ctx, node)
        case ast.Break():
            loops.set_flag(ctx, "%break")
        case ast.Continue():
            loops.set_flag(ctx, "%continue")
        case ast.Pass():
            pass
        case ast.Assert():
            diagnostics.assertion(ctx, node)
        case ast.Expr():
            _expression(ctx, node)
        case _:
            word = type(node).__name__
            ctx.syntax_error(
                node,
                f"a kernel cannot use {UNSUPPORTED.get(word, f'this statement ({word})')}",
                HINTS.get(
                    word, "kernels have assignments, if, for … in range(…), while, break, continue and return"
                ),
            )


def _expression(ctx: Context, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):  # a docstring, or `...`
        return
    if isinstance(node.value, ast.IfExp):  # `f(x) if c else g(x)`, for its effects
        yes: list[ast.stmt] = [ast.copy_location(ast.Expr(node.value.body), node)]
        no: list[ast.stmt] = [ast.copy_location(ast.Expr(node.value.orelse), node)]
        _if(ctx, ast.copy_location(ast.If(node.value.test, yes, no), node), yes, no)
        return
    if type(node.value).__name__ in expressions.UNSUPPORTED:
        expressions.lower(ctx, node.value)  # which refuses it
    if not isinstance(node.value, ast.Call):
        ctx.syntax_error(node, "this expression has no effect", "assign its value, or remove it")
    calls.lower(ctx, node.value, used=False)


# Control flow ----------------------------------------------------------------------------------------------


def _if(ctx: Context, node: ast.If, body: list[ast.stmt], orelse: list[ast.stmt]) -> None:
    test = conditions.condition(ctx, node.test)
    known = constant_of(test.scalar.value)
    if known is not None:
        block(ctx, body if known else orelse)
        return
    control.branch(ctx, node, test.scalar.value, lambda: block(ctx, body), lambda: block(ctx, orelse))


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
    loops.set_flag(ctx, "%return")


def _function_result(ctx: Context, node: ast.Return, value: ast.expr) -> None:
    item = expressions.lower(ctx, value)
    if isinstance(item, Static):
        item = ctx.quantity(value, item)
    if control.RESULT not in ctx.env and ctx.in_loop:
        if contents.leaves_of(item) is None:
            ctx.syntax_error(
                node,
                f"a function cannot return {contents.kind_of(item)} from inside a loop",
                "return its index, or return after the loop",
            )
        raise Early(ctx.result_key, item)
    of_one_type = isinstance(item, View) and control.choosable(item)  # one of two arrays is returned, then
    kind = f"an {t.type_name(structs.type_of(item))}" if of_one_type else contents.kind_of(item)
    if ctx.returned is None:
        ctx.returned = (kind, f"line {ctx.span(node).line} returns")
    elif ctx.returned[0] != kind:
        expected, where = ctx.returned
        ctx.type_error(value, f"this returns {kind}, where {where} {expected}", "return one type everywhere")
    ctx.env[control.RESULT] = item

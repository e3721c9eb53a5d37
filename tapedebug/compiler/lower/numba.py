"""Calls of functions that users compile with Numba: of numbers, differentiated by finite differences."""

from __future__ import annotations

import ast
from typing import Any

from tapedebug.compiler.diagnostics import RAISED, Diagnostic, Shown
from tapedebug.compiler.function import Function
from tapedebug.compiler.ir import Custom, Value
from tapedebug.compiler.lower import expressions
from tapedebug.compiler.lower._context import Context, Item, Items, StructValue, View
from tapedebug.compiler.native.function import NativeCall
from tapedebug.compiler.native.unit import ADJOINT, FORWARD
from tapedebug.compiler.numba_functions import function_of, is_numba_function
from tapedebug.compiler.numba_versions import NumbaVersion, version_of
from tapedebug.lang import types as t
from tapedebug.lang.lowering import SHORT_FLOATS
from tapedebug.lang.rules import Quantity


def function_called(ctx: Context, node: ast.Call, target: Any) -> Function | None:
    """Return the function that a call of a Numba function is of; None if the target is something else.

    Raises:
        KernelTypeError: It is compiled in a way that kernels cannot call.
    """
    if not is_numba_function(target):
        _refuse_others(ctx, node, target)
        return None
    options = target.targetoptions
    name = target.py_func.__name__
    if options.get("parallel"):
        message = f"`{name}` is compiled with parallel=True, and a kernel runs in threads of its own"
        ctx.type_error(node.func, message, "leave parallel=True out")
    if options.get("forceobj") or not options.get("nopython", True):
        message = f"`{name}` may run in object mode, which needs the interpreter"
        ctx.type_error(node.func, message, f"decorate `{name}` with @numba.njit")
    return function_of(target)


def _refuse_others(ctx: Context, node: ast.Call, target: Any) -> None:
    made = type(target)
    if (made.__module__ or "").partition(".")[0] != "numba" or isinstance(target, type):
        return
    kinds = {"DUFunc": "vectorize", "GUFunc": "guvectorize", "CFunc": "cfunc", "CUDADispatcher": "cuda.jit"}
    if made.__name__ in kinds:
        name = getattr(target, "__name__", ast.unparse(node.func))
        message = f"`{name}` is made with @numba.{kinds[made.__name__]}, which a kernel cannot call"
        ctx.type_error(node.func, message, "decorate a function of numbers with @numba.njit, and call that")


def arguments(ctx: Context, node: ast.Call, function: Function) -> dict[str, Item]:
    """Return the arguments of a call by parameter; a parameter that is not given is left to Numba."""
    name, parameters = function.name, function.signature.parameters.values()
    several = [p for p in parameters if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if several:
        message = f"the numba function `{name}` takes any number of arguments (`{several[0]}`)"
        ctx.type_error(node, message, "let it take each argument by name")
    given = [expressions.lower(ctx, argument) for argument in node.args]
    named = {str(keyword.arg): expressions.lower(ctx, keyword.value) for keyword in node.keywords}
    try:
        bound = function.signature.bind(*given, **named)
    except TypeError as error:
        takes = f"{name}{function.signature}"
        ctx.type_error(
            node, f"the numba function `{takes}` does not take these arguments: {error}", "pass what it takes"
        )
    env = dict(bound.arguments)
    missing = [p.name for p in parameters if p.name not in env]
    if missing and list(env) != [p.name for p in parameters][: len(env)]:
        ctx.type_error(
            node,
            f"`{missing[0]}` of the numba function `{name}` is left out, and a later argument is given",
            f"pass `{missing[0]}`, too",
        )
    nodes = dict(zip(env, [*node.args, *(k.value for k in node.keywords)], strict=False))
    nodes |= {str(k.arg): k.value for k in node.keywords}
    return {key: _number(ctx, nodes[key], function, key, item) for key, item in env.items()}


def _number(ctx: Context, node: ast.expr, function: Function, parameter: str, item: Item) -> Quantity:
    """Return an argument, which has to be a number."""
    what = f"`{parameter}` of the numba function `{function.name}` takes a number"
    if isinstance(item, View):
        index = ", ".join("ijkl"[: item.type.ndim])
        hint = f"pass its elements: {item.name}[{index}]; or write `{function.name}` as a @wp.func"
        ctx.type_error(node, f"{what}; got the array `{item.name}`", hint)
    if isinstance(item, StructValue):
        fields = ", ".join(f"{ast.unparse(node)}.{name}" for name in item.kind.fields)
        ctx.type_error(node, f"{what}; got the struct {t.type_name(item.kind)}", f"pass its fields: {fields}")
    q = ctx.quantity(node, item, "a number")
    if t.is_compound(q.type):
        hint = f"pass its components: {ast.unparse(node)}[0], …"
        ctx.type_error(node, f"{what}; got {t.type_name(q.type)}", hint)
    if q.type in SHORT_FLOATS:
        hint = f"convert it: wp.float32({ast.unparse(node)})"
        ctx.type_error(node, f"{what} that Numba has on processors; got {t.type_name(q.type)}", hint)
    return q


def call(
    ctx: Context, node: ast.Call, function: Function, env: dict[str, Item], *, used: bool = True
) -> Item:
    """Return the result of a call: a number, several, or nothing."""
    from tapedebug.compiler.numba_wrappers import NotCompiled

    given = {name: item for name, item in env.items() if isinstance(item, Quantity)}
    types = tuple((name, q.type) for name, q in given.items())
    try:
        version = version_of(function, types)
        if version.snippets.adjoint is not None:
            version.symbol(FORWARD, f64=True)  # which shows early what Numba refuses
    except NotCompiled as error:
        shown = ", ".join(t.type_name(kind) for _, kind in types)
        ctx.type_error(
            node, f"the numba function `{function.name}`, called with ({shown}), {error.message}", error.hint
        )
    values = [q.scalar.value for q in given.values()]
    with ctx.builder.region() as body:
        token = _emit(ctx, version, FORWARD, values, effect=not used or not version.signature.results)
        body.yields = _words(ctx, token, "result")
        if version.raises:
            _require(ctx, node, version, token, given)
    region = Custom(function.name, body, None, None, [], [], [], ctx.span(node), numerical=True)
    if version.snippets.adjoint is not None and not ctx.in_custom:
        _gradient(ctx, version, values, region)
    ctx.at(node)
    for op in [region] if region.gradient is not None else body.ops:
        ctx.builder.append(op)
    kinds = version.signature.results
    parts = [Quantity(k, (ctx.builder.expr(v),)) for k, v in zip(kinds, body.yields, strict=True)]
    return parts[0] if version.single else Items(tuple(parts))


def _emit(ctx: Context, version: NumbaVersion, variant: str, args: list[Value], *, effect: bool) -> Value:
    """The call of a variant; the value stands for the frame after it."""
    called = NativeCall(version, variant, tuple(version.signature.words(variant)), {})
    return ctx.builder.emit("native" if effect else "native_value", tuple(args), t.int64, (called,))


def _words(ctx: Context, token: Value, kind: str) -> list[Value]:
    """The words of one kind, after a call."""
    assert token.op is not None
    called: NativeCall = token.op.data[0]
    return [
        ctx.builder.emit("native_result", (token,), word.scalar, (called, place))
        for place, word in enumerate(called.words)
        if word.kind == kind
    ]


def _require(
    ctx: Context, node: ast.Call, version: NumbaVersion, token: Value, given: dict[str, Quantity]
) -> None:
    """End the launch if the function raised an exception; its arguments are shown."""
    (status,) = _words(ctx, token, "status")
    fine = ctx.builder.apply("eq", status, ctx.builder.constant(0, t.int64))
    operands = (Shown(t.int64, version.name), *(Shown(q.type, name) for name, q in given.items()))
    diagnostic = Diagnostic(
        RAISED, ctx.span(node), operands=operands, text=version.name, notes=tuple(ctx.notes())
    )
    values = [q.scalar.value for q in given.values()]
    ctx.builder.effect("assert", (fine, status, *values), (diagnostic,))


def _gradient(ctx: Context, version: NumbaVersion, values: list[Value], region: Custom) -> None:
    """Give a call its gradient: finite differences, added to the adjoints of its arguments."""
    words = version.signature.words(ADJOINT)
    by_name = {name: value for (name, _), value in zip(version.signature.parameters, values, strict=True)}
    seeds = {w.component: Value(w.scalar, "adj_ret") for w in words if w.kind == "seed" and w.scalar}
    before = {
        place: Value(w.scalar, f"adj_{w.name}")
        for place, w in enumerate(words)
        if w.kind == "adjoint" and w.scalar
    }
    region.seeds = [seeds.get(k) or Value(v.type, "adj_ret") for k, v in enumerate(region.body.yields)]
    region.inputs = [by_name[words[place].name] for place in before]
    region.before = list(before.values())
    region.params = [(words[place].name, by_name[words[place].name]) for place in before]
    args = [*values, *before.values(), *(seeds[w.component] for w in words if w.kind == "seed")]
    with ctx.builder.block() as block:
        token = _emit(ctx, version, ADJOINT, args, effect=False)
        block.yields = _words(ctx, token, "adjoint")
    region.gradient = block

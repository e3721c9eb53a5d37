"""Calls: operations of the rule table, conversions, thread indices, atomics, user functions."""

from __future__ import annotations

import ast
import difflib
import types as python_types
from collections.abc import Callable
from typing import Any, NoReturn

from tapedebug.compiler.function import Function, Gradient, grad
from tapedebug.compiler.lower import (
    arguments,
    atomics,
    components,
    construct,
    contents,
    control,
    diagnostics,
    expressions,
    foreign_functions,
    generic,
    gradient,
    in_place,
    keywords,
    numba,
    operations,
    random,
    references,
    statics,
    structs,
    syntax,
    unpack,
    views,
)
from tapedebug.compiler.lower._context import (
    Context,
    Early,
    Item,
    Items,
    Static,
    StructValue,
    Undefined,
    View,
)
from tapedebug.lang import types as t
from tapedebug.lang.builtins import BOTH, BUILTINS, Builtin, static
from tapedebug.lang.rules import DRAWS, Quantity

TYPE_MAKERS = (t.vector, t.matrix, t.quaternion, t.transformation)
MAX_INLINE_DEPTH = 64


def lower(ctx: Context, node: ast.Call, *, used: bool = True) -> Item:
    """The value of a call; `used` is false where the call is a statement."""
    with unpack.plain(ctx, node) as plain:
        return _lower(ctx, plain, used)


def _lower(ctx: Context, node: ast.Call, used: bool) -> Item:
    function = _function(ctx, node.func)
    ctx.at(node)
    if not isinstance(function, Static):
        ctx.type_error(
            node.func, "this cannot be called", "call a function of the kernel language or a @func"
        )
    target = function.value
    if isinstance(target, Function):
        return inlined(ctx, node, *arguments.resolved(ctx, node, target))
    compiled = numba.function_called(ctx, node, target)
    if compiled is not None:
        return inlined(ctx, node, compiled, numba.arguments(ctx, node, compiled), used=used)
    if target is grad:
        return gradient.of(ctx, node)
    if isinstance(target, Gradient):
        return gradient.call(ctx, node, target)
    if target is static:
        return statics.evaluate(ctx, node)
    if isinstance(target, Builtin) and target.name in generic.MAKERS:
        return generic.lower(ctx, node, target.name)
    if _makes_types(target):
        return generic.of_maker(ctx, node, target)
    if isinstance(target, type) and issubclass(target, t.Transformation):
        return generic.transform(ctx, node, target)
    name = "print" if target is print else target.name if isinstance(target, Builtin) else ""
    if name in diagnostics.NAMES:
        return diagnostics.lower(ctx, node, name)
    if target is breakpoint:
        return diagnostics.pause(ctx, node)
    if t.is_struct(target):
        return structs.construct_struct(ctx, node, target)
    if isinstance(target, Builtin) and target.name == "curlnoise":
        return random.curlnoise(ctx, node)
    if isinstance(target, Builtin):
        return _builtin(ctx, keywords.in_order(ctx, node, target.name), target.name, used)
    if isinstance(target, type) and node.keywords:
        node = generic.without_keywords(ctx, node, target)
    if node.keywords:
        called = ast.unparse(node.func)
        if any(keyword.arg == "ptr" for keyword in node.keywords):
            ctx.syntax_error(
                node,
                f"{called}(ptr=…) makes an array from an address, which replays and gradients cannot follow",
                "pass the array as a parameter of the kernel, or watch the program on NVIDIA Warp itself",
            )
        ctx.syntax_error(node, f"{called}() takes no keywords", "pass the values in order")
    same = keywords.of_python(target)
    if same is not None:
        return operations.lower(ctx, keywords.folded(node, target), same)
    if target is len:
        return _len(ctx, node)
    if target is type:
        return _type(ctx, node)
    if isinstance(target, type) and target is not range:
        return construct.lower(ctx, node, target)
    _not_callable(ctx, node, target)


def _makes_types(target: Any) -> bool:
    return any(target is make for make in TYPE_MAKERS)


def _function(ctx: Context, node: ast.expr) -> Item:
    """Lower the callee. `types.vector(length=2, dtype=float)` is a type there."""
    made = expressions.lower(ctx, node.func) if isinstance(node, ast.Call) else None
    if isinstance(node, ast.Call) and isinstance(made, Static) and _makes_types(made.value):
        return generic.type_of_call(ctx, node, made.value)
    return expressions.lower(ctx, node)


def _not_callable(ctx: Context, node: ast.Call, target: Any) -> NoReturn:
    name = getattr(target, "__name__", repr(target))
    if target is not range:
        foreign_functions.refuse(ctx, node.func, target)
    if name in BUILTINS:
        shown = ast.unparse(node.func)
        ctx.name_error(node.func, f"`{shown}` is not a function of the kernel language", f"use wp.{name}")
    from tapedebug.compiler.kernel import Kernel

    if isinstance(target, Kernel):
        ctx.name_error(
            node.func,
            f"`{name}` is a kernel, which a kernel cannot call",
            "make it a @func to call it, or launch it on its own",
        )
    if target is range:
        ctx.syntax_error(node, "range stands in a `for` only", "write `for i in range(n):`")
    if isinstance(target, python_types.FunctionType):
        ctx.name_error(
            node.func,
            f"`{name}` is a plain Python function",
            f"decorate `{name}` with @func so that kernels can call it",
        )
    if getattr(target, "__self__", None) is not None:
        ctx.name_error(
            node.func,
            f"`{ast.unparse(node.func)}` is a method of a Python object, which a kernel cannot call",
            "call it before the launch, and pass the result as an argument",
        )
    near = difflib.get_close_matches(name, BUILTINS.keys() - BOTH, 1)
    if isinstance(target, t.ArrayType | t.IndexedArrayType):
        ctx.type_error(node, f"a kernel cannot make an {name}", "an array has a dtype, which makes elements")
    ctx.name_error(
        node.func,
        f"`{name}` cannot be called in a kernel",
        f"did you mean `{near[0]}`?"
        if near
        else "kernels call functions of the kernel language and @func functions",
    )


def _builtin(ctx: Context, node: ast.Call, name: str, used: bool) -> Item:
    if name == "tid":
        return thread_index(ctx, node, 1)
    if name in operations.SETTERS:
        return operations.set_part(ctx, node, name)
    if name in atomics.NAMES:
        return atomics.lower(ctx, node, name, used)
    if name in DRAWS:
        return random.draw(ctx, node, name)
    if name == "lower_bound":
        return random.lower_bound(ctx, node)
    if name == "view":
        return views.named(ctx, node)
    return operations.lower(ctx, node, name)


def _type(ctx: Context, node: ast.Call) -> Item:
    """`type(x)`, which makes values of the type of `x`."""
    item = expressions.lower(ctx, node.args[0]) if len(node.args) == 1 else None
    if item is None:
        ctx.type_error(node, "type() takes one value", "pass a number, a vector or an array")
    if isinstance(item, View):
        return Static(structs.type_of(item))
    if isinstance(item, StructValue):
        return Static(item.kind)
    return Static(ctx.quantity(node.args[0], item).type)


def _len(ctx: Context, node: ast.Call) -> Quantity:
    item = expressions.lower(ctx, node.args[0]) if len(node.args) == 1 else None
    if isinstance(item, View):
        length = views.shape(ctx, item).items[0]
        assert isinstance(length, Quantity)
        return length
    count = components.known_length(item)
    if count is None and isinstance(item, Static) and hasattr(type(item.value), "__len__"):
        count = len(item.value)
    if count is None:
        ctx.type_error(node, "len() takes an array, a vector or a tuple", "pass an array parameter")
    return expressions.wrap(ctx, ctx.builder.constant(count, t.int32))


# Threads ---------------------------------------------------------------------------------------------------


def thread_index(ctx: Context, node: ast.Call, axes: int) -> Item:
    """The thread's index on `axes` axes, as int32."""
    if not ctx.in_kernel:
        ctx.syntax_error(node, "tid() is called in kernels only", "pass the thread's index to the function")
    if node.args:
        ctx.type_error(node, "tid() takes no arguments", "write `i = tid()` or `i, j = tid()`")
    if axes > t.MAX_DIMENSIONS:
        ctx.type_error(
            node, f"a launch has one to four axes; {axes} are asked for", "take at most four indices"
        )
    ctx.axes = max(ctx.axes, axes)
    indices = []
    for axis in range(axes):
        index = expressions.wrap(ctx, ctx.builder.apply("to_i32", ctx.builder.thread(axis)))
        indices.append(index)
    return indices[0] if axes == 1 else Items(tuple(indices))


# User functions --------------------------------------------------------------------------------------------


def inlined(
    ctx: Context, node: ast.Call, function: Function, env: dict[str, Item], *, used: bool = True
) -> Item:
    """The body of a @func, with these values of its parameters, in place of its call."""
    if function in ctx.active or len(ctx.active) > MAX_INLINE_DEPTH:
        chain = " → ".join([f.name for f in ctx.active] + [function.name])
        ctx.syntax_error(node, f"recursion is not in the kernel language: {chain}", "use a loop")
    ctx.functions[function] = None
    if function.numba is None and function.references:
        return references.call(ctx, node, function, env)
    if function.native is not None:
        from tapedebug.compiler.lower import native

        return native.call(ctx, node, function, env)
    if function.numba is not None and (function.gradient is None or ctx.in_custom):
        return numba.call(ctx, node, function, env, used=used)
    if (function.gradient is None and function.replay is None) or ctx.in_custom:
        inline = run if ctx.variables is None or ctx.in_custom or ctx.in_gradient else in_place.call
        return inline(ctx, node, function, env)
    from tapedebug.compiler.lower import custom

    return custom.call(ctx, node, function, in_place.arguments(ctx, env))


def run(
    ctx: Context,
    node: ast.Call,
    function: Function,
    env: dict[str, Item],
    *,
    begin: Callable[[], None] = lambda: None,
    end: Callable[[], None] = lambda: None,
) -> Item:
    """A function's body with these arguments; `begin` and `end` are called inside its frame."""
    from tapedebug.compiler.lower import statements

    outer = {name: getattr(ctx, name) for name in FRAME}
    call_span = ctx.span(node)
    ctx.env, ctx.origin, ctx.python = env, function.origin, function.python
    ctx.calls, ctx.in_kernel, ctx.active = (*ctx.calls, call_span), False, (*ctx.active, function)
    ctx.in_loop, ctx.outermost, ctx.returned = 0, None, None
    ctx.locals = syntax.local_names(function.origin.tree.body)
    ctx.env["%return"] = expressions.wrap(ctx, ctx.builder.constant(False, t.bool))
    ctx.inputs = None
    ctx.references = {}
    begin()
    early = ctx.early.get(ctx.result_key)
    if function.result_type is not None:
        _zero_result(ctx, function)
    elif early is not None:
        ctx.env[control.RESULT] = contents.zeros_like(ctx, early)
    try:
        body = function.body
        statements.block(ctx, body)
        result = ctx.env.get(control.RESULT)
        if ctx.returned is not None and not syntax.always_returns(body):
            _note_missing_return(ctx, function, body[-1])
        end()
    finally:
        for name, value in outer.items():
            setattr(ctx, name, value)
    ctx.at(node)
    return Items(()) if result is None or isinstance(result, Undefined) else result


def _note_missing_return(ctx: Context, function: Function, last: ast.stmt) -> None:
    """Note that a function returns a value on some paths only: where it returns none, its result is 0."""
    key, result = ("no return", ctx.span(last)), ctx.env.get(control.RESULT)
    if result is None or contents.leaves_of(result) is None:
        message = f"`{function.name}` returns {contents.kind_of(result)} on some paths only"
        ctx.type_error(last, message, "end it with a `return` of a value")
    if key not in ctx.early:
        raise Early(key, result, (f"{function.name}()", ctx.span(last)))


FRAME = (
    "env",
    "origin",
    "python",
    "calls",
    "in_kernel",
    "active",
    "in_loop",
    "outermost",
    "locals",
    "returned",
    "inputs",
    "references",
)
"""Attributes of the context that belong to one function, and are saved while another is inlined."""


def _zero_result(ctx: Context, function: Function) -> None:
    """A declared result exists from the start, so that loops can carry it to a `return` inside them."""
    kinds = function.result_type if isinstance(function.result_type, tuple) else (function.result_type,)
    zeros = [structs.zeros(ctx, kind) for kind in kinds]
    result = Items(tuple(zeros)) if isinstance(function.result_type, tuple) else zeros[0]
    ctx.env[control.RESULT] = result
    ctx.returned = (contents.kind_of(result), f"`{function.name}` is declared to return")

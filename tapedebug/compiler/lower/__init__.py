"""Lowering: from the syntax tree of a kernel to typed IR, with every type error shown at the user's line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field, replace
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug._errors import KernelSyntaxError
from tapedebug._source import Origin, Span
from tapedebug.compiler import flatten, ir
from tapedebug.compiler.builder import Builder
from tapedebug.compiler.effects import AccessRecord
from tapedebug.compiler.function import Function
from tapedebug.compiler.lower import expressions, statements, structs, syntax
from tapedebug.compiler.lower._context import Context, Early, Item
from tapedebug.compiler.source_variables import Variables
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity


@dataclass(frozen=True)
class Lowered:
    """A kernel in IR, with what its source touches.

    Attributes:
        custom: With calls of functions that have gradients or replays of their own as `Custom` regions.
        function: Without: what runs.
        with_diagnostics: As `custom`, with all diagnostics.
        accesses: The places in the source that touch arrays.
        uses_atomic_result: Whether something depends on what an atomic returned.
        functions: The user's functions that are compiled into it.
        captured: What it read from outside: the function, the expression, its known variables, its value.
        variables: What its variables are when it ends.
        optional: The array parameters for which None may be passed.
    """

    custom: ir.Function
    function: ir.Function
    with_diagnostics: ir.Function
    accesses: tuple[AccessRecord, ...]
    uses_atomic_result: bool
    functions: tuple[Function, ...] = ()
    captured: tuple[tuple[Any, str, dict[str, Any], Any], ...] = ()
    variables: dict[str, Item] = field(default_factory=dict)
    optional: frozenset[int] = frozenset()
    one_sided: tuple[tuple[str, Span], ...] = ()
    """The variables that only one branch of an `if` assigns and that are read after it, with the `if`."""
    of_user: Variables | None = None
    """The values that are one variable of the user's, if requested."""


def lower_kernel(
    name: str,
    origin: Origin,
    signature: tuple[ir.Param, ...],
    python: Callable[..., Any],
    fixed: dict[Any, dict[str, Any]] | None = None,
    *,
    max_unroll: int = 16,
    in_place: bool = False,
    axes: int = 1,
) -> Lowered:
    """Lower a kernel's Python function, given its parameters as they are declared.

    Loops over at most `max_unroll` known iterations are written out; `fixed` is what names mean in it, and in
    functions that it calls. Its threads have at least `axes` axes. With `in_place`, the result includes which
    values are one variable of the user's.

    Raises:
        KernelSyntaxError, KernelTypeError, KernelNameError: with the user's line and a caret.
    """
    early: dict[Any, Item] = {}
    one_sided: dict[tuple[str, Span], None] = {}
    while True:
        try:
            found = _lowered(name, origin, signature, python, fixed or {}, early, max_unroll, in_place, axes)
            return replace(found, one_sided=tuple(one_sided))
        except Early as missing:
            early[missing.key] = missing.item
            if missing.branch is not None:
                one_sided[missing.branch] = None


def _lowered(
    name: str,
    origin: Origin,
    signature: tuple[ir.Param, ...],
    python: Callable[..., Any],
    fixed: dict[Any, dict[str, Any]],
    early: dict[Any, Item],
    max_unroll: int,
    in_place: bool,
    axes: int,
) -> Lowered:
    builder = Builder()
    ctx = Context(builder, name, origin, python, fixed, early, max_unroll=max_unroll)
    ctx.variables = Variables() if in_place else None
    ctx.at(origin.tree)
    ctx.locals = syntax.local_names(origin.tree.body)
    ctx.env["%return"] = expressions.wrap(ctx, builder.constant(False, t.bool))
    params = signature if flatten.is_flat(signature) else flatten.flattened(signature)
    flat = iter(params)
    for declared in signature:
        ctx.env[declared.name] = structs.bound(
            declared.type, declared.name, flat, lambda param: _argument(builder, param)
        )
    try:
        statements.block(ctx, origin.tree.body)
    except RecursionError:
        message = "an expression here is nested too deeply"
        raise KernelSyntaxError(
            f"kernel `{name}`: {message}", span=builder.span, hint="split it into several statements"
        ) from None
    function = ir.Function(name, params, builder.root, max(1, axes, ctx.axes))
    accesses, functions = tuple(ctx.accesses), tuple(ctx.functions)
    captured, result = tuple(ctx.captured), ctx.uses_atomic_result
    optional = frozenset(ctx.optional)
    if ctx.variables is not None:
        ctx.variables.resolve(function.body)
    return Lowered(
        function,
        function,
        function,
        accesses,
        result,
        functions,
        captured,
        ctx.env,
        optional,
        of_user=ctx.variables,
    )


def _argument(builder: Builder, param: ir.Param) -> Quantity:
    """A by-value argument: slots hold int64 or float64, converted on entry."""
    scalar = t.scalar_of(param.type)
    wide = t.float64 if scalar in t.FLOATS else t.int64
    parts = []
    for component in range(t.components(param.type)):
        raw = builder.argument(param.index, component, wide)
        if scalar is t.bool:
            value = builder.apply("ne", raw, builder.constant(0, t.int64))
        else:
            value = builder.apply(f"to_{scalar.code}", raw)
        value.hint = value.hint or param.name
        parts.append(builder.expr(value))
    return Quantity(param.type, tuple(parts))

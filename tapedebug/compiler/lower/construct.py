"""Types called in kernels: conversions of numbers, and vectors, matrices, transforms … made of parts."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug.compiler.lower import expressions
from tapedebug.compiler.lower._context import Context
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity
from tapedebug.lang.rules.table import name_list

XYZ = 3
"""Components of the vector that a quaternion may be made of."""


def lower(ctx: Context, node: ast.Call, target: type) -> Quantity:
    """The value of a call of a type."""
    try:
        kind = t.canonical(target)
    except TypeError:
        ctx.name_error(
            node.func,
            f"`{target.__name__}` is not a type of the kernel language",
            t.hint_for_type(target, "use float, int, bool, float64, vec2, vec3, …"),
        )
    if not t.is_compound(kind):
        return _scalar(ctx, node, kind)
    return of_type(ctx, node, kind, arguments(ctx, node.args))


def convert(ctx: Context, q: Quantity, kind: Any) -> Quantity:
    """A scalar converted to another scalar type."""
    if kind is t.bool:
        return expressions.wrap(ctx, ctx.builder.apply("ne", q.scalar.value, ctx.builder.constant(0, q.type)))
    return expressions.wrap(ctx, ctx.builder.apply(f"to_{kind.code}", q.scalar.value))


def _scalar(ctx: Context, node: ast.Call, kind: Any) -> Quantity:
    number = expressions.literal(ctx, node.args[0]) if len(node.args) == 1 else None
    if number is not None and kind is not t.bool:
        if kind in t.UNSIGNED and isinstance(number, int) and -(2 ** (t.bits_of(kind) - 1)) <= number < 0:
            number += 2 ** (t.bits_of(kind))  # as in C: uint32(-1) has every bit
        return ctx.constant(node.args[0], number, kind)
    values = [expressions.argument(ctx, a) for a in node.args]
    ctx.at(node)
    if len(values) != 1 or t.is_compound(values[0].type):
        got = ", ".join(t.type_name(v.type) for v in values) or "nothing"
        ctx.type_error(node, f"{t.type_name(kind)}() converts one number; got {got}", "pass one number")
    return convert(ctx, values[0], kind) if values[0].type is not kind else values[0]


def zeros(ctx: Context, kind: Any) -> Quantity:
    """The value of a type that is 0 in every component."""
    zero = ctx.builder.expr(ctx.builder.constant(0, t.scalar_of(kind)))
    return Quantity(kind, (zero,) * t.components(kind))


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a type: a number that is written down and has no type yet, or a value."""

    node: ast.expr
    given: int | float | Quantity


def arguments(ctx: Context, nodes: Iterable[ast.expr]) -> list[Argument]:
    """Lower the arguments of a type, each once."""
    found = []
    for node in nodes:
        number = expressions.literal(ctx, node)
        found.append(Argument(node, number if number is not None else expressions.argument(ctx, node)))
    return found


def of_type(ctx: Context, node: ast.Call, kind: Any, given: list[Argument]) -> Quantity:
    """A value of a compound type from its components, its parts, or a value of another scalar type."""
    # Numbers that are written down take the type of the components.
    values = [
        a.given if isinstance(a.given, Quantity) else ctx.constant(a.node, a.given, kind.scalar)
        for a in given
    ]
    ctx.at(node)
    if not values:
        return zeros(ctx, kind)
    first = values[0]
    if len(values) == 1 and t.is_compound(first.type) and _same_form(first.type, kind):
        return converted(ctx, first, kind)
    wanted = PARTS[kind.__base__](kind)
    if len(values) == len(wanted) and [v.type for v in values] == wanted:
        return Quantity(kind, tuple(part for v in values for part in v.parts))
    _check(ctx, node, kind, values)
    values = values if len(values) == kind.length else values * kind.length
    return Quantity(kind, tuple(v.scalar for v in values))


def converted(ctx: Context, q: Quantity, kind: Any) -> Quantity:
    """A compound value with components of another scalar type."""
    parts = [convert(ctx, Quantity(p.type, (p,)), kind.scalar) for p in q.parts]
    return Quantity(kind, tuple(p.scalar for p in parts))


PARTS: dict[type, Callable[[Any], list[Any]]] = {
    t.Vector: lambda kind: [t.vector(XYZ, kind.scalar)] * 2 if kind.length == 2 * XYZ else [],
    t.Matrix: lambda kind: [],
    t.Quaternion: lambda kind: [t.vector(XYZ, kind.scalar), kind.scalar],
    t.Transformation: lambda kind: [part.type for part in kind.named.values()],
}
"""The types of the parts of which a value may be made in place of its components."""


def _same_form(a: Any, b: Any) -> bool:
    """True if one type converts to the other: they differ in the type of their components only."""
    return a.__base__ is b.__base__ and a.shape == b.shape


def _example(kind: Any) -> str:
    """The arguments of a type, as messages show them."""
    if t.is_matrix(kind):
        return "m00, m01, …"
    if PARTS[kind.__base__](kind) and not t.is_quaternion(kind):
        return "p, q" if t.is_transformation(kind) else "top, bottom"
    return ", ".join("xyzw"[: kind.length]) if kind.length <= len("xyzw") else "v0, v1, …"


def _check(ctx: Context, node: ast.Call, kind: Any, values: list[Quantity]) -> None:
    name = t.type_name(kind)
    if t.is_matrix(kind) and any(t.is_vector(v.type) for v in values):
        ctx.type_error(
            node,
            f"{name}() takes numbers, row by row; got {t.type_name(values[0].type)}",
            "use wp.matrix_from_rows(…) or wp.matrix_from_cols(…)",
        )
    counts = (kind.length,) if t.is_quaternion(kind) else (1, kind.length)
    wrong = next((v for v in values if v.type is not kind.scalar), None)
    if len(values) not in counts or (wrong is not None and t.is_compound(wrong.type)):
        one = "" if t.is_quaternion(kind) else ", one value for all"
        got = (
            name_list([v.type for v in values]) if any(t.is_compound(v.type) for v in values) else len(values)
        )
        ctx.type_error(
            node,
            f"{name}() takes {kind.length} components{one}, or nothing; got {got}",
            f"{name}({_example(kind)})",
        )
    if wrong is not None:
        ctx.type_error(
            node,
            f"the components of {name} are {t.type_name(kind.scalar)}; got {t.type_name(wrong.type)}",
            f"convert them with {t.conversion(kind.scalar)}",
        )

"""Types called in kernels: conversions of numbers, and vectors, matrices and quaternions made of parts."""

from __future__ import annotations

import ast
from typing import Any

from tapedebug.compiler.lower import expressions
from tapedebug.compiler.lower._context import Context, Item, Static
from tapedebug.lang import types as t
from tapedebug.lang.rules import Quantity

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
            "use float, int, bool, float64, vec2, vec3, …",
        )
    return _compound(ctx, node, kind) if t.is_compound(kind) else _scalar(ctx, node, kind)


def convert(ctx: Context, q: Quantity, kind: Any) -> Quantity:
    """A scalar converted to another scalar type."""
    if kind is t.bool:
        return expressions.wrap(ctx, ctx.builder.apply("ne", q.scalar.value, ctx.builder.constant(0, q.type)))
    return expressions.wrap(ctx, ctx.builder.apply(f"to_{kind.code}", q.scalar.value))


def _scalar(ctx: Context, node: ast.Call, kind: Any) -> Quantity:
    number = expressions.literal(ctx, node.args[0]) if len(node.args) == 1 else None
    if number is not None and kind is not t.bool:
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


def _compound(ctx: Context, node: ast.Call, kind: Any) -> Quantity:
    values = _components(ctx, node, kind.scalar)
    if not values:
        return zeros(ctx, kind)
    first = values[0]
    if len(values) == 1 and t.is_compound(first.type) and _same_form(first.type, kind):
        parts = [convert(ctx, Quantity(p.type, (p,)), kind.scalar) for p in first.parts]
        return Quantity(kind, tuple(p.scalar for p in parts))
    if t.is_quaternion(kind) and len(values) == 2 and first.type is t.vector(XYZ, kind.scalar):
        values = [*(Quantity(p.type, (p,)) for p in first.parts), values[1]]
    _check(ctx, node, kind, values)
    given = values if len(values) == kind.length else values * kind.length
    return Quantity(kind, tuple(v.scalar for v in given))


def _same_form(a: Any, b: Any) -> bool:
    """Whether one type converts to the other: they differ in the type of their components only."""
    return a.__base__ is b.__base__ and a.shape == b.shape


def _check(ctx: Context, node: ast.Call, kind: Any, values: list[Quantity]) -> None:
    name = t.type_name(kind)
    if t.is_matrix(kind) and any(t.is_vector(v.type) for v in values):
        ctx.type_error(
            node,
            f"{name}() takes numbers, row by row; got {t.type_name(values[0].type)}",
            "use wp.matrix_from_rows(…) or wp.matrix_from_cols(…)",
        )
    counts = (kind.length,) if t.is_quaternion(kind) else (1, kind.length)
    if len(values) not in counts:
        one = "" if t.is_quaternion(kind) else ", one value for all"
        shown = ", ".join("xyzw"[: kind.length]) if len(kind.shape) == 1 else "m00, m01, …"
        ctx.type_error(
            node,
            f"{name}() takes {kind.length} components{one}, or nothing; got {len(values)}",
            f"{name}({shown})",
        )
    wrong = next((v for v in values if v.type is not kind.scalar), None)
    if wrong is not None:
        ctx.type_error(
            node,
            f"the components of {name} are {t.type_name(kind.scalar)}; got {t.type_name(wrong.type)}",
            f"convert them with {t.conversion(kind.scalar)}",
        )


def _components(ctx: Context, node: ast.Call, kind: type[t.Scalar]) -> list[Quantity]:
    """The arguments of a compound value; numbers that are written down take the type of its components."""
    given = []
    for argument in node.args:
        number = expressions.literal(ctx, argument)
        given.append(
            ctx.constant(argument, number, kind)
            if number is not None
            else expressions.argument(ctx, argument)
        )
    ctx.at(node)
    return given


# Identities: made of a size and a type, which are known when the kernel is compiled ------------------------

PARAMETERS = {"identity": ("n", "dtype"), "quat_identity": ("dtype",)}


def identity(ctx: Context, node: ast.Call, name: str) -> Quantity:
    """`identity(n=3, dtype=float)` and `quat_identity(dtype=float)`."""
    given = _bound(ctx, node, name)
    kind = _float_type(ctx, node, name, given.get("dtype"))
    zero, one = (ctx.builder.expr(ctx.builder.constant(number, kind)) for number in (0, 1))
    if name == "quat_identity":
        return Quantity(t.quaternion(kind), (zero, zero, zero, one))
    size = given["n"].value if isinstance(given.get("n"), Static) else None  # type: ignore[union-attr]
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        ctx.type_error(
            node,
            "identity() takes a size that is known when the kernel is compiled",
            "write identity(n=3, dtype=float)",
        )
    return Quantity(
        t.matrix((size, size), kind), tuple(one if k % (size + 1) == 0 else zero for k in range(size * size))
    )


def _bound(ctx: Context, node: ast.Call, name: str) -> dict[str, Item]:
    """The arguments of an identity by name; sizes stay Python numbers."""
    names = PARAMETERS[name]
    given = dict(zip(names, node.args, strict=False))
    given |= {k.arg: k.value for k in node.keywords if k.arg is not None}
    if len(node.args) + len(node.keywords) != len(given) or set(given) - set(names):
        ctx.type_error(
            node,
            f"{name}() takes {' and '.join(names)}",
            f"write {name}({', '.join(f'{n}=…' for n in names)})",
        )
    found: dict[str, Item] = {}
    for key, value in given.items():
        number = expressions.literal(ctx, value)
        found[key] = Static(number) if number is not None else expressions.lower(ctx, value)
    return found


def _float_type(ctx: Context, node: ast.Call, name: str, item: Item | None) -> Any:
    if item is None:
        return t.float32
    kind = item.value if isinstance(item, Static) else None
    try:
        found = t.canonical(kind)
    except TypeError:
        found = None
    if found not in t.FLOATS and not (name == "identity" and found in t.INTEGERS):
        ctx.type_error(
            node, f"dtype of {name}() is a type of numbers", "write dtype=float or dtype=wp.float64"
        )
    return found

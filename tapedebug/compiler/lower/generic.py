"""Functions whose result type comes from their arguments: `vector`, `matrix`, `identity`.

What they make is known when the kernel is compiled: sizes and types are constants.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tapedebug.compiler.builder import constant_of
from tapedebug.compiler.lower import construct, expressions
from tapedebug.compiler.lower._context import Context, Item, Items, Static
from tapedebug.lang import types as t
from tapedebug.lang.rules import COMPOSITES, Quantity

Given = dict[str, ast.expr]
"""Arguments by name."""
Arguments = list[construct.Argument]


def lower(ctx: Context, node: ast.Call, name: str) -> Quantity:
    """The value of a call of one of `MAKERS`."""
    names, make = MAKERS[name]
    many = names[0] == "*args"
    values = construct.arguments(ctx, node.args) if many else []
    given: Given = {} if many else dict(zip(names, node.args, strict=False))
    given |= {k.arg: k.value for k in node.keywords if k.arg is not None}
    count = len(node.keywords) + (0 if many else len(node.args))
    if count != len(given) or set(given) - {n for n in names if n != "*args"}:
        shown = ", ".join("x, …" if n == "*args" else f"{n}=…" for n in names)
        others = [n for n in names if n != "*args"]
        ctx.type_error(
            node,
            f"{name}() takes {'components, and ' if many else ''}{' and '.join(others)}",
            f"write {name}({shown})",
        )
    return make(ctx, node, values, given)


def _constant(ctx: Context, node: ast.expr) -> Any:
    """The Python value of an argument that is known when the kernel is compiled, else None."""
    number = expressions.literal(ctx, node)
    if number is not None:
        return number
    if isinstance(node, ast.Tuple):
        return tuple(_constant(ctx, e) for e in node.elts)
    item = expressions.lower(ctx, node)
    if isinstance(item, Static):
        return item.value
    if isinstance(item, Items):
        return tuple(constant_of(i.scalar.value) if isinstance(i, Quantity) else None for i in item.items)
    return constant_of(item.scalar.value) if isinstance(item, Quantity) else None


def _size(ctx: Context, node: ast.Call, given: Given, name: str, what: str, example: str) -> int | None:
    if name not in given:
        return None
    size = _constant(ctx, given[name])
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        ctx.type_error(
            node, f"{what} takes a size that is known when the kernel is compiled", f"write {example}"
        )
    return size


def _scalar_type(
    ctx: Context, node: ast.Call, what: str, given: Given, values: Arguments, *, integers: bool
) -> Any:
    """The scalar type that is asked for; else that of the arguments; else float32."""
    if "dtype" in given:
        try:
            found = t.canonical(_constant(ctx, given["dtype"]))
        except TypeError:
            found = None
        if found not in t.FLOATS and not (integers and found in t.INTEGERS):
            ctx.type_error(
                node, f"dtype of {what}() is a type of numbers", "write dtype=float or dtype=wp.float64"
            )
        return found
    kinds = [v.given.type for v in values if isinstance(v.given, Quantity)]
    if kinds:
        return t.scalar_of(kinds[0])
    whole = bool(values) and all(isinstance(v.given, int) for v in values)
    return t.int32 if integers and whole else t.float32


def without_keywords(ctx: Context, node: ast.Call, target: type) -> ast.Call:
    """Return a call such as `vec3i(0, 0, 0, dtype=int)` or `mat22(m, shape=(2, 2))` without keywords.

    They must be those of `target`; another call is returned as it is.
    """
    try:
        kind: Any = t.canonical(target)
        if not t.is_compound(kind):
            return node
        own = {"dtype": t.scalar_of(kind), "shape": kind.shape, "length": kind.length}
        given = {str(keyword.arg): _constant(ctx, keyword.value) for keyword in node.keywords}
        if not given.keys() <= own.keys():
            return node
        if "dtype" in given:
            given["dtype"] = t.canonical(given["dtype"])
    except TypeError:
        return node
    if "shape" in given:
        given["shape"] = given["shape"] if isinstance(given["shape"], tuple) else (given["shape"],)
    for name, value in given.items():
        if value != own[name]:
            shown = [t.type_name(v) if name == "dtype" else str(v) for v in (own[name], value)]
            ctx.type_error(
                node,
                f"{t.type_name(kind)} holds {shown[0]}, not {shown[1]}"
                if name == "dtype"
                else f"the {name} of {t.type_name(kind)} is {shown[0]}, not {shown[1]}",
                f"leave {name} out, or name another type",
            )
    return ast.copy_location(ast.Call(node.func, node.args, []), node)


def _vector(ctx: Context, node: ast.Call, values: Arguments, given: Given) -> Quantity:
    """`vector(1.0, 2.0)`, `vector(x, length=3)`, `vector(length=3, dtype=float)`, `vector(v, dtype=…)`."""
    scalar = _scalar_type(ctx, node, "vector", given, values, integers=True)
    length = _size(ctx, node, given, "length", "vector()", "vector(length=3, dtype=float)")
    first = values[0].given if values else None
    if length is None and isinstance(first, Quantity) and t.is_vector(first.type):
        length = first.type.length
    if length is None and len(values) < 2:
        ctx.type_error(
            node, "vector() takes its components, or its length", "write vector(length=3, dtype=float)"
        )
    return construct.of_type(ctx, node, t.vector(length or len(values), scalar), values)


def _matrix(ctx: Context, node: ast.Call, values: Arguments, given: Given) -> Quantity:
    """`matrix(a, b, c, d, shape=(2, 2))`, `matrix(shape=(2, 2), dtype=float)`, `matrix(pos, rot, scale)`."""
    scalar = _scalar_type(ctx, node, "matrix", given, values, integers=True)
    if "shape" not in given:
        named = construct.arguments(ctx, (given[name] for name in ("pos", "rot", "scale") if name in given))
        operands = [v.given for v in values or named if isinstance(v.given, Quantity)]
        if len(operands) == 3 and t.is_quaternion(operands[1].type):
            build = COMPOSITES["transform_compose"].build
            found: Quantity = ctx.guarded(node, "matrix()", build, *operands)
            return found
        ctx.type_error(node, "matrix() takes the shape of the matrix", "write matrix(…, shape=(2, 2))")
    shape = _constant(ctx, given["shape"])
    try:
        kind = t.matrix(shape, scalar)
    except (TypeError, ValueError):
        ctx.type_error(
            node,
            "matrix() takes a shape (rows, columns) that is known when the kernel is compiled",
            "write matrix(…, shape=(2, 2))",
        )
    return construct.of_type(ctx, node, kind, values)


def _quaternion(ctx: Context, node: ast.Call, values: Arguments, given: Given) -> Quantity:
    names = ("x", "y", "z", "w", "ijk", "real", "quat")
    operands = values or construct.arguments(ctx, (given[n] for n in names if n in given))
    scalar = _scalar_type(ctx, node, "quaternion", given, operands, integers=False)
    return construct.of_type(ctx, node, t.quaternion(_floating(scalar)), operands)


def _transformation(ctx: Context, node: ast.Call, values: Arguments, given: Given) -> Quantity:
    operands = values or construct.arguments(ctx, (given[n] for n in "pq" if n in given))
    scalar = _scalar_type(ctx, node, "transformation", given, operands, integers=False)
    return construct.of_type(ctx, node, t.transformation(_floating(scalar)), operands)


def transform(ctx: Context, node: ast.Call, kind: Any) -> Quantity:
    """`transform(p, q)`, with `p` and `q` by name if that is wanted."""
    named = {k.arg: k.value for k in node.keywords if k.arg is not None}
    given = set(named) | set("pq"[: len(node.args)])
    if named and (given - {"p", "q"} or len(given) != len(named) + len(node.args)):
        ctx.type_error(node, f"{t.type_name(kind)}() takes p and q", f"write {t.type_name(kind)}(p=…, q=…)")
    operands = construct.arguments(ctx, [*node.args, *(named[n] for n in "pq" if n in named)])
    if named and len(given) == 1:  # the other is that of the identity
        numbers = [0, 0, 0] if given == {"q"} else [0, 0, 0, 1]
        parts = tuple(ctx.constant(node, number, kind.scalar).scalar for number in numbers)
        other = kind.named["p" if given == {"q"} else "q"].type
        operands.insert(0 if given == {"q"} else 1, construct.Argument(node, Quantity(other, parts)))
    return construct.of_type(ctx, node, kind, operands)


def of_maker(ctx: Context, node: ast.Call, make: Callable[..., Any]) -> Item:
    """`types.vector(3, float)`, a type; `types.vector(1.0, 2.0)` and `types.vector(length=2)` are values."""
    given = {k.arg for k in node.keywords}
    known = [_constant(ctx, a) for a in node.args[:2]]
    sizes = (int, tuple)
    typed = bool(known) and isinstance(known[-1], type)
    sized = len(node.args) == 1 and given == {"dtype"} and isinstance(known[0], sizes)
    if typed or sized:
        return type_of_call(ctx, node, make)
    return lower(ctx, node, make.__name__)


def type_of_call(ctx: Context, node: ast.Call, make: Callable[..., Any]) -> Static:
    """`types.vector(length=3, dtype=float)` and the like: a type."""
    values = [_constant(ctx, a) for a in node.args]
    named = {k.arg: _constant(ctx, k.value) for k in node.keywords if k.arg is not None}
    if None in values or None in named.values():
        ctx.type_error(
            node,
            f"types.{make.__name__}() takes what is known when the kernel is compiled",
            f"write {TYPES[make.__name__]}",
        )
    try:
        return Static(make(*values, **named))
    except TypeError as error:
        ctx.type_error(node, f"types.{make.__name__}(): {error}", f"write {TYPES[make.__name__]}")


TYPES = {
    "vector": "types.vector(length=3, dtype=float)",
    "matrix": "types.matrix(shape=(3, 3), dtype=float)",
    "quaternion": "types.quaternion(dtype=float)",
    "transformation": "types.transformation(dtype=float)",
}


def _floating(scalar: Any) -> Any:
    """The scalar type of a value that has floats: integers that are given are refused as its components."""
    return scalar if scalar in t.FLOATS else t.float32


def _identity(ctx: Context, node: ast.Call, values: Arguments, given: Given) -> Quantity:
    kind = _scalar_type(ctx, node, "identity", given, [], integers=True)
    example = "identity(n=3, dtype=float)"
    size = _size(ctx, node, given, "n", "identity()", example)
    if size is None:
        ctx.type_error(
            node, "identity() takes a size that is known when the kernel is compiled", f"write {example}"
        )
    return _diagonal(ctx, t.matrix((size, size), kind), range(0, size * size, size + 1))


def _quat_identity(ctx: Context, node: ast.Call, values: Arguments, given: Given) -> Quantity:
    kind = _scalar_type(ctx, node, "quat_identity", given, [], integers=False)
    return _diagonal(ctx, t.quaternion(kind), range(3, 4))


def _transform_identity(ctx: Context, node: ast.Call, values: Arguments, given: Given) -> Quantity:
    kind = _scalar_type(ctx, node, "transform_identity", given, [], integers=False)
    return _diagonal(ctx, t.transformation(kind), range(6, 7))


def _diagonal(ctx: Context, kind: Any, ones: range) -> Quantity:
    zero, one = (ctx.builder.expr(ctx.builder.constant(number, kind.scalar)) for number in (0, 1))
    return Quantity(kind, tuple(one if k in ones else zero for k in range(kind.length)))


def _cast(ctx: Context, node: ast.Call, values: Arguments, given: Given) -> Quantity:
    """`cast(x, dtype)`: the same bits."""
    if set(given) != {"a", "dtype"}:
        ctx.type_error(node, "cast() takes a number and a type", "write cast(x, dtype=wp.int32)")
    q = expressions.argument(ctx, given["a"])
    target = _scalar_type(ctx, node, "cast", given, [], integers=True)
    if t.is_compound(q.type):
        ctx.type_error(node, f"cast() takes a number; got {t.type_name(q.type)}", "cast each component")
    value = ctx.guarded(node, "cast()", ctx.builder.apply, f"{target.code}_of_bits", q.scalar.value)
    return expressions.wrap(ctx, value)


Maker = Callable[[Context, ast.Call, Arguments, Given], Quantity]
MAKERS: dict[str, tuple[tuple[str, ...], Maker]] = {
    "cast": (("a", "dtype"), _cast),
    "identity": (("n", "dtype"), _identity),
    "matrix": (("*args", "pos", "rot", "scale", "shape", "dtype"), _matrix),
    "quat_identity": (("dtype",), _quat_identity),
    "quaternion": (("*args", "x", "y", "z", "w", "ijk", "real", "quat", "dtype"), _quaternion),
    "transform_identity": (("dtype",), _transform_identity),
    "transformation": (("*args", "p", "q", "dtype"), _transformation),
    "vector": (("*args", "length", "dtype"), _vector),
}
"""For each function the names of its arguments, and what it makes."""

"""Building blocks of composite rules: checked operands, combined components, compound values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from tapedebug.lang import types as t
from tapedebug.lang.rules.table import Expr, Quantity, RuleError, conversion, name_list

PLURALS: dict[type[t.Compound], str] = {
    t.Vector: "vectors",
    t.Matrix: "matrices",
    t.Quaternion: "quaternions",
    t.Transformation: "transforms",
}
EXAMPLES: dict[type[t.Compound], tuple[str, str]] = {
    t.Vector: ("vec3 values", "use vec2, vec3, …"),
    t.Matrix: ("mat33 values", "use mat22, mat33, …"),
    t.Quaternion: ("quat values", "use quat or quatd"),
    t.Transformation: ("wp.transform(p, q)", "use transform or transformd"),
}


def scalar(value: Expr) -> Quantity:
    """A scalar quantity."""
    return Quantity(value.type, (value,))


def vector(parts: Sequence[Expr]) -> Quantity:
    """A vector of these components."""
    return Quantity(t.vector(len(parts), parts[0].type), tuple(parts))


def matrix(rows: Sequence[Sequence[Expr]]) -> Quantity:
    """A matrix of these rows."""
    kind = t.matrix((len(rows), len(rows[0])), rows[0][0].type)
    return Quantity(kind, tuple(part for row in rows for part in row))


def rows_of(m: Quantity) -> list[tuple[Expr, ...]]:
    """The rows of a matrix."""
    columns = m.type.shape[1]
    return [m.parts[start : start + columns] for start in range(0, len(m.parts), columns)]


def columns_of(m: Quantity) -> list[tuple[Expr, ...]]:
    """The columns of a matrix."""
    return list(zip(*rows_of(m), strict=True))


def total(values: Iterable[Expr]) -> Expr:
    """The sum of the values."""
    return reduce(Expr.__add__, values)


def inner(a: Iterable[Expr], b: Iterable[Expr]) -> Expr:
    """The sum of the products of pairs."""
    return total(x * y for x, y in zip(a, b, strict=True))


def componentwise(name: str, x: Quantity, y: Quantity) -> Quantity:
    """A rule on each pair of components."""
    return Quantity(x.type, tuple(a.apply(name, b) for a, b in zip(x.parts, y.parts, strict=True)))


def same(x: Quantity, y: Quantity) -> None:
    """Require two values of one type where one of them is compound."""
    if (t.is_compound(x.type) or t.is_compound(y.type)) and x.type is not y.type:
        raise RuleError(
            f"takes values of one type; got {name_list([x.type, y.type])}", conversion([x.type, y.type])
        )


def require(
    base: type[t.Compound], *operands: Quantity, floating: bool = True, also: type[t.Compound] | None = None
) -> None:
    """Require one or two values of one type, a kind of `base` (or `also`), of floats where `floating`."""
    kinds = [q.type for q in operands]
    allowed = (base, also) if also is not None else (base,)
    if len(set(kinds)) != 1 or not (t.is_compound(kinds[0]) and issubclass(kinds[0], allowed)):
        words = [b.word if len(kinds) == 1 else PLURALS[b] for b in allowed]
        word = " or ".join(words)
        number = f"a {word}" if len(kinds) == 1 else f"two {word}"
        of_one_type = " of one type" if len(kinds) > 1 else ""
        raise RuleError(
            f"takes {number}{of_one_type}; got {name_list(kinds)}",
            f"pass {number}, such as {EXAMPLES[base][0]}",
        )
    if floating and kinds[0].scalar not in t.FLOATS:
        raise RuleError(f"takes floating-point {PLURALS[base]}; got {name_list(kinds)}", EXAMPLES[base][1])


def require_square(m: Quantity, sizes: Sequence[int] = ()) -> int:
    """Require a square matrix of one of these sizes (of any, where none is given); the size."""
    require(t.Matrix, m, floating=False)
    rows, columns = m.type.shape
    if rows != columns or (sizes and rows not in sizes):
        wanted = "a square matrix"
        if sizes:
            wanted += f" of {', '.join(map(str, sizes[:-1]))} or {sizes[-1]} rows"
        raise RuleError(
            f"takes {wanted}; got {t.type_name(m.type)}", "pass a matrix such as mat22, mat33 or mat44"
        )
    return int(rows)


def require_length(a: Quantity, length: int) -> None:
    """Require a vector of this many components."""
    if a.type.length != length:
        word = {6: "six", 3: "three", 2: "two"}[length]
        raise RuleError(
            f"takes vectors of {word} components; got {t.type_name(a.type)}",
            "use spatial_vector values" if length == 6 else f"use vec{length} values",
        )


def require_shape(m: Quantity, shape: tuple[int, int]) -> None:
    """Require a matrix of floats of this shape."""
    require(t.Matrix, m)
    if m.type.shape != shape:
        rows, columns = shape
        name = t.type_name(t.matrix(shape, t.float32))
        raise RuleError(
            f"takes a matrix of {rows} rows and {columns} columns; got {t.type_name(m.type)}",
            f"use {name} values",
        )


def require_scalar(kind: type[t.Scalar], what: str, *operands: Quantity) -> None:
    """Require that numbers are of the scalar type that a compound operand has."""
    kinds = [q.type for q in operands]
    if any(k is not kind for k in kinds):
        raise RuleError(
            f"takes {what} of {t.type_name(kind)}; got {name_list(kinds)}",
            f"convert it with {t.conversion(kind)}",
        )


def one_scalar_type(what: str, *operands: Quantity) -> None:
    """Require that compound operands have components of one type."""
    kinds = [q.type.scalar for q in operands]
    if len(set(kinds)) != 1:
        raise RuleError(
            f"takes {what} of one scalar type; got {name_list([q.type for q in operands])}",
            conversion(kinds),
        )

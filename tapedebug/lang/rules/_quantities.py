"""What composites are written with: operands checked, components combined, compound values put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from tapedebug.lang import types as t
from tapedebug.lang.rules._table import Expr, Quantity, RuleError, conversion, name_list

PLURALS: dict[type[t.Compound], str] = {
    t.Vector: "vectors",
    t.Matrix: "matrices",
    t.Quaternion: "quaternions",
}
EXAMPLES: dict[type[t.Compound], tuple[str, str]] = {
    t.Vector: ("vec3 values", "use vec2, vec3, …"),
    t.Matrix: ("mat33 values", "use mat22, mat33, …"),
    t.Quaternion: ("quat values", "use quat or quatd"),
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
        word = {3: "three", 2: "two"}[length]
        raise RuleError(
            f"takes vectors of {word} components; got {t.type_name(a.type)}", f"use vec{length} values"
        )

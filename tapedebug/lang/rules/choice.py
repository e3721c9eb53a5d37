"""Choosing among values: where, select, min, max, clamp, and places of extremes."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from tapedebug.lang import types as t
from tapedebug.lang.rules._quantities import require, scalar
from tapedebug.lang.rules.table import Expr, Quantity, RuleError, composite, conversion, name_list


@composite("where", "The second value where the first holds, else the third; both are computed.")
def where(cond: Quantity, value_if_true: Quantity, value_if_false: Quantity) -> Quantity:
    yes, no = value_if_true, value_if_false
    if yes.type is not no.type:
        raise RuleError(
            f"takes two values of one type; got {name_list([yes.type, no.type])}",
            conversion([yes.type, no.type]),
        )
    if t.is_compound(cond.type):
        raise RuleError(
            f"takes a condition (bool) first; got {t.type_name(cond.type)}",
            "write a comparison, such as `x > 0.0`",
        )
    holds = cond.scalar if cond.type is t.bool else cond.scalar.apply("ne", 0)
    parts = zip(yes.parts, no.parts, strict=True)
    return Quantity(yes.type, tuple(holds.select(a, b) for a, b in parts))


@composite("select", "As `where` with the last two exchanged: what older programs write.")
def select(cond: Quantity, value_if_false: Quantity, value_if_true: Quantity) -> Quantity:
    return where(cond, value_if_true, value_if_false)


def _first(a: Expr, b: Expr, sign: str) -> Expr:
    """Return a flag: `a` is the result, because the comparison holds or because `b` is NaN."""
    holds = a.apply(sign, b)
    return holds.apply("or", b.apply("isnan")) if b.type in t.FLOATS else holds


def _chosen(a: Expr, b: Expr, sign: str) -> Expr:
    return _first(a, b, sign).select(a, b)


def _extreme(sign: str) -> Callable[..., Quantity]:
    def build(a: Quantity, b: Quantity | None = None) -> Quantity:
        if t.is_compound(a.type) and not t.is_vector(a.type):
            raise RuleError(f"takes numbers or vectors; got {t.type_name(a.type)}", "apply it to components")
        if b is None:
            require(t.Vector, a, floating=False)
            # A later component replaces the best so far where it is better: of equals the first counts.
            return scalar(reduce(lambda best, part: _chosen(part, best, sign), a.parts))
        if a.type is not b.type:
            kinds = [a.type, b.type]
            raise RuleError(f"takes two values of one type; got {name_list(kinds)}", conversion(kinds))
        pairs = zip(a.parts, b.parts, strict=True)
        return Quantity(a.type, tuple(_chosen(x, y, sign) for x, y in pairs))

    return build


# As C's fmin and fmax: of a number and a NaN the number. A tie's derivative goes to the second.
composite("min", "The smaller of two numbers, or of each pair of components; the smallest of one vector.")(
    _extreme("lt")
)
composite("max", "The larger of two numbers, or of each pair of components; the largest of one vector.")(
    _extreme("gt")
)


@composite("clamp", "The first value, held between the second and the third; components one by one.")
def clamp(x: Quantity, low: Quantity, high: Quantity) -> Quantity:
    kinds = [x.type, low.type, high.type]
    if t.is_compound(x.type) and not t.is_vector(x.type):
        raise RuleError(f"takes numbers or vectors; got {t.type_name(x.type)}", "apply it to components")
    limits = [_spread(bound, x) for bound in (low, high)]
    if any(limit.type is not x.type for limit in limits):
        raise RuleError(f"takes three values of one type; got {name_list(kinds)}", conversion(kinds))
    return Quantity(
        x.type,
        tuple(
            _chosen(_chosen(part, lowest, "ge"), highest, "le")
            for part, lowest, highest in zip(x.parts, limits[0].parts, limits[1].parts, strict=True)
        ),
    )


def _spread(bound: Quantity, x: Quantity) -> Quantity:
    """A number as a bound of every component of a vector."""
    if t.is_vector(x.type) and bound.type is x.type.scalar:
        return Quantity(x.type, bound.parts * x.type.length)
    return bound


def _place_of_extreme(sign: str) -> Callable[[Quantity], Quantity]:
    def build(a: Quantity) -> Quantity:
        require(t.Vector, a, floating=False)
        first = a.parts[0]
        best, place = first, Expr(first.emitter, first.emitter.exact(0, t.uint32))
        for number, part in enumerate(a.parts[1:], start=1):
            better = _first(part, best, sign)
            best, place = better.select(part, best), better.select(number, place)
        return scalar(place)

    return build


for _name, _word, _sign in (("argmin", "smallest", "lt"), ("argmax", "largest", "gt")):
    composite(
        _name,
        f"Index of a vector's {_word} component, as uint32; the first of several.",
        differentiable=False,
    )(_place_of_extreme(_sign))

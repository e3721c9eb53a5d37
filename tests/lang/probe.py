"""Operand types of the rule table's entries, found by calling them: the checker demands a case of each."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from tapedebug.lang import types as t
from tapedebug.lang.numpy_eval import NUMPY_EVAL, Number
from tapedebug.lang.rules import COMPOSITES, RULES, Expr, Quantity, RuleError

LENGTHS = (2, 3, 4, 6)
SHAPES = ((2, 2), (3, 3), (4, 4), (6, 6), (2, 3), (3, 2))
FAMILIES = {
    "s": "number",
    "v": "vector",
    "m": "matrix",
    "q": "quaternion",
    "x": "transform",
}
MANY = (3,)
"""Number of operands that are tried where any number fits."""


def _members(scalar: type[t.Scalar]) -> list[tuple[str, Any]]:
    """Types of every family, with components of one scalar type."""
    found: list[tuple[str, Any]] = [("s", scalar)]
    found += [("v", t.vector(n, scalar)) for n in LENGTHS]
    found += [("m", t.matrix(shape, scalar)) for shape in SHAPES]
    if scalar in t.FLOATS:
        found += [("q", t.quaternion(scalar)), ("x", t.transformation(scalar))]
    return found


@functools.cache
def _value(kind: Any) -> Quantity:
    scalar = t.scalar_of(kind)
    one = Expr(NUMPY_EVAL, Number(scalar.numpy.type(1), scalar))
    return Quantity(kind, (one,) * t.components(kind))


def _fits(name: str, kinds: Sequence[Any]) -> bool:
    try:
        if name in COMPOSITES:
            COMPOSITES[name].build(*map(_value, kinds))
        else:
            RULES[name].result(list(kinds))
    except RuleError:
        return False
    return True


@functools.cache
def families(name: str, scalar: type[t.Scalar]) -> set[str]:
    """The kinds of operands that an entry takes, a letter each; without sizes, and integers beside them."""
    if name not in COMPOSITES:
        return _taken(name, [("s", scalar)], [RULES[name].arity])
    entry = COMPOSITES[name]
    counts = range(entry.least, entry.most + 1) if entry.most is not None else MANY
    members = _members(scalar)
    found = _taken(name, members, counts)
    if found or scalar not in t.FLOATS:
        return found
    # Such as noise, whose first operand is a state.
    mixed = _taken(name, [*members, ("", t.int32), ("", t.uint32)], counts)
    return {letters for letters in mixed if letters}


def _taken(name: str, members: list[tuple[str, Any]], counts: Iterable[int]) -> set[str]:
    found = set()
    for count in counts:
        for chosen in itertools.product(members, repeat=count):
            letters = "".join(letter for letter, _ in chosen)
            if letters not in found and _fits(name, [kind for _, kind in chosen]):
                found.add(letters)
    return found

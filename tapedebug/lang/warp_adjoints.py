"""Adjoints of Warp's built-in functions, argument by argument: which exist, as measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapedebug.lang import types as t
from tapedebug.lang._measured_in_warp import ADJOINTS
from tapedebug.lang._measured_in_warp import VERSION as VERSION

RIGHT, NONE, WRONG = "r", "n", "w"


def family(kind: Any) -> str:
    """The letter of a type in the table: number, vector, matrix, quaternion, transform."""
    for letter, fits in (
        ("x", t.is_transformation),
        ("q", t.is_quaternion),
        ("m", t.is_matrix),
        ("v", t.is_vector),
    ):
        if fits(kind):
            return letter
    return "s"


def adjoints_of(name: str, kinds: Sequence[Any]) -> str:
    """Return what Warp's adjoint of a function is for each argument; right where it was not measured.

    Args:
        name: The function.
        kinds: The types of its arguments.
    """
    known = ADJOINTS.get(name)
    if known is None:
        return RIGHT * len(kinds)
    floats = [k for k, kind in enumerate(kinds) if t.scalar_of(kind) in t.FLOATS]
    letters = "".join(family(kinds[k]) for k in floats)
    wide = any(t.scalar_of(kinds[k]) is t.float64 for k in floats)
    found = known.get(f"{letters} float64" if wide else letters, known.get(letters, ""))
    statuses = dict(zip(floats, found, strict=False))
    return "".join(statuses.get(k, RIGHT) for k in range(len(kinds)))

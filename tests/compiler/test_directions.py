"""The pass for directions, which vanish with a length: how much it looks at."""

from __future__ import annotations

from typing import Any

import pytest

import tapedebug as wp
from tapedebug.compiler.passes import directions
from tapedebug.compiler.variant import Variant


@wp.kernel
def beside_a_length(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    s = x[i][0]
    for _ in range(15):
        s = s * s + s
    y[i] = wp.length(x[i]) * s


def test_values_that_are_used_several_times_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 15 lines uses the value before it three times: there are 14 million paths through them."""
    asked = 0
    is_length = directions._is_length

    def counted(value: Any) -> bool:
        nonlocal asked
        asked += 1
        if asked > 100_000:
            raise AssertionError("the search follows every path")
        return is_length(value)

    monkeypatch.setattr(directions, "_is_length", counted)
    active = frozenset({0, 1})
    beside_a_length._text(Variant("adjoint_tangent", active, f64=True))
    assert asked > 0

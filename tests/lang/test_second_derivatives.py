"""Every operation of the rule table: second derivatives are differences of first ones, and symmetric."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tapedebug.lang import types as t
from tests.compiler.harness import run, twin
from tests.lang import cases
from tests.lang.test_rules import SAMPLES, SEMANTIC, Group, arguments, in_one_precision, kernel, seeds

Arrays = list[np.ndarray]
UNOPTIMIZED = pytest.mark.unoptimized
ALL = [
    case if case.values[0].table == "rules" else pytest.param(*case.values, id=case.id, marks=UNOPTIMIZED)
    for case in in_one_precision([case for case in SEMANTIC if case.values[0].scalar is not t.float16])
]
"""The float64 twins of halves are those of float32. Optimized is one table: the code is long."""


def inputs(group: Group) -> Arrays:
    return twin(arguments(group, group.scalar.numpy))


def directions(group: Group, seed: int) -> Arrays:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=a.shape) for a in inputs(group)[: len(group.kinds)]]


def gradient(group: Group, moved: Arrays) -> Arrays:
    """The adjoints of the inputs at these values of them."""
    args = inputs(group)
    args[: len(moved)] = moved
    found = [np.zeros_like(a) for a in moved]
    run(kernel(group), SAMPLES, args, f64=True, adjoints=[*found, *map(np.copy, seeds(group).values())])
    return found


@functools.cache
def products(group: Group, seed: int) -> Any:
    """The derivative of the adjoints along a random direction."""
    args, count = inputs(group), len(group.kinds)
    outputs = [np.zeros_like(a) for a in args[count:]]
    found, moved = ([np.zeros_like(a) for a in args[:count]] for _ in range(2))
    run(
        kernel(group),
        SAMPLES,
        args,
        f64=True,
        adjoints=[*found, *map(np.copy, seeds(group).values())],
        tangents=[*directions(group, seed), *outputs],
        adjoint_tangents=[*moved, *(np.zeros_like(a) for a in outputs)],
    )
    return moved


@functools.cache
def differences(group: Group) -> Any:
    start, direction = inputs(group)[: len(group.kinds)], directions(group, 1)
    h = 1e-6
    ahead, behind = (
        gradient(group, [a + sign * h * d for a, d in zip(start, direction, strict=True)]) for sign in (1, -1)
    )
    return [(a - b) / (2 * h) for a, b in zip(ahead, behind, strict=True)]


@pytest.mark.parametrize(("group", "row"), ALL)
def test_the_tangent_of_the_adjoint_is_its_difference(group: Group, row: int) -> None:
    case = group.cases[row]
    tolerance = 1e-5 if case.name in cases.ROUNDED else 1e-6
    for found, expected in zip(products(group, 1), differences(group), strict=True):
        np.testing.assert_allclose(found[row], expected[row], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("group", "row"), ALL)
def test_second_derivatives_are_symmetric(group: Group, row: int) -> None:
    one, other = (
        [
            float((a[row] * b[row]).sum())
            for a, b in zip(products(group, p), directions(group, q), strict=True)
        ]
        for p, q in ((1, 2), (2, 1))
    )
    size = max(1.0, *(float(np.abs(a[row]).sum()) for a in products(group, 1)))
    assert abs(sum(one) - sum(other)) <= 1e-10 * size

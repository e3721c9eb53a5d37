"""Facts of the IR about names of vector code: which differ between threads, which places do not."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tapedebug as wp
from tapedebug.compiler.generated_source import GeneratedSource, NameFacts
from tapedebug.compiler.pipeline import differentiable
from tapedebug.compiler.variant import Variant


@wp.kernel
def straight(x: wp.array(dtype=float), n: int, k: int, y: wp.array(dtype=float)):
    i = wp.tid()
    same = float(n) * x[k]
    other = x[i] * 2.0
    y[i] = same + other


@wp.kernel
def branches(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    uniform = 1.0
    if n > 3:
        uniform = 2.0
    mixed = 1.0
    if x[i] > 0.0:
        mixed = 2.0
    y[i] = uniform * mixed


@wp.kernel
def loops(x: wp.array(dtype=float), count: wp.array(dtype=int), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    steps = float(0.0)
    for _ in range(n):
        steps = steps + 1.0
    long = float(0.0)
    for _ in range(count[i]):
        long = long + 1.0
    y[i] = steps + long


@wp.kernel
def swapped(n: int, m: int, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    a = float(m)
    b = x[i]
    for _ in range(n):
        a, b = b, a
    y[i] = a - b


@wp.kernel
def powers(x: wp.array(dtype=float), n: int, y: wp.array(dtype=float)):
    i = wp.tid()
    a = x[0]
    for _ in range(n):
        a = a * a
    y[i] = a


@wp.kernel
def scattered(x: wp.array(dtype=wp.vec3), to: wp.array(dtype=int), total: wp.array(dtype=wp.vec3), k: int):
    i = wp.tid()
    wp.atomic_add(total, to[i], x[i])
    wp.atomic_add(total, 0, x[i])


def text(kernel: Any, kind: str = "forward") -> GeneratedSource:
    active = differentiable(kernel.params)
    variant = Variant("forward", lanes=True)
    if kind == "adjoint":
        variant = Variant("adjoint", active, kernel.adjoint_info(active).replay, lanes=True)
    made: GeneratedSource = kernel._text(variant)
    return made


def facts(kernel: Any, kind: str = "forward") -> NameFacts:
    lanes = text(kernel, kind).lanes
    assert lanes is not None
    return lanes.facts


def stems(names: tuple[str, ...]) -> set[str]:
    """The user's names among them."""
    return {name.rpartition("_")[0] for name in names} - {"v", ""}


@pytest.mark.parametrize(
    ("kernel", "varying", "uniform"),
    [
        (straight, {"other"}, {"same"}),
        (branches, {"mixed"}, {"uniform"}),
        (loops, {"long"}, {"steps"}),
        (swapped, {"a", "b"}, set()),
    ],
)
def test_what_differs_between_threads(kernel: Any, varying: set[str], uniform: set[str]) -> None:
    found = stems(facts(kernel).varying)
    assert varying <= found
    assert not uniform & found


def test_copies_of_what_changes_together_differ_with_it() -> None:
    copies = {name for name in facts(swapped).varying if name.endswith("_next")}
    assert {name.partition("_")[0] for name in copies} == {"a", "b"}
    assert not any(name.endswith("_next") for name in facts(loops).varying)


def test_what_was_kept_for_the_reverse_of_loops_differs() -> None:
    assert "a" not in stems(facts(powers).varying)
    kept = re.findall(r"(\w+) = get_f32", text(powers, "adjoint").code)
    assert kept
    assert set(kept) <= set(facts(powers, "adjoint").varying)


def test_places_and_indices() -> None:
    found = facts(scattered)
    sizes = dict(found.sizes)
    assert set(sizes.values()) == {3}
    assert len(set(found.invariant) & sizes.keys()) == 1, "the element that all threads add to"
    assert len(found.indices) == 1
    assert facts(straight).indices == ()

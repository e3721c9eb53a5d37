"""Launches of NVIDIA Warp beside their mirrors: results and adjoints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tapedebug._float_types import is_short_float
from tapedebug.operations import Memory
from tapedebug.operations.memory import widened

pytestmark = pytest.mark.peer

NAMES = [
    "structs",
    "arrays_of_structs",
    "custom_gradients",
    "overloads",
    "generics_of_floats",
    "generics_of_vectors",
    "names_through_modules",
    "closures",
    "static_values_of_the_time_of_declaration",
    "compound_types",
    "derived_types",
    "scalar_types",
    "half_precision",
    "in_place_launches",
    "strided_views",
    "atomics",
    "absent_arrays",
    "indexed_arrays",
    "computed_steps_and_comparisons_of_two_types",
]


def gallery() -> Any:
    pytest.importorskip("warp").config.quiet = True
    from tests.watch import warp_gallery

    return warp_gallery.GALLERY


def adjoints_are_comparable() -> bool:
    """True if the adjoints of stores consume the gradients of what they overwrite, as the mirror does."""
    from tests.watch import programs

    return programs.CONSUMES


def warp_version() -> tuple[int, ...]:
    from tests.watch import programs

    return programs.VERSION


def test_every_example_is_listed() -> None:
    assert list(gallery()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_results_and_adjoints_are_those_of_warp(name: str) -> None:
    launch = gallery()[name]()
    if name.startswith("static_values") and warp_version() < (1, 12):
        pytest.skip(
            "kernels of this release do not tell these values: the results differ, and Warp runs them"
        )
    from tests.watch.native_launch import Both

    both = Both(*launch)
    assert [d for d in both.forward() if d.relative > 2e-6] == []
    if adjoints_are_comparable():
        assert [d for d in both.adjoint() if d.relative > 2e-6] == []
    written = [access for access in both.mirror.accesses if access.writes]
    assert any((both.after.view(a.array) != both.before.view(a.array)).any() for a in written)


@pytest.mark.parametrize("name", NAMES)
def test_the_float64_form_agrees(name: str) -> None:
    launch = gallery()[name]()
    from tests.watch.native_launch import Both

    both = Both(*launch)
    both.forward()
    both.adjoint()
    step = both.mirror.in_float64
    if step is None:
        assert name == "arrays_of_structs"
        return
    wide = {
        access.array.region: access.array.scalar_dtype
        for access in both.mirror.accesses
        if is_short_float(access.array.scalar_dtype)
    }

    def twin(memory: Memory) -> Memory:
        return Memory(
            {r: widened(c, wide[r]) if r in wide else c.copy() for r, c in memory.bytes.items()}, wide
        )

    before, after, exact = (twin(m) for m in (both.before, both.before, both.adjoints))
    step.forward(after)
    step.vjp(before, after, exact)
    single = Memory({r: c.copy() for r, c in both.adjoints.bytes.items()})
    both.mirror.vjp(both.before, both.after, single)
    near = 2e-3 if name == "half_precision" else 2e-5
    for access in both.mirror.accesses:
        got, wanted = after.view(access.array), both.after.view(access.array)
        np.testing.assert_allclose(got, wanted, rtol=near, atol=near / 20)
        if access.array.is_float:
            np.testing.assert_allclose(
                exact.view(access.array), single.view(access.array), rtol=near, atol=near
            )


def test_an_adjoint_that_warp_gets_wrong_is_found() -> None:
    gallery()
    if not adjoints_are_comparable():
        pytest.skip("this release reverses stores otherwise")
    from tests.watch import warp_limits
    from tests.watch.native_launch import Both

    both = Both(*warp_limits.clamped_loop())
    assert both.forward() == []
    worst = both.adjoint()[0]
    assert worst.is_significant
    assert worst.access.name == "x"
    assert worst.mirrored == both.adjoints.view(worst.access.array)[worst.index]  # nothing was added
    assert abs(worst.native - worst.mirrored) > 0.05

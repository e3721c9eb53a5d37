"""Facts about memory cells, and whether threads may run in lockstep: each verdict both ways."""

from __future__ import annotations

import pytest

import tapedebug as wp
from tapedebug.compiler import pipeline
from tapedebug.compiler.diagnostics import PRINT
from tapedebug.compiler.passes.memory_regions import Pair, in_lanes, memory_regions, pairs

Floats = wp.array(dtype=float)
Grid = wp.array(dtype=float, ndim=2)
X, Y, Z = 0, 1, 2


@wp.kernel
def mapped(x: Floats, y: Floats):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * x[i]


@wp.kernel
def swapped(x: Grid, y: Grid):
    i, j = wp.tid()
    y[j, i] = y[j, i] + x[i, j]


@wp.kernel
def half_swapped(x: Grid, y: Grid):
    i, j = wp.tid()
    y[j, i] = y[i, j] + x[i, j]


@wp.kernel
def rows(x: Grid, y: Grid):
    i = wp.tid()
    for k in range(x.shape[1]):
        y[i, k] = y[i, 0] + x[i, k]


@wp.kernel
def one_axis(x: Grid, y: Floats):
    i, j = wp.tid()
    y[i] = x[i, j]


@wp.kernel
def stencil(x: Floats, y: Floats):
    i = wp.tid()
    if i > 0:
        y[i] = x[i] + x[i - 1]


@wp.kernel
def in_place(x: Floats, y: Floats):
    i = wp.tid()
    if i > 0:
        y[i] = x[i] + y[i - 1]


@wp.kernel
def total(x: Floats, y: Floats):
    i = wp.tid()
    wp.atomic_add(y, 0, x[i])


@wp.kernel
def counted(x: Floats, y: Floats):
    i = wp.tid()
    x[i] = wp.atomic_add(y, 0, 1.0)


@wp.kernel
def largest(x: Floats, y: Floats):
    i = wp.tid()
    wp.atomic_max(y, 0, x[i])


@wp.kernel
def scattered(x: Floats, y: Floats):
    i = wp.tid()
    y[i // 2] = x[i]


@wp.kernel
def scattered_twice(x: Floats, y: Floats):
    i = wp.tid()
    y[i // 2] = x[i]
    y[i // 3] = x[i]


@wp.kernel
def scattered_in_loop(x: Floats, y: Floats, n: int):
    i = wp.tid()
    for k in range(n):
        y[i + k] = x[i]


@wp.kernel
def scattered_vectors(x: wp.array(dtype=wp.vec3), y: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    if x[i][0] > 0.0:
        y[i // 2] = x[i]


@wp.kernel
def scattered_and_added(x: Floats, y: Floats):
    i = wp.tid()
    y[i // 2] = x[i]
    wp.atomic_add(y, i, x[i])


@wp.kernel
def said(x: Floats, y: Floats):
    i = wp.tid()
    y[i] = x[i]
    print(y[i])


@wp.kernel
def mixed(x: Floats, y: Floats, z: Floats):
    i = wp.tid()
    y[i] = x[i] + z[i]
    wp.atomic_add(z, i, x[i // 2])


def adjoint(kernel):
    active = pipeline.differentiable(kernel.params)
    return pipeline.adjoint(kernel._lowered, active, frozenset())[0]


LOCKSTEP = [
    (mapped, True),
    (swapped, True),
    (half_swapped, False),
    (rows, True),
    (one_axis, True),  # one store, in the order of the threads
    (stencil, True),
    (in_place, False),
    (total, True),
    (counted, False),
    (largest, False),
    (scattered, True),
    (scattered_twice, False),
    (scattered_in_loop, False),
    (scattered_vectors, True),
    (scattered_and_added, False),
    (mixed, True),
]


@pytest.mark.parametrize(("kernel", "verdict"), LOCKSTEP, ids=lambda k: getattr(k, "key", k))
def test_threads_in_lockstep(kernel, verdict):
    assert in_lanes(kernel._lowered.function) is verdict


@pytest.mark.parametrize(
    ("kernel", "verdict"),
    [
        (mapped, True),
        (swapped, True),
        (half_swapped, False),  # reversed from the last thread to the first
        (rows, True),
        (one_axis, False),  # an element is used up by the thread that wrote it
        (stencil, True),
        (in_place, False),
        (total, True),
        (counted, False),
        (largest, False),
        (scattered, False),
    ],
    ids=lambda k: getattr(k, "key", k),
)
def test_threads_of_adjoints_in_lockstep(kernel, verdict):
    assert in_lanes(adjoint(kernel)) is verdict


def test_who_speaks_is_heard_in_order():
    assert in_lanes(pipeline.forward(said._lowered, frozenset()))
    assert not in_lanes(pipeline.forward(said._lowered, frozenset({PRINT})))


def test_accesses_and_axes():
    found = memory_regions(swapped._lowered.function)
    assert {place: cell.does for place, cell in found.items()} == {
        ("value", X): {"load"},
        ("value", Y): {"load", "store"},
    }
    assert found["value", X].at == ({0}, {1})
    assert found["value", Y].at == ({1}, {0})
    assert memory_regions(half_swapped._lowered.function)["value", Y].at == (set(), set())
    assert memory_regions(one_axis._lowered.function)["value", Y].at == ({0}, set())


def test_used_atomics_read_and_write():
    assert memory_regions(counted._lowered.function)["value", Y].does == {"load", "store"}
    assert memory_regions(total._lowered.function)["value", Y].does == {"add"}


def test_loops_of_accesses():
    (store,) = (a for a in memory_regions(rows._lowered.function)["value", Y].accesses if a.how == "store")
    assert store.looped
    assert not any(a.looped for a in memory_regions(mapped._lowered.function)["value", Y].accesses)


def test_cells_of_an_adjoint():
    found = memory_regions(adjoint(stencil))
    assert {place: (cell.does, cell.thread_private) for place, cell in found.items()} == {
        ("adjoint", Y): ({"load", "store"}, True),
        ("adjoint", X): ({"add"}, False),
    }


def test_a_stencil_must_not_read_what_it_writes():
    assert pairs(stencil._lowered.function) == (Pair(("value", X), ("value", Y), alike=False),)


def test_a_map_may_write_what_it_reads():
    assert pairs(mapped._lowered.function) == (Pair(("value", X), ("value", Y), alike=True),)


def test_axes_of_the_very_same_view_must_agree():
    assert pairs(swapped._lowered.function) == (Pair(("value", Y), ("value", X), alike=False),)


def test_elements_of_the_very_same_view_must_agree():
    @wp.kernel
    def cast(x: wp.array(dtype=wp.vec3), y: Floats):
        i = wp.tid()
        y[i] = x[i][0]

    assert pairs(cast._lowered.function) == (Pair(("value", X), ("value", Y), alike=False),)


def test_what_is_only_read_or_only_added_to_may_share_memory():
    @wp.kernel
    def added(x: Floats, y: Floats, z: Floats, w: Floats):
        i = wp.tid()
        wp.atomic_add(z, i // 2, x[i] + y[i])
        wp.atomic_add(w, 0, x[i])

    assert {(p.first[1], p.second[1]) for p in pairs(added._lowered.function)} == {
        (X, 2),
        (Y, 2),
        (X, 3),
        (Y, 3),
    }


def test_sums_of_different_types_must_not_share_memory():
    @wp.kernel
    def both(x: wp.array(dtype=wp.float32), y: wp.array(dtype=wp.int32)):
        wp.atomic_add(x, 0, 1.0)
        wp.atomic_add(y, 0, 1)

    assert pairs(both._lowered.function) == (Pair(("value", X), ("value", Y), alike=False),)

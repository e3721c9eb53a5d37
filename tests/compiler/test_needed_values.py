"""Values that adjoints need of the forward pass, and arrays that kernels touch."""

from __future__ import annotations

import numpy as np
import pytest

import tapedebug as wp
from tests.compiler.harness import run


@wp.kernel
def spring(x: wp.array(dtype=wp.vec3), rest: wp.array(dtype=float), force: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    d = x[i + 1] - x[i]
    l = wp.length(d)  # noqa: E741
    force[i] = d * ((l - rest[i]) / l)


@wp.kernel
def integrate(
    x: wp.array(dtype=wp.vec3),
    v: wp.array(dtype=wp.vec3),
    force: wp.array(dtype=wp.vec3),
    mass: wp.array(dtype=float),
    x_next: wp.array(dtype=wp.vec3),
    v_next: wp.array(dtype=wp.vec3),
    dt: float,
):
    i = wp.tid()
    v_new = v[i] + force[i] * (dt / mass[i])
    v_next[i] = v_new
    x_next[i] = x[i] + v_new * dt


@wp.kernel
def gathered(x: wp.array(dtype=float), index: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    y[index[i]] = x[index[i]] * 2.0


@wp.kernel
def switched(x: wp.array(dtype=float), y: wp.array(dtype=float), flag: wp.array(dtype=float)):
    i = wp.tid()
    if flag[i] > 0.0:
        y[i] = x[i] * 2.0


@wp.kernel
def scattered(x: wp.array(dtype=float), w: wp.array(dtype=float), out: wp.array(dtype=float)):
    wp.atomic_add(out, 0, x[wp.tid()] * w[wp.tid()])


@wp.kernel
def accumulated(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] += x[i]


@wp.kernel
def multiplied(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] *= x[i]


@wp.kernel
def squared_in_place(x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = x[i] * x[i]


@wp.kernel
def scaled_in_place(x: wp.array(dtype=float), s: float):
    i = wp.tid()
    x[i] = x[i] * s


@wp.kernel
def summed(x: wp.array(dtype=float), y: wp.array(dtype=float), n: int):
    s = float(0.0)
    for k in range(n):
        s += x[k]
    y[wp.tid()] = s


@wp.kernel
def compacted(x: wp.array(dtype=float), counter: wp.array(dtype=int), y: wp.array(dtype=float)):
    i = wp.tid()
    if x[i] > 0.0:
        y[wp.atomic_add(counter, 0, 1)] = x[i]


@wp.kernel
def only_shape(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = float(x.shape[0])


@wp.kernel
def rounded(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.floor(x[i]) + float(int(x[i]))


@wp.kernel
def half_component(p: wp.array(dtype=wp.vec3), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = p[i].x * 2.0 + p[i].y * p[i].z


NEEDS = [
    # kernel, arrays with gradients, arrays whose values the adjoint needs, arrays that are replayed
    (spring, "x rest force", "x rest", ""),
    (spring, "rest force", "x", ""),
    (spring, "x rest", "", ""),
    (spring, "force", "", ""),
    (integrate, "x v force x_next v_next", "mass", ""),
    (integrate, "x v force mass x_next v_next", "force mass", ""),
    (integrate, "x v x_next v_next", "", ""),
    (integrate, "mass v_next", "force mass", ""),
    (gathered, "x y", "index", ""),
    (gathered, "y", "index", ""),
    (gathered, "x", "", ""),
    (switched, "x y", "flag", ""),
    (switched, "x y flag", "flag", ""),
    (scattered, "x w out", "x w", ""),
    (scattered, "x out", "w", ""),
    (accumulated, "x y", "", ""),
    (multiplied, "x y", "x y", "y"),
    (multiplied, "y", "x", ""),
    (multiplied, "x", "", ""),
    (squared_in_place, "x", "x", "x"),
    (scaled_in_place, "x", "", ""),
    (summed, "x y", "", ""),
    (compacted, "x y", "x counter", "counter"),
    (only_shape, "x y", "", ""),
    (rounded, "x y", "", ""),
    (half_component, "p y", "p", ""),
]


@pytest.mark.parametrize(("kernel", "active", "needs", "replay"), NEEDS, ids=lambda v: getattr(v, "key", v))
def test_adjoint_needs_exactly(kernel, active, needs, replay):
    index = {p.name: p.index for p in kernel.params}
    info = kernel.adjoint_info(frozenset(index[n] for n in active.split()))
    assert {p.name for p in kernel.params if p.index in info.needs} == set(needs.split())
    assert {p.name for p in kernel.params if p.index in info.replay} == set(replay.split())
    assert set(info.need_spans) == {p for p in info.needs if p in info.need_spans}
    assert info is kernel.adjoint_info(frozenset(index[n] for n in active.split()))


def test_needs_say_where_they_are_read():
    info = spring.adjoint_info(frozenset({0, 1, 2}))
    first = spring.origin.first_line
    shown = {(s.line - first, s.text[s.column : s.end_column]) for s in info.need_spans[0]}
    assert shown == {(3, "x[i + 1]"), (3, "x[i]")}
    assert [s.text[s.column : s.end_column] for s in info.need_spans[1]] == ["rest[i]"]


def test_replay_that_is_asked_for_is_done():
    """An array that is written under another name is replayed too, although the kernel does not see it."""
    info = multiplied.adjoint_info(frozenset({0, 1}), replay=frozenset({0}))
    assert info.replay == {0, 1}


@wp.kernel
def twice(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]
    for _ in range(2):
        y[i] = y[i] * x[i] + x[i]


def test_one_array_under_two_names():
    """With x and y the same: a = x², b = a² + a, c = b² + b; and its derivative."""
    x, scratch = np.array([0.5, -1.25]), np.array([0.5, -1.25])
    run(twice, 2, [x, x], f64=True)
    a = scratch**2
    b = a * a + a
    np.testing.assert_allclose(x, b * b + b)
    adjoint, start = np.ones(2), scratch.copy()
    run(twice, 2, [scratch, scratch], f64=True, adjoints=[adjoint, adjoint], replay=frozenset({0, 1}))
    np.testing.assert_allclose(adjoint, (2 * b + 1) * (2 * a + 1) * 2 * start)


@wp.kernel
def squared(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


def test_views_of_one_array_that_are_shifted():
    """y[i] is x[i + 1]: each thread squares what the one before wrote, though both keep to their index."""
    values = np.array([1.1, 2.0, 3.0, 4.0, 5.0])
    adjoint = np.ones(5)
    scratch = values.copy()
    replay = frozenset({0, 1})
    run(squared, 4, [scratch[:4], scratch[1:]], f64=True, adjoints=[adjoint[:4], adjoint[1:]], replay=replay)
    powers = 2.0 ** np.arange(5)
    expected = (powers * 1.1 ** (powers - 1)).sum()
    np.testing.assert_allclose(adjoint, [expected, 0, 0, 0, 0])


# What kernels touch ----------------------------------------------------------------------------------------


@wp.kernel
def covers_some(
    whole: wp.array(dtype=float),
    vector: wp.array(dtype=wp.vec3),
    one_component: wp.array(dtype=wp.vec3),
    all_components: wp.array(dtype=wp.vec3),
    conditional: wp.array(dtype=float),
    shifted: wp.array(dtype=float),
    both: wp.array(dtype=float),
    added: wp.array(dtype=float),
    read: wp.array(dtype=float),
    untouched: wp.array(dtype=float),
):
    i = wp.tid()
    whole[i] = read[i]
    vector[i] = wp.vec3()
    one_component[i].x = 1.0
    all_components[i].x = 1.0
    all_components[i].y = 1.0
    all_components[i].z = 1.0
    if i > 0:
        conditional[i] = 1.0
    shifted[i + 1] = 1.0
    both[i] = both[i] * 2.0
    added[i] += read[i]


def names(kernel, indices):
    return {kernel.params[i].name for i in indices}


def test_analysis():
    a = covers_some.analysis
    assert names(covers_some, a.reads) == {"read", "both"}
    assert names(covers_some, a.atomic) == {"added"}
    assert names(covers_some, a.writes) == {p.name for p in covers_some.params} - {"read", "untouched"}
    assert names(covers_some, a.covers) == {"whole", "vector", "all_components", "both"}
    assert not a.serial


@wp.kernel
def covers_in_branches(
    either: wp.array(dtype=float),
    any_way: wp.array(dtype=wp.vec3),
    not_all: wp.array(dtype=wp.vec3),
    looped: wp.array(dtype=float),
    read: wp.array(dtype=float),
):
    i = wp.tid()
    if i > 0:
        either[i] = 1.0
        any_way[i].x = 1.0
        not_all[i].x = 1.0
    elif read[i] > 0.0:
        either[i] = 2.0
        any_way[i].x = 2.0
        not_all[i].y = 2.0
    else:
        either[i] = 3.0
        any_way[i] = wp.vec3()
        not_all[i] = wp.vec3()
    any_way[i].y = 1.0
    any_way[i].z = 1.0
    not_all[i].z = 1.0
    for _ in range(int(read[i])):
        looped[i] = 1.0


def test_what_every_branch_stores_is_covered():
    assert names(covers_in_branches, covers_in_branches.analysis.covers) == {"either", "any_way"}


def test_accesses_are_the_places_in_the_source():
    first = covers_some.origin.first_line
    shown = [
        (
            covers_some.params[a.param].name,
            a.kind,
            a.span.line - first,
            a.span.text[a.span.column : a.span.end_column],
        )
        for a in covers_some.analysis.accesses
    ]
    assert shown[:3] == [
        ("read", "read", 14, "read[i]"),
        ("whole", "write", 14, "whole[i]"),
        ("vector", "write", 15, "vector[i]"),
    ]
    assert shown[-2:] == [("read", "read", 24, "read[i]"), ("added", "atomic", 24, "added[i]")]


@wp.kernel
def covers_plane(a: wp.array2d(dtype=float), b: wp.array2d(dtype=float), c: wp.array(dtype=float)):
    i, j = wp.tid()
    a[i, j] = 1.0
    b[j, i] = 1.0
    c[i] = 1.0


@wp.kernel
def early(x: wp.array(dtype=float)):
    i = wp.tid()
    if i > 3:
        return
    x[i] = 1.0


@wp.kernel
def used_result(x: wp.array(dtype=float), n: wp.array(dtype=int)):
    k = wp.atomic_add(n, 0, 1)
    x[k] = 1.0


@wp.kernel
def dead_read(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    unused = x[i] * 2.0  # noqa: F841
    y[i] = 1.0


def test_analysis_of_other_kernels():
    assert names(covers_plane, covers_plane.analysis.covers) == {"a"}
    assert early.analysis.covers == frozenset()
    assert used_result.analysis.serial
    assert names(dead_read, dead_read.analysis.reads) == set()
    assert names(dead_read, dead_read.analysis.covers) == {"y"}
    assert early.axes == 1 and covers_plane.axes == 2

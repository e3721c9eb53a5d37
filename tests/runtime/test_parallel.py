"""Large launches in chunks on several threads: the same numbers for any number of threads, in every run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.runtime.parallel import parallel_entry, partition
from tests.compiler import parallel_comparison
from tests.compiler.generator import program
from tests.compiler.parallel_comparison import THREADS
from tests.compiler.test_generated import arguments, load
from tests.runtime.parallel_kernels import (
    CASES,
    Floats,
    Grid,
    Indices,
    N,
    arrays_of,
    mapped,
    passes,
    periodic,
    scattered,
    uniform,
    whole,
)
from tests.sweeps import cases


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    with parallel_comparison.always_cut():
        yield
    wp.config.lanes = True


EXACT = ("map", "loop", "prefix", "largest")


def jobs_of(kernel: Any) -> list[Any]:
    """Return how the launches so far were divided into chunks."""
    plans = kernel.plans.values()
    larges = [run for plan in plans for run in (plan.large, *plan.adjoints.values())]
    return [c.jobs for run in larges if run.scheduler is not None for c in run.scheduler.launches.values()]


@pytest.mark.parametrize("name", CASES)
def test_any_number_of_threads_gives_the_same(name, monkeypatch):
    kernel, dim, args = CASES[name]
    found = {}
    for threads in (*THREADS, 2, 8):
        wp.config.num_threads = threads
        found[threads, len(found)] = [a.tobytes() for a in passes(kernel, dim, args)]
    first, *others = found.values()
    assert all(other == first for other in others)
    wp.config.lanes = False
    chunks = passes(kernel, dim, args)
    monkeypatch.setattr(
        parallel_entry.ParallelEntry, "__call__", lambda self, lo, hi, args: self.entry(lo, hi, args)
    )
    monkeypatch.setattr(
        parallel_entry.ParallelEntry, "whole_entry", lambda self, *_: (self.entry.settled(), False)
    )
    for one, plain in zip(chunks, passes(kernel, dim, args), strict=True):
        if name in EXACT:
            np.testing.assert_array_equal(one, plain)
        np.testing.assert_allclose(one, plain, rtol=2e-4, atol=2e-4 * np.abs(plain).max())


CUT = {
    # Whether a launch, and its reverse, run in chunks that depend on each other, in free ones, or in one.
    "map": ("free", "free"),
    "stencil": ("free", "ordered"),
    "periodic": ("free", "ordered"),
    "window": ("free", "ordered"),
    "net": ("free", "ordered"),
    "bodies": ("free", "ordered"),
    "sum": ("ordered", "free"),
    "scatter": ("ordered", "free"),
    "matrix": ("free", "ordered"),
    "loop": ("free", "free"),
    "weights": ("free", "ordered"),
    "prefix": ("one", "one"),
    "largest": ("one", "one"),
}


@pytest.mark.parametrize("name", CASES)
def test_how_launches_are_cut(name):
    kernel, dim, args = CASES[name]
    passes(kernel, dim, args)
    plan = next(iter(kernel.plans.values()))
    found = []
    for large in (plan.large, *plan.adjoints.values()):
        jobs = list(large.scheduler.launches.values())[-1].jobs
        found.append("one" if jobs is None else "ordered" if jobs.ordered else "free")
    assert tuple(found) == CUT[name]


@wp.kernel
def one_world(u: Grid, v: Floats, out: Grid, total: Floats, n: int):
    w, i = wp.tid()
    a = u[w, i] * v[w]
    if i > 0:
        a += u[w, i - 1]
    if i < n - 1:
        a += u[w, i + 1]
    out[w, i] = a
    wp.atomic_add(total, 0, a)


@pytest.mark.parametrize("shape", [(1, N), (N, 1), (40, 50)])
def test_one_row_of_threads_is_cut_on_the_next_axis(shape):
    found = {}
    worlds, n = shape
    args = [uniform(*shape), uniform(worlds), uniform(*shape), uniform(1), n]
    for threads in THREADS:
        wp.config.num_threads = threads
        kernel = wp.Kernel(func=one_world.python, key=f"one_world_{shape[0]}_{threads}")
        given = arrays_of(kernel, args)
        with wp.Tape() as tape:
            wp.launch(kernel, shape, inputs=given)
        tape.backward(grads={given[2]: wp.ones(shape, dtype=float), given[3]: wp.ones(1, dtype=float)})
        floats = given[:4]
        found[threads] = [a.numpy().tobytes() for a in (*floats, *(a.grad for a in floats))]
        assert [jobs.count > 4 for jobs in jobs_of(kernel)] == [True, True]
    assert len({tuple(each) for each in found.values()}) == 1
    u, v = (a.numpy().astype(np.float64) for a in given[:2])
    expected = u * v[:, None]
    expected[:, 1:] += u[:, :-1]
    expected[:, :-1] += u[:, 1:]
    np.testing.assert_allclose(given[2].numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(given[1].grad.numpy(), 2.0 * u.sum(axis=1), rtol=1e-5)


def test_only_the_rows_that_are_added_to_are_copied():
    kernel, dim, args = CASES["weights"]
    passes(kernel, dim, args)
    assert {jobs.size for jobs in jobs_of(kernel) if jobs.ordered} == {64 * -(-4 * 8998 // 64)}

    @wp.kernel
    def third(x: Floats, w: Floats, y: Floats):
        i = wp.tid()
        y[i] = x[i] * w[2]

    passes(third, dim, args)
    assert {jobs.size for jobs in jobs_of(third) if jobs.ordered} == {64}


def test_copies_are_small():
    """A target of which copies would be large is added to by one thread after the other."""
    n = 300_000
    which = whole(n, n)
    kernel = wp.Kernel(func=scattered.python, key="scattered_widely")
    given = [*arrays_of(kernel, [uniform(n), which, uniform(n), np.zeros(n, np.int32)])]
    wp.launch(kernel, n, inputs=given)
    (jobs,) = jobs_of(kernel)
    assert jobs is None


@pytest.mark.parametrize(("size", "cut"), [(500, True), (5000, False)])
def test_copies_cost_less_than_the_threads_that_add_to_them(monkeypatch, size, cut):
    """They are cleared and added up whole, however few of their elements a chunk adds to."""
    monkeypatch.setattr(partition, "PAID", 2)
    n = 20_000
    kernel = wp.Kernel(func=scattered.python, key=f"scattered_to_{size}")
    given = arrays_of(kernel, [uniform(n), whole(size, n), uniform(size), np.zeros(size, np.int32)])
    wp.launch(kernel, n, inputs=given)
    (jobs,) = jobs_of(kernel)
    assert (jobs is not None) == cut


def test_far_neighbours_make_longer_chunks():
    n = 4000

    @wp.kernel
    def apart(u: Floats, out: Floats, r: int):
        i = wp.tid()
        out[i] = u[i] * u[i + r]

    counts = []
    for r in (1, 300, 3000):
        passes(apart, n, [uniform(n + r), uniform(n), r])
        jobs = jobs_of(apart)[-1]
        counts.append(0 if jobs is None else jobs.count)
    assert counts == [32, 6, 0]


def test_arguments_that_share_memory_run_in_order():
    kernel = wp.Kernel(func=periodic.python, key="periodic_in_place")
    n = 300
    expected = 0.3 * uniform(n + 1)
    both = wp.array(expected.copy(), dtype=float)
    wp.launch(kernel, n, inputs=[both[:-1], both[1:], n])
    (jobs,) = jobs_of(kernel)
    assert jobs is None
    for i in range(n):
        before, after = expected[(i - 2) % n], expected[min(i + 1, n - 1)]
        expected[i + 1] = before * after + expected[max(i - 3, 0)]
    np.testing.assert_allclose(both.numpy(), expected, rtol=1e-5)


def test_the_very_same_array_twice():
    """In place each thread has its own element; two names of one sum are added one after the other."""
    x = uniform(N)
    a = wp.array(x, dtype=float)
    kernel = wp.Kernel(func=mapped.python, key="mapped_in_place")
    wp.launch(kernel, N, inputs=[a, a])
    (jobs,) = jobs_of(kernel)
    assert jobs is not None
    np.testing.assert_allclose(a.numpy(), np.sin(x) * x + x, rtol=1e-5)

    @wp.kernel
    def twice(x: Floats, which: Indices, one: Floats, two: Floats):
        i = wp.tid()
        wp.atomic_add(one, which[i], x[i])
        wp.atomic_add(two, which[i], 2.0 * x[i])

    which = whole(5, N)
    sums = wp.zeros(5, dtype=float)
    wp.launch(twice, N, inputs=[wp.array(x, dtype=float), wp.array(which, dtype=int), sums, sums])
    (jobs,) = jobs_of(twice)
    assert jobs is not None
    np.testing.assert_allclose(sums.numpy(), 3.0 * np.bincount(which, x, 5), rtol=1e-5)


def test_fields_of_structs_lie_between_each_other():
    @wp.struct
    class Body:
        mass: float
        pos: wp.vec3

    @wp.kernel
    def fall(b: wp.array(dtype=Body)):
        i = wp.tid()
        b[i].pos = b[i].pos * b[i].mass

    many = wp.zeros(N, dtype=Body)
    wp.launch(fall, N, inputs=[many])
    (jobs,) = jobs_of(fall)
    assert jobs is not None


def test_rows_that_are_one_row_run_in_order():
    @wp.kernel
    def rows(x: Grid, y: Grid):
        i, j = wp.tid()
        y[i, j] = y[i, j] + x[i, j]

    memory = np.zeros(40, np.float32)
    y = wp.array(ptr=memory.ctypes.data, dtype=float, shape=(50, 40), strides=(0, 4))
    wp.launch(rows, (50, 40), inputs=[wp.array(np.ones((50, 40), np.float32), dtype=float), y])
    (jobs,) = jobs_of(rows)
    assert jobs is None
    np.testing.assert_array_equal(memory, 50.0)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(cases(full=24, sample=6)))
def test_random_kernels(seed):
    kernel, n = load(program(seed, (6, 9, 12)[seed % 3])), 400
    parallel_comparison.compare(kernel, n, arguments(np.random.default_rng(seed), n), seed)


def test_replays_and_tangents_are_cut_alike():
    """Also where copies of values and tangents are more than copies of values may be."""
    n, size = 4000, 5000
    which = whole(size, n)
    x, grid = wp.array(uniform(n), dtype=float, requires_grad=True), wp.zeros(size, requires_grad=True)
    kernel = wp.Kernel(func=scattered.python, key="scattered_once_more")
    with wp.Tape() as tape:
        wp.launch(kernel, n, inputs=[x, wp.array(which, dtype=int), grid, wp.zeros(size, dtype=int)])
    (jobs,) = jobs_of(kernel)
    assert 4 < len(jobs.chunks) < 30
    for threads in (1, 3):
        wp.config.num_threads = threads
        assert tape.replay().values(grid).tobytes() == grid.numpy().tobytes()
        pushed = tape.replay(stop=0).push({x: uniform(n)})
        assert pushed.values(grid).tobytes() == grid.numpy().tobytes()
        assert pushed.tangent(grid).any()


def test_courses_depend_on_places_only_where_memory_is_shared() -> None:
    """Fresh arrays at every launch, as in long simulations, are looked at once, as long as they lie alike."""

    @wp.kernel
    def moved(x: Floats, y: Floats):
        i = wp.tid()
        y[i] = x[i] + 1.0

    def courses() -> int:
        (plan,) = moved.plans.values()
        return len(set(map(id, plan.large.scheduler.launches.values())))

    arrays = [wp.zeros(400, dtype=float) for _ in range(9)]
    for one, two in pairwise(arrays):
        wp.launch(moved, 400, [one, two])
    assert courses() == 1
    assert arrays[-1].numpy().tolist() == [8.0] * 400
    longs = [wp.zeros(900, dtype=float) for _ in range(3)]
    for number, shift in enumerate((0, 1, 5), start=2):
        for long in longs:
            wp.launch(moved, 400, [long[:400], long[shift : shift + 400]])
        assert courses() == number
    wp.launch(moved, 400, [longs[0][:400], longs[0][400:800]])
    assert courses() == 4


def test_short_rows_do_not_run_in_lanes() -> None:
    @wp.kernel
    def doubled(x: Grid, y: Grid):
        i, j = wp.tid()
        y[i, j] = 2.0 * x[i, j]

    for columns in (3, 40):
        x, y = (wp.zeros((400, columns), dtype=float) for _ in range(2))
        wp.launch(doubled, (400, columns), [x, y])
    (plan,) = doubled.plans.values()
    entries = [schedule.entry for schedule in plan.large.scheduler.launches.values()]
    assert [entry is plan.large.entry for entry in entries] == [True, False]

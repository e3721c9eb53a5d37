"""Large launches in chunks on several threads: the same numbers for any number of threads, in every run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.lang import types as t
from tapedebug.runtime import _large, _pool
from tests.compiler import chunks
from tests.compiler.chunks import THREADS
from tests.compiler.generator import program
from tests.compiler.test_generated import arguments, load

Floats = wp.array(dtype=float)
Grid = wp.array(dtype=float, ndim=2)
Vectors = wp.array(dtype=wp.vec3)
Indices = wp.array(dtype=int)


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    with chunks.always_cut():
        yield
    wp.config.lanes = True


@wp.kernel
def mapped(x: Floats, y: Floats):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * x[i] + y[i]


@wp.kernel
def stencil(u: Grid, out: Grid, n: int):
    i, j = wp.tid()
    if i > 0 and i < n - 1 and j > 0 and j < n - 1:
        out[i, j] = u[i, j] + 0.1 * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]) * u[i, j]


@wp.kernel
def periodic(u: Floats, out: Floats, n: int):
    i = wp.tid()
    out[i] = u[i - 2] * u[wp.min(i + 1, n - 1)] + u[wp.max(i - 3, 0)]


@wp.kernel
def window(u: Floats, out: Floats, r: int):
    i = wp.tid()
    total = float(0.0)
    for k in range(2 * r + 1):
        total += u[i + k] * u[i + k] * float(k)
    out[i] = total


@wp.kernel
def net(x: Vectors, neighbours: wp.array(dtype=int, ndim=2), f: Vectors):
    i = wp.tid()
    total = wp.vec3()
    for k in range(4):
        d = x[neighbours[i, k]] - x[i]
        total += d * (wp.length(d) - 1.0)
    f[i] = total


@wp.kernel
def bodies(x: Vectors, f: Vectors, n: int):
    i = wp.tid()
    total = wp.vec3()
    for j in range(n):
        d = x[j] - x[i]
        total += d / (wp.dot(d, d) + 0.1)
    f[i] = total


@wp.kernel
def total(x: Floats, y: Floats):
    i = wp.tid()
    wp.atomic_add(y, 0, x[i] * x[i])


@wp.kernel
def scattered(x: Floats, which: Indices, grid: Floats, counts: Indices):
    i = wp.tid()
    wp.atomic_add(grid, which[i], x[i] * x[i])
    wp.atomic_add(counts, which[i], 1)


@wp.kernel
def product(a: Grid, v: Floats, y: Floats):
    i = wp.tid()
    s = float(0.0)
    for j in range(a.shape[1]):
        s += a[i, j] * v[j]
    y[i] = s


@wp.kernel
def powers(x: Floats, y: Floats, n: int):
    i = wp.tid()
    p = float(1.0)
    for k in range(n):
        p = p * (x[i] + 0.01 * float(k))
    y[i] = p


@wp.kernel
def weighted(x: Floats, w: Floats, y: Floats):
    i = wp.tid()
    y[i] = x[i] * w[2] + w[-1]


@wp.kernel
def prefix(x: Floats, y: Floats):
    i = wp.tid()
    if i > 0:
        y[i] = y[i - 1] + x[i]


@wp.kernel
def largest(x: Floats, y: Floats):
    i = wp.tid()
    wp.atomic_max(y, 0, x[i])


RNG = np.random.default_rng(5)


def uniform(*shape: int) -> np.ndarray:
    return RNG.uniform(0.2, 1.2, shape).astype(np.float32)


def whole(high: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, high, shape).astype(np.int32)


N = 2000
CASES: dict[str, tuple[Any, Any, list[Any]]] = {
    "map": (mapped, N, [uniform(N), uniform(N)]),
    "stencil": (stencil, (60, 50), [uniform(60, 60), uniform(60, 60), 50]),
    "periodic": (periodic, N, [uniform(N), uniform(N), N]),
    "window": (window, N, [uniform(N + 9), uniform(N), 4]),
    "net": (net, N, [uniform(N, 3), whole(N, N, 4), uniform(N, 3)]),
    "bodies": (bodies, 500, [uniform(500, 3), uniform(500, 3), 500]),
    "sum": (total, N, [uniform(N), uniform(1)]),
    "scatter": (scattered, N, [uniform(N), whole(37, N), uniform(37), np.zeros(37, np.int32)]),
    "matrix": (product, 700, [uniform(700, 90), uniform(90), uniform(700)]),
    "loop": (powers, N, [uniform(N), uniform(N), 20]),
    "weights": (weighted, N, [uniform(N), uniform(9000), uniform(N)]),
    "prefix": (prefix, N, [uniform(N), uniform(N)]),
    "largest": (largest, N, [uniform(N), uniform(1)]),
}
EXACT = ("map", "loop", "prefix", "largest")


def arrays_of(kernel: Any, args: list[Any]) -> list[Any]:
    made = []
    for param, value in zip(kernel.params, args, strict=True):
        if param.is_array:
            floats = t.is_float(param.type.dtype)
            value = wp.array(value, dtype=param.type.dtype, requires_grad=floats)
        made.append(value)
    return made


def passes(kernel: Any, dim: Any, args: list[Any]) -> list[bytes]:
    """What a launch and its reverse leave in arrays and gradients."""
    given = arrays_of(kernel, args)
    tape = wp.Tape()
    with tape:
        wp.launch(kernel, dim, inputs=given)
    floats = [a for a in given if isinstance(a, wp.array) and a.requires_grad]
    seed = floats[-1]
    weights = np.random.default_rng(9).normal(size=seed.numpy().shape).astype(np.float32)
    tape.backward(grads={seed: wp.array(weights, dtype=seed.dtype)})
    found = [a.numpy() for a in given if isinstance(a, wp.array)]
    return [*found, *(a.grad.numpy() for a in floats)]


def jobs_of(kernel: Any) -> list[Any]:
    """How the launches so far were cut."""
    plans = kernel.plans.values()
    larges = [run for plan in plans for run in (plan.large, *plan.adjoints.values())]
    return [c.jobs for run in larges if run.survey is not None for c in run.survey.launches.values()]


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
    monkeypatch.setattr(_large, "LARGE", 10**9)
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
        jobs = list(large.survey.launches.values())[-1].jobs
        found.append("one" if jobs is None else "ordered" if jobs.ordered else "free")
    assert tuple(found) == CUT[name]


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


@pytest.mark.parametrize("seed", range(24))
def test_random_kernels(seed):
    kernel, n = load(program(seed, (6, 9, 12)[seed % 3])), 400
    chunks.compare(kernel, n, arguments(np.random.default_rng(seed), n), seed)


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


def test_two_python_threads_at_once():
    """Who finds the helpers at work runs alone: the same chunks, the same numbers."""
    wp.config.num_threads = 2
    kernel, dim, args = CASES["scatter"]
    expected = [a.tobytes() for a in passes(kernel, dim, args)]
    failed: list[Any] = []

    def often() -> None:
        for _ in range(40):
            given = arrays_of(kernel, args)
            wp.launch(kernel, dim, inputs=given)
            if given[2].numpy().tobytes() != expected[2] or given[3].numpy().tobytes() != expected[3]:
                failed.append(given)

    threads = [threading.Thread(target=often) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_busy_helpers_are_not_waited_for():
    kernel, dim, args = CASES["sum"]
    wp.config.num_threads = 2
    expected = passes(kernel, dim, args)[1]
    with _pool.pool.busy:
        found = passes(kernel, dim, args)[1]
    assert found.tobytes() == expected.tobytes()


def forked() -> int:
    """Launch, fork as if another thread were in a launch, and launch in the child; gives its exit code."""
    kernel, dim, args = CASES["net"]
    wp.config.num_threads = 2
    with chunks.always_cut():
        expected = [a.tobytes() for a in passes(kernel, dim, args)]
        assert _pool.pool.helpers
        with _pool.pool.busy:
            child = os.fork()
            if not child:
                ok = not _pool.pool.helpers and [a.tobytes() for a in passes(kernel, dim, args)] == expected
                os._exit(0 if ok and _pool.pool.helpers else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_after_a_fork():
    """In a process of its own: this one may have threads of others, whose locks a child would inherit."""
    code = "import sys; from tests.runtime.test_parallel import forked; sys.exit(forked())"
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, timeout=120, check=True)


@wp.kernel
def long(x: Floats, y: Floats, n: int):
    i = wp.tid()
    s = x[i]
    for _k in range(n):
        s = s * 0.999 + 0.001 * s * s
    y[i] = s


def test_an_interrupt_waits_for_all_chunks():
    wp.config.num_threads = 2
    x, y = wp.array(uniform(N), dtype=float), wp.zeros(N, dtype=float)
    wp.launch(long, N, inputs=[x, y, 10_000])
    expected = y.numpy().copy()
    for delay in (0.001, 0.005, 0.01, 0.02):
        y.zero_()
        timer = threading.Timer(delay, signal.raise_signal, [signal.SIGINT])
        try:
            timer.start()
            wp.launch(long, N, inputs=[x, y, 10_000])
            timer.join()
            time.sleep(0.01)
        except KeyboardInterrupt:
            pass
        timer.join()
        assert y.numpy().tobytes() in (expected.tobytes(), bytes(4 * N))
    wp.launch(long, N, inputs=[x, y, 10_000])
    np.testing.assert_array_equal(y.numpy(), expected)


def test_no_thread_is_made_before_it_is_wanted():
    code = """
        import threading, tapedebug as wp
        from tapedebug.runtime import _large
        import sys
        assert "tapedebug.runtime._pool" not in sys.modules
        assert threading.active_count() == 1
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_busy_machine(capsys):
    """Beside four spinning processes launches go on; how much longer the longest takes is printed."""
    wp.config.num_threads = None
    kernel, dim, args = CASES["bodies"]
    given = arrays_of(kernel, args)

    def times(count: int) -> list[float]:
        found = []
        for _ in range(count):
            start = time.perf_counter()
            wp.launch(kernel, dim, inputs=given)
            found.append(time.perf_counter() - start)
        return found

    idle = min(times(50))
    children: list[int] = []
    for _ in range(4):
        child = os.fork()
        if not child:
            while True:
                pass
        children.append(child)
    try:
        busy = times(200)
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    with capsys.disabled():
        median, worst = np.median(busy) / idle, max(busy) / idle
        print(f"\nidle {1e3 * idle:.2f} ms; busy: median {median:.1f} x, worst {worst:.1f} x")
    assert max(busy) < 2.0


def test_courses_depend_on_places_only_where_memory_is_shared() -> None:
    """Fresh arrays at every launch, as in long simulations, are looked at once, as long as they lie alike."""

    @wp.kernel
    def moved(x: Floats, y: Floats):
        i = wp.tid()
        y[i] = x[i] + 1.0

    def courses() -> int:
        (plan,) = moved.plans.values()
        return len(set(map(id, plan.large.survey.launches.values())))

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
    entries = [course.entry for course in plan.large.survey.launches.values()]
    assert [entry is plan.run for entry in entries] == [True, False]

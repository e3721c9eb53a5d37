"""The threads that help with large launches: several Python threads, forks, interrupts, a busy machine."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler import work_queue
from tapedebug.runtime.memory.addresses import address_of
from tapedebug.runtime.parallel import cost_model, thread_pool
from tests.compiler import parallel_comparison
from tests.runtime.parallel_kernels import CASES, Floats, N, arrays_of, passes, uniform


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    with parallel_comparison.always_cut():
        yield


def test_two_python_threads_at_once():
    """A launch that finds the helpers busy runs alone: the same chunks, the same numbers."""
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
    with thread_pool.pool.busy:
        found = passes(kernel, dim, args)[1]
    assert found.tobytes() == expected.tobytes()


def forked() -> int:
    """Launch, fork as if another thread were in a launch, and launch in the child; gives its exit code."""
    kernel, dim, args = CASES["net"]
    wp.config.num_threads = 2
    with parallel_comparison.always_cut():
        expected = [a.tobytes() for a in passes(kernel, dim, args)]
        assert thread_pool.pool.helpers
        with thread_pool.pool.busy:
            child = os.fork()
            if not child:
                ok = (
                    not thread_pool.pool.helpers
                    and [a.tobytes() for a in passes(kernel, dim, args)] == expected
                )
                os._exit(0 if ok and thread_pool.pool.helpers else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_after_a_fork():
    """In a process of its own: this one may have threads of others, whose locks a child would inherit."""
    code = "import sys; from tests.runtime.test_thread_pool import forked; sys.exit(forked())"
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


def test_an_interrupt_as_the_helpers_are_taken_gives_them_back():
    """Were they not, all later launches of the process would run without them, and nobody would know why."""
    kernel, dim, args = CASES["sum"]
    wp.config.num_threads = 2
    given = arrays_of(kernel, args)

    def stop(frame: Any, event: str, function: Any) -> None:
        if event == "c_return" and function == thread_pool.pool.busy.acquire:
            sys.setprofile(None)
            stopped.append(function)
            signal.raise_signal(signal.SIGINT)

    stopped: list[Any] = []
    sys.setprofile(stop)
    try:
        with pytest.raises(KeyboardInterrupt):
            wp.launch(kernel, dim, inputs=given)
    finally:
        sys.setprofile(None)
    assert stopped and not thread_pool.pool.busy.locked()


def test_no_thread_is_made_before_it_is_wanted():
    code = """
        import threading, tapedebug as wp
        from tapedebug.runtime.parallel import parallel_entry
        import sys
        assert "tapedebug.runtime.parallel.thread_pool" not in sys.modules
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


def calls_of(ran: list[tuple[int, int]], count: int, needs: int = 0) -> tuple[Any, Any]:
    """A job of calls that note who runs them, the second half after `needs` others, and their code."""

    @ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    def call(lo: int, hi: int, args: int) -> None:
        ran.append((threading.get_ident(), lo))
        time.sleep(0.001)

    entry = ctypes.cast(call, ctypes.c_void_p).value
    assert entry is not None
    rows = [(entry, k, k + 1, needs if k >= count // 2 else 0) for k in range(count)]
    return work_queue.new_job(rows), call


PATIENT = 1000
"""Polls of the helpers in these tests, in multiples of the usual number."""


def queue_of(count: int) -> tuple[int, Any]:
    """The address of a queue that is not that of the pool, and its memory."""
    memory = thread_pool._queue(count)
    return ctypes.addressof(memory), memory


def helped(job: Any, count: int) -> int:
    """Run a job with a helper that is awake; return the helper's number."""
    queue, _memory = queue_of(count)
    spins = PATIENT * thread_pool.spins()
    helper = threading.Thread(target=work_queue.work(), args=(queue, 0, 0, 0, spins))
    helper.start()
    time.sleep(0.01)
    thread_pool.finish(queue, address_of(job), 0)
    helper.join()
    assert helper.ident is not None
    return helper.ident


@pytest.mark.parametrize("needs", [0, 10])
def test_threads_take_calls_from_opposite_ends(needs: int) -> None:
    """Each has about the same ones in launch after launch, whose memory is in its processor's caches."""
    ran: list[tuple[int, int]] = []
    count = 20
    job, _call = calls_of(ran, count, needs)
    helper = helped(job, count)
    stages = [range(10), range(10, 20)] if needs else [range(20)]
    for stage in stages:
        first = [lo for who, lo in ran if who != helper and lo in stage]
        last = [lo for who, lo in ran if who == helper and lo in stage]
        assert first == list(stage)[: len(first)] and last == list(stage)[::-1][: len(last)]
        assert len(first) + len(last) == len(stage) and first and last


def test_one_thread_takes_all_calls_in_order() -> None:
    ran: list[tuple[int, int]] = []
    job, _call = calls_of(ran, 9, needs=4)
    for _ in range(2):
        thread_pool.run_inline(address_of(job), 0, 9)
        assert [lo for _, lo in ran] == list(range(9))
        ran.clear()


def test_a_helper_that_is_awake_takes_the_next_job():
    """It is not woken: it looks until there is one, and gives up where there is none for long.

    Nothing of the job is written again, so that it stays in the caches of both processors.
    """
    ran: list[tuple[int, int]] = []
    count = 20
    job, _call = calls_of(ran, count)
    before = job.tobytes()
    queue, _memory = queue_of(count)
    spins = PATIENT * thread_pool.spins()
    ended: list[int] = []
    helper = threading.Thread(target=lambda: ended.append(work_queue.work()(queue, 0, 0, 0, spins)))
    helper.start()
    for _ in range(2):
        time.sleep(0.01)
        thread_pool.finish(queue, address_of(job), 0)
        assert sorted(lo for _, lo in ran) == list(range(count))
        assert {helper.ident, threading.get_ident()} == {who for who, _ in ran}
        assert job.tobytes() == before
        ran.clear()
    helper.join()
    assert ended == [0]
    thread_pool.finish(queue, address_of(job), 0)
    assert [lo for _, lo in ran] == list(range(count)), "where others began before is forgotten"


def test_launches_count_on_helpers_that_are_still_awake():
    assert cost_model.AWAKE < thread_pool.AWAKE * work_queue.IDLE

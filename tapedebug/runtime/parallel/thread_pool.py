"""The helper threads for large launches: created on first use; a launch never waits for a sleeping helper.

The launching thread starts a job (`compiler.work_queue`) and works on it; woken helpers claim the
remaining calls. A late helper finds none. The launching thread waits only for calls that are running.
"""

from __future__ import annotations

import ctypes
import os
from _thread import allocate_lock, start_new_thread
from functools import cache
from time import perf_counter, sleep
from typing import Any

from tapedebug.compiler.work_queue import HEAD, work
from tapedebug.runtime.config import config
from tapedebug.runtime.interrupts import deferred

CAPACITY = 512
"""Maximum number of calls in a shared job."""
AWAKE = 1e-4
"""Seconds for which a thread polls for others before it yields the processor; most chunks take less. A helper
polls `work_queue.IDLE` times as long for a new job."""
NAP = 5e-5
"""Seconds of each sleep of a thread that still waits for others. Yielding instead would give the processor to
another process for milliseconds."""


@cache
def spins() -> int:
    """Return the number of polls in the time `AWAKE`, by measurement."""
    running, tried = (ctypes.c_int64 * HEAD)(0, 0, 1), 1000  # one call, which never ends
    run, took = work(), []
    for _ in range(3):
        start = perf_counter()
        run(ctypes.addressof(running), 0, 0, -1, tried)
        took.append(perf_counter() - start)
    return int(tried * AWAKE / min(took))


def available() -> int:
    """Return the number of threads for a launch: `config.num_threads`, or the process's processors."""
    chosen: int | None = config.num_threads
    return chosen or _processors


def _count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_processors = _count()


class ThreadPool:
    """Helper threads and the queue of the one job that they work on.

    The queue's memory lives as long as the helpers: one that wakes late finds no call left there, and sleeps
    again.
    """

    def __init__(self) -> None:
        self.busy = allocate_lock()
        self.helpers: list[Any] = []
        self.memory = _queue(CAPACITY)
        self.address = ctypes.addressof(self.memory)

    def run(self, job: int, args: int, count: int, threads: int) -> bool:
        """Run a job with helpers; return False, without running it, if they are busy or it is too large.

        Args:
            job: Its address; the memory stays as it is until the job has ended.
            args: The address of the packed arguments.
            count: Number of its calls.
            threads: Maximum number of threads.
        """
        if count > CAPACITY:
            return False
        with deferred():  # an interrupt between two of these lines would leave the pool locked forever
            if not self.busy.acquire(False):
                return False
            try:
                self._wake(min(threads, count) - 1)
                finish(self.address, job, args)
            finally:
                self.busy.release()
        return True

    def _wake(self, number: int) -> None:
        while len(self.helpers) < number:
            asleep = allocate_lock()
            asleep.acquire()
            try:
                start_new_thread(_help, (asleep, self.address, work(), spins()))
            except RuntimeError:  # the system has no more threads
                return
            self.helpers.append(asleep)
        for asleep in self.helpers[:number]:
            if asleep.locked():
                asleep.release()


def _help(asleep: Any, address: int, run: Any, patience: int) -> None:
    """Run a helper thread: an endless loop of sleeping and working."""
    while True:
        asleep.acquire()
        claimed = run(address, 0, 0, 0, patience)
        while claimed > 0:
            sleep(NAP)
            claimed = run(address, 0, 0, claimed, patience)


def run_inline(job: int, args: int, count: int) -> None:
    """Run a job on the calling thread, one call after the other."""
    queue = _queue(count)
    with deferred():
        finish(ctypes.addressof(queue), job, args)


def _queue(count: int) -> Any:
    """Return memory for the queue of jobs of up to `count` calls, with none left."""
    return ctypes.create_string_buffer(8 * (HEAD + 2 * count))


def finish(queue: int, job: int, args: int) -> None:
    """Start a job, work on it until no unclaimed call is left, and wait for calls that are still running.

    Interrupts must be deferred: calls use memory that the caller releases afterwards.
    """
    run, patience = work(), spins()
    state = run(queue, job, args, -1, patience)
    while state:
        sleep(NAP)
        state = run(queue, 0, 0, -1, patience)


pool = ThreadPool()
"""The pool of this process."""


def _begin_again() -> None:
    """Replace the pool after a fork: the child has no helper threads, and its job may be incomplete."""
    global pool
    pool = ThreadPool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)

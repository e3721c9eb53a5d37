"""The threads that help with large launches: created on first use, never waited for while asleep.

The launching thread begins a job (`compiler.work_queue`) and works at it; woken threads take what is left.
Late ones find nothing. The launching thread waits only for calls that are running.
"""

from __future__ import annotations

import ctypes
import os
from _thread import allocate_lock, start_new_thread
from functools import cache
from time import perf_counter, sleep
from typing import Any

from tapedebug.compiler.work_queue import CALL, HEAD, work
from tapedebug.runtime.config import config
from tapedebug.runtime.interrupts import deferred

CAPACITY = 512
"""Calls that a shared job has room for."""
AWAKE = 1e-4
"""Seconds for which somebody looks again and again whether others are done, or have begun another job, before
it gives the processor away. A thread that sleeps takes about as long to run again; most chunks take less."""
NAP = 5e-5
"""Seconds that somebody sleeps who still waits for others. To give way instead would give the processor to
whoever else wants it, for milliseconds."""

_CHAR = ctypes.c_char


@cache
def spins() -> int:
    """How often somebody looks in that time."""
    idle, tried = ctypes.create_string_buffer(8 * HEAD), 1000
    run, took = work(), []
    for _ in range(3):
        start = perf_counter()
        run(ctypes.addressof(idle), 0, 0, 0, tried)
        took.append(perf_counter() - start)
    return int(tried * AWAKE / min(took))


def available() -> int:
    """How many threads a launch may use: `config.num_threads`, or this process's processors."""
    chosen: int | None = config.num_threads
    return chosen or _processors


def _count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_processors = _count()


class ThreadPool:
    """Helpers, and the one job at which they work.

    The job's memory lives as long as they do: a helper that wakes late looks there, finds that no call is
    left, and sleeps again.
    """

    def __init__(self) -> None:
        self.busy = allocate_lock()
        self.helpers: list[Any] = []
        self.memory = ctypes.create_string_buffer(8 * (HEAD + CAPACITY * CALL))
        self.address = ctypes.addressof(self.memory)

    def run(self, job: Any, count: int, threads: int) -> bool:
        """Run a job with others; False, and nothing done, where they are at work for somebody else."""
        if count > CAPACITY:
            return False
        with deferred():  # an interrupt between two of these lines would keep the helpers busy for ever
            if not self.busy.acquire(False):
                return False
            try:
                ctypes.memmove(self.address, address_of(job), job.nbytes)
                self._wake(min(threads, count) - 1)
                finish(self.address, count)
            finally:
                self.busy.release()
        return True

    def _wake(self, number: int) -> None:
        while len(self.helpers) < number:
            asleep = allocate_lock()
            asleep.acquire()
            try:
                start_new_thread(_help, (asleep, self.address, work(), spins()))
            except RuntimeError:  # the system has no more of them
                return
            self.helpers.append(asleep)
        for asleep in self.helpers[:number]:
            if asleep.locked():
                asleep.release()


def _help(asleep: Any, address: int, run: Any, patience: int) -> None:
    """What a helper does all its life."""
    while True:
        asleep.acquire()
        claimed = run(address, 0, 0, 0, patience)
        while claimed > 0:
            sleep(NAP)
            claimed = run(address, 0, claimed, 0, patience)


def alone(job: Any, count: int) -> None:
    """Run a job on this thread, call after call."""
    with deferred():
        finish(address_of(job), count)


def finish(address: int, count: int) -> None:
    """Begin a job, work at it until nothing is left to begin, and wait for what others are running.

    Interrupts have to wait: calls use memory that the caller gives up afterwards.
    """
    run, patience = work(), spins()
    state = run(address, count, 0, count, patience)
    while state:
        sleep(NAP)
        state = run(address, 0, 0, count, patience)


def address_of(memory: Any) -> int:
    """The address of the first byte of what offers its buffer."""
    return ctypes.addressof(_CHAR.from_buffer(memory))


pool = ThreadPool()
"""The pool of this process."""


def _begin_again() -> None:
    """A forked process has none of the helpers, and perhaps half a job."""
    global pool
    pool = ThreadPool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)

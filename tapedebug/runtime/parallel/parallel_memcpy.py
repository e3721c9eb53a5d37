"""Copy and zero large ranges of memory with several threads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._lazy_module import lazy_module
from tapedebug.runtime.memory.addresses import address_of
from tapedebug.runtime.parallel.cost_model import CostModel

if TYPE_CHECKING:
    from tapedebug.compiler import work_queue
    from tapedebug.runtime.parallel import thread_pool
else:  # imported late: small programs do not need them
    work_queue, thread_pool = (
        lazy_module("tapedebug.compiler.work_queue"),
        lazy_module("tapedebug.runtime.parallel.thread_pool"),
    )

Values = np.ndarray[Any, Any]

LARGE = 1 << 21
"""Bytes from which helper threads may be used."""
PART = 1 << 18
"""Minimum bytes of a part, which one thread processes at a time."""
MOST = 64
"""Maximum number of parts."""
REMEMBERED = 64
"""Maximum number of cached jobs, of 5 KB each; to write one takes as long as to copy a megabyte."""

_paces: dict[tuple[bool, int], CostModel] = {}


def copy(into: Values, values: Values) -> None:
    """Execute `into[...] = values`."""
    whole = (
        into.nbytes >= LARGE
        and into.dtype == values.dtype
        and into.shape == values.shape
        and into.flags.c_contiguous
        and values.flags.c_contiguous
        and not np.may_share_memory(into, values)
    )
    if not whole:
        into[...] = values
        return
    _run(into.nbytes, (into.ctypes.data, values.ctypes.data), lambda: np.copyto(into, values))


def move(into: int, start: int, nbytes: int) -> None:
    """Copy bytes from one address to another."""
    if nbytes < LARGE:
        ctypes.memmove(into, start, nbytes)
    else:
        _run(nbytes, (into, start), lambda: ctypes.memmove(into, start, nbytes))


def clear(memory: Values) -> None:
    """Execute `memory[...] = 0`."""
    if memory.nbytes < LARGE or not memory.flags.c_contiguous:
        memory[...] = 0
        return
    _run(memory.nbytes, (memory.ctypes.data,), lambda: memory.fill(0))


def _run(nbytes: int, places: tuple[int, ...], alone: Callable[[], object]) -> None:
    """Copy from the second address to the first, or zero the memory at a single address."""
    copies = len(places) == 2
    pace = _paces.setdefault((copies, nbytes.bit_length()), CostModel())
    helpers = thread_pool.available() if pace.together() else 1
    start = perf_counter()
    if helpers > 1:
        what = np.array(places, np.int64)
        count = min(MOST, nbytes // PART)
        entry = work_queue.mover(work_queue.COPY if copies else work_queue.CLEAR)
        job = _job(entry, nbytes, count)
        if thread_pool.pool.run(address_of(job), address_of(what), count, helpers):
            pace.ran_together(perf_counter() - start)
            return
    alone()
    pace.ran_alone(perf_counter() - start)


@lru_cache(REMEMBERED)
def _job(entry: int, nbytes: int, count: int) -> Values:
    """Return a job of `compiler.work_queue`, divided into parts of whole cache lines."""
    edges = np.linspace(0, nbytes, count + 1).astype(np.int64) // 64 * 64
    edges[-1] = nbytes
    return work_queue.new_job([(entry, start, stop, 0) for start, stop in pairwise(edges.tolist())])

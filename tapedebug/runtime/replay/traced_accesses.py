"""The elements that each thread of a launch reads and writes, by a traced variant of its kernel."""

from __future__ import annotations

import ctypes
from struct import Struct
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.compiler.access_trace import SLOTS, THREAD_BITS, TracedSite
from tapedebug.compiler.kernel_queries import traced
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.record import Record

Indices = np.ndarray[Any, np.dtype[np.int64]]

MOST = 1 << 24
"""The largest number of accesses of a launch that are kept.

It is larger if each thread has at most `FEW` of them.
"""
FEW = 32
TAIL = Struct(f"={SLOTS}q")


@dataclass(frozen=True, slots=True)
class Visits:
    """The visits of threads to one site.

    Attributes:
        site: The site.
        threads: In ascending order; None if each thread visited the site exactly once.
        places: The element of each visit: its position in the array, in scalars.
    """

    site: TracedSite
    threads: Indices | None
    places: Indices


def deciding(record: Record, active: frozenset[int]) -> tuple[array, ...] | None:
    """Return the arrays whose values determine the accesses of a launch; None if that cannot be traced."""
    info = record.plan.kernel.trace_info(active)
    return None if info is None else tuple(record.args[p] for p in sorted(info.deciding))


def accesses(shadow: Any, record: Record, active: frozenset[int]) -> list[Visits] | None:
    """Return the accesses of a launch to its float arrays, by site; None if unknown or too many.

    Args:
        shadow: A shadow in single precision that stands before the record; it is unchanged afterwards.
        record: The record of a launch of a kernel.
        active: The array parameters of interest.
    """
    plan: Any = record.plan
    info = plan.kernel.trace_info(active)
    if info is None:
        return None
    columns, threads = info.columns, record.threads
    most = max(MOST, FEW * threads)
    if threads * len(columns) > most:
        return None
    stores = _decided_by_writes(record, info.deciding)
    entry = traced(plan.kernel, active, stores=stores, strided=plan.strided)
    table = np.zeros((threads, len(columns)), np.int64)
    room = 0 if len(columns) == len(info.sites) else 8 * threads + 1024
    while True:
        log = np.empty((max(room, 1), 2), np.int64)
        needed = _run(shadow, record, entry, stores, table, log, room)
        if needed <= room:
            break
        if needed > most:
            return None
        room = needed
    looped = _by_site(log[:needed])
    return [
        _from_table(site, table[:, columns[k]]) if k in columns else Visits(site, *looped.get(k, NO_VISITS))
        for k, site in enumerate(info.sites)
    ]


NO_VISITS = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def _decided_by_writes(record: Record, deciding: frozenset[int]) -> bool:
    """Return True if a launch may write values that determine which elements it accesses."""
    written = {record.args[p].buffer for p in record.plan.writes}
    return any(record.args[p].buffer in written for p in deciding)


def _run(
    shadow: Any, record: Record, entry: Any, stores: bool, table: Indices, log: Indices, room: int
) -> int:
    """Run a traced launch; return the number of visits inside loops."""
    tail = TAIL.pack(table.ctypes.data, log.ctypes.data, room, 0)
    memory = ctypes.create_string_buffer(shadow.packed(record) + tail)
    views = [shadow.space.value_view(record.args[p]) for p in record.plan.written] if stores else []
    before = [view.copy() for view in views]
    entry(0, record.threads, ctypes.addressof(memory))
    for view, values in zip(views, before, strict=True):
        view[...] = values
    needed: int = TAIL.unpack_from(memory.raw, record.plan.kernel.layout.size)[-1]
    return needed


def _from_table(site: TracedSite, column: Indices) -> Visits:
    places = column - 1
    came = column > 0
    if came.all():
        return Visits(site, None, places)
    threads = np.flatnonzero(came)
    return Visits(site, threads, places[threads])


def _by_site(log: Indices) -> dict[int, tuple[Indices, Indices]]:
    """Return the threads and positions of each site that is in the log."""
    if not len(log):
        return {}
    sites, threads = log[:, 0] >> THREAD_BITS, log[:, 0] & ((1 << THREAD_BITS) - 1)
    found = {}
    for site in np.flatnonzero(np.bincount(sites)):
        mine = sites == site
        found[int(site)] = threads[mine], log[mine, 1]
    return found

"""The last writer and reader of each element of an array, as plain data."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import TapeError
from tapedebug._source import Span, display_file
from tapedebug.compiler.access_tags import SITE_SHIFT, SITES, THREAD
from tapedebug.runtime.launch.access_tags import READS, WRITES, epoch_of
from tapedebug.runtime.memory import struct_fields
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.element_tracking import Tracking, replayed

NAMES = {"write": "writers", "read": "readers"}
"""The methods of a tape by kind of access."""

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Touch:
    """The last write, or read, of one element.

    Attributes:
        launch: Index of the record; None if no record accessed it.
        thread: Number of the thread; None for a copy, a fill or a native function.
        name: The name of the kernel, `"copy"` or `"fill"`; empty if no record accessed it.
        file: The file of the line.
        line: The line of the access in the kernel, or of the call of a copy or fill; 0 if it is not known.
    """

    launch: int | None
    thread: int | None
    name: str
    file: str
    line: int

    def __str__(self) -> str:
        """Return it as text: `launch 3 (step), thread 7, net.py:66`."""
        if self.launch is None:
            return "nothing on the tape"
        thread = "" if self.thread is None else f", thread {self.thread}"
        return f"launch {self.launch} ({self.name}){thread}, {self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Touched:
    """The last writer, or reader, of each element of an array.

    `touched[i]` (or `[i, j]`) is that of one element. For a vector, the last access to any of its components
    counts.

    Attributes:
        access: `"write"` or `"read"`.
        launch: Index of the record, in the shape of the array; -1 if no record accessed the element.
        thread: Number of the thread; -1 for a copy or fill, or if no record accessed the element.
        line: The line; 0 if it is not known.
    """

    access: Literal["write", "read"]
    launch: Numbers
    thread: Numbers
    line: Numbers
    _files: tuple[tuple[str, str], ...]

    def __getitem__(self, index: Any) -> Touch:
        launch = self.launch[index]
        if not isinstance(launch, np.integer):
            raise IndexError(
                f"{NAMES[self.access]}: give one index for each axis of the array ({self.launch.ndim}); "
                f"got {index!r}"
            )
        if launch < 0:
            return Touch(None, None, "", "", 0)
        thread = int(self.thread[index])
        name, file = self._files[int(launch)]
        return Touch(int(launch), None if thread < 0 else thread, name, file, int(self.line[index]))

    def __len__(self) -> int:
        return len(self.launch)

    def __repr__(self) -> str:
        launches = np.unique(self.launch)
        indices = ", ".join(str(n) for n in launches[launches >= 0][:6]) or "none"
        more = f" and {len(launches) - 6} more" if len(launches) > 6 else ""
        return f"<last {self.access}s of {self.launch.size} elements, by launches {indices}{more}>"


def touched(tape: Any, a: Any, access: Literal["write", "read"]) -> Touched:
    """Return the last access to each element of an array.

    Raises:
        TapeError: The tape does not use the array's memory.
    """
    tracker = tape.tracker
    if not isinstance(a, array) or not any(tracker.uses(leaf) for leaf in struct_fields.leaves(a)):
        described = f"the array{a._facts()}" if isinstance(a, array) else repr(a)
        raise TapeError(
            f"{NAMES[access]}: {described} is not on the tape",
            hint="pass an array that a recorded launch uses",
        )
    tracker.catch_up_everywhere()
    tracking: Tracking | None = tape.tracking
    if tracking is None or not tracking.whole():
        tracking = replayed(tracker)
    which = WRITES if access == "write" else READS
    found = None
    for leaf in struct_fields.leaves(a):
        stamps = tracking.merged_stamps(leaf).view(leaf, which).max(axis=-1)
        found = stamps if found is None else np.maximum(found, stamps)
    assert found is not None
    return _decoded(tape, tracking, access, found)


def _decoded(tape: Any, tracking: Tracking, access: Literal["write", "read"], stamps: Numbers) -> Touched:
    site = (stamps >> SITE_SHIFT) & SITES
    thread = stamps & THREAD
    launch = epoch_of(stamps)
    nothing = (launch < 0) | ((site == SITES) & (thread == THREAD))  # or an access outside the tape
    launch = np.where(nothing, -1, launch)
    thread = np.where(nothing | (thread == THREAD), -1, thread)
    line = np.zeros_like(launch)
    for index in np.unique(launch[launch >= 0]):
        mine = launch == index
        for number in np.unique(site[mine]):
            span = _span(tape.records[index], tracking, int(number))
            line[mine & (site == number)] = 0 if span is None else span.line
    files = tuple(_file(record) for record in tape.records)
    return Touched(access, launch, thread, line, files)


def _span(record: Any, tracking: Tracking, site: int) -> Span | None:
    if record.kind != "kernel":
        span: Span = record.call_site
        return span
    variant = tracking.ran.get(record.index)
    found = variant.sites[site] if variant is not None and site < len(variant.sites) else None
    return None if found is None else found[1]


def _file(record: Any) -> tuple[str, str]:
    """Return the name of a record, and the file that its lines are in."""
    if record.kind == "kernel":
        return record.name, display_file(record.kernel.origin.file)
    return record.name, display_file(record.site[0].co_filename)

"""Knows the launches of a tape again: it may be reset and recorded anew, with as many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapedebug.runtime import Tape

Ends = tuple[Any, ...]
"""The first and the last record of a tape; empty where it has none."""


def ends_of(tape: Tape | None) -> Ends:
    """Return the first and the last record of a tape, by which it is known again."""
    records = [] if tape is None else tape.records
    return (records[0], records[-1]) if records else ()


def begins_with(tape: Tape, ends: Ends, launches: int) -> bool:
    """Whether the tape has the launches that it had, and perhaps more."""
    if not ends:
        return launches == 0
    records = tape.records
    return len(records) >= launches and records[0] is ends[0] and records[launches - 1] is ends[1]

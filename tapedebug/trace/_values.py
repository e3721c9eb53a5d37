"""Summaries of the values and adjoints of every version, by replaying the tape in private memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.trace._summary import summarise
from tapedebug.trace.model import Version

if TYPE_CHECKING:
    from tapedebug.runtime.record import Record
    from tapedebug.runtime.replay import Shadow
    from tapedebug.trace._record import Recorded


def add_summaries(
    recorded: Recorded,
    seeds: Mapping[Any, np.ndarray[Any, Any]] | None = None,
    pulse: Callable[[], None] | None = None,
) -> None:
    """Set `value` and `adjoint` of the versions of a trace.

    Args:
        recorded: The trace and its tape, which is not touched.
        seeds: Incoming adjoints of the reverse pass; by default those of the last `Tape.backward`. Adjoints
            are left out where there was none. They are those that the tape consumed, right or wrong.
        pulse: Called at each launch; may raise to cancel.
    """
    from tapedebug.runtime.replay import Shadow

    tape = recorded.tape
    written: dict[int | None, list[Version]] = {}
    for version in recorded.trace.versions:
        written.setdefault(version.written_by, []).append(version)
    shadow = Shadow(tape.tracker)
    shadow.pulse = pulse
    starts = [version for version in written.get(None, ()) if version.version == 0]
    _values(recorded, shadow, starts)
    shadow.forward(on_launch=lambda record: _values(recorded, shadow, written.get(record.index, ())))
    if seeds is None and tape.backward_calls:
        seeds = tape.backward_calls[-1].seeds
    if seeds:
        _adjoints(recorded, shadow, seeds, written, starts)


def _values(recorded: Recorded, shadow: Shadow, versions: Any) -> None:
    for version in versions:
        # What a launch covers completely, unread, holds nothing that means anything before it.
        if version.version > 0 or version.reads or version.overwritten_by is None:
            version.value = summarise(shadow.values(recorded.arrays[version.array]))


def _adjoints(
    recorded: Recorded,
    shadow: Shadow,
    seeds: Mapping[Any, np.ndarray[Any, Any]],
    written: Mapping[int | None, list[Version]],
    starts: list[Version],
) -> None:
    """The adjoint of a version is complete just before the adjoint of the launch that wrote it runs."""
    consume = "current" if recorded.tape.on_overwrite in ("ignore", "warn") else "versions"
    count = len(recorded.tape.records)

    def note(versions: Any) -> None:
        for version in versions:
            a = recorded.arrays[version.array]
            if recorded.trace.arrays[version.array].requires_grad:
                version.adjoint = summarise(shadow.gradient(a))

    def look(record: Record) -> None:
        if record.index:
            note(written.get(record.index - 1, ()))

    if count:
        shadow.backward(seeds, consume=consume, start=count, stop=count)  # type: ignore[arg-type]
        note(written.get(count - 1, ()))
        shadow.backward(None, consume=consume, on_launch=look)  # type: ignore[arg-type]
        note(version for version in starts if version.reads)

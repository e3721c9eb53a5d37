"""The write barrier: each write through this package calls `before_write`, and then `after_write`.

Tapes preserve the values that they still need, and a constant that was known to fill the memory is forgotten.
Writes through NumPy pass no barrier: tapes find them by comparison, while a view is open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapedebug._clock import clock
from tapedebug.runtime.tape.gradient_history import note

if TYPE_CHECKING:
    from tapedebug.runtime.memory.array import array
    from tapedebug.runtime.tape.record import Site
    from tapedebug.runtime.tape.tape import Tape
    from tapedebug.runtime.tape.tracker import Tracker


RECORDED = (
    "{buffer}.fill = None",
    "{buffer}.writes += 1",
    "if len({buffer}.watch) > 1:",  # not its own reference alone
    "    announce_recorded({array}, site, tape, tracker)",
)
"""The lines of `before_write` for a launch that the active tape records, in generated code."""


def before_write(a: array, site: Site | None, how: str, recorder: Tracker | None = None) -> None:
    """Count a write of `a` that is about to happen, and let all live tapes preserve needed values.

    Args:
        a: The array that is written.
        site: The place in the user's source, or None: then nothing is noted if no tape uses the memory.
        how: `"launch"`, `"copy"`, `"assign"`, ...
        recorder: The tracker that records this write, which has preserved its own values already.
    """
    buffer = a.buffer
    buffer.fill = None
    buffer.writes += 1
    if (site is not None or buffer.watch) if recorder is None else len(buffer.watch) > 1:
        _announce_write(a, site, how, recorder)


def _announce_write(a: array, site: Site | None, how: str, recorder: Tracker | None) -> None:
    """Note a counted write, and let all live tapes but that of the recorder preserve needed values."""
    buffer = a.buffer
    if how not in ("backward", "zero"):  # these are noted where they happen
        note("write", a, how, site)
    gone = True
    for reference in buffer.watch:
        tracker = reference()
        if tracker is not None:
            gone = False
            if tracker is not recorder:
                tracker.overwritten_outside(buffer, a, site, how)
    if gone and buffer.history is None:
        buffer.watch = ()  # the tapes are gone, and no history needs the sites of writes


def announce_recorded(a: array, site: Site, tape: Tape, recorder: Tracker) -> None:
    """Note the counted write of a launch that the active tape records.

    A training loop that keeps its last tape does this for each launch of the next one.
    """
    buffer = a.buffer
    history = buffer.history
    now = clock.tick()
    if history is not None:
        history.add(("write", now, a.start, a.stop, "launch", site, tape.id, len(recorder.records)))
    for reference in buffer.watch:
        tracker = reference()
        if tracker is not None and tracker is not recorder:
            tracker.overwritten_outside(buffer, a, site, "launch")


def after_write(a: array) -> None:
    """Notify the tapes that compare memory under an open NumPy view after a write."""
    if a.buffer.windows:
        for ledger, tracker in a.buffer.watchers():
            tracker.written(ledger, a)

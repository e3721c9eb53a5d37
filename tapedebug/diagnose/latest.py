"""The newest diagnosis of each live tape, which panels and reports of that tape show.

A diagnosis that may never be looked at can be deferred: it runs when it is first asked for.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from tapedebug.contract import RecordedTape
from tapedebug.trace.recording import is_of, recording_of

if TYPE_CHECKING:
    from tapedebug.diagnose.diagnosis import Diagnosis

_LATEST: weakref.WeakKeyDictionary[RecordedTape, Diagnosis] = weakref.WeakKeyDictionary()
"""The diagnoses by tape; a diagnosis holds data only, so that it keeps no tape alive."""

_DEFERRED: weakref.WeakKeyDictionary[RecordedTape, tuple[object, Callable[[RecordedTape], Diagnosis]]] = (
    weakref.WeakKeyDictionary()
)
"""Functions that diagnose tapes, each with the content of its tape for which it was meant."""


def keep_latest(tape: RecordedTape, diagnosis: Diagnosis) -> None:
    """Store the diagnosis of a tape, replacing an earlier one, as long as the tape lives."""
    _DEFERRED.pop(tape, None)
    _LATEST[tape] = diagnosis


def defer_diagnosis(tape: RecordedTape, diagnosed: Callable[[RecordedTape], Diagnosis]) -> None:
    """Diagnose a tape when its diagnosis is first asked for, unless it has changed or been diagnosed by then.

    Args:
        tape: The tape.
        diagnosed: Returns its diagnosis. It must not refer to the tape, which it would keep alive.
    """
    _LATEST.pop(tape, None)
    _DEFERRED[tape] = _content(tape), diagnosed


def _content(tape: RecordedTape) -> object:
    """Return a key that changes when a tape records, is reset, or runs a reverse pass."""
    return recording_of(tape), len(tape.operations), len(tape.reverse_passes)


def latest_diagnosis(tape: RecordedTape, *, same_passes: bool = False) -> Diagnosis | None:
    """Return the newest diagnosis of a tape; None if there is none, or if it is of another recording.

    Args:
        tape: The tape.
        same_passes: Also ignore a diagnosis that is older than the tape's last reverse pass, which may have
            consumed another gradient.
    """
    content, diagnosed = _DEFERRED.pop(tape, (None, None))
    if diagnosed is not None and content == _content(tape):
        keep_latest(tape, diagnosed(tape))
    diagnosis = _LATEST.get(tape)
    if diagnosis is None or not is_of(diagnosis.trace, tape):
        return None
    if same_passes and diagnosis.trace.tape.backward_runs != len(tape.reverse_passes):
        return None
    return diagnosis

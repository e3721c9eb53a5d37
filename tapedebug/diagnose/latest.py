"""The newest diagnosis of each live tape, which panels and reports of that tape show."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from tapedebug.contract import RecordedTape
from tapedebug.trace.recording import is_of

if TYPE_CHECKING:
    from tapedebug.diagnose.diagnosis import Diagnosis

_LATEST: weakref.WeakKeyDictionary[RecordedTape, Diagnosis] = weakref.WeakKeyDictionary()
"""The diagnoses by tape; a diagnosis holds data only, so that it keeps no tape alive."""


def keep_latest(tape: RecordedTape, diagnosis: Diagnosis) -> None:
    """Store the diagnosis of a tape, replacing an earlier one, as long as the tape lives."""
    _LATEST[tape] = diagnosis


def latest_diagnosis(tape: RecordedTape, *, same_passes: bool = False) -> Diagnosis | None:
    """Return the newest diagnosis of a tape; None if there is none, or if it is of another recording.

    Args:
        tape: The tape.
        same_passes: Also ignore a diagnosis that is older than the tape's last reverse pass, which may have
            consumed another gradient.
    """
    diagnosis = _LATEST.get(tape)
    if diagnosis is None or not is_of(diagnosis.trace, tape):
        return None
    if same_passes and diagnosis.trace.tape.backward_runs != len(tape.reverse_passes):
        return None
    return diagnosis

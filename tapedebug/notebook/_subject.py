"""What a panel can be opened on: a tape, a trace, a diagnosis."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapedebug.diagnose import Diagnosis
    from tapedebug.runtime import Tape
    from tapedebug.trace import Trace

_COUNTS: weakref.WeakKeyDictionary[Tape, dict[str, int]] = weakref.WeakKeyDictionary()
_DIAGNOSES: weakref.WeakKeyDictionary[Tape, Diagnosis] = weakref.WeakKeyDictionary()


@dataclass(frozen=True)
class Subject:
    """A trace and, where it is alive in this process, the tape it was made from."""

    source: Trace
    tape: Tape | None

    @cached_property
    def trace(self) -> dict[str, Any]:
        """The trace as JSON-compatible data."""
        return self.source.to_json()


def subject_of(obj: Any) -> Subject:
    """Return what to show of a `Tape`, `Trace` or `Diagnosis`.

    Raises:
        TypeError: `obj` is none of them.
    """
    from tapedebug.diagnose import Diagnosis
    from tapedebug.runtime import Tape
    from tapedebug.trace import Trace

    if isinstance(obj, Tape):
        subject = Subject(_of_tape(obj), obj)
    elif isinstance(obj, Diagnosis):
        subject = Subject(obj.trace, _live(obj.trace))
    elif isinstance(obj, Trace):
        subject = Subject(obj, None)
    else:
        raise TypeError(
            f"a panel shows a Tape, a Trace or a Diagnosis, not {obj!r} (a {type(obj).__name__}); "
            "record launches with `with Tape() as tape:` and show that tape"
        )
    if subject.tape is not None:
        _COUNTS[subject.tape] = count_findings(subject.trace)
    return subject


def remember(tape: Tape, diagnosis: Diagnosis) -> None:
    """Keep the diagnosis of a tape, so that later panels of it show its findings and verdict, too."""
    _DIAGNOSES[tape] = diagnosis
    _COUNTS[tape] = count_findings(diagnosis.trace.to_json())


def known_counts(tape: Tape) -> dict[str, int] | None:
    """Return how many findings of each severity the tape has, or None while nobody has looked."""
    return _COUNTS.get(tape)


def known_verdict(tape: Tape) -> str:
    """Return the verdict of the last diagnosis of a tape."""
    diagnosis = _DIAGNOSES.get(tape)
    return str(diagnosis.verdict) if diagnosis is not None else "NOT CHECKED"


def count_findings(trace: dict[str, Any]) -> dict[str, int]:
    """Return the number of findings of each severity in a trace."""
    counts = {"error": 0, "warning": 0, "info": 0}
    for finding in trace["findings"]:
        counts[finding["severity"]] += 1
    return counts


def default_mask(trace: dict[str, Any]) -> list[list[Any]]:
    """Return the pairs that are on at first: those of the whole tape, which are cheap and say most."""
    return [[None, check["input"], check["output"]] for check in trace["checks"] if check["launch"] is None]


def text_of(subject: Subject) -> str:
    """Return the subject in words, for a terminal."""
    from tapedebug.diagnose._text import format_diagnosis

    return format_diagnosis(subject.source)


def _of_tape(tape: Tape) -> Trace:
    """Return the tape's trace, with the findings of its diagnosis while nothing was recorded since."""
    diagnosis = _DIAGNOSES.get(tape)
    if diagnosis is not None and diagnosis.trace.tape.launches == len(tape):
        return diagnosis.trace
    trace: Trace = tape.trace()
    return trace


def _live(trace: Trace) -> Tape | None:
    """Return the tape that a trace of this process was made from."""
    from tapedebug.runtime import live_tapes

    same = [tape for tape in live_tapes() if tape.id == trace.tape.id and len(tape) == trace.tape.launches]
    return same[0] if len(same) == 1 else None

"""The objects that a panel can show (a tape, a trace, a diagnosis), with the data about live tapes."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tapedebug import _shell
from tapedebug._dataclass import dataclass
from tapedebug._errors import ArgumentError, TapedebugError
from tapedebug._source import display_file
from tapedebug._tape_observers import live_tapes, program_tape, recorded_tape
from tapedebug.contract import (
    Array,
    RecordedTape,
    Retention,
    is_recorded_tape,
    memory_key,
    overwrite_mode,
)
from tapedebug.diagnose import Diagnosis
from tapedebug.diagnose.formatting import format_diagnosis
from tapedebug.diagnose.latest import keep_latest, latest_diagnosis
from tapedebug.diagnose.so_far import rules_left
from tapedebug.trace import Trace
from tapedebug.trace.engine_notes import engine_title
from tapedebug.trace.json_codec import encode
from tapedebug.trace.packing import Packed, pack, seal_columns
from tapedebug.trace.recording import is_of, record_with_arrays
from tapedebug.trace.replayed_values import add_summaries

if TYPE_CHECKING:
    from tapedebug.diagnose import Diagnosis
    from tapedebug.trace import Finding, Trace
    from tapedebug.trace.recording import TraceBinding

MOST_SUMMARISED = 1 << 27
"""Largest size of array versions, in bytes, for which the panel of an undiagnosed tape shows values."""
MOST_REPLAYED = 10_000
"""Largest number of launches for which it does: computing the values runs them again."""

_NAMES: weakref.WeakKeyDictionary[RecordedTape, str] = weakref.WeakKeyDictionary()
_CELLS: weakref.WeakKeyDictionary[RecordedTape, tuple[str, str]] = weakref.WeakKeyDictionary()
_UNFINISHED: weakref.WeakKeyDictionary[RecordedTape, dict[str, Any]] = weakref.WeakKeyDictionary()
"""For each tape that is being diagnosed for the side bar, the part of its row that is known so far."""


@dataclass(frozen=True)
class PanelSource:
    """A trace and, if it is alive in this process, the tape that it was made from."""

    source: Trace
    tape: RecordedTape | None

    def require_unchanged(self) -> None:
        """Raise an error if the launches of the tape are no longer those of the trace.

        Raises:
            TapedebugError: More was recorded, or the tape was reset.
        """
        if self.tape is None or is_of(self.source, self.tape):
            return
        then, now = self.source.tape.launches, len(self.tape.operations)
        if then != now:
            raise TapedebugError(
                f"The tape has changed since this was drawn: it had {then} launches and has {now} now.",
                hint="Show it again.",
            )
        raise TapedebugError(
            "The tape was reset and recorded again since this was drawn.", hint="Show it again."
        )

    @cached_property
    def packed(self) -> Packed:
        """The trace in the packed form of panels, with these `checks`."""
        head, columns = pack(self.source)
        return Packed({**head, "checks": self.checks}, columns)

    @cached_property
    def checks(self) -> list[dict[str, Any]]:
        """The checks of the trace, and all unchecked pairs of the whole tape."""
        checks: list[dict[str, Any]] = encode(self.source.checks)
        known = {(check["input"], check["output"]) for check in checks if check["launch"] is None}
        return checks + [unchecked(*pair) for pair in whole_tape_pairs(self.source) if pair not in known]

    @property
    def head(self) -> dict[str, Any]:
        """The trace as JSON-compatible data, without launches, versions and scopes."""
        return self.packed.head

    @cached_property
    def sealed(self) -> str:
        """The columns as text, for a file."""
        return seal_columns(self.packed)

    @cached_property
    def trace(self) -> dict[str, Any]:
        """The complete trace as JSON-compatible data; 100,000 launches take seconds, and 150 MB of text."""
        return {**self.source.to_json(), "checks": self.checks}

    @cached_property
    def memo(self) -> dict[str, Any]:
        """Cache of intermediate results for later queries."""
        return {}

    def labels(self) -> dict[Array, str]:
        """Return the label of each array of the tape.

        Later checks use these labels, because the variables with these names may have changed by then.
        """
        if self.tape is None:
            return {}

        # arrays are numbered in the order in which the operations use them, so the numbers stay
        arrays = record_with_arrays(self.tape).arrays
        return {a: info.label for a, info in zip(arrays, self.source.arrays, strict=False)}


def subject_of(obj: object) -> PanelSource:
    """Return the panel source of a `Tape`, `Trace` or `Diagnosis`; one that was made before as it is.

    Raises:
        TypeError: `obj` is none of them.
    """
    __tracebackhide__ = True

    obj = recorded_tape(obj)
    if is_recorded_tape(obj):
        subject = PanelSource(_trace_of(obj), obj)
    elif isinstance(obj, Diagnosis):
        subject = PanelSource(obj.trace, live_tape_of(obj.trace))
        if subject.tape is not None:
            remember(subject.tape, obj)
    elif isinstance(obj, Trace):
        subject = PanelSource(obj, None)
    elif isinstance(obj, PanelSource):
        subject = obj
    else:
        raise ArgumentError(
            f"a panel shows a Tape, a Trace or a Diagnosis, not {obj!r} (of type {type(obj).__name__}); "
            "record launches with `with Tape() as tape:` and show that tape"
        )
    if subject.tape is not None:
        _NAMES[subject.tape] = subject.source.name
    return subject


def undiagnosed(tape: RecordedTape) -> PanelSource:
    """Return the panel source of a tape that is about to be diagnosed: at once, without values."""
    return PanelSource(_recorded(tape).trace, tape)


def named(tape: RecordedTape, trace: Trace) -> Trace:
    """Give the trace of a tape that a ``%%tape`` made the name of that cell, or the user's; return it."""
    if tape in _CELLS:
        trace.name = _CELLS[tape][1]
    return trace


def remember(tape: RecordedTape, diagnosis: Diagnosis) -> None:
    """Store the diagnosis of a tape, so that later panels show its findings and verdict."""
    named(tape, diagnosis.trace)
    keep_latest(tape, diagnosis)


def made_in(tape: RecordedTape, cell: str, name: str | None) -> None:
    """Store the cell whose ``%%tape`` made a tape, and the user's name; its call site is in IPython."""
    place = display_file(cell)
    _CELLS[tape] = (place, name or place)


def called(tape: RecordedTape) -> str:
    """Return the user's name of a tape if it was looked up before; else empty."""
    return _NAMES.get(tape, "")


def made_at(subject: PanelSource) -> Hashable:
    """Return the place in the source where the tape of a subject was made, or the name of its trace."""
    made = None if subject.tape is None else subject.tape.created_at
    return subject.source.name if made is None else (made.file, made.line)


def tape_row(tape: RecordedTape) -> dict[str, Any]:
    """Return the row of a live tape in the side bar, without any computation."""
    made, retention = tape.created_at, tape.capability(Retention)
    place = "" if made is None else f"{display_file(made.file)}:{made.line}"
    arrays = [access.array for operation in tape.operations for access in operation.accesses]
    return {
        "tape": tape.id,
        "name": _name_now(tape),
        "madeAt": _CELLS[tape][0] if tape in _CELLS else place,
        "launches": len(tape.operations),
        "arrays": len({memory_key(array) for array in arrays}),
        "onOverwrite": overwrite_mode(tape),
        "engine": engine_title(tape),
        "backwardRuns": len(tape.reverse_passes),
        "preservedBytes": 0 if retention is None else retention.preserved_bytes,
        "recording": tape.is_recording,
        "diagnosing": tape in _UNFINISHED,
        **_result_now(tape),
    }


def _result_now(tape: RecordedTape) -> dict[str, Any]:
    """Return the part of a tape's row that its diagnosis gives, finished or not."""
    if tape in _UNFINISHED:
        return _UNFINISHED[tape]
    diagnosis = diagnosis_of(tape)
    return {
        "verdict": "NOT CHECKED" if diagnosis is None else diagnosis.verdict,
        "partial": diagnosis is not None and diagnosis.coverage.partial,
        "findings": None if diagnosis is None else count_findings(diagnosis.findings),
        "rulesLeft": None,
    }


@contextmanager
def row_follows(tape: RecordedTape) -> Iterator[Callable[[Trace], None]]:
    """Context of a diagnosis; the row of the tape in the side bar has its verdict and findings so far.

    Yields:
        The function that takes them, with the trace of `diagnose(so_far=…)`.
    """

    def take(trace: Trace) -> None:
        _UNFINISHED[tape] = {
            "verdict": trace.verdict,
            "partial": True,
            "findings": count_findings(trace.findings),
            "rulesLeft": rules_left(trace),
        }

    _UNFINISHED[tape] = {"verdict": "NOT CHECKED", "partial": True, "findings": None, "rulesLeft": None}
    try:
        yield take
    finally:
        _UNFINISHED.pop(tape, None)


def _name_now(tape: RecordedTape) -> str:
    """Return the variable that holds a tape, else its former name, unless another tape has that name."""
    variables: dict[str, Any] = getattr(_shell.current(), "user_ns", {})
    held = program_tape(tape)
    own = (name for name, value in list(variables.items()) if value is held and not name.startswith("_"))
    before = _NAMES.get(tape, "")
    return next(own, "" if isinstance(variables.get(before), type(held)) else before)


def count_findings(findings: Sequence[Finding]) -> dict[str, int]:
    """Return the number of findings of each severity."""
    counts = {"error": 0, "warning": 0, "info": 0}
    for finding in findings:
        counts[finding.severity] += 1
    return counts


def whole_tape_pairs(trace: Trace) -> list[tuple[str, str]]:
    """Return the pairs (input, output) of the whole tape that a check can compare, in the trace's labels.

    Inputs are those that carry a gradient. The output is the loss of the reverse pass or, before one has run,
    each scalar that nothing reads.
    """
    loss = trace.backward.loss
    outputs = [
        info.label
        for info in trace.arrays
        if (info.id == loss if loss is not None else info.role == "output" and math.prod(info.shape) == 1)
        and info.requires_grad
    ]
    inputs = [info.label for info in trace.arrays if info.role == "input" and info.requires_grad]
    return [(source, target) for target in outputs for source in inputs if source != target]


def unchecked(source: str, target: str) -> dict[str, Any]:
    """Return an unchecked pair of the whole tape, in the form of the checks of a trace."""
    nothing = dict.fromkeys(("verdict", "max_abs_error", "max_rel_error", "seconds"))
    return {"launch": None, "input": source, "output": target, "message": "", **nothing}


def default_mask(trace: dict[str, Any]) -> list[list[Any]]:
    """Return the initially selected pairs: those of the whole tape, the cheapest and most informative.

    Args:
        trace: The trace as JSON-compatible data, or the head of it.
    """
    return [[None, check["input"], check["output"]] for check in trace["checks"] if check["launch"] is None]


def text_of(subject: PanelSource) -> str:
    """Return a text form of the subject for a terminal."""
    return format_diagnosis(subject.source)


def diagnosis_of(tape: RecordedTape) -> Diagnosis | None:
    """Return the diagnosis of a tape; None if the tape has recorded since or was reset."""
    return latest_diagnosis(tape)


def _trace_of(tape: RecordedTape) -> Trace:
    diagnosis = diagnosis_of(tape)
    if diagnosis is not None:
        return diagnosis.trace

    recorded = _recorded(tape)
    _summarise_small(recorded)
    return recorded.trace


def _recorded(tape: RecordedTape) -> TraceBinding:
    name = _CELLS[tape][1] if tape in _CELLS else None
    return _shell.in_namespace(lambda: record_with_arrays(tape, name=name))


def _summarise_small(recorded: TraceBinding) -> None:
    """Add summaries of all values by a replay, if that takes no noticeable time."""
    size = {info.id: info.stop - info.start for info in recorded.trace.arrays}
    if len(recorded.trace.launches) > MOST_REPLAYED:
        return
    if sum(size[version.array] for version in recorded.trace.versions) <= MOST_SUMMARISED:
        add_summaries(recorded)


def live_tape_of(trace: Trace) -> RecordedTape | None:
    """Return the tape that a trace of this process was made from, if it is alive and unchanged."""
    return next((tape for tape in live_tapes() if is_of(trace, tape)), None)

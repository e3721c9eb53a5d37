"""The data of a report: a trace and, if the tape is live, answers to queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from tapedebug._dataclass import dataclass
from tapedebug._errors import ArgumentError
from tapedebug._tape_observers import recorded_tape
from tapedebug.contract import RecordedTape, is_recorded_tape
from tapedebug.diagnose import Diagnosis
from tapedebug.diagnose import diagnose as diagnosed
from tapedebug.diagnose.latest import latest_diagnosis
from tapedebug.panel import panel_source as panel
from tapedebug.panel.queries import KINDS, answer
from tapedebug.trace import Trace, trace_from_json
from tapedebug.trace.packing import pack
from tapedebug.trace.recording import record

if TYPE_CHECKING:
    from tapedebug.report._embedded_answers import Ask
    from tapedebug.trace import Packed, Trace

Json = dict[str, Any]


def _no_answer(question: Json) -> tuple[Json, list[bytes]]:
    raise LookupError(f"this report cannot answer {question.get('type')!r}")


@dataclass(frozen=True, slots=True)
class ReportSource:
    """One trace of a report, packed, with the function that answers queries and the kinds it supports."""

    trace: Trace
    head: Json
    columns: dict[str, bytes]
    ask: Ask = _no_answer
    kinds: Iterable[str] = ()


def report_sources(obj: object, *, diagnose: bool = True) -> list[ReportSource]:
    """Return the report sources of a `Tape`, `Trace`, `Diagnosis` or the JSON data of a trace.

    A diagnosis of several tapes has one source for each.

    Args:
        obj: The object to report.
        diagnose: Show a `Tape` with its diagnosis, which is made if it has none.

    Raises:
        TypeError: `obj` is none of them.
        TraceError: The JSON data is not a trace.
    """
    if isinstance(obj, Diagnosis) and obj.traces:
        return [answered(trace) for trace in obj.traces]
    trace, tape = trace_of(obj, diagnose=diagnose)
    return [unanswered(trace) if isinstance(obj, dict) else answered(trace, tape)]


def trace_of(obj: object, *, diagnose: bool = True) -> tuple[Trace, RecordedTape | None]:
    """Return the trace of a `Tape`, `Trace`, `Diagnosis` or the JSON data of a trace, and its tape if known.

    Args:
        obj: The object to convert.
        diagnose: Use a `Tape`'s newest diagnosis if that is still valid, else diagnose it.

    Raises:
        TypeError: `obj` is none of them.
        TraceError: The JSON data is not a trace.
    """
    if isinstance(obj, dict):
        return trace_from_json(obj), None  # so that damaged data is reported here, not in the browser
    obj = recorded_tape(obj)
    if is_recorded_tape(obj):
        return _trace_of_tape(obj, diagnose=diagnose), obj
    if isinstance(obj, Diagnosis):
        return obj.trace, None
    if isinstance(obj, Trace):
        return obj, None
    raise ArgumentError(
        "a report or a diff takes a Tape, a Trace, a Diagnosis or the JSON data of a trace; "
        f"got {obj!r:.80} ({type(obj).__name__})"
    )


def _trace_of_tape(tape: RecordedTape, *, diagnose: bool) -> Trace:
    known = latest_diagnosis(tape, same_passes=True)
    if known is not None:
        return known.trace
    return diagnosed(cast("Any", tape)).trace if diagnose else record(tape)


def unanswered(trace: Trace) -> ReportSource:
    """Return the source of a trace for which no queries are answered."""
    return ReportSource(trace, *pack(trace))


def answered(
    trace: Trace,
    tape: RecordedTape | None = None,
    *,
    packed: Packed | None = None,
    checks: Sequence[Json] | None = None,
) -> ReportSource:
    """Return the source of a trace with the functions that answer its queries, as for a panel.

    Args:
        trace: The trace.
        tape: The tape it was made from; by default found among the live tapes of this process.
        packed: The packed form of the trace, if it is available.
        checks: The results of newer checks, which replace those of the trace.
    """
    found = panel.PanelSource(trace, tape if tape is not None else panel.live_tape_of(trace))

    def ask(question: Json) -> tuple[Json, list[bytes]]:
        given = answer(found, question)
        return given.data, given.buffers

    head, columns = pack(trace) if packed is None else packed
    if checks is not None:
        head = {**head, "checks": list(checks)}
    return ReportSource(trace, head, columns, ask, KINDS)

"""Rule `truncated`: a state goes from tape to tape, a parameter collects from all, no gradient flows across.

Each tape alone is right. But the sum that the optimiser consumes is not the gradient of the whole run: how
the parameter moved the state that the next tape began with is missing. Windows with an update between them
are truncated on purpose, and so is a state that was reset or that has no gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from tapedebug.diagnose import _words as words
from tapedebug.diagnose._apart import off
from tapedebug.diagnose._case import Case
from tapedebug.diagnose.experiments._experiment import relative_errors
from tapedebug.diagnose.experiments._horizon import Edge, Horizon, carried, carries_loss, confirm, measure
from tapedebug.diagnose.experiments._seeded import seeded
from tapedebug.diagnose.reading import _passes as passes
from tapedebug.trace import ArrayInfo, Finding, Launch
from tapedebug.trace.model import Severity

RULE = "truncated"
WRONG = 1e-3
"""A gradient that differs by more than this, relatively, is wrong: as in the end-to-end check."""
MEASURED = 8
"""Over how many tapes in a row the gradient is measured."""


@dataclass(slots=True)
class Row:
    """Tapes in a row: what is carried between neighbours, and who collects gradient from all of them.

    Attributes:
        params: Ids on the last tape.
        spans: The loss itself is carried: it is that of the whole row.
    """

    cases: list[Case]
    links: list[list[Edge]] = field(default_factory=list)
    params: list[int] = field(default_factory=list)
    spans: bool = True


def find_across(cases: Sequence[Case]) -> list[tuple[Case, Finding]]:
    """Return a finding for each row of tapes that a state is carried along."""
    usable = [case for case in cases if case.trace.launches and not case.experiment.blocked]
    usable.sort(key=lambda case: case.trace.tape.began)
    found = []
    for row in _rows(usable):
        finding = _finding(row)
        if finding is not None:
            found.append((row.cases[1], finding))
    return found


def _rows(cases: Sequence[Case]) -> list[Row]:
    rows: list[Row] = []
    for before, after in pairwise(cases):
        params = _collecting(before, after)
        losses = seeded(after.rerun).keys()
        states = [edge for edge in carried(before, after) if edge.target not in losses] if params else []
        if not states:
            continue
        if not rows or rows[-1].cases[-1] is not before or len(rows[-1].cases) >= MEASURED:
            rows.append(Row([before]))
        row = rows[-1]
        row.cases.append(after)
        row.links.append(states)
        row.params = params
        row.spans = row.spans and carries_loss(before, after)
    return rows


def _collecting(before: Case, after: Case) -> list[int]:
    """The inputs of both tapes, by their ids on the second, that added up what the passes of both gave."""
    found = []
    for leaf in after.experiment.leaves:
        own = before.rerun.recorded.id_of(after.rerun.arrays[leaf])
        if own is None or own not in before.experiment.leaves:
            continue
        story = passes.story_of(after.trace, leaf)
        first, second = story.passes(before.trace), story.passes(after.trace)
        if not first or not second or first[-1].clock > second[0].clock:
            continue
        meanwhile = story.between(first[-1].clock, second[0].clock)
        changed = passes.touched(meanwhile) or any(e.kind == "write" for e in meanwhile)
        if not changed and second[0].numbers.get("norm_before"):
            found.append(leaf)
    return found


def _finding(row: Row) -> Finding | None:
    params = [leaf for leaf in row.params if all(_has(case, row, leaf) for case in row.cases)]
    if not params:
        return None
    horizon = measure(row.cases, row.links, params)
    trace = row.cases[-1].trace
    errors = {
        trace.arrays[leaf].label: error
        for leaf, error in relative_errors(horizon.whole, horizon.consumed).items()
    }
    if max(errors.values(), default=0.0) <= WRONG:
        return None
    confirm(horizon, row.cases, row.links)
    return _told(row, horizon, errors)


def _has(case: Case, row: Row, leaf: int) -> bool:
    return case.rerun.recorded.id_of(row.cases[-1].rerun.arrays[leaf]) in case.experiment.leaves


def _told(row: Row, horizon: Horizon, errors: dict[str, float]) -> Finding:
    before, after = row.cases[:2]
    edge = row.links[0][0]
    state = after.trace.arrays[edge.target]
    reader, param = _reader(after, edge.target)
    sure = _confirmed(horizon)
    severity: Severity = "info" if not sure else "error" if row.spans else "warning"
    names = words.listed(error for error, size in errors.items() if size > WRONG)
    message = (
        f"{names} collects gradient from {words.plural(len(row.cases), 'tape')}, without an update or a zero "
        f"in between, and {words.launch_words(reader)} of {after.trace.name} reads the {state.label} that "
        f"{_wrote(before, edge)} of {before.trace.name} wrote. No gradient flows back from tape to tape. "
        f"Against the gradient over all of them the sum puts {off(errors, '')}. "
        f"{_differences(horizon, sure)}"
    )
    return Finding(
        rule=RULE,
        severity=severity,
        message=message,
        launches=[reader.index],
        arrays=list(dict.fromkeys([state.label, *errors])),
        location=words.access_location(after.trace, reader, param, ("read",)),
        call_site=reader.call_site,
        evidence={
            "tapes": [case.trace.tape.id for case in row.cases],
            "edges": _edges(row)[:100],
            "relative_error": errors,
            "slope_consumed": horizon.along[0],
            "slope_whole": horizon.along[1],
            "slope_difference": horizon.difference,
            "difference_bar": horizon.bar,
            "loss_is_carried": row.spans,
        },
        fix=_fix(state, names, edge.copied),
    )


def _confirmed(horizon: Horizon) -> bool:
    """Whether differences of the losses agree with the gradient over all tapes, and not with the sum."""
    if horizon.difference is None:
        return False
    consumed, whole = horizon.along
    allowed = WRONG * abs(whole) + 10 * horizon.bar
    return abs(horizon.difference - whole) <= allowed < abs(horizon.difference - consumed)


def _differences(horizon: Horizon, sure: bool) -> str:
    consumed, whole = (words.number(value) for value in horizon.along)
    told = f"The slope of all losses along that gradient is {whole} by it, {consumed} by the sum"
    if horizon.difference is None:
        return f"{told}."
    told += f" and {words.number(horizon.difference)} by differences in float64"
    return f"{told}." if sure else f"{told}, which does not settle it."


def _edges(row: Row) -> list[dict[str, object]]:
    found = []
    for before, after, edges in zip(row.cases, row.cases[1:], row.links, strict=False):
        for edge in edges:
            version = before.trace.versions_of(edge.source)[-1]
            found.append(
                {
                    "array": after.trace.arrays[edge.target].label,
                    "from_tape": before.trace.tape.id,
                    "from_launch": version.written_by,
                    "to_tape": after.trace.tape.id,
                    "to_launch": _reader(after, edge.target)[0].index,
                    "copied": edge.copied,
                }
            )
    return found


def _reader(case: Case, array: int) -> tuple[Launch, int]:
    """The first launch that reads what the tape found in an array, and through which parameter."""
    launch = case.trace.launches[case.trace.versions_of(array)[0].reads[0]]
    return launch, words.param_of(launch, array)


def _wrote(case: Case, edge: Edge) -> str:
    written = case.trace.versions_of(edge.source)[-1].written_by
    text = words.launch_words(case.trace.launches[written or 0])
    return f"{text}, through a copy," if edge.copied else text


def _fix(state: ArrayInfo, names: str, copied: bool) -> str:
    other = f", or run backward from the last tape to the first, which hands the gradient of {state.label} on"
    return (
        f"record all of it on one tape{'' if copied else other}; "
        f"where it is truncated on purpose, update {names} after each tape"
    )

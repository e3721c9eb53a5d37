"""The function `diff`, which compares two tapes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from tapedebug.report._diff.align import MOST_CELLS, Run
from tapedebug.report._diff.launches import align_launches
from tapedebug.report._diff.result import CheckChange, Diff, GradientChange, ValueDivergence
from tapedebug.report._report_source import answered, trace_of
from tapedebug.trace import ArrayInfo, Check, Finding, Launch, Summary, Trace, Version

if TYPE_CHECKING:
    from tapedebug.report._report import Reportable

TOLERANCE = 1e-5
"""Largest relative difference of statistics of equal values: float32 sums may be in another order."""
MOST_PARTED = 200
_FIGURES = ("norm", "mean", "min", "max")
_WORST = {"error": 0, "warning": 1, "info": 2}


def diff(
    before: Reportable,
    after: Reportable,
    path: str | os.PathLike[str] | None = None,
    *,
    redact_source: bool = False,
) -> Diff:
    """Compare two tapes, before and after a fix: findings, verdicts, gradients, first different values.

    Launches are matched by kernel and place in the program, arrays by their labels and by their use in
    launches. Values are compared by their summaries.

    Args:
        before: A `Tape` (diagnosed if it has no diagnosis), a `Trace`, a `Diagnosis`, or the JSON data of a
            trace.
        after: The second one, of any of these types.
        path: Also write one offline HTML file with both side by side.
        redact_source: Leave source, generated code and folders out of that file.

    Returns:
        The `Diff`: `str` gives it as text, a notebook shows it as a table, `Diff.save` writes the file.

    Raises:
        TypeError: One of the two has another type.
        TraceError: One of the two is JSON data that is not a trace.
        OSError: The file cannot be written.
    """
    (old, old_tape), (new, new_tape) = (trace_of(obj) for obj in (before, after))
    result = compare(old, new)
    result._subjects = (answered(old, old_tape), answered(new, new_tape))
    if path is not None:
        result.save(path, redact_source=redact_source)
    return result


def compare(before: Trace, after: Trace) -> Diff:
    """Return the changes from one trace to another."""
    result = Diff(before=before, after=after, matches=align_launches(before, after))
    if len(before.launches) * len(after.launches) > MOST_CELLS and result.matched < len(before.launches):
        result.notes.append("The tapes are so long that their launches were matched part by part.")
    partner = {i: j for i, j in _pairs(result.matches)}
    _findings(result, partner)
    partners = _partners(result)
    _gradients(result, partners)
    _checks(result, partners)
    _values(result, partners)
    return result


def _pairs(matches: list[Run]) -> Iterator[tuple[int, int]]:
    for run in matches:
        for offset in range(run.length):
            yield run.before + offset, run.after + offset


# --------------------------------------------------------------------------------- findings


def _findings(result: Diff, partner: dict[int, int]) -> None:
    """Match findings by successively fewer properties; each matches at most one of the other tape."""
    left, right = list(result.before.findings), list(result.after.findings)

    def mapped(finding: Finding) -> tuple[int, ...]:
        return tuple(sorted(j for i in finding.launches if (j := partner.get(i)) is not None))

    def own(finding: Finding) -> tuple[int, ...]:
        return tuple(sorted(finding.launches))

    def kernel(finding: Finding) -> str:
        return finding.location.function if finding.location else ""

    parts: list[Callable[[Finding, tuple[int, ...]], Any]] = [
        lambda finding, at: (finding.rule, tuple(sorted(finding.arrays)), kernel(finding), at),
        lambda finding, at: (finding.rule, tuple(sorted(finding.arrays)), kernel(finding)),
        lambda finding, at: (finding.rule, kernel(finding), at[:1]) if at else None,
    ]
    for part in parts:
        waiting: dict[Any, list[Finding]] = {}
        for finding in right:
            waiting.setdefault(part(finding, own(finding)), []).append(finding)
        rest = []
        for finding in left:
            key = part(finding, mapped(finding))
            others = waiting.get(key) if key is not None else None
            if others:
                result.still.append((finding, others.pop(0)))
            else:
                rest.append(finding)
        left = rest
        matched = {id(other) for _, other in result.still}
        right = [finding for finding in right if id(finding) not in matched]
    result.gone, result.new = _sorted(left), _sorted(right)
    result.still.sort(key=lambda pair: _WORST[pair[1].severity])


def _sorted(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: _WORST[finding.severity])


# --------------------------------------------------------------------------------- inputs and outputs


def _partners(result: Diff) -> dict[str, str]:
    """Return, for inputs and outputs before, their labels after.

    Arrays match by their labels; renamed ones match if they are the same argument of the same launch.
    """
    before, after = _ends(result.before), _ends(result.after)
    found = {label: label for label, role in before.items() if after.get(label) == role}
    taken = set(found.values())
    for i, j in _pairs(result.matches):
        if len(found) == len(before) or len(taken) == len(after):
            break
        for arg, its in zip(result.before.launches[i].args, result.after.launches[j].args, strict=False):
            if arg.array is None or its.array is None or arg.name != its.name:
                continue
            mine, theirs = result.before.arrays[arg.array].label, result.after.arrays[its.array].label
            if mine in found or theirs in taken or mine not in before or before[mine] != after.get(theirs):
                continue
            found[mine] = theirs
            taken.add(theirs)
    return found


def _ends(trace: Trace) -> dict[str, str]:
    return {info.label: info.role for info in trace.arrays if info.role in ("input", "output")}


def _gradients(result: Diff, partners: dict[str, str]) -> None:
    before, after = _adjoints(result.before), _adjoints(result.after)
    for mine, theirs in _together(before, after, partners.get):
        one, other = before.get(mine), after.get(theirs)
        norms = [summary.norm if summary else None for summary in (one, other)]
        same = one is not None and other is not None and _difference(one, other) is None
        label = mine if mine == theirs or theirs not in after else f"{mine} ({theirs})"
        result.gradients.append(GradientChange(label=label, before=norms[0], after=norms[1], same=same))
    for name, trace, found in (("before", result.before, before), ("after", result.after, after)):
        if found and all(summary is None for summary in found.values()):
            result.notes.append(
                f"{trace.name} ({name}) holds no gradients of its inputs: trace it after `backward` with "
                "`tape.trace(values=True)`, or diagnose it."
            )


def _adjoints(trace: Trace) -> dict[str, Summary | None]:
    first = {version.array: version for version in trace.versions if version.version == 0}
    return {
        info.label: first[info.id].adjoint if info.id in first else None
        for info in trace.arrays
        if info.requires_grad and info.role == "input"
    }


Key = TypeVar("Key")


def _together(
    before: Iterable[Key], after: Iterable[Key], partner: Callable[[Key], Key | None]
) -> Iterator[tuple[Key, Key]]:
    """Yield each key before with its partner after, by default itself, then the keys that are only after."""
    seen = set()
    for key in before:
        other = partner(key)
        seen.add(key if other is None else other)
        yield key, key if other is None else other
    yield from ((key, key) for key in after if key not in seen)


def _checks(result: Diff, partners: dict[str, str]) -> None:
    def whole(trace: Trace) -> dict[tuple[str, str], Check]:
        return {(c.input, c.output): c for c in trace.checks if c.launch is None and c.verdict is not None}

    def partner(pair: tuple[str, str]) -> tuple[str, str] | None:
        source, target = partners.get(pair[0]), partners.get(pair[1])
        return None if source is None or target is None else (source, target)

    before, after = whole(result.before), whole(result.after)
    for mine, theirs in _together(before, after, partner):
        one, other = before.get(mine), after.get(theirs)
        result.checks.append(
            CheckChange(
                input=mine[0],
                output=mine[1],
                before=one.verdict if one else None,
                after=other.verdict if other else None,
                error_before=one.max_rel_error if one else None,
                error_after=other.max_rel_error if other else None,
            )
        )


# --------------------------------------------------------------------------------- values


def _values(result: Diff, partners: dict[str, str]) -> None:
    """Compare the results of matching launches in the same parameters."""
    before, after = _by_number(result.before), _by_number(result.after)
    seen: set[tuple[str, str]] = set()
    known = False
    for i, j in _pairs(result.matches):
        one, other = result.before.launches[i], result.after.launches[j]
        for arg, its in zip(one.args, other.args, strict=False):
            if arg.write_version is None or its.write_version is None or arg.name != its.name:
                continue
            mine = before.get((arg.array, arg.write_version))
            theirs = after.get((its.array, its.write_version))
            if mine is None or theirs is None or mine.value is None or theirs.value is None:
                continue
            known = True
            found = _difference(mine.value, theirs.value)
            if found is None or (one.name, arg.name) in seen or len(result.diverged) >= MOST_PARTED:
                continue
            seen.add((one.name, arg.name))
            arrays = result.before.arrays[mine.array], result.after.arrays[theirs.array]
            result.diverged.append(_first_divergence((one, other), arg.name, arrays, found))
    _beginnings(result, before, after, partners)
    if result.matches and not known:
        result.notes.append(
            "Values were not compared: trace both tapes with `tape.trace(values=True)`, or diagnose them."
        )


def _by_number(trace: Trace) -> dict[tuple[int | None, int], Version]:
    return {(version.array, version.version): version for version in trace.versions}


Found = tuple[str, float | None, float | None]


def _first_divergence(
    launches: tuple[Launch, Launch], argument: str, arrays: tuple[ArrayInfo, ArrayInfo], found: Found
) -> ValueDivergence:
    return ValueDivergence(
        before=launches[0].index,
        after=launches[1].index,
        kernel=launches[0].name,
        argument=argument,
        arrays=(arrays[0].label, arrays[1].label),
        what=found[0],
        values=found[1:],
    )


def _beginnings(
    result: Diff,
    before: dict[tuple[int | None, int], Version],
    after: dict[tuple[int | None, int], Version],
    partners: dict[str, str],
) -> None:
    labels = {info.label: info.id for info in result.after.arrays}
    for info in result.before.arrays:
        label = partners.get(info.label, info.label)
        if info.role not in ("input", "constant") or label not in labels:
            continue
        mine, theirs = before.get((info.id, 0)), after.get((labels[label], 0))
        if mine and theirs and mine.value and theirs.value and _difference(mine.value, theirs.value):
            result.begin.append(info.label)


def _difference(one: Summary, other: Summary) -> Found | None:
    """Return the statistic of two summaries that differs most, and the difference; None if all are equal."""
    for name in ("count", "nan", "inf"):
        counts = getattr(one, name), getattr(other, name)
        if counts[0] != counts[1]:
            return (name, *counts)
    scale = max(abs(one.norm or 0.0), abs(other.norm or 0.0))
    worst, found = TOLERANCE, None
    for name in _FIGURES:
        a, b = getattr(one, name), getattr(other, name)
        if a is None or b is None:
            if a is not b:
                return (name, a, b)
            continue
        size = scale if name == "norm" else max(abs(a), abs(b), scale / math.sqrt(max(1, one.count)))
        error = abs(a - b) / size if size else 0.0
        if error > worst or math.isnan(error):
            worst, found = error, (name, a, b)
    return found

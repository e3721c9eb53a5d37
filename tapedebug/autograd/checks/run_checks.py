"""Runs all requested checks of one kernel, function or launch, and joins them into one result."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from tapedebug._progress import OutOfTime, Progress
from tapedebug.autograd.checks.adjoint_check import CheckPlan, Comparison
from tapedebug.autograd.checks.complex_results import as_complex, in_parts
from tapedebug.autograd.checks.deadline import check_in_time
from tapedebug.autograd.checks.extra import extra_checks
from tapedebug.autograd.finite_diff.dot_product_test import DotProduct, dot_test
from tapedebug.autograd.finite_diff.verdict import worst
from tapedebug.autograd.results.gradcheck_result import Coverage, GradcheckResult, PairResult, PairResults
from tapedebug.autograd.results.pair_result import entries_of
from tapedebug.autograd.subjects.pairs import why_nothing
from tapedebug.autograd.subjects.program import Pairs, Port
from tapedebug.autograd.subjects.subject import Subject


def run_checks(
    subject: Subject, plan: CheckPlan, pace: Progress, compared: list[Comparison] | None = None
) -> tuple[list[PairResult], DotProduct | None]:
    """Return the results of all pairs, and of the dot-product test if there was one."""
    program, chosen, options = subject.program, subject.pairs.chosen, plan.options
    if subject.unrepeatable is not None:
        return [_unrepeatable(subject, source, target) for source, target in chosen], None
    program.pulse = pace.pulse
    dot, steady = None, chosen
    pairs: list[PairResult] = []
    if chosen and options.check_backward_ad:
        with contextlib.suppress(OutOfTime):  # each check reports the parts that it did not reach
            pace.begin(f"the adjoint, {len(chosen)} input-output pair{'s' * (len(chosen) > 1)}")
            dot = dot_test(program, pace.pulse)
        found = check_in_time(program, subject.pairs, plan, pace, compared)
        pairs += [
            as_complex(result, source, target, subject.complex, plan.tolerance)
            for (source, target), result in zip(chosen, found, strict=True)
        ]
        steady = [
            pair for pair, result in zip(chosen, found, strict=True) if result.verdict != "NONDETERMINISTIC"
        ]
    others = extra_checks(program, Pairs(steady, subject.pairs.notes), plan, options, pace.pulse)
    pairs += [in_parts(result, subject.complex) for result in others] if subject.complex else others
    return pairs, dot


def _unrepeatable(subject: Subject, source: Port, target: Port) -> PairResult:
    """Return the result of a pair of a function whose results differ from run to run."""
    assert subject.unrepeatable is not None
    return PairResult(
        launch=None,
        subject=subject.program.subject,
        input=source.label,
        output=target.label,
        verdict="NONDETERMINISTIC",
        message=f"{subject.unrepeatable.message}; {subject.unrepeatable.hint}",
        entries=source.size * target.size,
    )


def collect(
    subject: Subject, pairs: Sequence[PairResult], dot: DotProduct | None, plan: CheckPlan
) -> GradcheckResult:
    """Return the result of a check of one kernel or function."""
    notes = [*subject.pairs.notes, *dict.fromkeys(note for pair in pairs for note in pair.notes)]
    notes += [dot.message] if dot is not None and dot.message else []
    summary = counted(pairs)
    if not pairs:
        why = why_nothing(subject.pairs.notes)[0]
        summary = f"nothing was checked: {why or 'no pair of an input and an output with requires_grad=True'}"
    return GradcheckResult(
        subject=subject.program.subject,
        verdict=worst(pair.verdict for pair in pairs),
        pairs=PairResults(pairs),
        coverage=Coverage(summary, 1, 1 if pairs else 0, tuple(notes)),
        dot_products=() if dot is None else (dot,),
        scripts={i: subject.script_for(pair, plan.settings()) for i, pair in enumerate(pairs)},
        settings=plan.settings(),
    )


def counted(pairs: Sequence[PairResult]) -> str:
    """Return `2 input-output pairs …, 18 of 18 entries; beside the adjoint: tangent (2 pairs)`."""
    kinds: dict[str, list[PairResult]] = {}
    for pair in pairs:
        kinds.setdefault(pair.check, []).append(pair)
    if not kinds:
        return "0 input-output pairs checked"
    (first, main), *others = kinds.items()
    text = f"{len(main)} input-output pairs checked, {entries_of(main)}"
    text += " (only the tangent)" if first == "tangent" and not others else ""
    other_kinds = [f"{kind} ({len(found)} pair{'s' * (len(found) > 1)})" for kind, found in others]
    return f"{text}; beside the {first}: {', '.join(other_kinds)}" if other_kinds else text

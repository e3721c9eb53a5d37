"""Checks with a time limit: finished pairs count, the others are reported as not checked."""

from __future__ import annotations

from collections.abc import Iterable

from tapedebug._progress import OutOfTime, Progress
from tapedebug.autograd.checks.adjoint_check import CheckPlan, Comparison, check_pairs_of
from tapedebug.autograd.results.gradcheck_result import PairResult
from tapedebug.autograd.subjects.program import Pairs, Port, Program


def unchecked(
    program: Program, pairs: Iterable[tuple[Port, Port]], why: object, check: str = "adjoint"
) -> list[PairResult]:
    """Return results for pairs that were not checked, with the reason."""
    return [
        PairResult(
            launch=program.launch,
            subject=program.subject,
            input=source.label,
            output=target.label,
            verdict="UNDECIDABLE",
            message=f"not checked: {why}",
            entries=source.size * target.size,
            check=check,
        )
        for source, target in pairs
    ]


def check_in_time(
    program: Program, pairs: Pairs, plan: CheckPlan, pace: Progress, compared: list[Comparison] | None = None
) -> list[PairResult]:
    """Run `check_pairs_of`, input by input if time is limited, so that finished inputs keep their results."""
    if pace.max_seconds is None:
        return check_pairs_of(program, pairs, plan, pace.pulse, compared)
    found: dict[tuple[Port, Port], PairResult] = {}
    why: object = None
    for source in pairs.inputs():
        several = [pair for pair in pairs.chosen if pair[0] is source]
        try:
            results = check_pairs_of(program, Pairs(several), plan, pace.pulse, compared)
        except OutOfTime as error:
            why = error
            break
        found.update(zip(several, results, strict=True))
    return [found.get(pair) or unchecked(program, [pair], why)[0] for pair in pairs.chosen]

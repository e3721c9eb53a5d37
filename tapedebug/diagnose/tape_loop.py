"""Compares the gradients of a loop over tapes with those at its start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tapedebug.autograd.thresholds import LOOP_GRADIENT_FADED
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.trace import Trace

if TYPE_CHECKING:
    from tapedebug.autograd.tapes.input_check import InputCheck


def allow_for_start(contexts: Sequence[RuleContext]) -> None:
    """Set AGREE for errors from rounding alone that are negligible beside the gradient at the loop's start.

    Args:
        contexts: The tapes in the order of recording, with their verdicts.
    """
    first: dict[tuple[str, tuple[int, ...]], tuple[str, float]] = {}
    for context in contexts:
        forgiven: dict[str, str] = {}
        for check in context.measured:
            key = check.name, check.consumed.shape
            if check.verdict == "UNDECIDABLE" and check.rounding and key in first:
                forgiven |= _forgiven(check, *first[key])
            elif check.verdict == "AGREE" and key not in first:
                first[key] = context.trace.name, float(np.linalg.norm(check.consumed))
        doubts = {check.name for check in context.measured if check.verdict not in ("AGREE",)}
        if forgiven and doubts == set(forgiven) and context.trace.verdict == "UNDECIDABLE":
            _agree(context.trace, forgiven)


def _forgiven(check: InputCheck, tape: str, began: float) -> dict[str, str]:
    off, size = (
        float(np.linalg.norm(check.consumed - check.reference)),
        float(np.linalg.norm(check.reference)),
    )
    if not off <= LOOP_GRADIENT_FADED * began:
        return {}
    return {
        check.name: (
            f"float32 rounding puts it off by {off / size if size else np.inf:.1g} times its size, which is "
            f"{off / began:.0e} of the gradient that {tape} began with; it has come down to "
            f"{size / began:.0e} of that, and its adjoint is right in float64"
        )
    }


def _agree(trace: Trace, forgiven: dict[str, str]) -> None:
    done, _, _ = trace.coverage.summary.partition("; ")
    names = words.listed(forgiven)
    trace.verdict = "AGREE"
    trace.coverage.summary = (
        f"{done}; agrees as far as float32 resolves it beside the gradient that the loop began with: {names}"
    )
    trace.coverage.notes += [f"{name}: {why}" for name, why in forgiven.items()]
    for check in trace.checks:
        if check.input in forgiven:
            check.verdict, check.message = "AGREE", forgiven[check.input]

"""Checks beside the adjoint: tangents, batches, undefined adjoints, dtypes of gradients."""

from __future__ import annotations

from collections.abc import Callable

from tapedebug._progress import OutOfTime
from tapedebug.autograd.array_types import Checkpoint
from tapedebug.autograd.checks.adjoint_check import CheckPlan
from tapedebug.autograd.checks.deadline import unchecked
from tapedebug.autograd.checks.extra.batched import check_batched_adjoints, check_batched_tangents
from tapedebug.autograd.checks.extra.dtypes import check_dtypes
from tapedebug.autograd.checks.extra.tangents import check_tangents
from tapedebug.autograd.checks.extra.undefined import check_undefined
from tapedebug.autograd.options import Options
from tapedebug.autograd.results.gradcheck_result import PairResult
from tapedebug.autograd.subjects.program import Pairs
from tapedebug.autograd.subjects.shadow_program import ShadowProgram

Check = Callable[[ShadowProgram, Pairs, CheckPlan, Checkpoint | None], list[PairResult]]

CHECKS: tuple[tuple[str, str, Check], ...] = (
    ("check_forward_ad", "tangent", check_tangents),
    ("check_batched_grad", "batched adjoint", check_batched_adjoints),
    ("check_batched_forward_grad", "batched tangent", check_batched_tangents),
    ("check_undefined_grad", "undefined adjoint", check_undefined),
    ("check_grad_dtypes", "gradient dtype", check_dtypes),
)
"""The extra checks: option, `PairResult.check` of its results, and function."""

OF_THE_ADJOINT = ("check_undefined_grad", "check_grad_dtypes")


def extra_checks(
    program: ShadowProgram,
    pairs: Pairs,
    plan: CheckPlan,
    options: Options,
    checkpoint: Checkpoint | None = None,
) -> list[PairResult]:
    """Run the checks that `options` request in addition to the comparison of the adjoint.

    Args:
        program: The program to check.
        pairs: The selected pairs.
        plan: Steps, tolerances and samples, as for the adjoint.
        options: The requested checks.
        checkpoint: Called often; may raise to cancel. Out of time, the remaining checks are reported as such.

    Returns:
        One result for each pair and each requested check. Checks that are on by default
        (`check_undefined_grad`) give results only if something is wrong.
    """
    results: list[PairResult] = []
    for option, name, check in CHECKS:
        if not getattr(options, option) or not pairs.chosen:
            continue
        if option in OF_THE_ADJOINT and not options.check_backward_ad:
            continue
        try:
            results += check(program, pairs, plan, checkpoint)
        except OutOfTime as error:
            results += unchecked(program, pairs.chosen, error, name)
    return results

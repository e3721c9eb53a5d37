"""The option `check_grad_dtypes`: gradients must have the dtype and shape of their arrays."""

from __future__ import annotations

import numpy as np

from tapedebug.autograd.array_types import Checkpoint
from tapedebug.autograd.checks.adjoint_check import CheckPlan
from tapedebug.autograd.checks.deadline import unchecked
from tapedebug.autograd.checks.extra.tape_backward import TapeBackward, obstacle_to_backward
from tapedebug.autograd.results.gradcheck_result import PairResult
from tapedebug.autograd.subjects.program import Pairs
from tapedebug.autograd.subjects.shadow_program import ShadowProgram
from tapedebug.lang.types import type_name

NAME = "gradient dtype"


def check_dtypes(
    program: ShadowProgram, pairs: Pairs, plan: CheckPlan, checkpoint: Checkpoint | None = None
) -> list[PairResult]:
    """Return one result for each pair, from one reverse pass with adjoints of all outputs."""
    why = obstacle_to_backward(program)
    if why is not None:
        return unchecked(program, pairs.chosen, why, NAME)
    gradients = TapeBackward(program).run({port: np.ones(port.size) for port in program.outputs})
    results = []
    for source, target in pairs.chosen:
        a, gradient = source.array, gradients[source]
        differences = [
            f"{what} {have} where the array has {want}"
            for what, have, want in (
                ("dtype", type_name(gradient.dtype), type_name(a.dtype)),
                ("shape", gradient.shape, a.shape),
                ("device", gradient.device, a.device),
            )
            if have != want
        ]
        results.append(
            PairResult(
                launch=program.launch,
                subject=program.subject,
                input=source.label,
                output=target.label,
                verdict="WRONG" if differences else "AGREE",
                max_abs_error=0.0,
                max_rel_error=0.0,
                message=f"{source.name}.grad has {' and '.join(differences)}" if differences else "",
                entries=source.size,
                evaluated=source.size,
                check=NAME,
            )
        )
    return results

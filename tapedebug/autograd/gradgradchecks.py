"""`gradgradcheck`: compare the derivative of an adjoint with finite differences of that adjoint."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapedebug._errors import GradcheckError
from tapedebug._process_state import preserve_process_state
from tapedebug._progress import OutOfTime, Progress
from tapedebug.autograd.array_types import DeviceLike, Floats, LaunchDim
from tapedebug.autograd.checks.adjoint_check import CheckPlan
from tapedebug.autograd.checks.deadline import unchecked
from tapedebug.autograd.checks.extra import extra_checks
from tapedebug.autograd.checks.extra.tangents import TangentCheck
from tapedebug.autograd.checks.hvp_reference import check_against_function
from tapedebug.autograd.checks.run_checks import collect
from tapedebug.autograd.results.gradcheck_result import GradcheckResult
from tapedebug.autograd.results.pair_result import PairResult
from tapedebug.autograd.results.show_once import show
from tapedebug.autograd.subjects.adjoint_program import AdjointProgram
from tapedebug.autograd.subjects.probes import random_directions
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.subject import Subject, subject_of
from tapedebug.compiler.kernel import Kernel
from tapedebug.contract import is_array
from tapedebug.runtime.tape.tape import Tape

SECOND = "second derivative"


@preserve_process_state
def gradgradcheck(
    function: Kernel | Callable[..., Any],
    dim: LaunchDim | None = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    grad_outputs: object = None,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = True,
    check_rev_over_rev: bool = False,
    fast_mode: bool = False,
    masked: bool = False,
    device: DeviceLike | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    show_summary: bool = True,
    progress: Callable[[str], None] | bool | None = None,
    max_seconds: float | None = None,
) -> GradcheckResult:
    """Check second derivatives of a kernel or function: those of its reverse pass `x, w → Jᵀ(x) w`.

    The tangent of the adjoint (forward over reverse, what `hvp` uses) is compared with differences of the
    float64 adjoint, entry by entry: by the inputs `x` and by the adjoints `w` of the outputs ("grad y"). Then
    ⟨u, ∂(Jᵀw)/∂x v⟩ is compared with differences of ⟨w, J(x) u⟩, the tangent of the function itself, which
    reveals an adjoint that is right at the given values but not beside them. All runs use private copies.

    Args:
        function: See `gradcheck`.
        dim: See `gradcheck`.
        inputs: See `gradcheck`.
        outputs: See `gradcheck`.
        grad_outputs: The adjoints `w`: an array or values for the one output, a sequence with one for each
            output with a gradient (None: zero), or a mapping from output arrays to values. Random if None.
        eps: See `gradcheck`.
        atol: See `gradcheck`.
        rtol: See `gradcheck`.
        gen_non_contig_grad_outputs: Let random adjoints lie apart in memory.
        raise_exception: Raise where the check does not pass.
        nondet_tol: By how much two reverse passes on the same values may differ, absolutely.
        check_undefined_grad: Check that with adjoints of zero, and with none, nothing comes out.
        check_grad_dtypes: As in `gradcheck`, of the first reverse pass.
        check_batched_grad: As in `gradcheck`, of the first reverse pass.
        check_fwd_over_rev: Check the tangent of the adjoint: what there is to check.
        check_rev_over_rev: There is no reverse pass of a reverse pass: True is an error.
        fast_mode: Compare random directions; entries only where one of them is off.
        masked: Accepted: all entries count.
        device: The device to run on.
        max_inputs_per_var: See `gradcheck`.
        max_outputs_per_var: See `gradcheck`.
        show_summary: Print the table and what stands beside it.
        progress: See `gradcheck`.
        max_seconds: See `gradcheck`.

    Returns:
        A result that is true where all pairs agree (and there was one). Its pairs go from "x" (an input) or
        "grad y" (the adjoint of an output) to "grad x".

    Raises:
        GradcheckFailure: A ValueError that names the failing pair, where `raise_exception` is set.
        GradcheckError: Adjoints do not fit the outputs; reverse over reverse was asked for, or nothing was; a
            part of it has no adjoint.
        LaunchError: The arguments do not fit the kernel.
    """
    _require_forward_over_reverse(check_fwd_over_rev, check_rev_over_rev)
    _refuse_tapes(function)
    plan = CheckPlan.of(locals())
    with Progress(progress, max_seconds, caller="gradgradcheck") as pace:
        subject = subject_of(function, dim, inputs, outputs, device, None, in_place=True)
        subject.require_repeatable()
        seeds = _seeds(subject, grad_outputs, apart=gen_non_contig_grad_outputs)
        result = _result(subject, seeds, plan, pace, given=grad_outputs is not None)
    if show_summary:
        show(result)
    if raise_exception:
        result.raise_if_failed()
    return result


def _require_forward_over_reverse(forward: bool, reverse: bool) -> None:
    if reverse:
        raise GradcheckError(
            "gradgradcheck: check_rev_over_rev=True: a reverse pass cannot be reversed here; second "
            "derivatives are tangents of adjoints (forward over reverse)",
            hint="leave it at False: check_fwd_over_rev checks the same derivatives",
        )
    if not forward:
        raise GradcheckError(
            "gradgradcheck: nothing is left to check: check_fwd_over_rev and check_rev_over_rev are False",
            hint="leave check_fwd_over_rev at True",
        )


def _refuse_tapes(function: object) -> None:
    if isinstance(function, Tape):
        raise GradcheckError(
            "gradgradcheck: it takes a kernel or a function, not a tape",
            hint="use hvp_check(tape, loss=…), or a function that launches what is on the tape",
        )


def _result(
    subject: Subject, seeds: Mapping[Port, Floats], plan: CheckPlan, pace: Progress, *, given: bool
) -> GradcheckResult:
    program = subject.program
    name = f"the gradient of {program.subject}"
    pace.subject = name
    program.pulse = pace.pulse
    pairs: list[PairResult] = []
    if subject.pairs.chosen:
        adjoint = AdjointProgram(program, subject.tape, seeds)
        pairs += _second(adjoint, plan, pace)
        with contextlib.suppress(OutOfTime):
            pace.begin("the function itself")
            if all(pair.verdict == "AGREE" for pair in pairs):  # else an error is already reported
                pairs += check_against_function(adjoint, plan)
        first = replace(plan.options, check_forward_ad=False)
        pairs += extra_checks(program, subject.pairs, plan, first, pace.pulse)
    result = collect(subject, pairs, None, plan)
    scripts: dict[int, Callable[[], str]] = {}
    for index, pair in enumerate(() if given else pairs):
        scripts[index] = replace(subject.script_for(pair, plan.settings()), function="gradgradcheck")
    return replace(result, subject=name, scripts=scripts)


def _second(adjoint: AdjointProgram, plan: CheckPlan, pace: Progress) -> list[PairResult]:
    """Each input of the reverse pass against each adjoint that comes out."""
    targets = list(adjoint.outputs)
    noise: dict[str, float] = {}
    with contextlib.suppress(OutOfTime):  # each input reports the parts that it did not reach
        noise = _noise(adjoint, plan.options.nondet_tol)
    found: list[PairResult] = []
    for source in adjoint.inputs:
        several = [(source, target) for target in targets]
        try:
            pace.begin(f"second derivatives by {source.name}")
            results = TangentCheck(adjoint, source, targets, plan, pace.pulse, SECOND).results()
        except OutOfTime as error:
            results = unchecked(adjoint, several, error, SECOND)
        found += [_mark_nondeterministic(result, noise) for result in results]
    return found


def _noise(adjoint: AdjointProgram, nondet_tol: float) -> dict[str, float]:
    """Adjoints that differ between two passes on the same values, with the largest difference."""
    first, second = adjoint.evaluate({}, single=True), adjoint.evaluate({}, single=True)
    found = {}
    for port in adjoint.outputs:
        a, b = first[port], second[port]
        with np.errstate(all="ignore"):
            gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        apart = float(np.where(np.isnan(gap), np.inf, gap).max(initial=0.0))
        if apart > nondet_tol:
            found[port.label] = apart
    return found


def _mark_nondeterministic(result: PairResult, noise: Mapping[str, float]) -> PairResult:
    apart = noise.get(result.output)
    if apart is None:
        return result
    message = (
        f"two reverse passes on the same values differ by {apart:.1e} in {result.output}: "
        "no difference quotient means anything"
    )
    return replace(result, verdict="NONDETERMINISTIC", message=message)


# ------------------------------------------------------------------ adjoints of outputs


def _seeds(subject: Subject, given: object, *, apart: bool) -> dict[Port, Floats]:
    """The adjoints of the outputs that are in a pair.

    Raises:
        GradcheckError: They do not fit.
    """
    outputs = subject.pairs.outputs()
    if given is None:
        found = {}
        for number, port in enumerate(outputs):
            values = random_directions(port.size, number + 1)[number]
            found[port] = np.repeat(values, 2)[::2] if apart else values
        return found
    if isinstance(given, Mapping):
        unknown = [key for key in given if all(port.array is not key for port in outputs)]
        if unknown:
            raise GradcheckError(
                f"gradgradcheck: grad_outputs names {unknown[0]!r}, which is no output with a gradient; "
                f"those are {', '.join(port.name for port in outputs) or 'none'}",
                hint="map output arrays to values of their shape",
            )
        several = [given.get(port.array) for port in outputs]
    else:
        several = list(given) if isinstance(given, list | tuple) and len(outputs) != 1 else [given]
        if len(outputs) == 1 and isinstance(given, list | tuple) and len(given) == 1:
            several = list(given)
    if len(several) != len(outputs):
        raise GradcheckError(
            f"gradgradcheck: grad_outputs has {len(several)} entries for {len(outputs)} outputs with a "
            f"gradient ({', '.join(port.name for port in outputs)})",
            hint="pass one for each, or None for an adjoint of zero",
        )
    return {port: _values(port, value) for port, value in zip(outputs, several, strict=True)}


def _values(port: Port, value: object) -> Floats:
    if value is None:
        return np.zeros(port.size)
    try:
        values = np.asarray(value.current() if is_array(value) else value, dtype=np.float64)
    except (TypeError, ValueError):
        raise GradcheckError(
            f"gradgradcheck: the adjoint of {port.name} is an array or numbers; got {value!r}",
            hint="pass values of the output's shape, components last",
        ) from None
    if values.shape != port.shape and values.size != port.size:
        raise GradcheckError(
            f"gradgradcheck: the adjoint of {port.name} has shape {values.shape}; "
            f"the output has {port.shape}",
            hint="pass values of the output's shape, components last",
        )
    return values.ravel()

"""`gradcheck`: does the adjoint of a kernel or function agree with finite differences?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapedebug.autograd.check import Comparison, Plan, check_pairs_of
from tapedebug.autograd.jacobian import positive
from tapedebug.autograd.pairs import Mask
from tapedebug.autograd.plots import plot_errors
from tapedebug.autograd.results import Coverage, GradcheckResult, PairResult
from tapedebug.autograd.subjects import Subject, subject_of
from tapedebug.autograd.transpose import DotProduct, dot_test
from tapedebug.autograd.verdict import Tolerance, worst


def gradcheck(
    function: Callable[..., Any] | Any,
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_mask: Mask = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int = 256,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
) -> GradcheckResult:
    """Check the gradient of a kernel or function.

    An entry agrees where `|AD - FD| <= atol + rtol * |FD|` and AD is not NaN. FD is taken of the float64
    twin, by a sweep of steps that is extrapolated to zero and gives an error bar; AD counts as wrong where
    it misses the tolerance by more than that bar. Everything runs on private copies: no array and no
    gradient of the caller changes.

    Args:
        function: A kernel, or a Python function that takes arrays (and other arguments) and returns an array
            or a list of arrays.
        dim: Number of threads of the launch; for kernels only.
        inputs: Arguments of the kernel or function.
        outputs: The kernel's further arguments. Where none are named, the arrays that the kernel writes.
        eps: The largest step of the sweep; it is rounded to a power of two.
        atol: Absolute tolerance. The summary says where agreement rests on it alone.
        rtol: Relative tolerance.
        raise_exception: Raise where the check does not pass.
        input_output_mask: Pairs (input, output) to check, each by name or by index among the inputs and
            among the outputs; all pairs if None.
        device: The device to run on.
        max_blocks: Accepted and ignored on the CPU.
        block_dim: Accepted and ignored on the CPU.
        max_inputs_per_var: Check that many scalars of each input, a fixed sample with the first and the
            last; all if <= 0.
        max_outputs_per_var: The same for outputs.
        plot_relative_error: Show the relative errors of the Jacobians (needs matplotlib).
        plot_absolute_error: Show the absolute errors.
        show_summary: Print the table and what stands beside it.

    Returns:
        A result that is true where all pairs agree (and there was one); see `GradcheckResult`.

    Raises:
        GradcheckFailure: A ValueError that names the failing pair, where `raise_exception` is set.
        GradcheckError: The mask names what there is not, or a step or tolerance is not one.
        LaunchError: The arguments do not fit the kernel.
    """
    positive(eps)
    plan = Plan(eps, Tolerance(atol, rtol).checked(), max_inputs_per_var, max_outputs_per_var)
    subject = subject_of(function, dim, inputs, outputs, device, input_output_mask, in_place=True)
    kept: list[Comparison] | None = [] if plot_relative_error or plot_absolute_error else None
    dot = dot_test(subject.program) if subject.pairs.chosen else None
    pairs = check_pairs_of(subject.program, subject.pairs, plan, kept=kept)
    result = collect(subject, pairs, dot)
    if show_summary:
        print(result.summary())
    if kept:
        plot_errors(kept, subject.metadata, relative=plot_relative_error, absolute=plot_absolute_error)
    if raise_exception:
        result.raise_if_failed()
    return result


def collect(subject: Subject, pairs: Sequence[PairResult], dot: DotProduct | None = None) -> GradcheckResult:
    """The result of a check of one kernel or function."""
    notes = [*subject.pairs.notes, *dict.fromkeys(note for pair in pairs for note in pair.notes)]
    notes += [dot.message] if dot is not None and dot.message else []
    entries, evaluated = sum(pair.entries for pair in pairs), sum(pair.evaluated for pair in pairs)
    summary = f"{len(pairs)} input-output pairs checked, {evaluated} of {entries} entries"
    if not pairs:
        summary = "nothing was checked: no pair of an input and an output with requires_grad=True"
    return GradcheckResult(
        subject=subject.program.subject,
        verdict=worst(pair.verdict for pair in pairs),
        pairs=tuple(pairs),
        coverage=Coverage(summary, 1, 1 if pairs else 0, tuple(notes)),
        dot_products=() if dot is None else (dot,),
        scripts={}
        if subject.script is None
        else {i: subject.script_for(pair) for i, pair in enumerate(pairs)},
    )

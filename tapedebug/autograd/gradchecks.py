"""`gradcheck`: compare the adjoint of a kernel or function with finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tapedebug._process_state import preserve_process_state
from tapedebug._progress import Progress
from tapedebug.autograd.array_types import DeviceLike, LaunchDim
from tapedebug.autograd.checks.adjoint_check import CheckPlan, Comparison
from tapedebug.autograd.checks.complex_results import ComplexSelection, complex_names
from tapedebug.autograd.checks.run_checks import collect, run_checks
from tapedebug.autograd.options import ReferenceKind, Sample
from tapedebug.autograd.plots import plot_errors, require_matplotlib
from tapedebug.autograd.results.gradcheck_result import GradcheckResult
from tapedebug.autograd.results.show_once import show
from tapedebug.autograd.subjects.pairs import Mask
from tapedebug.autograd.subjects.subject import Subject, subject_of
from tapedebug.compiler.kernel import Kernel


@preserve_process_state
def gradcheck(
    function: Kernel | Callable[..., Any],
    dim: LaunchDim | None = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_mask: Mask = None,
    device: DeviceLike | None = None,
    max_blocks: int = 0,
    block_dim: int = 256,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
    restore_inputs: bool = True,
    sample: Sample = "random",
    reference: ReferenceKind = "float64",
    nondet_tol: float = 0.0,
    check_backward_ad: bool = True,
    check_forward_ad: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    fast_mode: bool = False,
    masked: bool | None = None,
    check_sparse_nnz: bool | None = None,
    complex: ComplexSelection = None,
    progress: Callable[[str], None] | bool | None = None,
    max_seconds: float | None = None,
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
        atol: Absolute tolerance. The summary lists agreement that rests on it alone.
        rtol: Relative tolerance.
        raise_exception: Raise where the check does not pass.
        input_output_mask: Pairs (input, output) to check, each by name or by index among the inputs and
            among the outputs, perhaps with entries: "x[3:5]", "x[2].y", "state.q[0]", ("x", slice(3, 5)); all
            pairs if None.
        device: The device to run on.
        max_blocks: Accepted and ignored on the CPU.
        block_dim: Accepted and ignored on the CPU.
        max_inputs_per_var: Check that many scalars of each input, a fixed sample with the first and the
            last; all if <= 0.
        max_outputs_per_var: The same for outputs.
        plot_relative_error: Show the relative errors of the Jacobians (needs matplotlib).
        plot_absolute_error: Show the absolute errors.
        show_summary: Print the table and what stands beside it.
        restore_inputs: Accepted: inputs keep their values in any case.
        sample: Which scalars `max_inputs_per_var` and `max_outputs_per_var` leave: a fixed `"random"` sample,
            or the `"first"` ones.
        reference: `"float64"` as above; `"float32"`: one central difference of the kernel as it is, at `eps`.
        nondet_tol: By how much two runs on the same values may differ, absolutely.
        check_backward_ad: False leaves the adjoint out (a kernel need have none); for `check_forward_ad`.
        check_forward_ad: Compare tangents with the differences, too, in float32 and in float64.
        check_batched_grad: Check that several adjoints at once give what they give one by one.
        check_batched_forward_grad: The same of tangents.
        check_undefined_grad: Check that outputs without an adjoint (`.grad` is None, or nothing was set)
            count as having one of zero. Shows only where something is wrong.
        check_grad_dtypes: Check that after `Tape.backward` each gradient has dtype, shape and device of its
            array.
        fast_mode: Compare random combinations; entries only where one of them is off.
        masked: Leave entries out that are zero by the traced sparsity of the kernel.
        check_sparse_nnz: The old name of `masked`.
        complex: Arrays of vec2 that hold complex numbers (real, imaginary), by name or by place among all
            arguments; True: all of vec2. Their derivatives are given as complex numbers, gradients as
            ∂/∂a + i ∂/∂b of z = a + ib; entries are compared one by one, not in `fast_mode`.
        progress: A function called with each step; True or False: show a line with the current step or none;
            None: where there is a terminal or a notebook.
        max_seconds: Stop after that time; pairs that were not reached are UNDECIDABLE.

    Returns:
        A result that is true where all pairs agree (and there was one); see `GradcheckResult`.

    Raises:
        GradcheckFailure: A ValueError that names the failing pair, where `raise_exception` is set.
        GradcheckError: The mask names what there is not, a step or tolerance is not one, or options do not
            fit together.
        LaunchError: The arguments do not fit the kernel.
    """
    if plot_relative_error or plot_absolute_error:
        require_matplotlib()
    plan = CheckPlan.of(locals())
    compared: list[Comparison] | None = [] if plot_relative_error or plot_absolute_error else None
    with Progress(progress, max_seconds, caller="gradcheck") as pace:
        subject = subject_of(
            function, dim, inputs, outputs, device, input_output_mask,
            in_place=True, adjoint=check_backward_ad,
        )  # fmt: skip
        subject.complex = complex_names(subject.program.subject, complex, subject.arguments)
        if subject.complex:
            plan = replace(plan, options=replace(plan.options, fast_mode=False))
        result = result_of(subject, plan, pace, compared)
    if show_summary:
        show(result)
    if compared:
        plot_errors(compared, subject.metadata, relative=plot_relative_error, absolute=plot_absolute_error)
    if raise_exception:
        result.raise_if_failed()
    return result


def result_of(
    subject: Subject, plan: CheckPlan, pace: Progress, compared: list[Comparison] | None = None
) -> GradcheckResult:
    """Check a kernel or function: the adjoint, and what `plan.options` ask for beside it."""
    pace.subject = subject.program.subject
    return collect(subject, *run_checks(subject, plan, pace, compared), plan)

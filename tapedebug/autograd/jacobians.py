"""Computes Jacobians by the adjoint, by the tangent and by finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from tapedebug._errors import GradcheckError
from tapedebug._process_state import preserve_process_state
from tapedebug._progress import Progress
from tapedebug.autograd.array_types import DeviceLike, LaunchDim
from tapedebug.autograd.options import Sample, positive, whole_number
from tapedebug.autograd.plots import matrix_of, plot_matrices, require_matplotlib
from tapedebug.autograd.sparse.assembly import JacobianRequest, Reference, assemble
from tapedebug.autograd.sparse.jacobian_dict import Jacobians
from tapedebug.autograd.sparse.matrices import require_scipy
from tapedebug.autograd.subjects.metadata import FunctionMetadata
from tapedebug.autograd.subjects.pairs import Mask, why_nothing
from tapedebug.autograd.subjects.subject import Subject, subject_of
from tapedebug.compiler.kernel import Kernel


@preserve_process_state
def jacobian(
    function: Kernel | Callable[..., Any],
    dim: LaunchDim | None = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask = None,
    device: DeviceLike | None = None,
    max_blocks: int = 0,
    block_dim: int | None = 256,
    max_outputs_per_var: int = -1,
    plot_jacobians: bool = False,
    metadata: FunctionMetadata | None = None,
    restore_inputs: bool = True,
    *,
    mode: Literal["adjoint", "tangent", "fewest"] = "adjoint",
    sparse: bool = False,
    sample: Sample = "random",
    progress: Callable[[str], None] | bool | None = None,
    max_seconds: float | None = None,
) -> Jacobians:
    """Return the Jacobians of a kernel or function, by its adjoint.

    The possibly nonzero entries are traced from the reads and writes of each thread; rows without a common
    column share one adjoint run, all runs are one compiled run, and a random product verifies the result. A
    Jacobian that is not sparse takes an adjoint run for each row. Everything runs on private copies: no array
    and no gradient of the caller changes.

    Args:
        function: A kernel, or a Python function that takes arrays (and other arguments) and returns an array
            or a list of arrays. A function is called once and its launches are recorded.
        dim: Number of threads of the launch; for kernels only.
        inputs: Arguments of the kernel or function. Derivatives are taken with respect to float arrays with
            `requires_grad=True`, of which there must be one.
        outputs: The kernel's further arguments; optional for functions. A kernel without them has the arrays
            that it writes as outputs, numbered among themselves.
        input_output_mask: Pairs (input, output) to compute, each by name or by index among the inputs and
            among the outputs, perhaps with entries: "x[3:5]", "x[2].y", "state.q[0]", ("x", slice(3, 5)); all
            pairs if None.
        device: The device to run on.
        max_blocks: Accepted and ignored on the CPU.
        block_dim: Accepted and ignored on the CPU.
        max_outputs_per_var: Evaluate that many rows of each Jacobian; all if <= 0.
        plot_jacobians: Show the Jacobians (needs matplotlib).
        metadata: Labels, strides and element types for the plot, if not those of the kernel or function; an
            empty one is filled with them.
        restore_inputs: Accepted; changes of a function to its arguments are always undone.
        mode: `"tangent"` computes the columns by tangents in place of the rows by adjoints: fewer runs where
            there are fewer inputs than outputs, but it does not test the adjoint. `"fewest"` takes
            adjoints, tangents or both together, whichever are fewer runs: four of an arrow of any size.
        sparse: Return matrices of type `scipy.sparse.csr_array`, of scalars by scalars, in place of arrays
            (needs scipy). What they do not store is zero.
        sample: With `max_outputs_per_var`, a fixed `"random"` sample of the rows with the first and the last,
            or the `"first"` ones.
        progress: Called with a short text at each step; None shows them on a terminal or in a notebook; False
            shows nothing.
        max_seconds: The time limit; rows that are missing by then are NaN, with a warning.

    Returns:
        (input index, output index) → 2-D array of the input's dtype, of shape (scalars in the output,
        elements in the input): one element of a Jacobian by an array of vectors is a vector. With `sparse`, a
        float32 (of float64 inputs: float64) matrix of shape (scalars in the output, scalars in the input).
        Entries that were not evaluated are NaN. A field of a struct has its name for an index,
        ("state.q", 0); names find all of them: `found["x", "y"]`. `found.runs` is the number of runs.

    Raises:
        GradcheckError: No input or no output has a derivative, or the mask names what there is not.
        LaunchError: The arguments do not fit the kernel.
        OutOfTime: Of sparse matrices, which cannot say what is missing: `max_seconds` is over.
        TapedebugError: `sparse=True` without scipy, or `plot_jacobians=True` without matplotlib.
    """
    whole_number("jacobian", "max_outputs_per_var", max_outputs_per_var)
    _one_of("jacobian", "mode", mode, ("adjoint", "tangent", "fewest"))
    _one_of("jacobian", "sample", sample, ("random", "first"))
    if sparse:
        require_scipy()
    if plot_jacobians:
        require_matplotlib()
    with Progress(progress, max_seconds, caller="jacobian", doing="computing") as pace:
        subject = _subject(
            function, dim, inputs, outputs, device, input_output_mask, pace, adjoint=mode != "tangent"
        )
        request = JacobianRequest(
            subject.program, subject.pairs, mode, max_outputs_per_var, sample, sparse, pace.pulse
        )
        found = assemble(request)
    return _shown(found, subject, plot_jacobians, metadata, "Jacobian")


@preserve_process_state
def jacobian_fd(
    function: Kernel | Callable[..., Any],
    dim: LaunchDim | None = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask = None,
    device: DeviceLike | None = None,
    max_blocks: int = 0,
    block_dim: int | None = 256,
    max_inputs_per_var: int = -1,
    eps: float = 1e-4,
    plot_jacobians: bool = False,
    metadata: FunctionMetadata | None = None,
    restore_inputs: bool = True,
    *,
    reference: Reference = "float64",
    sparse: bool = False,
    sample: Sample = "random",
    progress: Callable[[str], None] | bool | None = None,
    max_seconds: float | None = None,
) -> Jacobians:
    """Return the Jacobians of a kernel or function by finite differences.

    The differences are taken of the float64 twin of the kernels, with steps from `eps` downward that are
    extrapolated to zero: they are exact to many more digits than differences in float32. Columns that share
    no row are displaced together, as in `jacobian`.

    Args:
        function: See `jacobian`.
        dim: See `jacobian`.
        inputs: See `jacobian`.
        outputs: See `jacobian`.
        input_output_mask: See `jacobian`.
        device: See `jacobian`.
        max_blocks: See `jacobian`.
        block_dim: See `jacobian`.
        max_inputs_per_var: Evaluate that many columns of each Jacobian (scalars of the input); all if <= 0.
        eps: The largest step of the sweep; it is rounded to a power of two. The step itself of `reference`
            `"float32"`.
        plot_jacobians: See `jacobian`.
        metadata: See `jacobian`.
        restore_inputs: See `jacobian`.
        reference: `"float32"` takes plain central differences at one step, in the precision of the program,
            as in Warp's documentation.
        sparse: See `jacobian`.
        sample: With `max_inputs_per_var`, which columns; see `jacobian`.
        progress: See `jacobian`.
        max_seconds: See `jacobian`; of columns.

    Returns:
        As `jacobian`.

    Raises:
        GradcheckError: As `jacobian`; or `eps` is not positive.
        LaunchError: The arguments do not fit the kernel.
        OutOfTime: As `jacobian`.
        TapedebugError: As `jacobian`.
    """
    positive(eps)
    whole_number("jacobian_fd", "max_inputs_per_var", max_inputs_per_var)
    _one_of("jacobian_fd", "reference", reference, ("float64", "float32"))
    _one_of("jacobian_fd", "sample", sample, ("random", "first"))
    if sparse:
        require_scipy()
    if plot_jacobians:
        require_matplotlib()
    with Progress(progress, max_seconds, caller="jacobian_fd", doing="computing") as pace:
        subject = _subject(function, dim, inputs, outputs, device, input_output_mask, pace, adjoint=False)
        request = JacobianRequest(
            subject.program, subject.pairs, "differences", max_inputs_per_var, sample, sparse, pace.pulse,
            eps, reference,
        )  # fmt: skip
        found = assemble(request)
    return _shown(found, subject, plot_jacobians, metadata, "Jacobian by finite differences")


def _one_of(caller: str, name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise GradcheckError(
            f"{caller}: {name} is {', '.join(map(repr, known[:-1]))} or {known[-1]!r}; got {value!r}",
            hint=f"leave it at {known[0]!r}",
        )


def _subject(
    function: object,
    dim: LaunchDim | None,
    inputs: Sequence[Any] | None,
    outputs: Sequence[Any] | None,
    device: DeviceLike,
    mask: Mask,
    pace: Progress,
    *,
    adjoint: bool,
) -> Subject:
    subject = subject_of(function, dim, inputs, outputs, device, mask, adjoint=adjoint)
    subject.require_repeatable()
    if not subject.pairs.chosen:
        raise GradcheckError(
            f"{subject.program.subject} has no Jacobian to compute: "
            "no pair of a differentiable input and output",
            notes=subject.pairs.notes,
            hint=why_nothing(subject.pairs.notes)[1],
        )
    pace.subject = subject.program.subject
    subject.program.pulse = pace.pulse
    return subject


def _shown(
    found: Jacobians, subject: Subject, plot: bool, metadata: FunctionMetadata | None, title: str
) -> Jacobians:
    if metadata is None and not plot:
        return found
    labels = subject.metadata
    if metadata is not None and metadata.is_empty:
        vars(metadata).update(vars(labels))  # as the documents' does, so that it can be used for other plots
    elif metadata is not None:
        labels = metadata
    if plot:
        matrices = {key: matrix_of(value) for key, value in found.items()}
        plot_matrices(matrices, labels, show=True, title=f"{title} of {labels.key}")
    return found

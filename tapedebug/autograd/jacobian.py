"""`jacobian` and `jacobian_fd`: Jacobians by the adjoint and by differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapedebug._errors import GradcheckError
from tapedebug.autograd.differences import Floats
from tapedebug.autograd.matrix import adjoints, differences
from tapedebug.autograd.metadata import FunctionMetadata
from tapedebug.autograd.pairs import Mask
from tapedebug.autograd.plots import plot_matrices
from tapedebug.autograd.probes import Probes
from tapedebug.autograd.program import Pairs, Port, Program
from tapedebug.autograd.subjects import Subject, subject_of

Jacobians = dict[tuple[int, int], Any]


def jacobian(
    function: Callable[..., Any] | Any,
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int = 256,
    max_outputs_per_var: int = -1,
    plot_jacobians: bool = False,
    metadata: FunctionMetadata | None = None,
) -> Jacobians:
    """The Jacobians of a kernel or function, by its adjoint, row by row.

    Everything runs on private copies: no array and no gradient of the caller changes.

    Args:
        function: A kernel, or a Python function that takes arrays (and other arguments) and returns an array
            or a list of arrays. A function is called once and its launches are recorded.
        dim: Number of threads of the launch; for kernels only.
        inputs: Arguments of the kernel or function. Derivatives are taken with respect to float arrays with
            `requires_grad=True`, of which there must be one.
        outputs: The kernel's further arguments; optional for functions. A kernel without them has the arrays
            that it writes as outputs, numbered among themselves.
        input_output_mask: Pairs (input, output) to compute, each by name or by index among the inputs and
            among the outputs; all pairs if None.
        device: The device to run on.
        max_blocks: Accepted and ignored on the CPU.
        block_dim: Accepted and ignored on the CPU.
        max_outputs_per_var: Evaluate that many rows of each Jacobian, a fixed sample of them with the first
            and the last; all if <= 0.
        plot_jacobians: Show the Jacobians (needs matplotlib).
        metadata: Labels for the plot, if not those of the kernel or function.

    Returns:
        (input index, output index) → 2-D array of the input's dtype, of shape (scalars in the output,
        elements in the input); entries that were not evaluated are NaN.

    Raises:
        GradcheckError: No input or no output has a derivative, or the mask names what there is not.
        LaunchError: The arguments do not fit the kernel.
    """
    subject = subject_of(function, dim, inputs, outputs, device, input_output_mask)
    program, pairs = _required(subject)
    matrices: dict[tuple[Port, Port], Floats] = {}
    for target in pairs.outputs():
        rows = Probes.of(target.size, max_outputs_per_var)
        sources = [source for source, chosen in pairs.chosen if chosen is target]
        for source, found in adjoints(program, target, rows, sources).items():
            whole = np.full((target.size, source.size), np.nan)
            whole[rows.units] = found.values
            matrices[source, target] = whole
    return _returned(subject, pairs, matrices, plot_jacobians, metadata, "Jacobian")


def jacobian_fd(
    function: Callable[..., Any] | Any,
    dim: Any = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    input_output_mask: Mask = None,
    device: Any = None,
    max_blocks: int = 0,
    block_dim: int = 256,
    max_inputs_per_var: int = -1,
    eps: float = 1e-4,
    plot_jacobians: bool = False,
    metadata: FunctionMetadata | None = None,
) -> Jacobians:
    """The Jacobians of a kernel or function by finite differences, column by column.

    The differences are taken of the float64 twin of the kernels, with steps from `eps` downward that are
    extrapolated
    to zero: they are exact to many more digits than differences in float32.

    Args:
        function: See `jacobian`.
        dim: See `jacobian`.
        inputs: See `jacobian`.
        outputs: See `jacobian`.
        input_output_mask: See `jacobian`.
        device: See `jacobian`.
        max_blocks: See `jacobian`.
        block_dim: See `jacobian`.
        max_inputs_per_var: Evaluate that many columns of each Jacobian (scalars of the input), a fixed
            sample of them with the first and the last; all if <= 0.
        eps: The largest step of the sweep; it is rounded to a power of two.
        plot_jacobians: See `jacobian`.
        metadata: See `jacobian`.

    Returns:
        As `jacobian`.

    Raises:
        GradcheckError: As `jacobian`; or `eps` is not positive.
        LaunchError: The arguments do not fit the kernel.
    """
    positive(eps)
    subject = subject_of(function, dim, inputs, outputs, device, input_output_mask)
    program, pairs = _required(subject)
    matrices: dict[tuple[Port, Port], Floats] = {}
    for source in pairs.inputs():
        columns = Probes.of(source.size, max_inputs_per_var)
        targets = pairs.outputs(source)
        rows = {target: Probes.of(target.size) for target in targets}
        for target, found in differences(program, source, targets, columns, rows, eps=eps).items():
            whole = np.full((target.size, source.size), np.nan)
            whole[:, columns.units] = found.value
            matrices[source, target] = whole
    return _returned(subject, pairs, matrices, plot_jacobians, metadata, "Jacobian by finite differences")


def positive(eps: float) -> None:
    """Refuse a step that is not one.

    Raises:
        GradcheckError: `eps` is not a positive number.
    """
    if not eps > 0:
        raise GradcheckError(f"eps, the largest step, must be positive; got {eps!r}", mend="leave it at 1e-4")


def _required(subject: Subject) -> tuple[Program, Pairs]:
    if not subject.pairs.chosen:
        raise GradcheckError(
            f"{subject.program.subject} has no Jacobian to compute: "
            "no pair of a differentiable input and output",
            notes=subject.pairs.notes,
            mend="set requires_grad=True on at least one input and one output, of dtype float",
        )
    return subject.program, subject.pairs


def _returned(
    subject: Subject,
    pairs: Pairs,
    matrices: dict[tuple[Port, Port], Floats],
    plot: bool,
    metadata: FunctionMetadata | None,
    title: str,
) -> Jacobians:
    found = {
        (source.index, target.index): (source, matrices[source, target]) for source, target in pairs.chosen
    }
    if plot:
        labels = subject.metadata if metadata is None or metadata.is_empty else metadata
        plain = {key: matrix for key, (_, matrix) in found.items()}
        plot_matrices(plain, labels, show=True, title=f"{title} of {labels.key}")
    return {key: as_array(matrix, source) for key, (source, matrix) in found.items()}


def as_array(matrix: Floats, source: Port) -> Any:
    """A matrix of scalars as a 2-D array of the input's element type."""
    from tapedebug.runtime.array import array

    values = matrix
    if source.components > 1:
        values = matrix.reshape(matrix.shape[0], -1, source.components)
    return array(values, dtype=source.array.dtype)

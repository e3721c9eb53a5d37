"""The Jacobians of one launch of a recorded cell, at the values with which it ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapedebug._errors import GradcheckError
from tapedebug._progress import Progress
from tapedebug.autograd.options import whole_number
from tapedebug.autograd.plots import matrix_of, plot_matrices, require_matplotlib
from tapedebug.autograd.sparse.assembly import JacobianRequest, assemble
from tapedebug.autograd.sparse.matrices import require_scipy
from tapedebug.autograd.subjects.launches import LaunchCopy, launch_values

if TYPE_CHECKING:
    from tapedebug.autograd.options import Sample
    from tapedebug.autograd.sparse.coloured_jacobian import Mode
    from tapedebug.autograd.sparse.jacobian_dict import Jacobians
    from tapedebug.autograd.subjects.pairs import Mask
    from tapedebug.runtime import Tape


def jacobian_of_launch(
    tape: Tape,
    launch: int | None = None,
    *,
    input_output_mask: Mask = None,
    max_outputs_per_var: int = -1,
    plot_jacobians: bool = False,
    mode: Mode = "adjoint",
    sparse: bool = False,
    sample: Sample = "random",
    max_seconds: float | None = None,
) -> Jacobians:
    """Return the Jacobians of a launch.

    Args:
        tape: The tape with the launch.
        launch: The index of the launch; by default the last one of a kernel that has a Jacobian.
        input_output_mask: See `tapedebug.autograd.jacobian`, as for all further arguments.
        max_outputs_per_var: The largest number of rows.
        plot_jacobians: Plot the Jacobians.
        mode: Use adjoints, tangents or both.
        sparse: Return sparse matrices.
        sample: The choice of rows.
        max_seconds: The time limit.

    Raises:
        GradcheckError: There is no such launch, or it has no Jacobian.
    """
    whole_number("jacobian", "max_outputs_per_var", max_outputs_per_var)
    if sparse:
        require_scipy()
    if plot_jacobians:
        require_matplotlib()
    record = _chosen(tape, launch)
    [(_, values)] = launch_values(tape, [record])
    with Progress(None, max_seconds, caller="jacobian", doing="computing") as pace:
        copy = LaunchCopy.of(record, values, input_output_mask)
        subject = copy.subject(adjoint=mode != "tangent")
        if not subject.pairs.chosen:
            raise GradcheckError(
                f"launch {record.index} ({record.name}) has no Jacobian: no pair of a differentiable input "
                "and output",
                notes=subject.pairs.notes,
                hint="give an array that it reads and one that it writes requires_grad=True",
            )
        pace.subject = f"launch {record.index} ({record.name})"
        subject.program.pulse = pace.pulse
        found = assemble(
            JacobianRequest(
                subject.program, subject.pairs, mode, max_outputs_per_var, sample, sparse, pace.pulse
            )
        )
    if plot_jacobians:
        matrices = {key: matrix_of(value) for key, value in found.items()}
        plot_matrices(matrices, subject.metadata, show=True, title=f"Jacobian of {record.name}")
    return found


def _chosen(tape: Tape, launch: int | None) -> Any:
    kernels = [record for record in tape.records if record.kernel is not None]
    if launch is None:
        with_gradient = [record for record in kernels if record.active]
        if with_gradient:
            return with_gradient[-1]
        raise GradcheckError(
            f"none of the {len(kernels)} kernel launches of this cell has a Jacobian: no array that they "
            "read or write carries a gradient",
            hint="launch a kernel on arrays with requires_grad=True",
        )
    for record in kernels:
        if record.index == launch:
            return record
    known = ", ".join(f"{record.index} ({record.name})" for record in kernels)
    raise GradcheckError(f"launch {launch} is no kernel launch of this cell; there are {known or 'none'}")

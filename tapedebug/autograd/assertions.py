"""`assert_gradients`: a gradient check in one line of a test."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from tapedebug._errors import GradcheckError
from tapedebug.autograd.array_types import LaunchDim, Loss
from tapedebug.autograd.gradchecks import gradcheck
from tapedebug.autograd.results.gradcheck_result import GradcheckFailure, GradcheckResult
from tapedebug.autograd.tape_check import gradcheck_tape
from tapedebug.compiler.kernel import Kernel
from tapedebug.runtime.tape.tape import Tape

if TYPE_CHECKING:
    from tapedebug.contract import Array


class GradientAssertionError(GradcheckFailure, AssertionError):
    """The error for asserted gradients that do not agree; `result` is the whole result of the check."""


def assert_gradients(
    subject: Tape | Kernel | Callable[..., Any],
    dim: LaunchDim | None = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    *,
    loss: Loss | None = None,
    **options: Any,
) -> GradcheckResult:
    """Assert that gradients agree with finite differences.

    Nothing is printed. Every verdict other than AGREE fails, also UNDECIDABLE: an assertion must not pass
    without having compared anything.

    Args:
        subject: A kernel, a Python function that launches kernels, or a tape.
        dim: Number of threads; for kernels.
        inputs: Arguments of the kernel or function. Of a tape, with `loss`: the arrays whose gradients
            count; by default all that it reads first.
        outputs: A kernel's further arguments.
        loss: Of a tape: check the gradient of this loss end to end, as `gradcheck_tape(end_to_end=True)`.
            Without, each launch is checked at the values that it was launched with.
        options: Any further argument of `gradcheck`, or of `gradcheck_tape` for tapes: `atol`, `rtol`,
            `input_output_mask`, `max_inputs_per_var`, `max_seconds` ….

    Returns:
        The result, which is true.

    Raises:
        GradientAssertionError: An AssertionError that names the failing pair and entry, both numbers and the
            likely cause.
        GradcheckError: An argument has no meaning here.
    """
    __tracebackhide__ = True

    for fixed in ("raise_exception", "end_to_end"):
        if fixed in options:
            raise GradcheckError(
                f"assert_gradients takes no {fixed}",
                hint="call gradcheck or gradcheck_tape for a result instead of an assertion",
            )
    options = {"show_summary": False, **options, "raise_exception": False}
    if isinstance(subject, Tape):
        result = _tape(subject, dim, inputs, outputs, loss, options)
    elif loss is not None:
        raise GradcheckError(
            "assert_gradients: loss belongs to a tape; of a kernel or function all outputs are checked",
            hint="leave loss out, or choose outputs with input_output_mask",
        )
    else:
        result = gradcheck(subject, dim, inputs, outputs, **options)
    if not result:
        raise GradientAssertionError(result)
    return result


def _tape(
    tape: Tape,
    dim: object,
    inputs: Iterable[Array] | Array | None,
    outputs: object,
    loss: Loss | None,
    options: dict[str, Any],
) -> GradcheckResult:
    if dim is not None or outputs is not None or (inputs is not None and loss is None):
        raise GradcheckError(
            "assert_gradients: dim and outputs belong to kernels, and inputs of a tape to a loss",
            hint="pass assert_gradients(tape), or assert_gradients(tape, inputs=[x], loss=loss)",
        )
    if loss is not None:
        options |= {"end_to_end": True, "loss": loss, "inputs": inputs}
    return gradcheck_tape(tape, **options)

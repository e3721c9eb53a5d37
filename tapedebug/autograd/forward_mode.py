"""`jvp`: directional derivatives of launches, functions and tapes by forward mode."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tapedebug._errors import GradcheckError
from tapedebug._process_state import preserve_process_state
from tapedebug.autograd.array_types import DeviceLike, EngineArray, LaunchDim, Values
from tapedebug.autograd.subjects.shadow_program import launch_shadow, tape_shadow
from tapedebug.autograd.subjects.struct_fields import flat_call
from tapedebug.autograd.subjects.subject import function_subject, named_ports
from tapedebug.autograd.subjects.whole_tape import Names, not_an_input
from tapedebug.compiler.kernel import Kernel
from tapedebug.contract import is_array
from tapedebug.runtime.device import get_device
from tapedebug.runtime.launch.overloads import concrete
from tapedebug.runtime.memory.struct_fields import by_field
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.replay.shadow_memory import is_double
from tapedebug.runtime.tape.tape import Tape
from tapedebug.runtime.tape.tape_arrays import results_of

Make = Callable[[bool], Shadow]


@preserve_process_state
def jvp(
    function: Tape | Kernel | Callable[..., Any],
    dim: LaunchDim | None = None,
    inputs: Sequence[Any] | None = None,
    outputs: Sequence[Any] | None = None,
    tangents: Mapping[Any, Any] | None = None,
    *,
    dtype: type | None = None,
    device: DeviceLike | None = None,
) -> dict[Any, Values]:
    """The tangents of outputs, `J v`, for given tangents `v` of inputs: one sweep forward, no step size.

    Everything runs on private copies: no array and no gradient of the caller changes. Of a tape, launches run
    again with the values that they had when they were recorded; tangents flow forward with the values, so
    that overwritten arrays do no harm in any `on_overwrite` mode. Tangents flow through every float array on
    the way, whether it has `requires_grad` or not; what NumPy or other code wrote in between is constant.

    Args:
        function: A tape, a kernel, or a Python function that takes arrays and returns an array or a list of
            arrays (it is called once and its launches are recorded).
        dim: Number of threads of the launch; for kernels only.
        inputs: Arguments of the kernel or function.
        outputs: The kernel's further arguments; of a tape, the arrays whose tangents are returned (by default
            the float arrays that it writes and does not read again).
        tangents: Array → its tangent `v`, of the array's shape with components last; others have none.
        dtype: `float64` runs the float64 twins of the kernels.
        device: The device to run on.

    Returns:
        Array → its tangent after the run, of the array's shape with components last: for the outputs, and for
        inputs that the kernel writes; of a function, for the arrays that it returned, in that order. float32
        for float32 arrays, if `dtype` is not float64.

    Raises:
        GradcheckError: No tangent was given, one of them is of no input, or a tangent went into a function of
            `record_func` or a native function with arrays, through which its derivative is unknown.
        TapeError: An array is not on the tape, or its tangent has another shape; or `dtype` is neither None
            nor float64.
        LaunchError: The arguments do not fit the kernel.
    """
    get_device(device)
    if not tangents:
        raise GradcheckError("jvp: no tangents were given", hint="pass tangents={array: values}")
    tangents = dict(by_field(tangents, "jvp: the tangent"))
    require_floats("jvp: the keys of tangents", tangents)
    if isinstance(function, Tape):
        make, targets = _tape(function, outputs, tangents)
    else:
        make, targets = _called(function, dim, inputs, outputs, tangents)
    return _pushed(make, targets, tangents, dtype)


def _pushed(
    make: Make, targets: Sequence[Any], tangents: Mapping[Any, Any], dtype: type | None
) -> dict[Any, Values]:
    shadow = make(is_double(dtype))
    with np.errstate(all="ignore"):
        shadow.push({a: v.current() if is_array(v) else v for a, v in tangents.items()})
    if shadow.lost:
        raise GradcheckError(
            f"jvp: a tangent went into a function that has none: {shadow.lost[0]}; what comes out is unknown",
            hint="compute in kernels what depends on the inputs",
        )
    return {a: shadow.tangent(a) for a in targets}


def require_floats(what: str, arrays: Iterable[Any]) -> None:
    """Refuse what is no float array.

    Raises:
        GradcheckError: Something is none.
    """
    for array in arrays:
        if not is_array(array) or not array.is_float:
            given = f"an array of {array.dtype_name}" if is_array(array) else repr(array)
            raise GradcheckError(f"{what} are float arrays; got {given}")


def _tape(
    tape: Tape, outputs: Sequence[EngineArray] | EngineArray | None, tangents: Mapping[Any, Any]
) -> tuple[Make, list[Any]]:
    names = Names(tape)
    for array in tangents:
        reason = not_an_input(tape, names.of(array), array)
        if reason is not None:
            raise GradcheckError(f"jvp: {reason}", hint="pass the array that held the values first")
    if outputs is None:
        return tape_shadow(tape), results_of(tape)
    wanted = [outputs] if is_array(outputs) else list(outputs)
    require_floats("jvp: the outputs of a tape", wanted)
    return tape_shadow(tape), wanted


def _called(
    function: object,
    dim: LaunchDim | None,
    inputs: Sequence[Any] | None,
    outputs: Sequence[Any] | None,
    tangents: Mapping[Any, Any],
) -> tuple[Make, list[Any]]:
    given = list(inputs or ())
    if isinstance(function, Kernel):
        if dim is None:
            raise GradcheckError(
                f"kernel {function.key} needs dim, its number of threads",
                hint="pass dim=len(array), or its shape",
            )
        kernel = concrete(function, (*given, *(outputs or ())))
        given, further = flat_call(kernel, given, list(outputs or ()))
        make = launch_shadow(kernel, dim, [*given, *further])
        make(False)  # checks the arguments, with the messages of a launch
        _, written = named_ports(kernel, given, further)
        targets = [a for _, _, a in written if is_array(a) and a.is_float]
    elif callable(function):
        subject = function_subject(function, given, outputs, None)
        subject.require_repeatable()
        program = subject.program
        make, targets = program.shadow, [target.array for target in program.outputs]
    else:
        raise GradcheckError(
            f"jvp: a tape, a kernel or a function that launches kernels is needed; "
            f"got {function!r} ({type(function).__name__})"
        )
    return make, targets

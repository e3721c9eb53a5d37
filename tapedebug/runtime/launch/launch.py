"""`launch`: run a kernel over a grid of threads, and record it if a tape is active."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from tapedebug._errors import TapedebugError
from tapedebug.runtime.launch import argument_checks, argument_flattening
from tapedebug.runtime.launch.argument_packing import HEADER as _HEADER
from tapedebug.runtime.launch.argument_packing import KNOWN, Dims, dims, is_sizes, known_dims
from tapedebug.runtime.launch.argument_packing import address_of as address_of
from tapedebug.runtime.launch.checked_launch import launch as launch_checked
from tapedebug.runtime.launch.held_arguments import gathering, holding
from tapedebug.runtime.launch.overloads import concrete
from tapedebug.runtime.launch.plan import KernelPlan
from tapedebug.runtime.memory.array import array, settled
from tapedebug.runtime.memory.lazy_zero import covered, overwriting, waiting
from tapedebug.runtime.state import here, state
from tapedebug.runtime.tape.gradient_history import note_read
from tapedebug.runtime.tape.record import Site, call_site
from tapedebug.runtime.tape.record_hook import note_division, recorder_of
from tapedebug.runtime.tape.write_barrier import after_write, before_write

if TYPE_CHECKING:
    from types import FrameType

    from tapedebug.runtime.launch.command import Launch
    from tapedebug.runtime.memory.buffer import Buffer


def launch(
    kernel: Any,
    dim: int | Sequence[int],
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    adj_inputs: Sequence[Any] = (),
    adj_outputs: Sequence[Any] = (),
    device: Any = None,
    stream: Any = None,
    adjoint: bool = False,
    record_tape: bool = True,
    record_cmd: bool = False,
    max_blocks: int = 0,
    block_dim: int | None = 256,
) -> Launch | None:
    """Run `kernel` once for each index of `dim`.

    Args:
        kernel: A function decorated with `@kernel`.
        dim: Number of threads, or up to four sizes. A size of 0 runs (and records) nothing.
        inputs: Arguments for the first parameters.
        outputs: Arguments for the remaining parameters; the division into inputs and outputs has no effect.
        adj_inputs: With `adjoint`, the adjoints of `inputs`: arrays, or None for an array's own gradient.
        adj_outputs: The adjoints of `outputs`, likewise.
        device: Only `"cpu"` exists.
        stream: Accepted and ignored on the CPU.
        adjoint: Run the kernel's adjoint instead, with the current values in memory: it adds to the adjoints
            of arrays that the kernel reads, and consumes those of arrays that it overwrites. Not recorded.
        record_tape: False leaves the launch off the active tape; values that the tape needs are still
            preserved before they are overwritten.
        record_cmd: Run nothing, and return a `Launch` that can be launched many times.
        max_blocks: Accepted and ignored on the CPU.
        block_dim: Accepted and ignored on the CPU.

    Returns:
        With `record_cmd` the command, else None.

    Raises:
        LaunchError: The number, types or shapes of the arguments do not fit the kernel, or `dim` is negative.
        DeviceError: There is no such device.
        OverwriteError: The active tape has `on_overwrite="error"`, and the launch would overwrite values that
            it needs.
    """
    tape = here.thread.tape
    if tape is not None and record_tape and device is None and not (adjoint or record_cmd or waiting.blocks):
        try:
            plan = kernel.latest
        except AttributeError:  # not a kernel
            plan = None
        record_alike = None if plan is None else plan.record_alike
        if record_alike is not None and tape.tracking is None and state.foreign is None:
            frame = sys._getframe(1)
            site = state.site  # a loop launches from the same place again
            if frame.f_lasti != site[1] or frame.f_code is not site[0]:
                site = _site_in(frame)
            known = KNOWN.get(dim) if dim.__class__ is int else _known_within(plan, dim)
            if known is not None and record_alike(tape, inputs, outputs, known, site):
                return None
    if device is not None:
        argument_checks.check_device(kernel, device)
    try:
        args = (*inputs, *outputs)
    except TypeError as error:
        raise argument_checks.in_lists(kernel, inputs, outputs, error) from None
    if adjoint or record_cmd:
        adjoints = (*adj_inputs, *adj_outputs)
        try:
            return _otherwise(kernel, dim, inputs, outputs, adjoints, adjoint, record_cmd, record_tape)
        except TapedebugError as error:  # the message shows the user's line; frames of tapedebug are dropped
            raise argument_checks.in_lists(kernel, inputs, outputs, error).with_traceback(None) from None
    packed = known = None
    try:
        plan = kernel.latest
        if dim.__class__ is int:
            known = KNOWN.get(dim)
        else:
            known = known_dims(dim)
            if known is None or len(known[0]) > (1 if plan is None else plan.axes):
                kernel = kernel_for(kernel, dim, args)
                plan = kernel.latest
        if plan is not None and known is not None and not waiting.blocks:
            packed = plan.fitted(known[2], args)
    except (AttributeError, TypeError):  # other arguments than those of the last launch
        pass
    except TapedebugError as error:
        raise error.with_traceback(None) from None
    except ValueError:  # another number of them
        pass
    is_like_last = packed is not None
    if packed is None:
        if holding(args):
            with gathering(record_tape=record_tape):
                return launch(kernel, dim, inputs, outputs, record_tape=record_tape)
        try:
            plan, args = _plan_and_arguments(kernel, args)
        except TapedebugError as error:
            raise argument_checks.in_lists(kernel, inputs, outputs, error).with_traceback(None) from None
        if plan.checked:
            launch_checked(plan, dim, args, record_tape=record_tape)
            return None
        try:
            known = known or launch_dims(kernel, dim)
            if waiting.blocks and plan.covers:
                found = _overwritten(plan, args, known[0])
                if found:
                    with overwriting(found):
                        return launch(kernel, dim, inputs, outputs, record_tape=record_tape)
            packed = plan.tested(known[2], args)
        except TapedebugError as error:
            raise error.with_traceback(None) from None
    assert known is not None
    threads = known[1]
    if not threads:
        return None
    if tape is None or not record_tape:
        if tape is not None:
            tape.tracker.left_out(plan, args, call_site())
        for p in plan.gradients:
            note_read(args[p], "launch")
        for p in plan.written:
            written = args[p]
            before_write(written, call_site() if written.buffer.watch else None, "launch")
        (plan.run if threads < plan.least else plan.large)(0, threads, id(packed) + _HEADER)
        for p in plan.written:
            if args[p].buffer.windows:
                after_write(args[p])
        return None
    if tape.tracking is not None:
        launch_checked(plan, dim, args, record_tape=True)
        return None
    (plan.recorder or recorder_of(plan))(tape, args, known, packed, _site_in(sys._getframe(1)))
    if is_like_last:
        note_division(plan, args, inputs, outputs)
    if state.foreign is not None:
        state.foreign.note_arguments(tape.records[-1], (*inputs, *outputs))
    return None


def _site_in(frame: FrameType) -> Site:
    """Return the place in a frame, or that of the user's code from which tapedebug calls it.

    Launches from the same place share one object.
    """
    code, instruction = frame.f_code, frame.f_lasti
    last = state.site
    if instruction == last[1] and code is last[0]:
        return last
    if code is not last[0] and frame.f_globals.get("__name__", "").startswith("tapedebug"):
        return call_site(3)
    state.site = code, instruction
    return state.site


def _known_within(plan: KernelPlan, dim: Any) -> Dims | None:
    """Return the cached sizes of a launch; None if there are none, or if they may need another kernel."""
    known = known_dims(dim)
    return known if known is not None and len(known[0]) <= plan.axes else None


def _overwritten(plan: KernelPlan, args: tuple[Any, ...], sizes: tuple[int, ...]) -> list[Buffer]:
    """Return the uncleared buffers that a launch overwrites completely; none if more may be read.

    Element tracking, and the reverse pass of another engine, may read what the launch found.
    """
    tape = here.thread.tape
    if state.foreign is not None or (tape is not None and tape.tracking is not None):
        return []
    return covered(plan, args, sizes)


def _plan_and_arguments(kernel: Any, args: tuple[Any, ...]) -> tuple[KernelPlan, tuple[Any, ...]]:
    """Return the plan of a launch and the flat arguments; the next launch tries this plan first."""
    try:
        plans = kernel.plans
        plan = plans.get(kinds_of(args))
    except (AttributeError, TypeError):  # not a kernel
        plan = None
    if plan is not None:
        kernel.latest = plan
        if kernel.__dict__.get("plans") is not plans:  # another thread has changed a setting meanwhile
            kernel.latest = None
        return plan, args
    return resolve(kernel, args)


def _otherwise(
    kernel: Any,
    dim: Any,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    adjoints: tuple[Any, ...],
    adjoint: bool,
    record_cmd: bool,
    record_tape: bool,
) -> Launch | None:
    """Return a command for the launch, or run its adjoint."""
    if record_cmd:
        from tapedebug.runtime.launch.command import Launch

        return Launch(kernel, dim, (*inputs, *outputs), adjoints, adjoint=adjoint, record_tape=record_tape)
    _adjoint_launch()(kernel, dim, tuple(inputs), tuple(outputs), adjoints)
    return None


@cache
def _adjoint_launch() -> Callable[..., None]:
    from tapedebug.runtime.launch import adjoint_launch

    return adjoint_launch.run


def kernel_for(kernel: Any, dim: Any, args: tuple[Any, ...]) -> Any:
    """Return the kernel, or its version for a launch with more axes than `tid()` gives indices."""
    try:
        sizes = (known_dims(dim) or launch_dims(kernel, dim))[0]
    except TapedebugError:  # the launch says so, after it has checked the arguments
        return kernel
    if len(sizes) < 2 or not hasattr(kernel, "for_launch"):
        return kernel
    found = concrete(kernel, args).for_launch(sizes)
    if found.latest is not None:
        found.latest.axes = max(1, found.axes)
    return found


def resolve(kernel: Any, args: tuple[Any, ...], *, flat: bool = False) -> tuple[KernelPlan, tuple[Any, ...]]:
    """Check the arguments, and find or create the plan for their kinds.

    Args:
        kernel: The kernel.
        args: The arguments of `launch`; with `flat`, one for each flat parameter, as in records.
        flat: True if structs are flattened already.

    Returns:
        The plan, and the flat arguments, with NumPy arrays wrapped.
    """
    try:
        known = kernel.plans.get(kinds_of(args))
    except (AttributeError, TypeError):
        known = None
    if known is not None:
        return known, args
    if not hasattr(kernel, "plans"):
        raise argument_checks.not_a_kernel(kernel)
    settled(args)
    generic, kernel = kernel, concrete(kernel, args)
    if kernel.flat or flat:
        plan, found = _plan_of(kernel, args)
        if generic is not kernel and not plan.checked:  # a fast path for the next launch
            generic.plans[kinds_of(found)] = plan
        return plan, found
    return _plan_of(kernel, argument_flattening.check_and_flatten(kernel, args))


def kinds_of(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the key of a plan for flat arguments: the kinds of arrays, and the classes of numbers."""
    return tuple([a._kind if isinstance(a, array) else a.__class__ for a in args])


def _plan_of(kernel: Any, args: tuple[Any, ...]) -> tuple[KernelPlan, tuple[Any, ...]]:
    """Return the plan for flat arguments and the checked arguments.

    If the kernel's own parameters are not flat, the key begins with None, which is no kind of an argument.
    """
    lead = () if kernel.flat else (None,)
    key = (*lead, *kinds_of(args))
    plan = kernel.plans.get(key) or kernel.checked_plans.get(key)
    if plan is not None:
        return plan, args
    args = argument_checks.checked(kernel, args)
    key = (*lead, *kinds_of(args))
    plan = kernel.plans.get(key) or kernel.checked_plans.get(key)
    if plan is None:
        argument_checks.check_pointers(kernel, args)
        packers = tuple(argument_checks.packer(kernel, p) for p in kernel.params)
        plan = KernelPlan(kernel, args, packers)
        (kernel.checked_plans if plan.checked else kernel.plans)[key] = plan
    return plan, args


def launch_dims(kernel: Any, dim: Any) -> Dims:
    """Return `dim` as a tuple, its product, and its slots.

    Raises:
        LaunchSizeError: `dim` is not one to four sizes of 0 or more.
    """
    try:
        sizes: tuple[int, ...] = (operator.index(dim),)
    except TypeError:
        try:
            sizes = dim if is_sizes(dim) else tuple(operator.index(n) for n in dim)
        except TypeError:
            raise argument_checks.bad_dim(kernel, dim) from None
    if not 1 <= len(sizes) <= 4:
        raise argument_checks.bad_dim(kernel, dim)
    argument_checks.check_dim(kernel, sizes)
    return dims(sizes)

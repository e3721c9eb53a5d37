"""`launch(…, adjoint=True)`: run the adjoint of a kernel alone, with the caller's adjoint arrays."""

from __future__ import annotations

from array import array as Words
from typing import Any

import numpy as np

from tapedebug._errors import LaunchError, TapedebugError
from tapedebug.lang import types
from tapedebug.runtime.launch import argument_flattening, held_arguments
from tapedebug.runtime.launch.argument_packing import known_dims
from tapedebug.runtime.launch.checked_launch import Memory
from tapedebug.runtime.launch.launch import kernel_for, kinds_of, launch_dims, resolve
from tapedebug.runtime.launch.plan import NOTHING, KernelPlan, Runner
from tapedebug.runtime.memory.array import Values, array, make, new
from tapedebug.runtime.memory.buffer import Bytes
from tapedebug.runtime.reverse.argument_table import ArgumentTable, reversing
from tapedebug.runtime.reverse.live_space import LiveSpace
from tapedebug.runtime.tape.buffer_versions import InplaceSave
from tapedebug.runtime.tape.record import Record, call_site
from tapedebug.runtime.tape.tracker import Tracker
from tapedebug.runtime.tape.write_barrier import after_write, before_write


class _Given(LiveSpace):
    """An address space of the live values, which are those before the launch, and the caller's adjoints."""

    def __init__(self, adjoints: dict[array, array]) -> None:
        super().__init__("ignore")
        self.adjoints = adjoints

    def adjoint(self, a: array) -> int:
        """Return the address of the adjoint."""
        return self.adjoints[a].ptr

    def adjoint_view(self, a: array) -> Values:
        """Return the adjoint as a NumPy view."""
        return self.adjoints[a]._numpy_view()

    def inplace_save(self, record: Record, save: InplaceSave) -> Bytes:
        """Return the values before the launch; the adjoint re-executes stores on a copy of them."""
        memory: Bytes = record.args[save.params[0]].buffer.data
        return memory[save.start : save.stop]

    def in_memory(self, record: Record) -> frozenset[int]:
        """Return no parameters: memory does not hold the results of the launch."""
        return NOTHING


_ANYWHERE = LiveSpace("ignore")
"""The space that selects the adjoint entry; no memory is read through it."""


def run(
    kernel: Any, dim: Any, inputs: tuple[Any, ...], outputs: tuple[Any, ...], adjoints: tuple[Any, ...]
) -> None:
    """Run the adjoint of a launch.

    Args:
        kernel: The kernel.
        dim: The launch dimensions.
        inputs: The first arguments.
        outputs: The remaining arguments.
        adjoints: An array for each argument, or None for an array's own gradient; for a struct, an instance
            that holds such arrays. Entries for numbers are ignored. Missing trailing entries count as None.

    Raises:
        LaunchError: The arguments do not fit the kernel, an adjoint does not fit its array, or the kernel has
            no adjoint.
    """
    args = (*inputs, *outputs)
    try:
        known = known_dims(dim)
        if known is None or len(known[0]) > 1:
            kernel = kernel_for(kernel, dim, args)
        plan, args = _plan_and_arguments(kernel, args)
        kernel = plan.kernel
        given = _given(plan, args, _flat(kernel, adjoints))
        sizes, threads, slots = known or launch_dims(kernel, dim)
    except TapedebugError as error:
        raise error.with_traceback(None) from None
    if not given or not threads:
        return
    plan = plan_for(kernel, args, plan, frozenset(given))
    if plan.info is None:
        raise LaunchError(
            f"launch of {kernel.key}: the kernel has no adjoint (enable_backward=False)",
            hint="decorate it with @kernel alone, or leave out adjoint=True",
        )
    packed = plan.packed(slots, args)
    if _is_apart(plan, args):
        used, kept, changed = _adjoints(plan, args, given, plan.info.once)
        call, address, _held = _call_apart(plan, packed, used, kept)
    else:
        record = Record(0, plan, args, sizes, threads, packed, call_site(), None)
        Tracker("ignore", dry=True).before(record)
        # Where stores are executed again, all adjoints are consumed.
        once = NOTHING if record.inplace_saves else plan.info.once
        used, kept, changed = _adjoints(plan, args, given, once)
        call, address, _held = _call(record, used, kept)
    for gradient, _ in changed:
        memory = gradient.buffer
        before_write(gradient, call_site() if memory.watch or memory.history is not None else None, "launch")
    before = Memory(list(used.values())) if plan.diagnostics_back else None
    try:
        call(0, threads, address)
    except TapedebugError as error:
        if before is not None:
            before.restore()
        raise error.with_traceback(None) from None
    for gradient, changing in changed:
        if changing is not gradient:
            np.copyto(gradient._numpy_view(), changing._numpy_view())
        after_write(gradient)


def _plan_and_arguments(kernel: Any, args: tuple[Any, ...]) -> tuple[KernelPlan, tuple[Any, ...]]:
    """Return the plan of a launch and the flat arguments."""
    try:
        plan = kernel.plans.get(kinds_of(args))
    except (AttributeError, TypeError):  # not a kernel
        plan = None
    if plan is not None:
        return plan, args
    with held_arguments.gathering(adjoint=True):
        return resolve(kernel, args)


def _adjoints(
    plan: KernelPlan, args: tuple[Any, ...], given: dict[int, array], once: frozenset[int]
) -> tuple[dict[int, array], dict[int, int], list[tuple[array, array]]]:
    """Return what compiled code gets as adjoints, and what becomes of the caller's.

    Args:
        plan: The plan.
        args: The arguments.
        given: By parameter, the caller's adjoint.
        once: The parameters whose adjoint compiled code can leave unchanged.

    Returns:
        By parameter, the adjoint that compiled code gets: the caller's, or a copy; of those that it leaves
        unchanged, the address; and the caller's adjoints that change, each with what compiled code gets.
    """
    used: dict[int, array] = {}
    kept: dict[int, int] = {}
    changed = []
    for p, gradient in given.items():
        keeps = _keeps(plan, p, args[p], gradient)
        copied = keeps and p not in once and p in plan.info.changes
        used[p] = found = _in_place(args[p], gradient, copied)
        if not keeps:
            changed.append((gradient, found))
        elif p in once:
            kept[p] = found.ptr
    return used, kept, changed


Prepared = tuple[Runner, int, Any]
"""The runner of an adjoint, the address of its packed arguments, and an object to keep alive meanwhile."""


def _is_apart(plan: KernelPlan, args: tuple[Any, ...]) -> bool:
    """True if the adjoint needs no saved pre-launch values, which is the usual case."""
    touched = plan.touched
    return plan.plain and len({args[p].buffer for p in touched}) == len(touched)


def _call_apart(plan: KernelPlan, packed: bytes, used: dict[int, array], kept: dict[int, int]) -> Prepared:
    """Prepare the adjoint of such a launch: its packed arguments, with the adjoints in their slots."""
    words = Words("Q", packed)
    for p, slot in plan.adjoint_slots:
        words[slot] = used[p].ptr
    return reversing(plan, _ANYWHERE, kept=frozenset(kept)), words.buffer_info()[0], words


def _call(record: Record, used: dict[int, array], kept: dict[int, int]) -> Prepared:
    """Prepare the adjoint of any launch; needed values that it overwrites are recomputed in a copy."""
    table = ArgumentTable([record], _Given({record.args[p]: g for p, g in used.items()}))
    ((call,), _, (address,)) = table.steps([record])[1:]
    return table.leaving(record, kept) or call, address, table


def plan_for(kernel: Any, args: tuple[Any, ...], plan: KernelPlan, active: frozenset[int]) -> KernelPlan:
    """Return the cached plan for arguments of which those in `active` have an adjoint."""
    if active == plan.active:
        return plan
    key = ("adjoint", plan, active)
    found: KernelPlan | None = kernel.plans.get(key)
    if found is None:
        found = kernel.plans[key] = KernelPlan(kernel, args, plan.packers, active)
    return found


def _flat(kernel: Any, adjoints: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return one adjoint for each flat parameter; adjoints of a struct's fields come from a like struct."""
    if len(adjoints) > len(kernel.signature):
        raise LaunchError(
            f"launch of {kernel.key}: it has {len(kernel.signature)} arguments and {len(adjoints)} adjoints",
            hint="pass one adjoint for each argument, None for an array's own gradient",
        )
    return argument_flattening.adjoints(kernel, adjoints)


def _given(plan: KernelPlan, args: tuple[Any, ...], adjoints: tuple[Any, ...]) -> dict[int, array]:
    """Return the adjoint of each argument that has one."""
    found: dict[int, array] = {}
    for p in plan.floats:
        a = args[p]
        gradient = adjoints[p] if p < len(adjoints) else None
        if gradient is None:
            gradient = a.grad if a.requires_grad else None
        if gradient is not None:
            _check(plan.kernel, p, a, gradient)
            found[p] = gradient
    return found


def _check(kernel: Any, p: int, a: array, gradient: Any) -> None:
    if not isinstance(gradient, array) or (gradient.shape, gradient.dtype) != (a.shape, a.dtype):
        raise LaunchError(
            f"launch of {kernel.key}: the adjoint of argument {kernel.params[p].name!r} must be an array "
            f"like it, {a._facts().strip('()')}; got {gradient!r}",
            hint="pass zeros_like(array), or None for the array's own gradient",
        )


def _keeps(plan: Any, p: int, a: array, gradient: array) -> bool:
    """True if the incoming adjoint of an array that the launch only writes is left unchanged.

    A reverse pass consumes it. An array of the caller is preserved, and so is memory of another library,
    which may use it again.
    """
    written = p in plan.writes and p not in plan.reads
    own = a.requires_grad and gradient.buffer is a.buffer.adjoint and not gradient.buffer.windows
    return written and not own


def _in_place(a: array, gradient: array, copied: bool) -> array:
    """Return an adjoint that may be changed and has its array's strides, which compiled code expects."""
    if not copied and gradient.strides == a.strides:
        return gradient
    memory = new((a.stop - a.start,), types.uint8, zeroed=True).buffer
    at = memory.address + a.ptr - a.buffer.address - a.start
    made = make(memory, at, a.dtype, a.shape, a.strides)
    np.copyto(made._numpy_view(), gradient._numpy_view())
    return made

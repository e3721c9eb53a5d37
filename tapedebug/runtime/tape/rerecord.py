"""Re-record a tape in private with other adjoints: of arrays without gradients, or derived ones.

The first show what would flow if an array had a gradient, the second what a gradient would be without the
custom gradients. The new tape refers to the user's arrays and writes none of them: it is only run in shadows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tapedebug.compiler.passes.custom import is_derived, own_adjoints
from tapedebug.contract import Rerecording
from tapedebug.lang.types import is_float
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.launch.plan import KernelPlan
from tapedebug.runtime.launch.python_operation import PythonPlan, operation_of
from tapedebug.runtime.tape.array_names import ArrayNames
from tapedebug.runtime.tape.buffer_versions import BufferVersions, ExternalInput, RangeState, SavedValue
from tapedebug.runtime.tape.builtin_plans import COPY, FILL
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tracker import Tracker

if TYPE_CHECKING:
    from tapedebug.runtime import Tape
    from tapedebug.runtime.memory.buffer import Buffer


def rerecorded(tape: Tape, revived: Callable[[Record], frozenset[int]], stop: int | None = None) -> Tape:
    """Return a tape of the same launches, in which more arrays have a gradient.

    Args:
        tape: The tape.
        revived: Returns the parameters of a record that are such arrays. Launches that write them have
            adjoints, also with `enable_backward=False`.
        stop: The number of launches; by default all.
    """
    adjoints = _Revived()
    return _recorded_again(tape, lambda old: adjoints.plan(old, revived(old)), stop)


def derived_tape(tape: Tape, names: frozenset[str]) -> Tape:
    """Return a tape of the same launches, whose adjoints differentiate the bodies of some functions.

    Args:
        tape: The tape.
        names: Functions whose custom gradients or replays are ignored; gradients that are meant to differ,
            and those of native functions, stay.

    Raises:
        TapedebugError: The body of one of them has no adjoint: it calls a native function that has none.
    """
    return _recorded_again(tape, _Derived(names).plan, None)


def _recorded_again(tape: Tape, plan_of: Callable[[Record], Any], stop: int | None) -> Tape:
    found = copy.copy(tape)
    tracker = found.tracker = _Unkept(tape.on_overwrite, dry=True)
    tracker.settled = True  # the warning was issued, or the error raised, the first time
    found.records = tracker.records
    found._names = ArrayNames(dict(tape.array_names))
    found._prepared, found._leftovers, found._spare = None, {}, {}
    outside = list(tape.tracker.outside)
    count = len(tape.records) if stop is None else stop
    for old in tape.records[:count]:
        _write_outside(tracker, outside, old.index)
        item = Record(
            old.index, plan_of(old), old.args, old.dim, old.threads, old.packed, old.site, old.scope
        )
        item.value, item.func, item.elapsed = old.value, old.func, old.elapsed
        tracker.before(item)
        tracker.records.append(item)
    if count == len(tape.records):
        _write_outside(tracker, outside, count)
    for buffer, ledger in tracker.ledgers.items():
        kept = tape.tracker.ledgers[buffer].liveins
        ledger.liveins = [live for live in kept if live.at < count or count == len(tape.records)]
    tracker.dry = False
    return found


def _write_outside(tracker: Any, outside: list[Any], at: int) -> None:
    """Enter the writes outside the tape that came before a record."""
    while outside and outside[0].at <= at:
        event = outside.pop(0)
        if event.array.region in tracker.ledgers:
            tracker.overwritten_outside(event.array.region, event.array, event.site, event.how)


class _Unkept(Tracker):
    """The tracker of launches that ran long ago: it keeps no copies, because shadows make them again."""

    def _keep_need(self, need: SavedValue, buffer: Buffer, live: ExternalInput | None) -> None:
        pass

    def _keep_livein(self, live: ExternalInput, buffer: Buffer, need: SavedValue | None = None) -> None:
        pass

    def _guard(self, state: RangeState, ledger: BufferVersions) -> None:
        pass


class _Derived:
    """Plans whose adjoints differentiate the bodies of some functions; launches of one kind share one."""

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self.plans: dict[Any, Any] = {}

    def plan(self, record: Record) -> Any:
        """Return the plan of a record.

        Raises:
            TapedebugError: A body has no adjoint.
        """
        old: Any = record.plan
        if old.kind != "kernel" or old.info is None:
            return old
        if old not in self.plans:
            called = {node.name for node in own_adjoints(old.kernel._lowered.custom.body) if is_derived(node)}
            names = self.names & called
            self.plans[old] = old
            if names:
                kernel: Any = _WithoutGradients(old.kernel, names)
                plan = self.plans[old] = KernelPlan(kernel, record.args, old.packers, old.active)
                if plan.info.refused is not None:
                    raise plan.info.refused.with_traceback(None)
        return self.plans[old]


class _WithoutGradients:
    """A kernel whose adjoint differentiates the bodies of functions with custom gradients."""

    def __init__(self, kernel: Any, names: frozenset[str]) -> None:
        self._kernel, self._names = kernel, names

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

    def adjoint_info(self, active: frozenset[int], **sets: Any) -> Any:
        """Return what the adjoint needs; see `Kernel`."""
        return self._kernel.adjoint_info(active, derived=self._names, **sets)

    def adjoint(self, active: frozenset[int], **options: Any) -> Any:
        """Return the compiled adjoint; see `Kernel`."""
        return self._kernel.adjoint(active, derived=self._names, **options)


class _Revived:
    """Plans with other active parameters; launches of one kind share one, as on any tape."""

    def __init__(self) -> None:
        self.plans: dict[Any, Any] = {}
        self.kernels: dict[int, Any] = {}

    def plan(self, record: Record, alive: frozenset[int]) -> Any:
        """Return the plan of a record in which these parameters are active, too."""
        old: Any = record.plan
        active, wanted = alive | old.active, bool(alive & old.writes)
        disabled = wanted and old.kind == "kernel" and not old.kernel.enable_backward
        if old.kind == "func" or (active == old.active and not disabled):
            return old
        if old.kind == "copy":
            return COPY[0 in active, 1 in active]
        if old.kind == "fill":
            return FILL[bool(active)]
        if old.kind == "python":
            floats = frozenset(p for p, a in enumerate(record.args) if is_float(a.dtype))
            return PythonPlan(operation_of(record), active & floats)
        key = (id(old), active, disabled)
        if key not in self.plans:
            kernel = self._differentiable(old.kernel) if disabled else old.kernel
            self.plans[key] = KernelPlan(kernel, record.args, old.packers, active)
        return self.plans[key]

    def _differentiable(self, kernel: Any) -> Any:
        return self.kernels.setdefault(id(kernel), _Differentiable(kernel))


class _Differentiable:
    """A kernel that was compiled with `enable_backward=False`, but with an adjoint."""

    enable_backward = True

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


class TapeRerecording:
    """The capability `contract.Rerecording` of a tape."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def rerecorded(self, revived: Callable[[Record], frozenset[int]], stop: int | None = None, /) -> Tape:
        """Return a tape of the same launches, in which more arrays have a gradient."""
        return rerecorded(self._tape, revived, stop)


TAPE[Rerecording] = TapeRerecording

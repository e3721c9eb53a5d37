"""A tape whose arrays have gradients that they did not have, in private: what would flow if they had.

It refers to the arrays of the user, and writes none of them: like any tape it is only run in shadows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tapedebug.runtime._named import Names
from tapedebug.runtime._without_kernel import COPY, FILL
from tapedebug.runtime.plan import KernelPlan
from tapedebug.runtime.record import Record
from tapedebug.runtime.versions import Tracker

if TYPE_CHECKING:
    from tapedebug.runtime import Tape


def reopened(tape: Tape, revived: Callable[[Record], frozenset[int]], stop: int | None = None) -> Tape:
    """Return a tape of the same launches, of which some arrays have a gradient that they did not have.

    Args:
        tape: The tape.
        revived: Gives the parameters of a record that are such arrays. Launches that write them have
            adjoints, also with `enable_backward=False`.
        stop: How many launches it has; by default all.
    """
    found = copy.copy(tape)
    tracker = found.tracker = Tracker(tape.on_overwrite, dry=True)
    tracker.settled = True  # it has been told, or refused, once
    found.records = tracker.records
    found._names = Names(dict(tape.array_names))
    found._prepared, found._leftovers, found._spare = None, {}, {}
    adjoints = _Adjoints()
    outside = list(tape.tracker.outside)
    count = len(tape.records) if stop is None else stop
    for old in tape.records[:count]:
        _write_outside(tracker, outside, old.index)
        alive = revived(old)
        plan = adjoints.plan(old, alive | old.plan.active, bool(alive & old.plan.writes))
        item = Record(old.index, plan, old.args, old.dim, old.threads, old.packed, old.site, old.scope)
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
    """Enter what something outside the tape wrote before a record."""
    while outside and outside[0].at <= at:
        event = outside.pop(0)
        ledger = tracker.ledgers.get(event.array.buffer)
        if ledger is not None:
            tracker.overwritten_outside(ledger, event.array, event.site, event.how)


class _Adjoints:
    """Plans with other active parameters; launches of one kind share one, as on any tape."""

    def __init__(self) -> None:
        self.plans: dict[Any, Any] = {}
        self.kernels: dict[int, Any] = {}

    def plan(self, record: Record, active: frozenset[int], wanted: bool) -> Any:
        """Return the plan of a record with these parameters active; `wanted`: its adjoint has work to do."""
        old: Any = record.plan
        disabled = wanted and old.kind == "kernel" and not old.kernel.enable_backward
        if old.kind == "func" or (active == old.active and not disabled):
            return old
        if old.kind == "copy":
            return COPY[0 in active, 1 in active]
        if old.kind == "fill":
            return FILL[bool(active)]
        key = (id(old), active, disabled)
        if key not in self.plans:
            kernel = self._differentiable(old.kernel) if disabled else old.kernel
            self.plans[key] = KernelPlan(kernel, record.args, old.packers, active)
        return self.plans[key]

    def _differentiable(self, kernel: Any) -> Any:
        return self.kernels.setdefault(id(kernel), _Differentiable(kernel))


class _Differentiable:
    """A kernel that was compiled with `enable_backward=False`, with its adjoint."""

    enable_backward = True

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)

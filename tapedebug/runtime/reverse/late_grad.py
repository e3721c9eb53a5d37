"""Gradients for arrays that a tape already used: late `requires_grad`, seeds for arrays without.

The adjoint of a launch, and the values that it needs, depend on which arrays have a gradient. If that has
changed since the launch was recorded, the record gets the plan that fits now, provided that memory still
holds the values that this plan needs. Otherwise that is an error, never a wrong gradient.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tapedebug._errors import TapeError
from tapedebug.lang import types
from tapedebug.runtime.launch.adjoint_launch import plan_for
from tapedebug.runtime.launch.plan import KernelPlan, LaunchPlan, has_gradient
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.buffer_versions import RangeState, SavedValue
from tapedebug.runtime.tape.builtin_plans import COPY, FILL
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tracker import Tracker


class seeded:
    """Context manager that sets `requires_grad` on the seeded arrays; undone if the block fails."""

    __slots__ = ("_tracker", "_without")

    def __init__(self, tracker: Tracker, grads: Mapping[Any, Any]) -> None:
        self._tracker = tracker
        self._without = [
            a for a in grads if isinstance(a, array) and not a._requires_grad and types.is_float(a.dtype)
        ]

    def __enter__(self) -> None:
        try:
            for a in self._without:
                a.requires_grad = True
        except BaseException:
            self._take_back()
            raise

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            self._take_back()
        elif self._tracker.activated:
            try:
                _activate(self._tracker)
            except BaseException:
                self._take_back()
                raise

    def _take_back(self) -> None:
        for a in self._without:
            a.requires_grad = False


def _activate(tracker: Tracker) -> None:
    """Give each record of a tape the plan for the gradients that its arrays have now.

    Raises:
        TapeError: Values that such a plan needs were overwritten; the tape is unchanged.
    """
    changed = []
    for record in tracker.records:
        plan = _plan_now(record)
        if plan is not record.plan:
            changed.append((record, plan, _needs(tracker, record, plan)))
    for record, plan, needs in changed:
        for p, need in zip(plan.needed, needs, strict=True):
            a = record.args[p]
            if need.clobber is None:  # from now on it is preserved when it is overwritten
                ledger, state = tracker.ledgers[a.buffer], tracker.states[a]
                if state.need is None:
                    state.need = need
                    ledger.add_need(need)
                    ledger.heat(state)
        record.plan, record.needs = plan, needs
    tracker.activated = False
    tracker.kept += bool(changed)


def _plan_now(record: Record) -> LaunchPlan:
    args: tuple[Any, ...] = record.args
    if record.kind == "copy":
        return COPY[has_gradient(args[0]), has_gradient(args[1])]
    if record.kind == "fill":
        return FILL[has_gradient(args[0])]
    plan = record.plan
    if not isinstance(plan, KernelPlan):
        return plan
    # An array whose gradient was switched off stays active in the plan: later launches may rely on that.
    active = frozenset(i for i in plan.arrays if has_gradient(args[i])) | plan.active
    return plan_for(plan.kernel, args, plan, active)


def _needs(tracker: Tracker, record: Record, plan: LaunchPlan) -> tuple[SavedValue, ...]:
    known = dict(zip(record.plan.needed, record.needs, strict=True))
    return tuple(known[p] if p in known else _need(tracker, record, plan, p) for p in plan.needed)


def _need(tracker: Tracker, record: Record, plan: LaunchPlan, p: int) -> SavedValue:
    """Return the need of parameter `p` with the values that the launch read, which memory must still hold."""
    a = record.args[p]
    state = tracker.states[a]
    clobber, what = _overwritten(tracker, record, p in plan.early, state)
    if clobber is None and state.need is not None:
        return state.need
    need = SavedValue(state.start, state.stop, record.index, p)
    if clobber is None:
        return need
    if tracker.mode in {"preserve", "error"}:
        late = ", ".join(
            f"`{plan.names[q]}`" for q in sorted(plan.active - record.plan.active) if q < len(plan.names)
        )
        raise TapeError(
            f"backward: {late} of launch {record.index} ({record.name}) got a gradient after the launch was "
            f"recorded, and {what} has overwritten values of `{plan.names[p]}` that its adjoint needs",
            hint="create the array with requires_grad=True, before the launch",
        )
    need.clobber = clobber
    return need


def _overwritten(tracker: Tracker, record: Record, early: bool, state: RangeState) -> tuple[int | None, str]:
    """Return the position and writer of the first overwrite of a range after a launch used it."""
    buffer = state.array.buffer
    for later in tracker.records[record.index if early else record.index + 1 :]:
        for q in later.plan.written:
            b: array = later.args[q]
            if b.buffer is buffer and tracker.states[b].meets(state):
                what = "it" if later is record else f"launch {later.index} ({later.name})"
                return later.index, what
    for event in tracker.outside:
        met = event.array.buffer is buffer and RangeState(-1, event.array).meets(state)
        if met and event.at > record.index:
            return event.at, "a write that is not on the tape"
    if buffer.windows:
        return len(tracker.records), "NumPy, perhaps, through a view that is still open,"
    return None, ""

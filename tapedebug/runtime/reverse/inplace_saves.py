"""Save pre-launch values of arrays that a kernel reads and overwrites, for its own adjoint."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from tapedebug.runtime.memory.alias_spans import folds
from tapedebug.runtime.tape.buffer_versions import InplaceSave, RangeState

if TYPE_CHECKING:
    from tapedebug.runtime.tape.record import Record
    from tapedebug.runtime.tape.tracker import Tracker


def save_inplace_values(
    tracker: Tracker, record: Record, own: dict[int, RangeState], crossed: list[tuple[int, int, bool]]
) -> None:
    """Group the parameters through which a launch writes values that its own adjoint needs, and save these.

    For parameters that share memory, the order of threads may matter, which repeating the stores preserves.
    """
    plan = record.plan
    groups: list[set[int]] = []
    for p, need in zip(plan.needed, record.needs, strict=True):
        if need.clobber != record.index:
            continue
        buffer = record.args[p].buffer
        members = {p} | {
            q
            for q in (*plan.written, *plan.needed)
            if record.args[q].buffer is buffer and (own[q] is own[p] or own[q].number in own[p].overlaps)
        }
        _join(groups, members)
    for p, q, always in crossed:
        same = own[p] is own[q]
        if (same and always) or (not same and own[q].number in own[p].overlaps):
            _join(groups, {p, q})
    kept = {
        (record.args[p].buffer, n.start, n.stop): n.copy
        for p, n in zip(plan.needed, record.needs, strict=True)
        if n.clobber == record.index
    }
    found = []
    for members in groups:
        start = min(own[p].start for p in members)
        stop = max(own[p].stop for p in members)
        buffer = record.args[min(members)].buffer
        copy = shared = kept.get((buffer, start, stop))
        if tracker.mode != "ignore" and copy is None and not tracker.dry:
            copy = buffer.copy_range(start, stop)
        found.append(InplaceSave(tuple(sorted(members)), start, stop, copy))
        if tracker.budget is not None and copy is not None:
            tracker.budget.keep(found[-1], copy.nbytes if shared is None else 0)
    record.inplace_saves = tuple(found)


def shares_views(record: Record) -> bool:
    """Return True if a launch writes through views that overlap, or through one that overlaps itself.

    A thread's own element of one is then another thread's, too.
    """
    for save in record.inplace_saves:
        views = [record.args[p] for p in save.params]
        if any(not a.is_contiguous and folds(a.shape, a.strides, a.item_size) for a in views):
            return True
        if any((a.ptr, a.shape, a.strides) != (b.ptr, b.shape, b.strides) for a, b in pairwise(views)):
            return True
    return False


def _join(groups: list[set[int]], members: set[int]) -> None:
    """Add a group, merged with those that it intersects."""
    for group in [g for g in groups if g & members]:
        groups.remove(group)
        members |= group
    groups.append(members)

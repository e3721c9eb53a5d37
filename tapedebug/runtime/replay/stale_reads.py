"""Reverse passes in which some launches see the present content of memory, not the values that they read.

An engine that keeps no copies reads arrays in place. If the values that an adjoint needs were overwritten, by
its own launch or a later one, it reads the new values; stores are not repeated for it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tapedebug.compiler.kernel_queries import native_calls
from tapedebug.contract import StaleReads
from tapedebug.runtime.capabilities import TAPE
from tapedebug.runtime.launch.plan import NOTHING
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.replay.shadow_memory import copied
from tapedebug.runtime.replay.shadow_space import ShadowSpace
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tape import Tape

Pairs = Collection[tuple[int, int]]
"""Pairs of (launch, parameter)."""
ByRecord = dict[int, frozenset[int]]
"""Numbers by record. Records that are alike share a set: a set of pairs would take 150 bytes for each."""


class TapeStaleReads:
    """The capability `contract.StaleReads` of a tape."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def new_replay(self) -> Shadow:
        """Return a new replay that `see` can be used with."""
        shadow = Shadow(self._tape.tracker)
        space: Any = shadow.space
        space.__class__ = CarelessSpace
        space.unpreserved, space.after, space.left, space.memory = {}, {}, {}, {}
        space.keeps = self._tape.tracker.mode in ("preserve", "error")
        return shadow

    def see(self, replay: Shadow, now: Pairs, left: Pairs, /) -> None:
        """Set what the next reverse passes read; see `contract.StaleReads.see`."""
        _see(replay, now, left)


def _see(shadow: Shadow, now: Pairs, left: Pairs) -> None:
    """Set the values that adjoints see in the next reverse passes of a shadow that has run forward.

    Args:
        shadow: A shadow from `new_replay`.
        now: Pairs that see the content of memory at the end of the forward pass.
        left: Pairs that see what the launch itself left in the array. All others see the values that they
            had.
    """
    space: Any = shadow.space
    memory: ByRecord = {}
    unpreserved: ByRecord = {}
    after: ByRecord = {}
    shared: dict[frozenset[int], frozenset[int]] = {}

    def add(found: ByRecord, index: int, numbers: Collection[int]) -> None:
        if numbers:
            every = found.get(index, NOTHING).union(numbers)
            found[index] = shared.setdefault(every, every)

    for pairs, found in ((now, unpreserved), (left, after)):
        for index, param in pairs:
            record = shadow.records[index]
            together = _together(record, param, kept=space.keeps)
            add(memory, index, together & record.replay)
            seen = [need for p, need in zip(record.needed, record.needs, strict=True) if p in together]
            add(found, index, [place for place, need in enumerate(record.needs) if need in seen])
    for index in after.keys() & unpreserved.keys():
        after[index] -= unpreserved[index]
    if (unpreserved, after, memory) == (space.unpreserved, space.after, space.memory):
        return
    space.unpreserved, space.after, space.memory = unpreserved, after, memory
    for index, place in [key for key in space.left if key[1] not in after.get(key[0], NOTHING)]:
        del space.left[index, place]
    _keep_left(
        shadow, [index for index in after if any((index, place) not in space.left for place in after[index])]
    )
    shadow._tables.clear()  # the values that each launch sees are fixed when the table is made


def _together(record: Record, param: int, *, kept: bool) -> set[int]:
    """Return the parameters of a launch that see values of one kind: stores are repeated for all or none.

    These are parameters that share memory, and those that one call of a native function gets. If the tape
    keeps values (`kept`), the latter count only if a replay snippet stands for the function in Warp's reverse
    pass, which otherwise runs it again, with the present content of memory.
    """
    groups = [frozenset(save.params) for save in record.inplace_saves]
    if record.kernel is not None and groups:
        calls = native_calls(record.kernel)
        groups += [touched & record.replay for touched, stays in calls if stays or not kept]
    found = {param}
    while more := [group for group in groups if group & found and not group <= found]:
        found.update(*more)
    return found


def _keep_left(shadow: Shadow, launches: Collection[int]) -> None:
    """Run forward again, and keep what some launches leave in the arrays that their adjoints need."""
    if not launches:
        return
    space: Any = shadow.space
    wanted = frozenset(launches)

    def keep(record: Record) -> None:
        if record.index in wanted:
            for place in space.after[record.index]:
                need, buffer = record.needs[place], space.buffers[record.args[record.needed[place]].region]
                space.left[record.index, place] = copied(buffer.range(need.start, need.stop))

    shadow.forward(on_operation=keep)


class CarelessSpace(ShadowSpace):
    """A space in which some adjoints read the content of memory in the reverse pass; see `_see`.

    Attributes:
        unpreserved: By record, the numbers of its needs that read the present content.
        after: The same, for needs that read the content after the record.
        left: That content, by the record and the number of the need.
        memory: By record, parameters that it wrote and whose values its adjoint reads from memory.
        keeps: The user's tape keeps values.
    """

    unpreserved: ByRecord
    after: ByRecord
    left: dict[tuple[int, int], Any]
    memory: ByRecord
    guarded = True

    def preserved(self, record: Record, need: Any) -> Any:
        """Return the copy that an adjoint reads for one of its needs; None to read memory in place."""
        index = record.index
        unpreserved, after = self.unpreserved.get(index), self.after.get(index)
        if unpreserved or after:
            place = next(place for place, each in enumerate(record.needs) if each is need)
            if unpreserved and place in unpreserved:
                return None
            if after and place in after:
                return self.left[index, place]
        return super().preserved(record, need)

    def in_memory(self, record: Record) -> frozenset[int]:
        """Return the parameters whose values an adjoint reads from memory."""
        return self.memory.get(record.index) or super().in_memory(record)


TAPE[StaleReads] = TapeStaleReads

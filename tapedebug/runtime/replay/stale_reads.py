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
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.replay.shadow_memory import copied
from tapedebug.runtime.replay.shadow_space import ShadowSpace
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tape import Tape

Pairs = Collection[tuple[int, int]]
"""Pairs of (launch, parameter)."""


class TapeStaleReads:
    """The capability `contract.StaleReads` of a tape."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    def new_replay(self) -> Shadow:
        """Return a new replay that `see` can be used with."""
        shadow = Shadow(self._tape.tracker)
        space: Any = shadow.space
        space.__class__ = CarelessSpace
        space.left, space.memory = {}, {}
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
    memory: dict[int, frozenset[int]] = {}
    shared: dict[frozenset[int], frozenset[int]] = {}  # one object for all launches that are alike
    unpreserved: set[tuple[int, int]] = set()
    after: set[tuple[int, int]] = set()
    for pairs, found in ((now, unpreserved), (left, after)):
        for index, param in pairs:
            record = shadow.records[index]
            together = _together(record, param, kept=space.keeps)
            params = memory.get(index, frozenset()) | (together & record.replay)
            memory[index] = shared.setdefault(params, params)
            needs = zip(record.needed, record.needs, strict=True)
            found.update((index, id(need)) for p, need in needs if p in together)
    space.unpreserved, space.after, space.memory = (
        frozenset(unpreserved),
        frozenset(after - unpreserved),
        memory,
    )
    for key in [key for key in space.left if key not in space.after]:
        del space.left[key]
    _keep_left(shadow, {index for index, need in space.after if (index, need) not in space.left})
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

    def keep(record: Record) -> None:
        if record.index in launches:
            for p, need in zip(record.needed, record.needs, strict=True):
                if (record.index, id(need)) in space.after:
                    buffer = space.buffers[record.args[p].region]
                    space.left[record.index, id(need)] = copied(buffer.range(need.start, need.stop))

    shadow.forward(on_operation=keep)


class CarelessSpace(ShadowSpace):
    """A space in which some adjoints read the content of memory in the reverse pass; see `_see`.

    Attributes:
        unpreserved: (index of a record, identity of one of its needs) that read the present content.
        after: The same, for needs that read the content after the record.
        left: That content.
        memory: By record, parameters that it wrote and whose values its adjoint reads from memory.
        keeps: The user's tape keeps values.
    """

    unpreserved: frozenset[tuple[int, int]] = frozenset()
    after: frozenset[tuple[int, int]] = frozenset()
    left: dict[tuple[int, int], Any]
    memory: dict[int, frozenset[int]]
    guarded = True

    def preserved(self, record: Record, need: Any) -> Any:
        """Return the copy that an adjoint reads for one of its needs; None to read memory in place."""
        key = (record.index, id(need))
        if key in self.unpreserved:
            return None
        return self.left[key] if key in self.after else super().preserved(record, need)

    def in_memory(self, record: Record) -> frozenset[int]:
        """Return the parameters whose values an adjoint reads from memory."""
        return self.memory.get(record.index) or super().in_memory(record)


TAPE[StaleReads] = TapeStaleReads

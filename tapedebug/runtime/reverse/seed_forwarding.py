"""Launches of a reverse pass that read their incoming adjoint directly from the caller's seed.

A seed is otherwise copied to the gradient of its array, whose launch then consumes it: the copy takes as long
as the adjoint of a small kernel. It can be left out if that launch is the only one that uses the gradient,
reads each element once, and the gradient, zero before, is zero after the pass.
"""

from __future__ import annotations

from collections.abc import Mapping

from tapedebug.runtime.launch.call_list import Call, CallList
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import ZERO, Buffer
from tapedebug.runtime.reverse.argument_table import ArgumentTable
from tapedebug.runtime.reverse.borrowed_seed import BorrowedSeed
from tapedebug.runtime.reverse.seeds import SeedMap
from tapedebug.runtime.tape.record import Record

Taker = tuple[Record, int]
"""The only launch that uses an array, and the parameter through which it does."""


class SeedForwarding:
    """The launches of a pass that find their incoming adjoints in seeds.

    Args:
        records: The records that the pass reverses.
        table: Its packed arguments.
        calls: Its calls.
        order: The indices of the records that these reverse.
        emptied: The buffers whose gradients are zero after the pass.
    """

    def __init__(
        self,
        records: list[Record],
        table: ArgumentTable,
        calls: CallList,
        order: list[int],
        emptied: set[Buffer],
    ) -> None:
        self._records, self._table, self._calls, self._order = records, table, calls, order
        self._emptied = emptied
        self._takers: dict[array, Taker | None] = {}
        self._usual: dict[Record, Call] = {}
        self._borrowed: dict[Record, dict[int, int]] = {}

    def lend(self, seeds: SeedMap) -> SeedMap:
        """Let launches read seeds in place in the next pass; return the seeds that must be copied."""
        if not self._borrowed and BorrowedSeed not in map(type, seeds.values()):
            return seeds
        wanted: dict[Record, dict[int, int]] = {}
        copied: SeedMap = {}
        for a, seed in seeds.items():
            taker = self._taker(a) if isinstance(seed, BorrowedSeed) and _is_empty(a) else None
            if taker is None:
                copied[a] = seed
            else:
                assert isinstance(seed, BorrowedSeed)
                wanted.setdefault(taker[0], {})[taker[1]] = seed.address
        for record in {**self._borrowed, **wanted}:
            self._set(record, wanted.get(record, {}), self._borrowed.get(record, {}))
        self._borrowed = wanted
        return copied

    def _taker(self, a: array) -> Taker | None:
        """Return the only launch that uses an array, if it consumes the whole gradient."""
        if a not in self._takers:
            self._takers[a] = self._found(a) if a.is_contiguous and a.buffer in self._emptied else None
        return self._takers[a]

    def _found(self, a: array) -> Taker | None:
        users = [
            (record, p)
            for record in self._records
            for p, other in enumerate(record.args)
            if isinstance(other, array) and other.buffer is a.buffer
        ]
        if len(users) != 1:
            return None
        record, p = users[0]
        info = record.plan.info
        once = info is not None and p in info.once and not record.inplace_saves
        return users[0] if once and record.args[p].ptr == a.ptr and record.index in self._order else None

    def _set(self, record: Record, places: Mapping[int, int], before: Mapping[int, int]) -> None:
        """Let a launch find some adjoints at these addresses, and the others in gradients."""
        if places == before:
            return
        number = self._order.index(record.index)
        usual = self._usual.setdefault(record, self._calls[number])
        run = self._table.leaving(record, places)
        if places.keys() != before.keys():  # the function depends on the parameters only
            self._calls[number] = usual if run is None else (run, *usual[1:])


def _is_empty(a: array) -> bool:
    """Return True if the gradient of an array is known to be zero."""
    memory = a.buffer.gradient()
    return memory.fill == ZERO and not memory.windows

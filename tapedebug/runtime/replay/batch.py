"""Run a shadow many times at once: rows with other inputs, tangents or seeds, in one compiled call.

Each row has its own memory for values that differ from row to row (adjoints; in forward runs, displaced and
written values); all other values are read from the shadow. Each row equals, to the last bit, a run of the
shadow alone. Memory is bounded: many rows run in chunks, one after the other in the same memory, which is
kept for the next call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tapedebug.contract import Consume
from tapedebug.lang import types
from tapedebug.runtime.config import config
from tapedebug.runtime.launch.call_list import Call, CallList
from tapedebug.runtime.launch.plan import Runner
from tapedebug.runtime.memory.addresses import address_of
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.replay.batch_memory import (
    BatchAddressSpace,
    BatchArgumentTable,
    BatchMemory,
    Words,
    stride_of,
)
from tapedebug.runtime.replay.shadow import Shadow, Values
from tapedebug.runtime.replay.tangents import forward_special, tangent_special
from tapedebug.runtime.tape.record import Record

ROOM = 2 << 20
"""Bytes that the rows of a chunk take together, if one does not take more: they stay in the cache.

Forward, a five-point stencil, n = 65,536, float64, 8 rows, all memory fresh: 2.7 ms, and 20 ms with 8 MiB,
mostly page faults.
"""

Matrices = Mapping[array, Values]
"""By array, its content in all rows: (count, …), components last."""


class BatchedReplay:
    """Runs a shadow for many rows at once.

    Its methods take and return matrices, one row for each run. They require that `obstacle` returns an empty
    text.

    Args:
        shadow: A shadow of a tape or a launch. Forward runs start over with its inputs, and do not move it.
    """

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow
        self._batches: dict[Any, _Batch] = {}

    def obstacle(self, *, back: bool = False, moving: bool = False, consume: Consume = "versions") -> str:
        """Return why rows must run one by one; empty if they can run at once.

        Args:
            back: In the reverse pass.
            moving: In a run with tangents.
            consume: The values that the reverse pass sees, as for `Shadow.backward`.
        """
        shadow = self.shadow
        for record in shadow.records:
            if record.kind == "kernel" and record.kernel.analysis.native:
                return (
                    f"launch {record.index} ({record.name}) calls native functions, which may write anywhere"
                )
            if record.kind == "python":
                return f"record {record.index} ({record.name}) is a Python operation, which runs row by row"
            if record.kind == "func" and moving:
                return f"record {record.index} is a custom function, in which tangents may be lost"
        foreign = shadow.space.foreign_reverse
        if back and consume == "current" and foreign is not None:
            return f"the reverse pass is that of {foreign.engine}"
        if not back and shadow._injections:
            return "something outside the tape wrote between its records"
        return ""

    def backward(
        self, seeds: Matrices, wanted: Sequence[array], consume: Consume = "versions", dtype: Any = None
    ) -> list[Values]:
        """Return the adjoints of arrays for each row of seeds, after `forward` of the shadow.

        Args:
            seeds: Incoming adjoints, (count, …).
            wanted: The arrays whose adjoints are returned.
            consume: As for `Shadow.backward`.
            dtype: The dtype of the result; by default that of the memory: float64 of twins, otherwise the
                array's own.

        Returns:
            (count, scalars) for each wanted array.
        """
        seeded = frozenset(a.buffer for a in seeds)
        key = ("backward", consume, self.shadow.position, config.strong_zero, seeded)
        return self._run(
            key, lambda count: _Backward(self.shadow, consume, seeded, count), seeds, wanted, dtype
        )

    def forward(self, changes: Matrices, wanted: Sequence[array], dtype: Any = None) -> list[Values]:
        """Return the values of arrays for each row of changed inputs; see `backward`."""
        changed = frozenset(a.buffer for a in changes)
        key = ("forward", changed)
        return self._run(key, lambda count: _Forward(self.shadow, changed, count), changes, wanted, dtype)

    def push(self, tangents: Matrices, wanted: Sequence[array], dtype: Any = None) -> list[Values]:
        """Return the tangents of arrays for each row of tangents of inputs; see `backward`."""
        moved = frozenset(a.buffer for a in tangents)
        key = ("push", config.strong_zero, moved)
        return self._run(key, lambda count: _Push(self.shadow, moved, count), tangents, wanted, dtype)

    def _run(
        self,
        key: Any,
        make: Callable[[int], _Batch],
        given: Matrices,
        wanted: Sequence[array],
        dtype: Any,
    ) -> list[Values]:
        count = len(next(iter(given.values())))
        batch = self._batches.get(key)
        if batch is None or not batch.takes(count):
            batch = self._batches[key] = make(count)
        found = [self._empty(a, count, dtype) for a in wanted]
        for start in range(0, count, batch.capacity):
            rows = slice(start, min(count, start + batch.capacity))
            batch.run({a: values[rows] for a, values in given.items()}, rows.stop - start)
            for a, matrix in zip(wanted, found, strict=True):
                matrix[rows] = batch.result(a)
        return [matrix.reshape(count, matrix[:1].size) for matrix in found]

    def _empty(self, a: array, count: int, dtype: Any) -> Values:
        kind = self.shadow._buffer(a).stored(a) if dtype is None else dtype
        return np.empty((count, *a.shape, *types.value_shape(a.dtype)), kind)


class _Batch:
    """The memory and the calls of one kind of runs.

    Attributes:
        capacity: The number of rows that run at once.
    """

    def __init__(self, shadow: Shadow) -> None:
        self.shadow = shadow
        self.space = BatchAddressSpace(shadow.space)
        self.capacity = 1
        self.full = False
        self.calls: CallList

    def takes(self, count: int) -> bool:
        """Return True if it is as large as one made for this number of rows would be."""
        return self.full or count <= self.capacity

    def _allocate(
        self, wanted: Sequence[tuple[dict[Buffer, BatchMemory], Iterable[Buffer]]], count: int
    ) -> BatchArgumentTable:
        """Allocate rows of memory for buffers, and return the table of arguments."""
        buffers, records = self.shadow._buffers, self.shadow.records
        sizes = [buffers[b].data.size for _, several in wanted for b in several]
        words = sum(len(r.packed) + sum(s.stop - s.start for s in r.inplace_saves) for r in records)
        most = max(1, ROOM // (words + sum(map(stride_of, sizes)) + 1))
        self.capacity, self.full = min(count, most), count >= most
        for memory, several in wanted:
            memory.update({b: BatchMemory(buffers[b].data.size, self.capacity) for b in several})
        return BatchArgumentTable(records, self.space, self.capacity)

    def _view(self, memory: Mapping[Buffer, BatchMemory], a: array) -> Values | int:
        rows = memory.get(a.buffer)
        return 0 if rows is None else rows.view(self.shadow._buffers[a.buffer], a, self.space.count)

    def _fill(self, memory: Mapping[Buffer, BatchMemory], given: Matrices) -> None:
        """Copy a matrix to each array, with zeros around it."""
        whole = _fully_covered(given)
        for buffer, rows in memory.items():
            if buffer not in whole:
                rows.clear(self.space.count)
        self._put(memory, given)

    def _put(self, memory: Mapping[Buffer, BatchMemory], given: Matrices) -> None:
        for a, values in given.items():
            view = self._view(memory, a)
            assert isinstance(view, np.ndarray)
            with np.errstate(over="ignore"):  # float32 overflow gives infinity
                view[...] = values.reshape(view.shape)

    def run(self, given: Matrices, count: int) -> None:
        """Run `count` rows, no more than `capacity`."""
        raise NotImplementedError

    def result(self, a: array) -> Values | int:
        """Return the result for an array: (count, …), or the same for all rows."""
        raise NotImplementedError


class _Backward(_Batch):
    """The reverse pass from the position of the shadow."""

    def __init__(self, shadow: Shadow, consume: Consume, seeded: Iterable[Buffer], count: int) -> None:
        super().__init__(shadow)
        self.consume: Consume = consume
        self.space.current, self.space.position = consume == "current", shadow.position
        records = shadow.records[: shadow.position]
        active = {r.args[p].buffer: None for r in records for p in r.plan.active}
        active.update(dict.fromkeys(seeded))
        self.table = self._allocate([(self.space.adjoints, active)], count)
        steps = self.table.steps(records)
        self.calls = _call_list(
            [
                (run, threads, self.table.at(address) if record.plan.kernel is not None else None)
                for record, run, threads, address in zip(*steps.backwards(), strict=True)
            ],
            self.table.spread(),
        )

    def run(self, given: Matrices, count: int) -> None:
        self.space.count = count
        self._fill(self.space.adjoints, given)
        self.table.renew(count)
        with self.shadow._late_writes(self.consume):
            self.calls.run(rows=count, pulse=self.shadow.pulse)

    def result(self, a: array) -> Values | int:
        return self._view(self.space.adjoints, a)


class _Forward(_Batch):
    """The forward pass from the beginning."""

    def __init__(self, shadow: Shadow, changed: Iterable[Buffer], count: int) -> None:
        super().__init__(shadow)
        table = self._allocate([(self.space.values, {*changed, *_written(shadow.records)})], count)
        calls: list[Call] = []
        for r in shadow.records:
            if r.kind == "kernel":
                calls.append((r.plan.forward_run(shadow.is_float64), r.threads, table.at(table.forward(r))))
            else:
                calls.append((self._special(r), 0, None))
        self.calls = _call_list(calls, table.spread())

    def _special(self, record: Record) -> Runner:
        def run(lo: int, hi: int, where: int) -> None:
            forward_special(record, self.space)(lo, hi, where)  # now: the views are of the rows that run

        return run

    def run(self, given: Matrices, count: int) -> None:
        self.space.count = count
        self._start(given)
        self.calls.run(rows=count, pulse=self.shadow.pulse)

    def _start(self, changes: Matrices) -> None:
        self.shadow.reset()
        whole = _fully_covered(changes)
        for buffer, rows in self.space.values.items():
            if buffer not in whole:
                rows.each[: self.space.count] = self.shadow._buffers[buffer].data
        self._put(self.space.values, changes)

    def result(self, a: array) -> Values | int:
        return self.space.value_view(a)


class _Push(_Forward):
    """The forward pass with tangents."""

    def __init__(self, shadow: Shadow, moved: Iterable[Buffer], count: int) -> None:
        _Batch.__init__(self, shadow)
        records = shadow.records
        table = self._allocate(
            [(self.space.values, _written(records)), (self.space.dots, {*moved, *_moving(records)})], count
        )
        calls: list[Call] = []
        for r in records:
            if r.kind == "kernel":
                calls.append(
                    (r.plan.tangent_run(shadow.is_float64, False), r.threads, table.at(table.tangent(r)))
                )
            else:
                calls.append((self._special(r), 0, None))
        self.calls = _call_list(calls, table.spread())

    def _special(self, record: Record) -> Runner:
        def run(lo: int, hi: int, where: int) -> None:
            tangent_special(record, self.space)(lo, hi, where)

        return run

    def run(self, given: Matrices, count: int) -> None:
        self.space.count = count
        self._start({})
        self._fill(self.space.dots, given)
        self.calls.run(rows=count, pulse=self.shadow.pulse)

    def result(self, a: array) -> Values | int:
        return self._view(self.space.dots, a)


def _call_list(calls: list[Call], words: Words) -> CallList:
    """Return a list of calls whose arguments are given by their position in the words of a row."""
    start = address_of(words)
    runs, threads, places = zip(*calls, strict=True) if calls else ((), (), ())
    addresses = [None if at is None else start + 8 * at for at in places]
    return CallList(runs, threads, addresses, stride=words.strides[0], held=words)


def _fully_covered(given: Iterable[array]) -> set[Buffer]:
    """Return the buffers that these arrays cover completely."""
    return {a.buffer for a in given if a.is_contiguous and a.stop - a.start == a.buffer.nbytes}


def _written(records: Iterable[Record]) -> set[Buffer]:
    return {r.args[p].buffer for r in records for p in r.plan.written}


def _moving(records: Iterable[Record]) -> set[Buffer]:
    """Return the buffers that tangents flow into."""
    found: set[Buffer] = set()
    for r in records:
        touched = [p for p, _ in r.plan.dotted(False)] if r.kind == "kernel" else r.plan.touched
        found |= {r.args[p].buffer for p in touched if types.is_float(r.args[p].dtype)}
    return found

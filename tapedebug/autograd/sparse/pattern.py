"""Sparsity patterns of Jacobians, traced from the elements that each thread reads and writes.

The values that a thread writes depend only on those that it reads. The pattern of one launch is therefore
the product of two relations: the threads that wrote each element, and the elements that each thread read. A
traced variant of the kernel records both (`compiler.access_trace`), for each write with only the reads that
contribute to it, by component. The patterns of successive launches are multiplied. A pattern may have too
many entries, but never too few, as long as the values that determine branches and indices are those of the
trace.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from tapedebug._dataclass import dataclass
from tapedebug.autograd.array_types import EngineArray, Indices
from tapedebug.autograd.sparse.boolean_matrix import (
    BooleanMatrix,
    TooManyEntries,
    joined,
    none,
    product,
    sorted_once,
)
from tapedebug.autograd.sparse.numbering import ScalarNumbering, Unknown
from tapedebug.autograd.subjects.program import Port, Program
from tapedebug.autograd.subjects.shadow_program import ShadowProgram
from tapedebug.lang import types
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.replay.traced_accesses import Visits, accesses, deciding

if TYPE_CHECKING:
    from tapedebug.compiler.kernel import Kernel
    from tapedebug.runtime.replay.shadow import Shadow
    from tapedebug.runtime.tape.record import Record


Key = tuple[Any, ...]
Bools = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, eq=False)
class Pattern:
    """The entries of a Jacobian that may be nonzero.

    Attributes:
        shape: Number of scalars in the output and in the input.
        rows, columns: (count,) int64 each, sorted by rows, then by columns, each entry once.
    """

    shape: tuple[int, int]
    rows: Indices
    columns: Indices
    cache: dict[Any, Any] = field(default_factory=dict, repr=False)
    """Cached results for this pattern (`colouring.compress`)."""

    def __len__(self) -> int:
        return len(self.rows)

    @classmethod
    def of(cls, shape: tuple[int, int], rows: Indices, columns: Indices) -> Pattern:
        """Return the pattern of entries in any order.

        Raises:
            TooMany: There are too many to be useful.
        """
        return cls(shape, *sorted_once(BooleanMatrix(rows, columns), max(1, shape[1])))

    def only_rows(self, chosen: Indices) -> Pattern:
        """Return the same matrix with zeros in all rows except those of `chosen`."""
        wanted = np.zeros(self.shape[0], bool)
        wanted[chosen] = True
        keep = wanted[self.rows]
        return Pattern(self.shape, self.rows[keep], self.columns[keep])

    def only_columns(self, chosen: Indices) -> Pattern:
        """Return the same matrix with zeros in all columns except those of `chosen`."""
        wanted = np.zeros(self.shape[1], bool)
        wanted[chosen] = True
        keep = wanted[self.columns]
        return Pattern(self.shape, self.rows[keep], self.columns[keep])

    def dense(self, values: ArrayLike = 1.0) -> np.ndarray[Any, Any]:
        """Return a matrix with `values` at the entries and zero elsewhere."""
        matrix = np.zeros(self.shape, np.asarray(values).dtype)
        matrix[self.rows, self.columns] = values
        return matrix


Patterns = Mapping[tuple[Port, Port], Pattern]
"""Patterns by (input, output)."""

KEPT_PATTERNS = 16
"""Largest number of cached patterns of each kernel."""
Found = dict[tuple[int, int], Pattern]
_lock = threading.Lock()
_kept: WeakKeyDictionary[Any, OrderedDict[Key | None, Found]] = WeakKeyDictionary()


def traced(program: Program, *, fresh: bool = False) -> Patterns | None:
    """Return the entries of a program's Jacobians that can be nonzero.

    Patterns of single launches are cached by kernel, sizes, numbers, and the content of the arrays that
    determine which elements are accessed.

    Args:
        program: The program to differentiate.
        fresh: Trace the program again even if its pattern is known.

    Returns:
        The pattern of every pair of an input and an output; None if it is unknown (functions of
        `record_func`, native functions) or too dense to be useful.
    """
    if not isinstance(program, ShadowProgram) or program.engine:
        return None
    shadow = program.standing()
    try:
        trace = _Trace(program, shadow)
        key = trace.key()
        kernel = shadow.records[0].kernel if key is not None else None
        found = None if fresh else _recalled(kernel, key)
        if found is None:
            found = trace.found()
            _keep(kernel, key, found)
    except (TooManyEntries, Unknown):
        return None
    return {(i, o): found[k, m] for k, i in enumerate(program.inputs) for m, o in enumerate(program.outputs)}


def forget(kernel: Kernel) -> None:
    """Discard the patterns of a kernel, so that it is traced again when it is used next."""
    with _lock:
        _kept.pop(kernel, None)


def _recalled(kernel: Kernel | None, key: Key | None) -> Found | None:
    """Return the cached patterns of a single launch, or None."""
    with _lock:
        table = None if kernel is None else _kept.get(kernel)
        if table is None or key not in table:
            return None
        table.move_to_end(key)
        return table[key]


def _keep(kernel: Kernel | None, key: Key | None, found: Found) -> None:
    """Cache the patterns, and drop the least recently used ones."""
    if kernel is None:
        return
    with _lock:
        table = _kept.setdefault(kernel, OrderedDict())
        table[key] = found
        if len(table) > KEPT_PATTERNS:
            table.popitem(last=False)


class _Trace:
    """The propagation of dependence through the records of a program, from the first to the last.

    Attributes:
        live: The buffers through which dependence may pass.
        numbering: Numbering of all their scalars, during tracing.
        entries: The initial values on which each changed scalar depends.
        changed: True for scalars that have changed so far.
        source: True for scalars that are inputs.
    """

    numbering: ScalarNumbering
    entries: BooleanMatrix
    changed: Bools
    source: Bools

    def __init__(self, program: ShadowProgram, shadow: Shadow) -> None:
        self.program = program
        self.shadow = shadow
        records = shadow.records
        if any(record.kind in {"func", "python"} for record in records):
            raise Unknown
        self.ports = [*program.inputs, *program.outputs]
        self.live = {port.array.region for port in self.ports}
        self.live |= {record.args[p].region for record in records for p in record.written}

    def active(self, record: Record) -> frozenset[int]:
        """Return the parameters of a launch through which dependence may pass."""
        return frozenset(
            p
            for p, a in enumerate(record.args)
            if _is_float_array(a) and a.region in self.live and p in record.touched
        )

    def key(self) -> Key | None:
        """Return all that the pattern of a single launch depends on; None for other programs."""
        if len(self.shadow.records) != 1 or self.shadow.records[0].kind != "kernel":
            return None
        (record,) = self.shadow.records
        active = self.active(record)
        decided = deciding(record, active)
        if decided is None:
            raise Unknown
        buffers: dict[Any, int] = {}

        def view(a: EngineArray) -> Key:
            number = buffers.setdefault(a.region, len(buffers))
            return number, a.offset, a.shape, a.strides, a.dtype

        layout, packed = record.kernel.layout, self.shadow.packed(record)
        args = tuple(
            view(a)
            if isinstance(a, array)
            else packed[8 * layout.values[p] :][: 8 * types.components(record.kernel.params[p].type)]
            for p, a in enumerate(record.args)
        )
        content = tuple(
            hashlib.blake2b(self.shadow.values(a).tobytes(), digest_size=16).digest() for a in decided
        )
        ports = tuple(view(port.array) for port in self.ports)
        return record.dim, record.threads, active, args, ports, len(self.program.inputs), content

    def found(self) -> Found:
        """Return the patterns of all pairs, by the positions of input and output in the program.

        Raises:
            Unknown: They cannot be determined.
            TooMany: They are too many to be of use.
        """
        records = self.shadow.records
        used = (a for record in records for a in record.args if _is_float_array(a))
        arrays = [*(p.array for p in self.ports), *(a for a in used if a.region in self.live)]
        self.numbering = ScalarNumbering(arrays)
        self.entries = none()
        self.changed = np.zeros(self.numbering.size, bool)
        self.source = np.zeros(self.numbering.size, bool)
        for port in self.program.inputs:
            self.source[self.numbering.all(port.array)] = True
        for record in records:
            match record.kind:
                case "kernel":
                    self._launch(record)
                case "copy" if _is_float_array(record.args[0]):
                    mine, other = (self.numbering.all(a) for a in record.args)
                    self._step(BooleanMatrix(mine, other), mine)
                case "fill" if _is_float_array(record.args[0]):
                    self._step(none(), self.numbering.all(record.args[0]))
            if record is not records[-1]:
                self.shadow.forward(record.index, record.index + 1)
        return {
            (k, m): self._pattern(source, target)
            for k, source in enumerate(self.program.inputs)
            for m, target in enumerate(self.program.outputs)
        }

    def _launch(self, record: Record) -> None:
        visits = accesses(self.shadow, record, self.active(record))
        if visits is None:
            raise Unknown
        numbers = [self.numbering.of(record.args[v.site.param], v.places) for v in visits]
        parts: list[BooleanMatrix] = []
        stored: list[Indices] = []
        added: list[Indices] = []
        for visit, mine in zip(visits, numbers, strict=True):
            if visit.site.kind == "read":
                continue
            (stored if visit.site.kind == "write" else added).append(mine)
            parts += [
                _dependencies(visit, mine, visits[r], numbers[r], record.threads) for r in visit.site.reads
            ]
        if not stored and not added:
            return
        written = np.zeros(self.numbering.size, bool)
        for mine in (*stored, *added):
            written[mine] = True
        entries = joined(parts)
        accessed = [(v.site.kind, record.args[v.site.param].region) for v in visits]
        if {b for kind, b in accessed if kind != "read"} & {b for kind, b in accessed if kind != "write"}:
            entries = self._closed(entries, written)
        for mine in added:
            written[mine] = False  # what was there before is a part of the sum
        self._step(entries, np.flatnonzero(written))

    def _closed(self, entries: BooleanMatrix, written: Bools) -> BooleanMatrix:
        """Add dependence between threads, through elements that one writes and another reads."""
        through = written[entries.columns] & (entries.columns != entries.rows)
        if not through.any():
            return entries
        size = self.numbering.size
        entries = sorted_once(entries, size)
        while True:
            before = len(entries.rows)
            through = written[entries.columns]
            further = product(entries.where(through), entries, size)
            entries = sorted_once(joined([entries, further]), size)
            if len(entries.rows) == before:
                return entries

    def _step(self, entries: BooleanMatrix, replaced: Indices) -> None:
        """Make written scalars depend on the read ones, and no longer on themselves if they were replaced."""
        size = self.numbering.size
        gone = np.zeros(size, bool)
        gone[replaced] = True
        if self.changed.any():
            known = self.changed[entries.columns]
            parts = [entries.where(~known & self.source[entries.columns])]
            before = sorted_once(self.entries, size)
            parts.append(product(entries.where(known), before, size))
            parts.append(before.where(~gone[before.rows]))
        else:
            parts = [entries.where(self.source[entries.columns])]
        touched = np.zeros(size, bool)
        touched[entries.rows] = True
        itself = np.flatnonzero(touched & ~gone & ~self.changed & self.source)
        if len(itself):
            parts.append(BooleanMatrix(itself, itself))
        self.changed |= touched | gone
        self.entries = joined(parts)

    def _pattern(self, source: Port, target: Port) -> Pattern:
        rows = self.numbering.flat(target.array, self.entries.rows)
        columns = self.numbering.flat(source.array, self.entries.columns)
        keep = (rows >= 0) & (columns >= 0)
        if not keep.all():
            rows, columns = rows[keep], columns[keep]
        if source.array.region is target.array.region:
            mine = self.numbering.all(target.array)
            same = np.flatnonzero(~self.changed[mine])
            column = self.numbering.flat(source.array, mine[same])
            rows = np.concatenate([rows, same[column >= 0]])
            columns = np.concatenate([columns, column[column >= 0]])
        return Pattern.of((target.size, source.size), rows, columns)


def _dependencies(
    write: Visits, written: Indices, read: Visits, numbers: Indices, threads: int
) -> BooleanMatrix:
    """Return how the scalars that one site wrote depend on those that the same thread read at another."""
    if write.threads is None and read.threads is None:
        return BooleanMatrix(written, numbers)
    if write.threads is None and read.site.once:
        return BooleanMatrix(written[read.threads], numbers)
    if read.threads is None:
        return BooleanMatrix(written, numbers[write.threads])
    mine = np.arange(threads) if write.threads is None else write.threads
    return product(BooleanMatrix(written, mine), BooleanMatrix(read.threads, numbers), threads)


def _is_float_array(a: object) -> bool:
    return isinstance(a, array) and types.is_float(a.dtype)

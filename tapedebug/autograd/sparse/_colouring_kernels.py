"""Kernels of `colouring`, run by one thread: graph algorithms at the speed of compiled code."""
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, untyped-decorator, var-annotated"

from __future__ import annotations

import functools
from typing import Any

from tapedebug.compiler.decorators import kernel
from tapedebug.lang import types
from tapedebug.lang.types import int64, uint64

numbers: Any = types.ArrayType(int64, 1)
words: Any = types.ArrayType(uint64, 1)


@functools.cache
def kernels() -> tuple[Any, Any]:
    """Return `paint` and `turned`, compiled on first use."""
    return kernel(enable_backward=False)(paint), kernel(enable_backward=False)(turned)


def paint(order: numbers, starts: numbers, columns: numbers, width: int, used: words, colours: numbers):
    """Give each row, in order, the first colour that no row with a common column has.

    Each column has `width` words, with a bit for each colour used in it. Rows without an available colour
    keep their -1.
    """
    for k in range(order.shape[0]):
        row = order[k]
        first = starts[row]
        last = starts[row + int64(1)]
        word = int64(0)
        found = int64(-1)
        while found < int64(0) and word < int64(width):
            taken = uint64(0)
            entry = first
            while entry < last:
                taken = taken | used[columns[entry] * int64(width) + word]
                entry = entry + int64(1)
            if taken != ~uint64(0):
                found = int64(0)
                while (taken & uint64(1)) == uint64(1):
                    taken = taken >> uint64(1)
                    found = found + int64(1)
            else:
                word = word + int64(1)
        if found >= int64(0):
            colours[row] = found + int64(64) * word
            mark = uint64(1) << uint64(found)
            entry = first
            while entry < last:
                place = columns[entry] * int64(width) + word
                used[place] = used[place] | mark
                entry = entry + int64(1)


def turned(rows: numbers, columns: numbers, ends: numbers, turned_rows: numbers, entries: numbers):
    """Sort entries that are sorted by rows by their columns: a counting sort.

    `ends` holds where each column's entries begin, and afterwards where they end; `entries` gets the place of
    each among those that were given.
    """
    for k in range(rows.shape[0]):
        place = ends[columns[k]]
        ends[columns[k]] = place + int64(1)
        turned_rows[place] = rows[k]
        entries[place] = int64(k)

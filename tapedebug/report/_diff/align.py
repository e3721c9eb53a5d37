"""Alignment of the launches of two tapes: an exact longest common subsequence, for 100,000 launches each."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

MOST_CELLS = 4e10
"""Largest product of lengths for which the alignment is exact, which takes about ten seconds."""
WINDOW = 50_000
"""Beyond that limit, sequences are aligned in parts of this length."""


class Run(NamedTuple):
    """A run of `length` launches from `before` on that equal those from `after` on."""

    before: int
    after: int
    length: int


def align(before: Sequence[int], after: Sequence[int]) -> list[Run]:
    """Return a longest common subsequence of two sequences of keys, as runs in order."""
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    pairs = [(head + i, head + j) for i, j in _middle(before, after, head, tail)]
    ends = [(len(before) - k, len(after) - k) for k in range(tail, 0, -1)]
    return list(_runs([*((i, i) for i in range(head)), *pairs, *ends]))


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common prefix."""
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _middle(before: Sequence[int], after: Sequence[int], head: int, tail: int) -> list[tuple[int, int]]:
    """Return pairs of positions, counted from `head`, between the common prefix and suffix."""
    one = before[head : len(before) - tail]
    other = after[head : len(after) - tail]
    in_both = set(one) & set(other)
    mine = [i for i, key in enumerate(one) if key in in_both]
    theirs = [j for j, key in enumerate(other) if key in in_both]
    found: list[tuple[int, int]] = []
    parts = 1
    if len(mine) * len(theirs) > MOST_CELLS:
        parts = math.ceil(max(len(mine), len(theirs)) / WINDOW)
    cuts = [(len(mine) * k // parts, len(theirs) * k // parts) for k in range(parts + 1)]
    for (i0, j0), (i1, j1) in pairwise(cuts):
        a, b = mine[i0:i1], theirs[j0:j1]
        if len(a) < len(b):
            swapped = common_subsequence([other[j] for j in b], [one[i] for i in a])
            found += [(a[i], b[j]) for j, i in swapped]
        else:
            found += [(a[i], b[j]) for i, j in common_subsequence([one[i] for i in a], [other[j] for j in b])]
    return found


def common_subsequence(columns: Sequence[int], rows: Sequence[int]) -> list[tuple[int, int]]:
    """Return the positions of a longest common subsequence, in order.

    Each row of the table of lengths is one large integer with a bit for each column: 0 where the length grows
    (Hyyrö 2004), so that a row costs five integer operations. Only one row in √n is stored; the rows between
    are recomputed from it during backtracking.
    """
    full = (1 << len(columns)) - 1
    places: dict[int, list[int]] = {}
    for i, key in enumerate(columns):
        places.setdefault(key, []).append(i)

    @lru_cache(maxsize=256)
    def mask(key: int) -> int:
        bits = bytearray((len(columns) >> 3) + 1)
        for i in places.get(key, ()):
            bits[i >> 3] |= 1 << (i & 7)
        return int.from_bytes(bits, "little")

    def below(row: int, keys: Iterable[int]) -> list[int]:
        rows_below = [row]
        for key in keys:
            grown = row & mask(key)
            row = ((row + grown) | (row - grown)) & full
            rows_below.append(row)
        return rows_below

    step = math.isqrt(len(rows)) + 1
    kept = [full]
    for start in range(0, len(rows), step):
        kept.append(below(kept[-1], rows[start : start + step])[-1])
    found: list[tuple[int, int]] = []
    i, j = len(columns), len(rows)
    for block in range(len(kept) - 2, -1, -1):
        start = block * step
        table = below(kept[block], rows[start : start + step])
        while i > 0 and j > start:
            if table[j - start] >> (i - 1) & 1:
                i -= 1  # the same length without this column
            elif not table[j - 1 - start] >> (i - 1) & 1:
                j -= 1  # the same length without this row
            else:
                i, j = i - 1, j - 1
                found.append((i, j))
    return found[::-1]


def _runs(pairs: Iterable[tuple[int, int]]) -> Iterable[Run]:
    first, last = (-1, -1), (-2, -2)
    for pair in pairs:
        if (pair[0] - 1, pair[1] - 1) != last:
            if last[0] >= 0:
                yield Run(*first, last[0] - first[0] + 1)
            first = pair
        last = pair
    if last[0] >= 0:
        yield Run(*first, last[0] - first[0] + 1)

"""Writes outside a tape: their bytes, the arrays that they concern, and which of them later ones replace."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from tapedebug.operations import HostArray, Memory, Region, outside_writes
from tapedebug.operations.outside_writes import Injection, OutsideWrites

VALUES = np.zeros(8, np.float32)
REGION = Region(VALUES)


def write(start: int, floats: str, at: int = 0, **more: Any) -> Injection:
    """A write from a byte on; each letter of `floats` is one that changed (x) or not (-)."""
    changed = np.repeat(np.array([letter == "x" for letter in floats]), 4)
    content = np.arange(1, len(floats) + 1, dtype=np.float32).view(np.uint8)
    event = {"at": at, "settled": False, "clock": 0} | more
    return Injection(region=REGION, start=start, changed=changed, content=content, **event)


def part(start: int, stop: int) -> HostArray:
    """The array of the floats `start … stop-1` of the region."""
    return HostArray(VALUES[start:stop], REGION)


@pytest.mark.parametrize("wide", [{}, {REGION: np.dtype(np.float32)}])
def test_only_bytes_that_changed_are_loaded(wide):
    memory = Memory.zeros({REGION: 32}, wide)
    write(8, "x-x").load(memory)
    kind = np.float64 if wide else np.float32
    assert memory.bytes[REGION].view(kind).tolist() == [0, 0, 1, 0, 3, 0, 0, 0]


def test_a_later_write_covers_both():
    start, changed = write(8, "x-").with_later(12, write(12, "-x").changed)
    assert (start, changed[::4].tolist()) == (8, [True, False, True])
    start, changed = write(8, "x").with_later(0, write(0, "x").changed)
    assert (start, changed[::4].tolist()) == (0, [True, False, True])


def test_the_smallest_array_with_all_bytes_is_the_one_that_was_written():
    whole, left, right, inner = part(0, 8), part(0, 4), part(4, 8), part(1, 3)
    known = [whole, left, right, inner]
    assert write(4, "xx").arrays(known) == [inner]
    assert write(8, "-x").arrays(known) == [left]
    assert write(8, "-xx-").arrays(known) == [whole]
    assert write(8, "-xx-").arrays([left, right, inner]) == [left, right]
    assert write(16, "x").arrays([left]) == []


def test_a_write_is_replaced_if_neither_operation_nor_pass_lies_between(monkeypatch):
    monkeypatch.setattr(outside_writes, "REPLACED", 2)
    writes, array = OutsideWrites(), part(0, 8)
    early, late = write(0, "x", at=1), write(0, "x", at=2, settled=True, passes=1)
    writes.add(early)
    writes.add(late)
    assert writes.replaceable(1, REGION, 0) is None  # no pass has run
    assert writes.replaceable(2, REGION, 2) is None  # another pass has run since
    assert writes.replaceable(2, Region(np.zeros(1)), 1) is None
    assert writes.replaceable(2, REGION, 1) is late
    writes.remove(late, late.of([array]))
    assert (list(writes), list(writes.before(2))) == ([early], [])
    for clock in range(1, 5):
        another = write(0, "x", at=2, settled=True, passes=1, clock=clock)
        writes.add(another)
        writes.remove(another, another.of([array]))
    assert [each.clock for each in writes.replaced][-1] == 4
    assert len(writes.replaced) < 4


def test_writes_that_were_set_aside_come_before_those_found_since():
    writes = OutsideWrites()
    first, second, since = write(0, "x", at=1), write(0, "x", at=3), write(0, "x", at=2)
    writes.add(first)
    writes.add(second)
    every = writes.split(2)
    assert list(writes) == [first]
    writes.add(since)
    before = copy.copy(writes)
    writes.restore(every, 4)
    assert list(writes) == [first, second, since]
    assert (list(writes.before(2)), list(writes.before(4)), since.at) == ([], [since], 4)
    assert list(before) == [first, since]
    assert list(before.before(2)) == [since]

"""Division of a launch into chunks that run at the same time, each in a fixed order.

A chunk is a range of threads with whole rows: all threads that have some indices on the first axis, or on the
first one on which there are several. Its results must not depend on when other chunks run. For each memory
region (`passes.memory_regions`) that is so where

- it is only read;
- each thread accesses rows of its own;
- it is only added to, near the thread's own row: chunks that are longer than twice as far run the even ones
  first, then the odd ones;
- it is only added to, anywhere: all chunks but the first add to private copies, which are added up in order.
"""

from __future__ import annotations

from collections.abc import Iterable

from tapedebug.compiler.ir import Block, For, Function, Op, Value, While, blocks_of
from tapedebug.compiler.parallel_info import NEAR, OWN, READ, SUM, Bound, Division, Share
from tapedebug.compiler.passes.memory_regions import (
    Access,
    MemoryRegion,
    in_lanes,
    memory_regions,
    pairs,
    unordered,
)
from tapedebug.compiler.passes.ranges import Ranges, combined
from tapedebug.lang import types as t
from tapedebug.lang.lowering import SHORT_FLOATS


def divided(function: Function) -> Division:
    """Return how a function's launches can be divided."""
    found = memory_regions(function)
    along = [_shares(found.values(), function, axis) for axis in range(max(function.axes, 1))]
    return Division(
        axes=function.axes,
        lanes=in_lanes(function),
        pairs=pairs(function),
        shares=along[0],
        touched=tuple(found),
        work=_work(function.body, Ranges(function)),
        inner=tuple(along[1:]),
    )


UNKNOWN = 16
"""The expected iterations of a loop whose length is unknown before its thread runs."""
UNIT = 32
"""Operations without a loop that count as one iteration of a small one."""


def _work(block: Block, ranges: Ranges) -> Bound:
    """One for each `UNIT` operations at least, and what the loops of a block do."""
    work: Bound = 1 + sum(isinstance(node, Op) for node in block.ops) // UNIT
    for node in block.ops:
        if isinstance(node, For | While):
            count = ranges.of(node.count) if isinstance(node, For) else None
            times = UNKNOWN if count is None or count.own else count.high
            work = combined("add", work, combined("mul", times, _work(node.body, ranges)))
            continue
        for inner in blocks_of(node):
            work = combined("add", work, combined("sub", _work(inner, ranges), 1))
    return work


def _shares(found: Iterable[MemoryRegion], function: Function, axis: int) -> tuple[Share, ...] | None:
    """Return the accesses of chunks along a thread axis; None if the axis cannot be cut."""
    if not unordered(function):
        return None
    ranges = Ranges(function, axis)
    shares = [_share(region, ranges, function) for region in found]
    known = tuple(share for share in shares if share is not None)
    return known if len(known) == len(shares) else None


def _share(region: MemoryRegion, ranges: Ranges, function: Function) -> Share | None:
    does, (side, param) = region.does, region.place
    rows = region.at[ranges.axis] if region.at else frozenset()
    if does == {"load"}:
        return Share(side, param, READ, rows)
    added = does == {"add"}
    if rows:
        return Share(side, param, OWN, rows, added)
    if not added:
        return None
    kind = function.params[param].type
    for axis in range(kind.ndim):
        reach = [_reach(access.indices[axis], ranges, (param, axis)) for access in region.accesses]
        if all(reach):
            near = tuple(found[:2] for found in reach if found is not None)
            wraps = any(found[2] for found in reach if found is not None)
            return Share(side, param, NEAR, rows, added, near, axis, wraps)
    if t.scalar_of(kind) in SHORT_FLOATS:
        return None  # private copies would be rounded twice
    return Share(side, param, SUM, rows, added, window=_window(region.accesses, ranges, param))


def _reach(index: Value, ranges: Ranges, where: tuple[int, int]) -> tuple[Bound, Bound, bool] | None:
    """Return the distances of an index from the thread's own row, and True if it may wrap."""
    inner, wraps = _unwrapped(index, where)
    found = ranges.of(inner)
    if found is None or found.own != 1:
        return None
    return found.low, found.high, wraps


def _window(accesses: tuple[Access, ...], ranges: Ranges, param: int) -> tuple[tuple[Bound, Bound], ...]:
    """The rows of the first axis to which all of these add; empty where that is not known."""
    window = []
    for access in accesses:
        found = ranges.of(_unwrapped(access.indices[0], (param, 0))[0])
        if found is None or found.own:
            return ()
        window.append((found.low, found.high))
    return tuple(window)


def _unwrapped(index: Value, where: tuple[int, int]) -> tuple[Value, bool]:
    """An index before what is negative counts from the end of an axis; and whether that may be."""
    op = index.op
    if op is not None and op.kind == "from_end":
        length = op.args[1].op
        if length is not None and length.kind == "extent" and length.data == where:
            return op.args[0], True
    return index, False

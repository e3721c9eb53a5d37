"""Adjoints of written arrays: read by the adjoint of the write, then set to zero.

Where each element is taken once, that zero means nothing to the adjoint itself. Without it the incoming
adjoint stays as it is, so that it may be memory of somebody else's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tapedebug.compiler.builder import constant_of
from tapedebug.compiler.ir import ADJOINT, NATIVE, Block, Function, Node, Op, blocks_of
from tapedebug.compiler.passes.memory_regions import MemoryRegion, memory_regions
from tapedebug.compiler.passes.rewriting import Rewriter

Taken = frozenset[tuple[Any, ...]]
"""Parameters, each with a component."""


def taken_once(adjoint: Function) -> frozenset[int]:
    """The parameters whose adjoint an adjoint only takes, no element more than once."""
    if any(op.kind in NATIVE for op in adjoint.ops()):
        return frozenset()
    found = {
        region.param
        for region in memory_regions(adjoint).values()
        if region.side == "adjoint" and _only_taken(region)
    }
    again: set[int] = set()
    _take(adjoint.body, frozenset(), again)
    return frozenset(found - again)


def changed(adjoint: Function, active: frozenset[int]) -> frozenset[int]:
    """Return the active parameters whose adjoint an adjoint may change, not only read."""
    if any(op.kind in NATIVE for op in adjoint.ops()):
        return active
    return frozenset(op.data[0] for op in adjoint.ops() if op.kind in ADJOINT and op.kind != "load_adjoint")


def _only_taken(region: MemoryRegion) -> bool:
    return (
        region.thread_private
        and "store" in region.does
        and "add" not in region.does
        and not any(access.looped for access in region.accesses)
        and all(constant_of(a.op.args[1]) == 0 for a in region.accesses if a.how == "store")
    )


def _take(block: Block, taken: Taken, again: set[int]) -> Taken:
    """The components of adjoints that are taken after a block; notes parameters accessed after that."""
    for node in block.ops:
        if isinstance(node, Op):
            if node.kind in ADJOINT and node.data in taken:
                again.add(node.data[0])
            if node.kind == "store_adjoint":
                taken |= {node.data}
        else:
            taken = taken.union(*[_take(inner, taken, again) for inner in blocks_of(node)])
    return taken


def left(adjoint: Function, params: frozenset[int]) -> Function:
    """An adjoint that leaves the adjoints of these parameters as they are; they are `taken_once`."""
    return replace(adjoint, body=_Left(params).block(adjoint.body))


class _Left(Rewriter):
    def __init__(self, params: frozenset[int]) -> None:
        self.params = params

    def instead(self, op: Op) -> list[Node]:
        return [] if op.kind == "store_adjoint" and op.data[0] in self.params else [op]

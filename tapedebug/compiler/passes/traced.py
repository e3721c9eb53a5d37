"""The traced variant of a kernel: it logs each access of a float array and computes little else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tapedebug.compiler.access_tags import AccessKind
from tapedebug.compiler.access_trace import TracedSite, TraceInfo
from tapedebug.compiler.ir import NATIVE, Function, Node, Op, ops_of
from tapedebug.compiler.passes.influence import READS, WRITES, Influence, members
from tapedebug.compiler.passes.rewriting import Rewriter

KIND: dict[str, AccessKind] = {"load": "read", "store": "write", "atomic_add": "atomic"}


def traced_of(function: Function, active: frozenset[int]) -> tuple[Function, TraceInfo] | None:
    """Return the kernel with a `trace` before each access, and its sites; None if it has native functions.

    All stores remain: `without_stores` removes them if no index or condition depends on them.

    Args:
        function: A kernel in IR, without custom regions.
        active: The array parameters of floats whose accesses are recorded.
    """
    if any(op.kind in NATIVE for op in ops_of(function.body)):
        return None
    found = Influence(function)
    mine = {k: op for k, op in enumerate(found.accesses) if op.data[0] in active}
    into = {k: found.into[k] for k, op in mine.items() if op.kind in WRITES}
    wanted = 0
    for bits in into.values():
        wanted |= bits
    recorded = [k for k, op in mine.items() if op.kind in WRITES or wanted >> k & 1]
    place = {k: number for number, k in enumerate(recorded)}
    sites = []
    for k in recorded:
        op = mine[k]
        reads = tuple(place[r] for r in members(into.get(k, 0)) if r in place)
        param, component = op.data
        sites.append(TracedSite(KIND[op.kind], param, component, k not in found.looped, reads))
    deciding = frozenset(found.accesses[k].data[0] for k in members(found.deciding))
    numbers = {id(mine[k]): number for k, number in place.items()}
    body = _Tracer(numbers).block(function.body)
    return replace(function, body=body), TraceInfo(tuple(sites), deciding)


def without_stores(function: Function) -> Function:
    """The function without its effects on arrays."""
    return replace(function, body=_Still().block(function.body))


class _Tracer(Rewriter):
    def __init__(self, numbers: Mapping[int, int]) -> None:
        self.numbers = numbers

    def instead(self, op: Op) -> list[Node]:
        number = self.numbers.get(id(op))
        if number is None:
            return [op]
        return [Op("trace", op.args[:1], None, op.span, (number,)), op]


class _Still(Rewriter):
    def instead(self, op: Op) -> list[Node]:
        if op.kind == "atomic_add" and op.result is not None:
            # What it gave back decides nothing, but something dead may still name it.
            return [replace(op, kind="load", args=op.args[:1])] if op.kind in READS else []
        return [] if op.kind in WRITES else [op]

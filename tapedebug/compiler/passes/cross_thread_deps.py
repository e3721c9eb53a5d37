"""Arrays through which the threads of one launch depend on each other's order."""

from __future__ import annotations

from tapedebug.compiler.ir import NATIVE, Function, Op, Value, blocks_of, operands, ops_of, walk
from tapedebug.compiler.passes.memory_regions import indices_of, own_axes

ACCESS = {
    **{kind: kind for kind in ("load", "store", "atomic_add")},
    # What a gradient of the user's does to an adjoint array is what the reverse of these does.
    **{"add_adjoint": "load", "load_adjoint": "store", "store_adjoint": "store"},
}


def crossed(
    function: Function, active: frozenset[int], replay: frozenset[int], *, shared: bool = False
) -> frozenset[int]:
    """The array parameters through which one thread may see or overwrite what another wrote.

    An array of which each thread accesses elements of its own only is not among them (its index is the
    thread's, on the same axes of the array wherever it is accessed), nor is one that is only read, or only
    added to. Such kernels race on parallel devices; here threads run in order, and are reversed from
    the last to the first.

    Args:
        function: A kernel in IR.
        active: The array parameters that have a gradient.
        replay: Those whose values the adjoint needs and the launch writes, through this or another parameter.
        shared: Those are different views that overlap: a thread's own element of one is another thread's
            of the other.
    """
    used = {v for n in walk(function.body) for v in operands(n)}
    for node in walk(function.body):
        for block in blocks_of(node):
            used.update(block.yields)
    kinds: dict[int, set[str]] = {}
    shared_by_natives: set[int] = set()
    places: dict[int, list[tuple[Value, ...]]] = {}
    for op in ops_of(function.body):
        if op.kind in NATIVE:
            call = op.data[0]
            for param in call.reads | call.adjoints:
                kinds.setdefault(param, set()).add("load")
            for param in call.writes | call.adjoints:
                kinds.setdefault(param, set()).add("store")
            shared_by_natives |= call.reads | call.adjoints
        if op.kind in ACCESS:
            param = op.data[0]
            kinds.setdefault(param, set()).add(ACCESS[op.kind])
            if op.kind == "atomic_add" and op.result in used:
                kinds[param].add("load")
            places.setdefault(param, []).append(indices_of(op))
    elsewhere = {param for param, found in places.items() if not all(own_axes(function.axes, found))}
    elsewhere |= shared_by_natives
    # Parameters may be names of one array: what one does to it, all do.
    together = {
        p for p in replay if shared or kinds.get(p, set()) <= {"load"} or "load" not in kinds.get(p, set())
    }
    common = set().union(*(kinds.get(p, set()) for p in together))
    crossing = set()
    for param in active | replay:
        does = kinds.get(param, set()) | (common if param in together else set())
        # Names of one array may begin at different elements of it, so that no index is a thread's own.
        away = param in elsewhere or bool(together)
        if away and ("store" in does or {"load", "atomic_add"} <= does):
            crossing.add(param)
    return frozenset(crossing)


def at_own_index(function: Function, op: Op) -> bool:
    """True if a load or store is at exactly the thread's index on every axis."""
    offset = op.args[0].op
    assert offset is not None
    axes = [a.op.data[0] if a.op is not None and a.op.kind == "thread" else None for a in offset.args]
    return axes == list(range(function.axes))

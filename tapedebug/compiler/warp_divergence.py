"""Constructs of a kernel that Warp may reverse wrongly, as its documentation warns, with their lines.

Whether it does, and by how much, `passes.adjoint_warp` shows when it runs.
"""

from __future__ import annotations

from collections.abc import Iterator

from tapedebug._source import Span
from tapedebug.compiler.effects import WarpDivergence
from tapedebug.compiler.ir import Block, Custom, For, Function, Op, Value, While, blocks_of, operands, walk
from tapedebug.compiler.lower import Lowered
from tapedebug.compiler.source_variables import Variables
from tapedebug.lang import types as t
from tapedebug.lang.warp_adjoints import VERSION

EXCHANGES = ("atomic_exch", "atomic_cas")


def divergences_of(kernel: Lowered, adjoint: Function) -> tuple[WarpDivergence, ...]:
    """The constructs of a kernel, in the order of its source.

    Args:
        kernel: Lowered with `in_place`.
        adjoint: Its adjoint, which knows what it must keep.
    """
    variables = kernel.of_user
    assert variables is not None
    tags = {op.data[0] for op in adjoint.ops() if op.kind == "save"}
    saved = {op.span for op in adjoint.ops() if op.kind == "reserve" and op.data[0] in tags}
    found = [
        *_loops(kernel.custom.body, variables, saved),
        *(WarpDivergence("part", span) for span in _parts(variables)),
        *(WarpDivergence("array", span, param=param) for span, param in variables.rewritten.items()),
        *(WarpDivergence("counter", span) for span in _counters(kernel.custom.body)),
        *_functions(variables),
    ]
    return tuple(dict.fromkeys(sorted(found, key=lambda item: (item.span.line, item.span.column))))


def _loops(body: Block, variables: Variables, saved: set[Span | None]) -> Iterator[WarpDivergence]:
    for node in walk(body):
        if isinstance(node, For | While) and id(node) in variables.loops and node.span is not None:
            names = variables.loops[id(node)].names
            carried = dict(zip(names, node.carried, strict=True))
            floats = tuple(n for n, v in carried.items() if v.type in t.FLOATS and not n.startswith("%"))
            if floats or isinstance(node, While):
                needed = node.span in saved
                yield WarpDivergence(
                    "while" if isinstance(node, While) else "loop", node.span, floats, needed
                )


def _parts(variables: Variables) -> Iterator[Span]:
    """Yield the places where components are assigned, except fields of structs: Warp reverses them well."""
    for new, (_, how) in variables.assigned.items():
        if how != "field" and new.op is not None and new.op.span is not None:
            yield new.op.span


def _functions(variables: Variables) -> Iterator[WarpDivergence]:
    """Functions and atomics without an adjoint, or with one that need not be right."""
    wanted: dict[Value, tuple[str, str]] = {
        v: (found.name, found.what) for v, found in variables.stopped.items()
    }
    for value, (name, _) in variables.atomics.items():
        wanted[value] = (name, "the value" if name in EXCHANGES else "the element")
    for value, (name, what) in wanted.items():
        if value.op is not None and value.op.span is not None:
            yield WarpDivergence("function", value.op.span, (name, what, VERSION))


def _counters(body: Block) -> Iterator[Span]:
    """Atomics whose results are used, and that are not computed again by a replay of the user's."""
    used = _used(body)
    blocks = [body]
    while blocks:
        for node in blocks.pop().ops:
            if isinstance(node, Op):
                if node.kind == "atomic_add" and node.result in used and node.span is not None:
                    yield node.span
            elif not isinstance(node, Custom) or (node.replay is None and node.gradient is None):
                blocks.extend(blocks_of(node))


def _used(body: Block) -> set[Value]:
    used: set[Value] = set()
    for node in walk(body):
        used.update(operands(node))
        for block in blocks_of(node):
            used.update(block.yields)
    return used

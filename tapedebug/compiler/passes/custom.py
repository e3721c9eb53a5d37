"""Calls with a custom gradient or replay: inlined where only values count, and in adjoints.

The forward sweep computes the results by the replay, where there is one, else by the body. The reverse sweep
runs the gradient, from the adjoints of the results to those of the inputs; without one it reverses the body.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tapedebug.compiler.ir import (
    NATIVE,
    Block,
    Custom,
    For,
    Function,
    If,
    Node,
    Op,
    Value,
    While,
    blocks_of,
    ops_of,
)
from tapedebug.compiler.passes.native import touched_by

if TYPE_CHECKING:
    from tapedebug.compiler.native.unit import ForeignFunction
    from tapedebug.compiler.passes.adjoint import Transform
    from tapedebug.compiler.passes.adjoint_loops import Record, Values


def opened(function: Function) -> Function:
    """The function with the body of each `Custom` in its place: all but adjoints are made from it."""
    return replace(function, body=_opened(function.body, lambda node: True))


def derived(function: Function, names: frozenset[str]) -> Function:
    """The function with the bodies of some functions in their place: adjoints reverse these instead.

    Native functions keep their adjoint snippets, as nothing else reverses them, and gradients that are meant
    to differ stay.
    """
    return replace(
        function, body=_opened(function.body, lambda node: is_derived(node) and node.name in names)
    )


def is_derived(node: Custom) -> bool:
    """Return whether the engine has a derivative of its own that a call should agree with.

    Of functions of Numba's it has finite differences only, as checks have.
    """
    if node.function is None or node.function.numba is not None:
        return False
    return node.gradient is None or not node.function.gradient.differs


def own_gradients(block: Block) -> Iterator[Custom]:
    """The calls of functions that have a gradient of the user's, at any depth, native ones too."""
    for node in block.ops:
        if isinstance(node, Custom) and node.gradient is not None and not node.numerical:
            yield node
        for inner in blocks_of(node):
            yield from own_gradients(inner)


def calls_with_gradient(block: Block) -> Iterator[Custom]:
    """The same without native ones: those whose gradient is a function of the kernel language."""
    return (node for node in own_gradients(block) if node.function is not None)


def own_adjoints(block: Block) -> Iterator[Custom]:
    """The calls of functions with a gradient or a replay of the user's, at any depth, native ones too."""
    for node in block.ops:
        if isinstance(node, Custom) and not node.numerical:
            yield node
        for inner in blocks_of(node):
            yield from own_adjoints(inner)


def by_differences(block: Block) -> Iterator[ForeignFunction]:
    """The functions of Numba's whose derivatives in adjoints are finite differences, once for each call."""
    for node in block.ops:
        if isinstance(node, Custom) and node.numerical:
            yield from (op.data[0].native for op in ops_of(node.body) if op.kind in NATIVE)
        elif not isinstance(node, Custom) or node.gradient is None:
            for inner in blocks_of(node):
                yield from by_differences(inner)


def _opened(block: Block, wanted: Callable[[Custom], bool]) -> Block:
    ops: list[Node] = []
    for node in block.ops:
        match node:
            case Custom() if wanted(node):
                ops.extend(_opened(node.body, wanted).ops)
            case Custom():
                ops.append(replace(node, body=_opened(node.body, wanted)))
            case If():
                then, orelse = _opened(node.then, wanted), _opened(node.orelse, wanted)
                ops.append(replace(node, then=then, orelse=orelse))
            case For():
                ops.append(replace(node, body=_opened(node.body, wanted)))
            case While():
                test, body = _opened(node.test, wanted), _opened(node.body, wanted)
                ops.append(replace(node, test=test, body=body))
            case _:
                ops.append(node)
    return Block(ops, list(block.yields))


def forward(transform: Transform, node: Custom, known: Values, record: Record | None, *, first: bool) -> None:
    """The forward sweep of a call."""
    replay = _replay(transform, node)
    if replay is None:
        # A body that is not reversed keeps nothing of its loops.
        kept = record if node.gradient is None else None
        transform.forward(node.body, known, kept, first=first)
        return
    inside = dict(known)
    _run(transform, replay, inside)
    known.update((r, transform.value(inside, v)) for r, v in zip(node.results, replay.yields, strict=True))


def reverse(transform: Transform, node: Custom, known: Values, adj: Values, record: Record) -> None:
    """The reverse sweep of a call."""
    if node.gradient is not None:
        _gradient(transform, node, node.gradient, known, adj)
    elif _replay(transform, node) is None:
        transform.reverse(node.body, known, adj, record)
    else:  # the forward sweep has the results, but nothing of what leads to them
        inside = dict(known)
        again: Record = {}
        transform.forward(node.body, inside, again, first=False)
        transform.reverse(node.body, inside, adj, again)


def memory(transform: Transform, op: Op, known: Values) -> None:
    """Memory in a replay or gradient: arrays as the launch left them; adjoints are 0 where there are none."""
    b = transform.builder
    args = tuple(transform.value(known, a) for a in op.args)
    if op.kind == "load":
        assert op.result is not None
        known[op.result] = b.emit("load_after", args, op.result.type, op.data)
    elif op.data[0] not in transform.active:
        if op.result is not None:
            known[op.result] = transform.zero(op.result)
    elif op.result is not None:
        known[op.result] = b.emit(op.kind, args, op.result.type, op.data)
    else:
        b.effect(op.kind, args, op.data)


def _replay(transform: Transform, node: Custom) -> Block | None:
    """The replay of a call; none where the stores that it may read are themselves done again.

    Then the body is computed again too, and gives what it gave.
    """
    if node.replay is None:
        return None
    touched = (op for block in (node.body, node.replay) for op in ops_of(block))
    kinds = ("load", "store", "atomic_add")
    again = any(
        not transform.replay.isdisjoint(op.data[:1] if op.kind in kinds else touched_by(op)) for op in touched
    )
    return None if again else node.replay


def _run(transform: Transform, block: Block, inside: Values) -> None:
    transform.after = True
    transform.forward(block, inside, None, first=False)
    transform.after = False


def _gradient(transform: Transform, node: Custom, gradient: Block, known: Values, adj: Values) -> None:
    seeds = [adj.pop(transform.root(r), None) for r in node.results]
    if all(s is None for s in seeds) and not transform.has_effect(node):
        return

    def given(value: Value | None, like: Value) -> Value:
        return value if value is not None else transform.zero(like)

    inside = dict(known)
    inside.update((s, given(value, s)) for s, value in zip(node.seeds, seeds, strict=True))
    # A value that stands for several inputs brings its adjoint to the first, and takes it from all of them.
    for before, primal in zip(node.before, node.inputs, strict=True):
        inside[before] = given(adj.pop(transform.root(primal), None), before)
    _run(transform, gradient, inside)
    for primal, after in zip(node.inputs, gradient.yields, strict=True):
        if primal in transform.carrying:
            transform.accumulate(adj, primal, transform.value(inside, after))

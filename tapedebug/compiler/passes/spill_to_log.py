"""Log values that the reverse sweep cannot recompute.

When a launch writes an array whose values its own adjoint needs, a load may give something else the second
time; so does the result of an atomic. At the top level of a kernel such a value simply stays in scope. Inside
branches and loops it is logged as the forward sweep meets it, and recalled where the block is computed again.
The place in the log is an ordinary carried value, so that every iteration of every loop finds its own part
of the log. Where threads read what others wrote, the whole kernel is computed again, after all threads have
run forward: then values of the top level are logged, too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tapedebug._source import Span
from tapedebug.compiler.builder import Builder
from tapedebug.compiler.ir import (
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
    operands,
    walk,
)
from tapedebug.compiler.passes.copying import copied
from tapedebug.lang import types as t


def spill_to_log(function: Function, replay: frozenset[int], *, everywhere: bool = False) -> Function:
    """The function with a `note` after each nested operation whose value is not repeatable.

    Args:
        function: A kernel in IR.
        replay: The array parameters that the kernel writes and whose values the adjoint needs.
        everywhere: Whether operations of the top level get notes, too; the body then yields the place after
            them.
    """
    if not replay:
        return function
    keeper = _Keeper(function, replay)
    start = keeper.builder.place() if everywhere else keeper.zero
    body, end = keeper.block(function.body, start, nested=everywhere)
    if everywhere:
        body.yields = [end]
    return replace(function, body=body)


def _given_by(op: Op) -> Collection[int]:
    """The array parameters that the result of an operation depends on."""
    if op.kind == "native_result":
        reads: frozenset[int] = op.data[0].reads | op.data[0].writes
        return reads
    return op.data[:1] if op.kind in ("load", "atomic_add") else ()


class _Keeper:
    def __init__(self, function: Function, replay: frozenset[int]) -> None:
        self.replay = replay
        self.builder = Builder()
        self.zero = self.builder.constant(0, t.int64)
        self.one = self.builder.constant(1, t.int64)
        self.used: set[Value] = set(function.body.yields)
        for node in walk(function.body):
            self.used.update(operands(node))
            for block in blocks_of(node):
                self.used.update(block.yields)

    def _volatile(self, node: Node) -> bool:
        return (
            isinstance(node, Op) and not self.replay.isdisjoint(_given_by(node)) and node.result in self.used
        )

    def _contains(self, *blocks: Block) -> bool:
        return any(self._volatile(n) for block in blocks for n in walk(block))

    def block(self, block: Block, place: Value, *, nested: bool) -> tuple[Block, Value]:
        """A block with notes, and the place after them.

        Args:
            block: The primal block.
            place: The next free place of the log.
            nested: Whether the block is computed again in the reverse sweep; at the top level of a kernel its
                values stay in scope, and need no note.
        """
        result = Block(yields=list(block.yields))
        for node in block.ops:
            if isinstance(node, Custom):
                body, place = self.block(node.body, place, nested=nested)
                result.ops.append(replace(node, body=body))
                continue
            if isinstance(node, Op) or not self._contains(*blocks_of(node)):
                result.ops.append(node)
                if nested and isinstance(node, Op) and self._volatile(node):
                    assert node.result is not None
                    result.ops.append(Op("log_push", (place, node.result), None, node.span))
                    place = self._after(result, place, node.span)
                continue
            new, place = self._nested(result, node, place, nested)
            result.ops.append(new)
        return result, place

    def _after(self, block: Block, place: Value, span: Span | None) -> Value:
        following = Value(t.int64, "place")
        following.op = Op("add", (place, self.one), following, span)
        block.ops.append(following.op)
        return following

    def _nested(self, around: Block, node: Node, place: Value, nested: bool) -> tuple[Node, Value]:
        after = Value(t.int64, "place")
        if isinstance(node, If):
            sides = []
            for inner in blocks_of(node):
                new, end = self.block(inner, place, nested=True)
                new.yields.append(end)
                sides.append(new)
            return replace(node, then=sides[0], orelse=sides[1], results=[*node.results, after]), after
        assert isinstance(node, For | While)
        if isinstance(node, While) and self._contains(node.test):
            before, node = self._rotated(node)
            moved, place = self.block(before, place, nested=nested)
            around.ops.extend(moved.ops)
        inside = Value(t.int64, "place")
        body, end = self.block(node.body, inside, nested=True)
        body.yields.append(end)
        changed = replace(
            node,
            body=body,
            inits=[*node.inits, place],
            carried=[*node.carried, inside],
            results=[*node.results, after],
        )
        return changed, after

    def _rotated(self, node: While) -> tuple[Block, While]:
        """`while test: body` as `go = test; while go: body; go = test`: the test's loads can be noted."""
        start = self._copy(node.test, dict(zip(node.carried, node.inits, strict=True)))
        again = self._copy(node.test, dict(zip(node.carried, node.body.yields, strict=True)))
        going, result = Value(t.bool, "going"), Value(t.bool, "going")
        body = Block([*node.body.ops, *again.ops], [*node.body.yields, again.yields[0]])
        rotated = While(
            [*node.inits, start.yields[0]],
            [*node.carried, going],
            Block([], [going]),
            body,
            [*node.results, result],
            node.span,
        )
        return start, rotated

    def _copy(self, block: Block, known: dict[Value, Value]) -> Block:
        """A copy of a block with fresh values, which are used where the old ones are."""

        def made(old: Value, new: Value) -> None:
            if old in self.used:
                self.used.add(new)

        return copied(block, known, made)

"""Copies of IR with fresh values: the same computation once more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tapedebug.compiler.builder import is_free
from tapedebug.compiler.ir import Block, Custom, For, If, Node, Op, Value, While

Values = dict[Value, Value]
Made = Callable[[Value, Value], None]


def copied(block: Block, known: Values, made: Made = lambda old, new: None) -> Block:
    """A copy of a block with fresh values, under a substitution of values from outside.

    Args:
        block: The block.
        known: What stands for values from outside, where something does; the fresh values are added.
        made: Called with each value and its copy.
    """
    return _Copier(known, made).block(block)


class _Copier:
    def __init__(self, known: Values, made: Made) -> None:
        self.known = known
        self.made = made

    def block(self, block: Block) -> Block:
        return Block([self._node(node) for node in block.ops], [self._get(v) for v in block.yields])

    def _get(self, value: Value) -> Value:
        return value if is_free(value) else self.known.get(value, value)

    def _fresh(self, value: Value) -> Value:
        new = self.known[value] = Value(value.type, value.hint)
        self.made(value, new)
        return new

    def _node(self, node: Node) -> Node:
        match node:
            case Op():
                args = tuple(self._get(a) for a in node.args)
                new = replace(node, args=args, result=self._fresh(node.result) if node.result else None)
                if new.result is not None:
                    new.result.op = new
                return new
            case If():
                condition, then, orelse = (
                    self._get(node.condition),
                    self.block(node.then),
                    self.block(node.orelse),
                )
                return If(condition, then, orelse, [self._fresh(r) for r in node.results], node.span)
            case Custom():
                return self._custom(node)
        return self._loop(node)

    def _custom(self, node: Custom) -> Custom:
        inputs = [self._get(v) for v in node.inputs]
        body = self.block(node.body)
        replay = node.replay and self.block(node.replay)
        before, seeds = [self._fresh(v) for v in node.before], [self._fresh(v) for v in node.seeds]
        gradient = node.gradient and self.block(node.gradient)
        params = [(name, self._get(v)) for name, v in node.params]
        return Custom(
            node.name, body, replay, gradient, inputs, before, seeds, node.span, node.function, params
        )

    def _loop(self, node: For | While) -> Node:
        inits = [self._get(v) for v in node.inits]
        carried = [self._fresh(v) for v in node.carried]
        if isinstance(node, While):
            test, body = self.block(node.test), self.block(node.body)
            return While(inits, carried, test, body, [self._fresh(r) for r in node.results], node.span)
        count, index, body = self._get(node.count), self._fresh(node.index), self.block(node.body)
        results = [self._fresh(r) for r in node.results]
        return For(count, index, inits, carried, body, results, node.span, node.reverse)

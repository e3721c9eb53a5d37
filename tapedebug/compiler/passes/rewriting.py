"""Rewrite blocks with some operations replaced."""

from __future__ import annotations

from dataclasses import replace

from tapedebug.compiler.builder import Builder
from tapedebug.compiler.ir import Block, Custom, For, If, Node, Op, While


class Rewriter:
    """Gives new blocks; what stands for an operation is for subclasses to say."""

    def instead(self, op: Op) -> list[Node]:
        """Return the nodes that replace an operation."""
        raise NotImplementedError

    def block(self, block: Block) -> Block:
        """The new block."""
        return Block([new for node in block.ops for new in self._node(node)], list(block.yields))

    def _node(self, node: Node) -> list[Node]:
        match node:
            case Op():
                return self.instead(node)
            case If():
                return [replace(node, then=self.block(node.then), orelse=self.block(node.orelse))]
            case For():
                return [replace(node, body=self.block(node.body))]
            case While():
                return [replace(node, test=self.block(node.test), body=self.block(node.body))]
            case Custom():
                raise TypeError("kernels with custom regions are not rewritten")


class Adder:
    """Walks a function and builds it again: values keep their names, so that only operations are added.

    Subclasses say what an operation becomes (`_op`) and, where it matters, an `if` (`_if`).
    """

    def __init__(self) -> None:
        self.builder = Builder()

    def run(self, block: Block) -> Block:
        """Return the new body of a function."""
        self._nodes(block)
        self.builder.root.yields = list(block.yields)
        return self.builder.root

    def _op(self, op: Op) -> None:
        raise NotImplementedError

    def _if(self, node: If) -> None:
        self.builder.append(replace(node, then=self._block(node.then), orelse=self._block(node.orelse)))

    def _block(self, block: Block) -> Block:
        with self.builder.block() as inner:
            self._nodes(block)
            inner.yields = list(block.yields)
        return inner

    def _nodes(self, block: Block) -> None:
        for node in block.ops:
            self.builder.span = node.span
            match node:
                case Op():
                    self._op(node)
                case If():
                    self._if(node)
                case For():
                    self.builder.append(replace(node, body=self._block(node.body)))
                case While():
                    test, body = self._block(node.test), self._block(node.body)
                    self.builder.append(replace(node, test=test, body=body))
                case _:  # how it is reversed is the user's
                    self.builder.append(node)

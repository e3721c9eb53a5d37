"""Blocks made anew with something else in place of some operations."""

from __future__ import annotations

from dataclasses import replace

from tapedebug.compiler.ir import Block, Custom, For, If, Node, Op, While


class Rewriter:
    """Gives new blocks; what stands for an operation is for subclasses to say."""

    def instead(self, op: Op) -> list[Node]:
        """What takes the place of an operation."""
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

"""Strip prints and tests from a kernel, for all launches but the user's own."""

from __future__ import annotations

from dataclasses import replace

from tapedebug.compiler.ir import DIAGNOSTICS, Block, Custom, For, Function, If, Node, Op, While, ops_of

NONE: frozenset[str] = frozenset()


def strip_diagnostics(
    function: Function, diagnostics: frozenset[str] = NONE, *, gradients: bool = True
) -> Function:
    """The function without its diagnostics.

    Args:
        function: A kernel in IR.
        diagnostics: Kinds of diagnostics that stay.
        gradients: Whether diagnostics in gradients of the user's go, too.
    """
    if not any(op.kind in DIAGNOSTICS for op in ops_of(function.body)):
        return function
    return replace(function, body=_Silence(diagnostics, gradients).block(function.body))


class _Silence:
    def __init__(self, diagnostics: frozenset[str], gradients: bool) -> None:
        self.diagnostics = diagnostics
        self.gradients = gradients

    def block(self, block: Block) -> Block:
        return Block([self._node(n) for n in block.ops if self._stays(n)], list(block.yields))

    def _stays(self, node: Node) -> bool:
        return (
            not isinstance(node, Op) or node.kind not in DIAGNOSTICS or node.data[0].kind in self.diagnostics
        )

    def _node(self, node: Node) -> Node:
        match node:
            case If():
                return replace(node, then=self.block(node.then), orelse=self.block(node.orelse))
            case For():
                return replace(node, body=self.block(node.body))
            case While():
                return replace(node, test=self.block(node.test), body=self.block(node.body))
            case Custom():
                gradient = self.block(node.gradient) if node.gradient and self.gradients else node.gradient
                replay = node.replay and self.block(node.replay)
                return replace(node, body=self.block(node.body), replay=replay, gradient=gradient)
        return node


def diagnostics_of(block: Block) -> frozenset[str]:
    """The kinds of diagnostics in a block."""
    return frozenset(op.data[0].kind for op in ops_of(block) if op.kind in DIAGNOSTICS)

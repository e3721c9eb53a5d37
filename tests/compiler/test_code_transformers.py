"""Kernels and functions whose syntax tree is rewritten before they are compiled (`code_transformers=[…]`)."""

from __future__ import annotations

import ast

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.function import Function

pytestmark = pytest.mark.unoptimized


class Doubled(ast.NodeTransformer):
    """Doubles the numbers that are written down."""

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.copy_location(ast.Constant(node.value * 2.0), node) if type(node.value) is float else node


class Squared(ast.NodeTransformer):
    """Multiplies what is assigned to elements by itself."""

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        if isinstance(node.targets[0], ast.Subscript):
            node.value = ast.copy_location(ast.BinOp(node.value, ast.Mult(), node.value), node.value)
        return node


def scaled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * 1.5


def generic(x: wp.array(dtype=wp.Float), y: wp.array(dtype=wp.Float)):
    i = wp.tid()
    y[i] = x[i]


def test_the_tree_is_rewritten_in_order_and_differentiated() -> None:
    x, y = wp.array([2.0], dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    kernel = wp.Kernel(scaled, key="rewritten", code_transformers=[Doubled(), Squared()])
    with wp.Tape() as tape:
        wp.launch(kernel, 1, inputs=[x, y])
    tape.backward(y)
    assert y.list() == [36] and x.grad.list() == [36]  # (3 x)², 18 x
    wp.launch(wp.Kernel(scaled, key="as_written"), 1, inputs=[x, y])
    assert y.list() == [3]


def test_versions_of_generic_kernels_are_rewritten_too() -> None:
    x, y = wp.array([3.0], dtype=wp.float64), wp.zeros(1, dtype=wp.float64)
    wp.launch(wp.Kernel(generic, key="generic", code_transformers=[Squared()]), 1, inputs=[x, y])
    assert y.list() == [9]


def halved(x: float) -> float:
    return x * 1.5


def test_functions_are_rewritten_in_each_kernel_that_calls_them() -> None:
    rewritten = Function(
        func=halved, key="rewritten", namespace="", module=None, code_transformers=[Doubled()]
    )
    plain = Function(halved)

    @wp.kernel
    def both(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = rewritten(x[i]) + 0.1 * plain(x[i])

    x, y = wp.array([2.0], dtype=float, requires_grad=True), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(both, 1, inputs=[x, y])
    tape.backward(y)
    np.testing.assert_allclose([y.list()[0], x.grad.list()[0]], [6.3, 3.15], rtol=1e-6)
    assert "3.0" in both.source() and "1.5" in both.source()
    assert (repr(rewritten), rewritten(2.0)) == ("<func rewritten>", 3.0), (
        "outside kernels it is the function"
    )


def test_messages_of_functions_show_the_line_of_the_source() -> None:
    class Renamed(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return ast.copy_location(ast.Name("missing" if node.id == "x" else node.id, node.ctx), node)

    function = Function(halved, key="renamed", code_transformers=[Renamed()])

    @wp.kernel
    def calls(y: wp.array(dtype=float)):
        y[0] = function(y[0])

    with pytest.raises(wp.KernelError, match="the name `missing` is not defined") as error:
        wp.launch(calls, 1, inputs=[wp.zeros(1)])
    assert "return x * 1.5" in str(error.value)


def test_messages_show_the_line_of_the_source() -> None:
    class Renamed(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            return ast.copy_location(ast.Name("missing" if node.id == "x" else node.id, node.ctx), node)

    with pytest.raises(wp.KernelError, match="the name `missing` is not defined") as error:
        wp.launch(wp.Kernel(scaled, code_transformers=[Renamed()]), 1, inputs=[wp.zeros(1), wp.zeros(1)])
    assert "y[i] = x[i] * 1.5" in str(error.value)

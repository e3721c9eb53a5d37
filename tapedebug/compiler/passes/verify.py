"""Verify IR: values are defined before use, types fit, blocks match."""

from __future__ import annotations

from tapedebug.compiler.builder import is_free
from tapedebug.compiler.ir import (
    KEEPING,
    MEMORY,
    STRUCTURAL,
    Block,
    Custom,
    For,
    Function,
    If,
    Node,
    Op,
    Value,
    While,
    operands,
    results_of,
)
from tapedebug.lang import types as t
from tapedebug.lang.rules import RULES


class InvalidIR(Exception):
    """A pass has produced IR that is not well formed: a bug of the compiler, never of the user."""


def verify(function: Function) -> Function:
    """The function itself, if it is well formed; raises `InvalidIR` otherwise."""
    for block in function.blocks:
        _block(function, block, set())
    return function


def _require(holds: bool, function: Function, node: object, what: str) -> None:
    if not holds:
        raise InvalidIR(f"{function.name}: {what}: {node!r:.300}")


def _block(function: Function, block: Block, known: set[Value], *own: Value) -> None:
    """Check a block that begins with values of its own; `known` is afterwards what it was.

    A copy of what is known before each branch and loop would take most of the time of long kernels.
    """
    inside = [value for value in own if value not in known]
    known.update(inside)
    inside += _nodes(function, block, known)
    known.difference_update(inside)


def _nodes(function: Function, block: Block, known: set[Value]) -> list[Value]:
    """Check a block; what it computes is added to `known`, and returned."""
    added: list[Value] = []
    for node in block.ops:
        for value in operands(node):
            _require(value in known or is_free(value), function, node, "a value is used before it is defined")
        inside = _custom(function, node, known) if isinstance(node, Custom) else _node(function, node, known)
        new = [value for value in inside if value not in known]
        known.update(new)
        added += new
    for value in block.yields:
        _require(value in known or is_free(value), function, block.yields, "a block yields an unknown value")
    return added


def _node(function: Function, node: Op | If | For | While, known: set[Value]) -> list[Value]:
    """Check a node; return its results."""
    match node:
        case Op():
            _op(function, node)
            if node.result is not None:
                _require(node.result not in known, function, node, "a value is assigned twice")
        case If():
            _require(node.condition.type is t.bool, function, node, "a condition is not bool")
            for inner in (node.then, node.orelse):
                _block(function, inner, known)
                _same_types(function, inner.yields, node.results, node)
        case For():
            _require(node.count.type is t.int64, function, node, "a count is not int64")
            _block(function, node.body, known, *node.carried, node.index)
        case While():
            _block(function, node.test, known, *node.carried)
            _require([v.type for v in node.test.yields] == [t.bool], function, node, "a test is not bool")
            _block(function, node.body, known, *node.carried)
    if isinstance(node, For | While):
        for group in (node.inits, node.body.yields, node.results):
            _same_types(function, group, node.carried, node)
    return results_of(node)


def _custom(function: Function, node: Custom, known: set[Value]) -> list[Value]:
    """Check a function with a gradient or replay of its own; return its results.

    The gradient knows what the body computes, and what follows does not.
    """
    _require(known.isdisjoint(node.results), function, node, "a value is assigned twice")
    inside = _nodes(function, node.body, known)
    known.difference_update(inside)
    if node.replay is not None:
        _block(function, node.replay, known)
        _same_types(function, node.replay.yields, node.results, node)
    if node.gradient is not None:
        _same_types(function, node.seeds, node.results, node)
        _block(function, node.gradient, known, *inside, *node.seeds, *node.before)
        for group in (node.before, node.gradient.yields):
            _same_types(function, group, node.inputs, node)
    return node.results


def _same_types(function: Function, one: list[Value], two: list[Value], node: Node) -> None:
    _require([v.type for v in one] == [v.type for v in two], function, node, "yielded types do not fit")


def _op(function: Function, op: Op) -> None:
    rule = RULES.get(op.kind)
    _require(rule is not None or op.kind in STRUCTURAL, function, op, f"unknown operation {op.kind!r}")
    if rule is not None:
        assert op.result is not None
        result = rule.result([a.type for a in op.args])
        _require(result is op.result.type, function, op, "a rule's result has the wrong type")
    elif op.kind in MEMORY:
        element = t.scalar_of(function.params[op.data[0]].type)
        moved = op.args[1] if len(op.args) > 1 else op.result
        assert moved is not None
        _require(moved.type is element, function, op, "an element has the wrong type")
        _require(op.args[0].type is t.int64, function, op, "an offset is not int64")
    if op.kind in ("assert", "bounds_check", "inside"):
        wanted = [t.bool] if op.kind == "assert" else [t.int64, t.int64]
        found = [a.type for a in op.args[: len(wanted)]]
        _require(found == wanted, function, op, "a diagnostic has operands of the wrong types")
    if op.kind not in KEEPING and op.kind not in ("log_push", "log_load"):
        _require(op.span is not None, function, op, "an operation has no span")

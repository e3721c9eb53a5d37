"""Smooth functions of matrix factors that are not smooth themselves: their derivatives.

Where two singular values agree, the derivative of a factor alone does not exist, but that of `U g(S) Vᵀ`
does. There the adjoints of the factors cancel: what is left of them, divided by a difference of singular
values, is 0 / 0. So a decomposition computes its factors three times (`lang.rules.decompositions`): those of
the matrix, and in float64 those of two matrices on both sides of it whose singular values are apart.
`differentiated_as` joins them: the first are the values, the others have the derivatives.

What follows is then differentiated where the others stand, too, or nothing would cancel: each operation on
factors is computed for them as well, and its partial derivatives are theirs.
"""

from __future__ import annotations

from dataclasses import replace

from tapedebug.compiler.ir import Block, Function, If, Node, Op, Value, ops_of
from tapedebug.compiler.passes.dce import remove_dead_code
from tapedebug.compiler.passes.rewriting import Adder, Rewriter
from tapedebug.lang import types as t
from tapedebug.lang.rules import RULES

JOINED = "differentiated_as"
CONVERSIONS = frozenset({"to_f16", "to_bf16", "to_f32", "to_f64"})


def values_alone(function: Function) -> Function:
    """The function without what only its derivatives need: what runs."""
    if not any(op.kind == JOINED for op in function.ops()):
        return function
    prelude = function.prelude and _ValuesAlone().block(function.prelude)
    return remove_dead_code(replace(function, body=_ValuesAlone().block(function.body), prelude=prelude))


class _ValuesAlone(Rewriter):
    def instead(self, op: Op) -> list[Node]:
        return [replace(op, kind="stop_gradient", args=op.args[:1])] if op.kind == JOINED else [op]


def smoothed(function: Function) -> Function:
    """The function with the derivatives of its smooth compositions: what adjoints and tangents are made from.

    What leaves through memory, through the carried values of a loop, or through a call with a gradient of the
    user's own, has its derivative; only what is computed from it afterwards is differentiated at the values.
    """
    if not any(op.kind == JOINED for op in ops_of(function.body)):
        return function
    return replace(function, body=_Smoothed().run(function.body))


class _Smoothed(Adder):
    """The pass."""

    def __init__(self) -> None:
        super().__init__()
        self.beside: dict[Value, tuple[Value, Value]] = {}
        """For values made of factors, the float64 values that have their derivatives."""

    def _op(self, op: Op) -> None:
        b, result, rule = self.builder, op.result, RULES.get(op.kind)
        if op.kind == JOINED:
            assert result is not None
            self.beside[result] = self._as_float64(op.args[1])[0], self._as_float64(op.args[2])[1]
            b.append(op)
            return
        smooth = rule is not None and rule.differentiable and not self.beside.keys().isdisjoint(op.args)
        if result is None or result.type not in t.FLOATS or not smooth:
            b.append(op)
            return
        value = Value(result.type, result.hint)
        value.op = replace(op, result=value)
        b.append(value.op)
        one, other = zip(*map(self._as_float64, op.args), strict=True)
        if op.kind in CONVERSIONS:
            self._join(value, one + other, result)
        else:
            self._join(value, (b.apply(op.kind, *one), b.apply(op.kind, *other)), result)

    def _as_float64(self, value: Value) -> tuple[Value, Value]:
        """The two that a value is differentiated as, in float64; what is no float is itself."""
        if value.type not in t.FLOATS:
            return value, value
        one, other = self.beside.get(value, (value, value))
        return self.builder.apply("to_f64", one), self.builder.apply("to_f64", other)

    def _join(self, value: Value, beside: tuple[Value, ...], result: Value) -> None:
        """Let `result` be `value` with the derivatives of `beside`."""
        one, other = beside
        self.beside[result] = one, other
        self.builder.append(Op(JOINED, (value, one, other), result, self.builder.span))

    def _if(self, node: If) -> None:
        sides = [self._block(node.then), self._block(node.orelse)]
        pairs = list(zip(node.then.yields, node.orelse.yields, strict=True))
        smooth = [k for k, pair in enumerate(pairs) if not self.beside.keys().isdisjoint(pair)]
        results = list(node.results)
        beside = []
        for k in smooth:
            results[k] = Value(node.results[k].type, node.results[k].hint)
            beside.append((Value(t.float64), Value(t.float64)))
            for side in sides:
                side.yields += self._wide_at_end(side, side.yields[k], node)
        added = [value for pair in beside for value in pair]
        self.builder.append(replace(node, then=sides[0], orelse=sides[1], results=results + added))
        for k, pair in zip(smooth, beside, strict=True):
            self._join(results[k], pair, node.results[k])

    def _wide_at_end(self, side: Block, value: Value, node: If) -> list[Value]:
        """`_wide`, of a block that is closed already."""
        found = []
        for one in self.beside.get(value, (value, value)):
            if one.type is t.float64:
                found.append(one)
                continue
            wide = Value(t.float64)
            wide.op = Op("to_f64", (one,), wide, node.span)
            side.ops.append(wide.op)
            found.append(wide)
        return found

"""The gradient of a function as ordinary operations, so that it can be differentiated again.

Where the adjoint of a kernel keeps the values that the iterations of a loop began with, here they are
computed anew from before the loop, for each iteration: nothing is kept that would need a derivative of its
own. That is quadratic in the number of iterations, where derivatives need carried values at all.
"""

from __future__ import annotations

from tapedebug.compiler.builder import Builder
from tapedebug.compiler.ir import ADJOINT, Block, Custom, For, Op, Value, While, results_of
from tapedebug.compiler.passes.activity import values_between
from tapedebug.compiler.passes.adjoint import Transform
from tapedebug.compiler.passes.adjoint_loops import Record, Values
from tapedebug.compiler.passes.copying import copied
from tapedebug.lang import types as t


def pulled_back_to(
    builder: Builder, body: Block, inputs: list[Value], results: list[Value]
) -> list[Value | None]:
    """Emit the derivatives of the sum of `results` by each of `inputs`; None where there is none.

    Args:
        builder: Its open block has the body's operations.
        body: They, as a block. It writes to no array; what it reads is constant.
        inputs: Float values.
        results: Values that the body computes, or inputs.
    """
    carrying = values_between(body, inputs, results)
    transform = Pullback(builder, carrying)
    known = {v: v for v in (*inputs, *(r for node in body.ops for r in results_of(node)))}
    adj: Values = {}
    for result in results:
        if result in carrying:
            transform.accumulate(adj, result, builder.constant(1, result.type))
    transform.reverse(body, known, adj, {})
    return [adj.get(v) for v in inputs]


class Pullback(Transform):
    """The reverse of operations that stand in the builder's open block."""

    def __init__(self, builder: Builder, carrying: set[Value]) -> None:
        super().__init__(frozenset(), frozenset(), carrying)
        self.builder = builder

    def value(self, known: Values, primal: Value) -> Value:
        """A value of the function; those from outside stand for themselves."""
        found = known.get(primal)
        return found if found is not None else primal

    def forward(self, block: Block, known: Values, record: Record | None, *, first: bool) -> None:
        """Compute a block's values once more; nothing is kept."""
        super().forward(block, known, None, first=False)

    def _forward_custom(self, node: Custom, known: Values, record: Record | None, first: bool) -> None:
        self.builder.append(copied(Block([node]), known).ops[0])

    def _forward_op(self, op: Op, known: Values, first: bool) -> None:
        if op.kind in ADJOINT:  # in a gradient of the user's: arrays are constant, and have no adjoint
            if op.result is not None:
                known[op.result] = self.zero(op.result)
            return
        self.after = False  # nothing was launched yet: arrays are as they are
        super()._forward_op(op, known, first)

    def _loop_record(self, node: For | While, known: Values, record: Record) -> tuple[int, Value]:
        if isinstance(node, For):
            return 0, self.value(known, node.count)
        return 0, self.forward_while(node, dict(known), None, first=False)

    def _release(self, stored: tuple[int, Value]) -> None:
        pass

    def _restored(self, node: For | While, known: Values, stored: tuple[int, Value], index: Value) -> Values:
        b, total = self.builder, stored[1]
        last = b.apply("sub", total, b.constant(1, t.int64))
        before = b.apply("sub", last, index) if isinstance(node, For) and node.reverse else index
        inits, carried, within = self._carried(node, known)
        step = Value(t.int64, "k")
        b.forget_loads()
        with b.block() as body:
            if isinstance(node, For):
                within[node.index] = b.apply("sub", last, step) if node.reverse else step
            self.forward(node.body, within, None, first=False)
            body.yields = [self.value(within, v) for v in node.body.yields]
        b.forget_loads()
        results = [Value(v.type, v.hint) for v in node.carried]
        b.append(For(before, step, inits, carried, body, results, node.span))
        inside = {**known, **dict(zip(node.carried, results, strict=True))}
        if isinstance(node, For):
            inside[node.index] = index
        return inside

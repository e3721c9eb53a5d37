"""The adjoint of a kernel: forward sweep, then reverse sweep, thread by thread.

Within a block, the forward sweep computes the values that partial derivatives need, and the reverse sweep
walks the operations backwards. What stands inside a branch or a loop is computed again where it is reversed;
loops are reversed iteration by iteration, with the carried values that each began with (`save`, `restore`).
Values that cannot be computed again (loads of an array that the same launch writes, results of atomics) are
logged in the forward sweep and recalled. Dead code removal then keeps only what a derivative really needs.
"""

from __future__ import annotations

from collections.abc import Collection

from tapedebug.compiler.builder import Builder, constant_of, is_free
from tapedebug.compiler.ir import (
    ADJOINT,
    DIAGNOSTICS,
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
    walk,
)
from tapedebug.compiler.passes import custom, native
from tapedebug.compiler.passes.activity import active_values
from tapedebug.compiler.passes.adjoint_loops import Loops, Record, Values
from tapedebug.lang import types as t
from tapedebug.lang.rules import RULES, Expr, Select


def adjoint_of(
    function: Function,
    active: frozenset[int],
    replay: frozenset[int],
    *,
    backwards: bool = False,
    strong_zero: bool = False,
) -> Function:
    """The function that adds the kernel's vector-Jacobian product to the adjoint arrays.

    Args:
        function: A kernel in IR, as `passes.spill_to_log` leaves it.
        active: The array parameters that have an adjoint array.
        replay: The array parameters that the kernel both reads (values needed) and writes; their stores are
            done again, into a scratch copy of the values before the launch.
        backwards: Whether threads depend on each other, so that the last has to be reversed first.
        strong_zero: Whether a zero adjoint stays zero, whatever it is multiplied with.
    """
    carrying = active_values(function, active)
    transform = Transform(active, replay, carrying)
    transform.strong_zero = strong_zero
    known: Values = {}
    record: Record = {}
    alone = not function.body.yields  # else keep_log has logged the top level
    prelude = None if alone else _prelude(function, Transform(active, replay, carrying))
    transform.forward(function.body, known, record, first=alone)
    transform.reverse(function.body, known, {}, record)
    name = f"adj_{function.name}"
    return Function(name, function.params, transform.builder.root, function.axes, prelude, backwards)


def _prelude(function: Function, transform: Transform) -> Block:
    """The forward sweep of all threads, before any is reversed: it does the stores and keeps the log."""
    known: Values = {}
    transform.forward(function.body, known, None, first=True)
    block = transform.builder.root
    block.yields = [transform.value(known, v) for v in function.body.yields]
    return block


class Transform(Loops):
    """The adjoint in the making: a builder, and what both sweeps know of the kernel.

    Args:
        active: The array parameters that have an adjoint array.
        replay: Those whose stores are done again.
        carrying: The values that have an adjoint.
    """

    def __init__(self, active: frozenset[int], replay: frozenset[int], carrying: set[Value]) -> None:
        super().__init__(Builder(), carrying)
        self.active = active
        self.replay = replay
        self.after = False
        """True while arrays are read as the launch left them: in custom replays and gradients."""
        self.strong_zero = False

    # Forward sweep

    def value(self, known: Values, primal: Value) -> Value:
        """The value that a primal value has in the adjoint function."""
        if not is_free(primal):
            return known[primal]
        assert primal.op is not None
        op, b = primal.op, self.builder
        match op.kind:
            case "const":
                return b.exact(op.data[0], primal.type)
            case "thread":
                return b.thread(op.data[0])
            case "argument":
                param, component = op.data
                return b.argument(param, component, primal.type)
            case "place":
                return b.place()
        return b.extent(*op.data)

    def forward(self, block: Block, known: Values, record: Record | None, *, first: bool) -> None:
        """Compute a block's values; with `record`, its loops keep what their reverse needs.

        Args:
            block: The primal block.
            known: Values so far; what the block computes is added.
            record: Filled with the loops that were recorded; None where no reverse follows.
            first: Whether this is the one sweep that does stores and logs, else values are recalled.
        """
        for node in block.ops:
            self.builder.span = node.span
            match node:
                case Op():
                    self._forward_op(node, known, first)
                case If():
                    self._forward_if(node, known, first)
                case For():
                    self.forward_for(node, known, record, first)
                case While():
                    self.forward_while(node, known, record, first)
                case Custom():
                    self._forward_custom(node, known, record, first)

    def _forward_custom(self, node: Custom, known: Values, record: Record | None, first: bool) -> None:
        custom.forward(self, node, known, record, first=first)

    def _forward_op(self, op: Op, known: Values, first: bool) -> None:
        b = self.builder
        if op.kind == "log_push":
            self._forward_note(op, known, first)
            return
        if op.kind in NATIVE or op.kind == "native_result":
            native.forward(self, op, known, first)
            return
        if op.kind in DIAGNOSTICS:
            if op.kind != "pause" or self.after:  # else it comes on the way back
                b.effect(op.kind, tuple(self.value(known, a) for a in op.args), op.data)
            return
        if self.after and (op.kind == "load" or op.kind in ADJOINT):
            custom.memory(self, op, known)
            return
        volatile = op.kind in ("load", "store", "atomic_add") and op.data[0] in self.replay
        if volatile and not first:
            return  # the log that follows recalls what it gave
        args = tuple(self.value(known, a) for a in op.args)
        result: Value | None = None
        match op.kind:
            case "offset":
                result = b.offset(op.data[0], args)
            case "load":
                assert op.result is not None
                result = b.load(op.data[0], op.data[1], args[0], op.result.type, constant=not volatile)
            case "store":
                if volatile:
                    b.store(*op.data, *args)
            case "atomic_add":
                if volatile:
                    result = b.atomic_add(*op.data, *args)
                elif op.result is not None:
                    # Needed only if its result is; dead code removal decides, and then requests a replay.
                    result = b.emit("load", args[:1], op.result.type, op.data)
            case _:
                result = b.apply(op.kind, *args)
        if op.result is not None and result is not None:
            known[op.result] = result
            result.hint = result.hint or op.result.hint

    def _forward_note(self, op: Op, known: Values, first: bool) -> None:
        place = self.value(known, op.args[0])
        if first:
            self.builder.effect("log_push", (place, known[op.args[1]]))
        else:
            known[op.args[1]] = self.builder.emit("log_load", (place,), op.args[1].type)

    def _forward_if(self, node: If, known: Values, first: bool) -> None:
        blocks = []
        for inner in (node.then, node.orelse):
            inside = dict(known)
            with self.builder.block() as block:
                self.forward(inner, inside, None, first=first)
                block.yields = [self.value(inside, v) for v in inner.yields]
            blocks.append(block)
        results = [Value(r.type, r.hint) for r in node.results]
        condition = self.value(known, node.condition)
        self.builder.append(If(condition, blocks[0], blocks[1], results, node.span))
        self.builder.forget_loads()
        known.update(zip(node.results, results, strict=True))

    # Reverse sweep

    def reverse(self, block: Block, known: Values, adj: Values, record: Record) -> None:
        """Propagate adjoints through a block backwards; `adj` holds that of each primal value so far."""
        for node in reversed(block.ops):
            self.builder.span = node.span
            match node:
                case Op():
                    self._reverse_op(node, known, adj)
                case If():
                    self._reverse_if(node, known, adj)
                case For() | While():
                    self.reverse_loop(node, known, adj, record)
                case Custom():
                    custom.reverse(self, node, known, adj, record)

    def root(self, value: Value) -> Value:
        """Return the key of a value's adjoint: the value."""
        return value

    def accumulate(self, adj: Values, primal: Value, contribution: Value) -> None:
        """Add to the adjoint of a primal value."""
        before = adj.get(primal)
        total = contribution if before is None else self.builder.apply("add", before, contribution)
        if primal.hint and not total.hint and not is_free(total):
            total.hint = f"adj_{primal.hint}"
        adj[primal] = total

    def _reverse_op(self, op: Op, known: Values, adj: Values) -> None:
        if op.kind in RULES:
            if op.result in adj:
                self._reverse_rule(op, known, adj, adj.pop(op.result))
            return
        if op.kind == "pause":
            self.builder.effect("pause", (), op.data)
        if op.result in adj:
            native.refuse_reverse(op)
        if op.kind not in ("load", "store", "atomic_add") or op.data[0] not in self.active:
            return
        b = self.builder
        scalar = (op.result or op.args[1]).type
        if scalar not in t.FLOATS:
            return
        offset = self.value(known, op.args[0])
        if op.kind == "load":
            seed = adj.pop(op.result, None) if op.result is not None else None
            if seed is not None and constant_of(seed) != 0:
                b.effect("add_adjoint", (offset, seed), op.data)
            return
        stored = op.args[1]
        if stored in self.carrying:
            self.accumulate(adj, stored, b.emit("load_adjoint", (offset,), scalar, op.data))
        if op.kind == "store":
            b.effect("store_adjoint", (offset, b.constant(0, scalar)), op.data)
        elif op.result in adj:
            b.effect("add_adjoint", (offset, adj.pop(op.result)), op.data)

    def _reverse_rule(self, op: Op, known: Values, adj: Values, seed: Value) -> None:
        rule, b = RULES[op.kind], self.builder
        if isinstance(rule.partials, str):
            return
        assert op.result is not None
        exprs = [b.expr(self.value(known, a)) for a in op.args]
        result = b.expr(self.value(known, op.result))
        g = b.expr(seed)
        for argument, partial in zip(op.args, rule.partials, strict=True):
            if partial is None or argument not in self.carrying:
                continue
            part = pulled_back(partial(*exprs, result), g, argument.type, strong_zero=self.strong_zero)
            self.accumulate(adj, argument, part)

    def _reverse_if(self, node: If, known: Values, adj: Values) -> None:
        seeds = {r: adj.pop(r) for r in node.results if r in adj}
        if not seeds and not self.has_effect(node):
            return
        sides: list[tuple[Block, Values]] = []
        for inner in (node.then, node.orelse):
            inside, local = dict(known), dict(adj)
            record: Record = {}
            with self.builder.block() as block:
                self.forward(inner, inside, record, first=False)
                for value, result in zip(inner.yields, node.results, strict=True):
                    if result in seeds and value in self.carrying:
                        self.accumulate(local, value, seeds[result])
                self.reverse(inner, inside, local, record)
            sides.append((block, local))
        touched = [
            v
            for v in dict.fromkeys([*sides[0][1], *sides[1][1]])
            if (v in known) and any(side.get(v) is not adj.get(v) for _, side in sides)
        ]
        for v in list(touched):
            # What both sides leave alike needs no merging.
            if sides[0][1].get(v) is sides[1][1].get(v):
                adj[v] = sides[0][1][v]
                touched.remove(v)
        results = [Value(v.type, f"adj_{v.hint}" if v.hint else "") for v in touched]
        for block, local in sides:
            block.yields = [local.get(v) or self.zero(v) for v in touched]
        self.builder.append(
            If(self.value(known, node.condition), sides[0][0], sides[1][0], results, node.span)
        )
        adj.update(zip(touched, results, strict=True))

    def has_effect(self, node: Node) -> bool:
        """True if a node loads from or stores to an active array, at any depth."""
        return any(
            isinstance(n, Op) and not self.active.isdisjoint(_reversed(n))
            for block in blocks_of(node)
            for n in walk(block)
        )


def _reversed(op: Op) -> Collection[int]:
    """The array parameters whose adjoints the reverse of an operation touches."""
    if op.kind in NATIVE:
        adjoints: frozenset[int] = op.data[0].adjoints
        return adjoints
    return op.data[:1] if op.kind in ("load", "store", "atomic_add") or op.kind in ADJOINT else ()


def pulled_back(
    partial: Expr | float | Select, seed: Expr, type: object, *, strong_zero: bool = False
) -> Value:
    """The contribution `partial · seed` to an operand's adjoint, in the operand's type.

    With `strong_zero`, a seed of zero contributes zero, also where the partial is infinite or NaN.
    """
    if isinstance(partial, Select):
        value = partial.condition.select(seed, seed.lift(0.0))
    elif isinstance(partial, Expr):
        value = partial * seed if constant_of(partial.value) != 0 else seed.lift(0.0)
        if strong_zero and constant_of(partial.value) is None:
            value = seed.apply("eq", 0.0).select(0.0, value)
    elif partial == 1.0:
        value = seed
    elif partial == -1.0:
        value = -seed
    else:
        value = seed * partial
    if value.type is not type:
        value = value.apply(f"to_{type.code}")  # type: ignore[attr-defined]
    result: Value = value.value
    return result

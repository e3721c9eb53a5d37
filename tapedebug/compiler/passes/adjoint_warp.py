"""Warp's reverse pass of a kernel, right or wrong, for `diagnose(…, as_warp=True)`.

Warp's generated code keeps each variable in one place. Its reverse runs the kernel forward, but for its
stores *and its loops*, and then walks the statements backwards. A loop is reversed iteration by iteration
from the last one: each computes its body once more from whatever the variables hold by then, at first what
they held before the loop, and no value is saved. So what follows a loop is reversed with the values from
before it, and a partial derivative in it sees what its operands hold after the body. Beside that:

* `continue`, met while the body is computed again, ends the reverse of that iteration before it began;
  `break` ends the reverse of the whole loop, whichever iteration it is met in.
* A `while` is reversed forward, for as long as its condition holds.
* A function that is called runs whole, loops included; its own reverse treats it as a kernel is treated.
* Assigning a component of a vector or matrix leaves the adjoint of the component as it is.
* What an atomic returned is not computed again; such a variable holds nothing in particular (here: 0).
* Functions lack the adjoints that `lang.warp_adjoints` says they lack.
* Arrays are read as the launch left them; an array with `retain_grad` keeps the adjoints of what it lost.

`compiler.source_variables` says which values are one variable; `known` and `adj` are keyed by the first value
of each. Two things are not as in Warp: an index that Warp would let run out of its array stays inside, and a
function of vectors that is applied to a rewritten variable uses the inner results that it had.
"""

from __future__ import annotations

from collections.abc import Iterable

from tapedebug.compiler.builder import is_free
from tapedebug.compiler.ir import (
    DIAGNOSTICS,
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
from tapedebug.compiler.passes import custom
from tapedebug.compiler.passes.activity import active_values
from tapedebug.compiler.passes.adjoint_loops import Record, Values
from tapedebug.compiler.passes.warp_forward import Forward
from tapedebug.compiler.source_variables import Variables
from tapedebug.lang import types as t
from tapedebug.lang.rules import RULES

WIDENING = frozenset({"to_i64", "from_end"})
"""Conversions that lowering adds to an index."""


def warp_adjoint_of(
    function: Function, variables: Variables, active: frozenset[int], retained: frozenset[int]
) -> Function:
    """The function that does to the adjoint arrays what Warp's reverse of the kernel would do.

    Args:
        function: A kernel in IR, lowered with `in_place`.
        variables: Which of its values are one variable.
        active: The array parameters that have an adjoint array.
        retained: Those of them that keep the adjoints of values that are written over.

    Raises:
        NotEmulated: The kernel uses a function whose reverse is not known.
    """
    replaced = {new: old for new, (old, _) in variables.assigned.items() if new.type in t.FLOATS}
    transform = _Warp(variables, active, retained, active_values(function, active, replaced))
    known: Values = {}
    record: Record = {}
    transform.forward(function.body, known, record, first=True)
    transform.reverse(function.body, known, {}, record)
    return Function(f"warp_{function.name}", function.params, transform.builder.root, function.axes)


class _Warp(Forward):
    """The reverse in the making."""

    def reverse(self, block: Block, known: Values, adj: Values, record: Record) -> None:
        """Propagate adjoints through a block backwards; `known` goes on changing."""
        for node in reversed(block.ops):
            self.builder.span = node.span
            match node:
                case Op():
                    self._reverse_op(node, known, adj)
                case If():
                    self._reverse_branch(node, known, adj, self.before[id(node)])
                case For() | While():
                    self.reverse_loop(node, known, adj, record)
                case Custom(replay=None, gradient=None):
                    again: Record = {}  # a function computes its own variables anew
                    self.forward(node.body, known, again, first=False)
                    self.reverse(node.body, known, adj, again)
                case Custom():
                    self._pass_again(node, known)
                    custom.reverse(self, node, known, adj, record)

    def _pass_again(self, node: Custom, known: Values) -> None:
        """A gradient of the user's is called with what the arguments hold now."""
        used = {value for block in blocks_of(node) for inner in walk(block) for value in operands(inner)}
        for value in used & self.variables.passed:
            if value in known and value.op is not None and not is_free(value):
                known[value] = self.value(known, value.op.args[0])

    def _reverse_op(self, op: Op, known: Values, adj: Values) -> None:
        if op.kind in RULES:
            assert op.result is not None
            root = self.root(op.result)
            if op.result in self.variables.stopped:
                adj.pop(root, None)
            elif op.result in self.variables.assigned:
                self._reverse_assigned(op, adj, root)
            elif root in adj:
                self._reverse_rule(op, known, adj, adj.pop(root))
        elif op.kind in ("load", "store", "atomic_add") and op.data[0] in self.active:
            self._reverse_memory(op, known, adj)
        elif op.kind not in DIAGNOSTICS:
            super()._reverse_op(op, known, adj)

    def _reverse_assigned(self, op: Op, adj: Values, root: Value) -> None:
        """A part of a variable was assigned in place; the adjoint stays, but for fields of structs."""
        assert op.result is not None
        seed, how = adj.get(root), self.variables.assigned[op.result][1]
        if seed is None:
            return
        if how == "field":
            del adj[root]
        stored = op.args[0]
        if how == "added" and stored.op is not None and stored.op.kind in ("add", "sub"):
            # `v[k] += x` passes the adjoint on to x only
            seed = self.builder.apply("neg", seed) if stored.op.kind == "sub" else seed
            stored = stored.op.args[1]
        if stored in self.carrying:
            self.accumulate(adj, stored, seed)

    def _reverse_memory(self, op: Op, known: Values, adj: Values) -> None:
        b, place = self.builder, op.args[0].op
        assert place is not None
        moved = op.result if op.kind == "load" else op.args[1]
        assert moved is not None
        if moved.type not in t.FLOATS:
            return
        offset = b.offset(place.data[0], tuple(self._index(known, a) for a in place.args))
        if op.kind == "load":
            seed = adj.pop(moved, None)
            if seed is not None:
                b.effect("add_adjoint", (offset, seed), op.data)
            return
        if moved in self.variables.atomics:
            self._reverse_atomic(op, offset, known, adj)
            return
        if moved in self.carrying:
            self.accumulate(adj, moved, b.emit("load_adjoint", (offset,), moved.type, op.data))
        if op.kind == "store" and op.data[0] not in self.retained:
            b.effect("store_adjoint", (offset, b.constant(0, moved.type)), op.data)

    def _reverse_atomic(self, op: Op, offset: Value, known: Values, adj: Values) -> None:
        """An extreme takes the adjoint of its element where it is what that holds in the end.

        The element keeps its adjoint. An exchange passes nothing on.
        """
        b, (name, given) = self.builder, self.variables.atomics[op.args[1]]
        if name not in ("atomic_min", "atomic_max") or given not in self.carrying:
            return
        param, component = op.data
        holds = b.load(param, component, offset, given.type)
        seed = b.emit("load_adjoint", (offset,), given.type, op.data)
        value, zero = self.value(known, given), b.constant(0, given.type)
        passed = b.apply("where", b.apply("eq", value, holds), seed, zero)
        of_nan = b.apply("where", b.apply("ne", value, value), seed, zero)
        passed = b.apply("where", b.apply("ne", holds, holds), of_nan, passed)
        self.accumulate(adj, given, passed)

    def _index(self, known: Values, index: Value) -> Value:
        """An index, from what its variable holds now."""
        if index.op is not None and index.op.kind in WIDENING:
            return self.builder.apply(index.op.kind, *(self._index(known, a) for a in index.op.args))
        return self.value(known, index)

    def _reverse_branch(self, node: If, known: Values, adj: Values, before: Values) -> None:
        seeds = {r: adj.pop(r) for r in node.results if r in adj and r not in self.variables.roots}
        sides: list[tuple[Block, Values, Values]] = []
        for inner in (node.then, node.orelse):
            inside, local, record = dict(before), dict(adj), dict[int, tuple[int, Value]]()
            with self.builder.block() as block:
                self.forward(inner, inside, record, first=False)
                inside.update(known)  # what it computed is its own; all else is as it is now
                for value, result in zip(inner.yields, node.results, strict=True):
                    if result in seeds and value in self.carrying:
                        self.accumulate(local, value, seeds[result])
                self.reverse(inner, inside, local, record)
            sides.append((block, inside, local))
        changed = [r for r in known if any(inside[r] is not known[r] for _, inside, _ in sides)]
        everywhere = dict.fromkeys([*sides[0][2], *sides[1][2]])
        touched = [
            r for r in everywhere if r in known and any(a.get(r) is not adj.get(r) for _, _, a in sides)
        ]
        results = [Value(r.type, r.hint) for r in (*changed, *touched)]
        for block, inside, local in sides:
            block.yields = [inside[r] for r in changed] + [local.get(r) or self.zero(r) for r in touched]
        condition = self.value(known, node.condition)
        self.builder.append(If(condition, sides[0][0], sides[1][0], results, node.span))
        known.update(zip(changed, results, strict=False))
        adj.update(zip(touched, results[len(changed) :], strict=True))

    def reverse_loop(self, node: For | While, known: Values, adj: Values, record: Record) -> None:
        """Run a loop's reverse: its body once more, from what its variables hold, then the body's adjoint."""
        facts, total = self._carried_by(node), record[id(node)][1]
        for name, value in zip(facts.names, node.carried, strict=True):
            if name in facts.own:
                adj.pop(self.root(value), None)  # Warp zeroes what is the body's before each iteration
        changed = self._changed(node, known)
        shared = self._shared(node, known)
        names = [*changed, *shared]
        left = {self.root(node.carried[k]) for k in facts.left()}
        false = self.builder.constant(False, t.bool)
        inits = [false if r in left else known[r] for r in changed]
        inits += [adj.get(r) or self.zero(r) for r in shared]
        carried = [Value(r.type, r.hint) for r in names]
        results = [Value(r.type, r.hint) for r in names]
        inside = {**known, **dict(zip(changed, carried, strict=False))}
        local = {**adj, **dict(zip(shared, carried[len(changed) :], strict=True))}
        if isinstance(node, For):
            index = Value(t.int64, "k")
            inside[node.index] = index
            body = self._iteration(node, inside, local, left, changed, shared)
            loop: Node = For(total, index, inits, carried, body, results, node.span, reverse=True)
        else:
            loop = self._while(
                node, (inside, local), left, (changed, shared), (inits, carried, results), total
            )
        self.builder.append(loop)
        known.update(zip(changed, results, strict=False))
        adj.update(zip(shared, results[len(changed) :], strict=True))

    def _while(
        self,
        node: While,
        state: tuple[Values, Values],
        left: set[Value],
        names: tuple[list[Value], list[Value]],
        values: tuple[list[Value], list[Value], list[Value]],
        total: Value,
    ) -> While:
        b, (inside, local), (inits, carried, results) = self.builder, state, values
        done, last, one = Value(t.int64, "n"), Value(t.int64, "n"), b.constant(1, t.int64)
        with b.block() as test:
            within = dict(inside)
            self.forward(node.test, within, {}, first=False)
            going = b.apply("lt", done, total)
            test.yields = [b.apply("and", self.value(within, node.test.yields[0]), going)]
        b.forget_loads()
        body = self._iteration(node, inside, local, left, *names)
        with b.block() as after:
            body.yields.append(b.apply("add", done, one))
        body.ops += after.ops
        zero = b.constant(0, t.int64)
        return While([*inits, zero], [*carried, done], test, body, [*results, last], node.span)

    def _shared(self, node: For | While, known: Values) -> list[Value]:
        """The variables from outside whose adjoints the reverse of a loop may change."""
        used: dict[Value, None] = {}
        for value in self._outer_values(node, dict.fromkeys(self.carrying)):  # type: ignore[arg-type]
            used[self.root(value)] = None
        used.update((self.root(v), None) for v in (*node.carried, *node.results) if v in self.carrying)
        return [r for r in used if r in known]

    def _iteration(
        self,
        node: For | While,
        inside: Values,
        local: Values,
        left: set[Value],
        changed: list[Value],
        shared: list[Value],
    ) -> Block:
        """The reverse of one iteration; nothing but its forward run where that leaves the loop."""
        b, record = self.builder, dict[int, tuple[int, Value]]()
        with b.block() as body:
            self.forward(node.body, inside, record, first=False)
            self._assign(node, inside)
            before = [inside[r] for r in changed] + [local.get(r) or self.zero(r) for r in shared]
            if not left:
                body.yields = self._reversed(node, inside, local, record, changed, shared)
                return body
            gone = b.constant(False, t.bool)
            for flag in left:
                gone = b.apply("or", gone, inside[flag])
            with b.block() as block:
                block.yields = self._reversed(node, inside, local, record, changed, shared)
            results = [Value(v.type, v.hint) for v in (*changed, *shared)]
            b.append(If(gone, Block([], before), block, results, node.span))
            body.yields = list(results)
        return body

    def _reversed(
        self,
        node: For | While,
        inside: Values,
        local: Values,
        record: Record,
        changed: Iterable[Value],
        shared: Iterable[Value],
    ) -> list[Value]:
        for carried, value in reversed(list(zip(node.carried, node.body.yields, strict=True))):
            root, source = self.root(carried), None if is_free(value) else self.root(value)
            if source is root:
                continue
            seed = local.pop(root, None)
            if seed is not None and source is not None and value in self.carrying:
                local[source] = seed  # it takes the place of what was there
        self.reverse(node.body, inside, local, record)
        return [inside[r] for r in changed] + [local.get(r) or self.zero(r) for r in shared]

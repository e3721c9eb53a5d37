"""Loops in adjoints: each iteration is reversed with the carried values that it began with."""

from __future__ import annotations

from itertools import count

from tapedebug.compiler.builder import Builder
from tapedebug.compiler.ir import Block, For, Node, Value, While, blocks_of, operands, walk
from tapedebug.lang import types as t

Values = dict[Value, Value]
Record = dict[int, tuple[int, Value]]
"""Loops recorded in one region: node id -> (tag of the kept values, number of iterations)."""


class Loops:
    """The part of an adjoint's transform that concerns loops; the rest of it is `adjoint.Transform`.

    Args:
        builder: What the adjoint is built with.
        carrying: The values that have an adjoint.
    """

    def __init__(self, builder: Builder, carrying: set[Value]) -> None:
        self.builder = builder
        self.carrying = carrying
        self.tags = count()

    def value(self, known: Values, primal: Value) -> Value:
        """The value that a primal value has in the adjoint function."""
        raise NotImplementedError

    def forward(self, block: Block, known: Values, record: Record | None, *, first: bool) -> None:
        """Compute a block's values."""
        raise NotImplementedError

    def reverse(self, block: Block, known: Values, adj: Values, record: Record) -> None:
        """Propagate adjoints through a block backwards."""
        raise NotImplementedError

    def accumulate(self, adj: Values, primal: Value, contribution: Value) -> None:
        """Add to the adjoint of a primal value."""
        raise NotImplementedError

    def has_effect(self, node: Node) -> bool:
        """True if a node loads from or stores to an active array, at any depth."""
        raise NotImplementedError

    def zero(self, value: Value) -> Value:
        """A zero of the type of a value."""
        return self.builder.constant(0, value.type)

    # Forward sweep

    def _carried(self, node: For | While, known: Values) -> tuple[list[Value], list[Value], Values]:
        inits = [self.value(known, v) for v in node.inits]
        carried = [Value(v.type, v.hint) for v in node.carried]
        return inits, carried, {**known, **dict(zip(node.carried, carried, strict=True))}

    def _save(self, tag: int, iteration: Value, carried: list[Value]) -> None:
        for slot, value in enumerate(carried):
            self.builder.effect("save", (iteration, value), (tag, slot))

    def forward_for(self, node: For, known: Values, record: Record | None, first: bool) -> None:
        """Run a counted loop; with `record`, keep what its iterations begin with."""
        b, total = self.builder, self.value(known, node.count)
        inits, carried, inside = self._carried(node, known)
        index = inside[node.index] = Value(t.int64, node.index.hint)
        tag = next(self.tags)
        if record is not None:
            record[id(node)] = (tag, total)
            b.effect("reserve", (total,), (tag,))
        b.forget_loads()
        with b.block() as body:
            if record is not None:
                self._save(tag, index, carried)
            self.forward(node.body, inside, None, first=first)
            body.yields = [self.value(inside, v) for v in node.body.yields]
        b.forget_loads()
        results = [Value(v.type, v.hint) for v in node.results]
        b.append(For(total, index, inits, carried, body, results, node.span, node.reverse))
        if record is not None:
            b.effect("commit", (total,), (tag,))
        known.update(zip(node.results, results, strict=True))

    def forward_while(self, node: While, known: Values, record: Record | None, first: bool) -> Value:
        """Run a loop, as `forward_for`; gives the number of iterations."""
        b = self.builder
        inits, carried, inside = self._carried(node, known)
        tag = next(self.tags)
        if record is not None:
            b.effect("reserve", (), (tag,))
        index = Value(t.int64, "n")
        b.forget_loads()
        with b.block() as test:
            within = dict(inside)
            self.forward(node.test, within, None, first=first)
            test.yields = [self.value(within, v) for v in node.test.yields]
        b.forget_loads()
        with b.block() as body:
            if record is not None:
                self._save(tag, index, carried)
            self.forward(node.body, inside, None, first=first)
            body.yields = [self.value(inside, v) for v in node.body.yields]
            body.yields.append(b.apply("add", index, b.constant(1, t.int64)))
        b.forget_loads()
        results = [Value(v.type, v.hint) for v in node.results]
        total = Value(t.int64, "n")
        zero = b.constant(0, t.int64)
        b.append(While([*inits, zero], [*carried, index], test, body, [*results, total], node.span))
        if record is not None:
            record[id(node)] = (tag, total)
            b.effect("commit", (total,), (tag,))
        known.update(zip(node.results, results, strict=True))
        return total

    # Reverse sweep

    def reverse_loop(self, node: For | While, known: Values, adj: Values, record: Record) -> None:
        """Propagate adjoints through a loop, from the last iteration to the first."""
        seeds = [adj.pop(r, None) for r in node.results]
        if all(s is None for s in seeds) and not self.has_effect(node):
            return
        b = self.builder
        stored = self._loop_record(node, known, record)
        own = [k for k, c in enumerate(node.carried) if c in self.carrying]
        shared = self._outer_values(node, known)
        index = Value(t.int64, "k")
        inits = [seeds[k] or self.zero(node.carried[k]) for k in own]
        inits += [adj.get(v) or self.zero(v) for v in shared]
        names = [node.carried[k] for k in own] + shared
        carried = [Value(v.type, f"adj_{v.hint}" if v.hint else "") for v in names]
        with b.block() as body:
            inside = self._restored(node, known, stored, index)
            body.yields = self._reverse_iteration(node, inside, own, shared, carried)
        results = [Value(c.type, c.hint) for c in carried]
        backwards = not (isinstance(node, For) and node.reverse)
        b.append(For(stored[1], index, inits, carried, body, results, node.span, backwards))
        self._release(stored)
        adj.update(zip(shared, results[len(own) :], strict=True))
        for k, result in zip(own, results, strict=False):
            if node.inits[k] in self.carrying:
                self.accumulate(adj, node.inits[k], result)

    def _loop_record(self, node: For | While, known: Values, record: Record) -> tuple[int, Value]:
        """The tag of a loop's kept values, and its number of iterations."""
        return record[id(node)]

    def _release(self, stored: tuple[int, Value]) -> None:
        self.builder.effect("release", (), stored[:1])

    def _restored(self, node: For | While, known: Values, stored: tuple[int, Value], index: Value) -> Values:
        """Return the known values where an iteration is reversed, including the carried ones at its start."""
        b, inside = self.builder, dict(known)
        if isinstance(node, For):
            inside[node.index] = index
        for slot, value in enumerate(node.carried):
            inside[value] = b.emit("restore", (index,), value.type, (stored[0], slot))
            inside[value].hint = value.hint
        return inside

    def _reverse_iteration(
        self, node: For | While, inside: Values, own: list[int], shared: list[Value], carried: list[Value]
    ) -> list[Value]:
        """The reverse of one iteration; gives the adjoints that the iteration before begins with."""
        record: Record = {}
        self.forward(node.body, inside, record, first=False)
        local: Values = dict(zip(shared, carried[len(own) :], strict=True))
        for place, k in enumerate(own):
            if node.body.yields[k] in self.carrying:
                self.accumulate(local, node.body.yields[k], carried[place])
        self.reverse(node.body, inside, local, record)
        yields = [local.get(node.carried[k]) or self.zero(node.carried[k]) for k in own]
        return yields + [local.get(v) or self.zero(v) for v in shared]

    def _outer_values(self, node: For | While, known: Values) -> list[Value]:
        """The carrying values from outside that an iteration uses."""
        used: dict[Value, None] = {}
        for inner in walk(node.body):
            used.update(dict.fromkeys(operands(inner)))
            for block in blocks_of(inner):
                used.update(dict.fromkeys(block.yields))
        used.update(dict.fromkeys(node.body.yields))
        return [v for v in used if v in self.carrying and v in known]

"""The forward sweep of Warp's reverse pass: what variables hold when the reverse begins (`adjoint_warp`)."""

from __future__ import annotations

from tapedebug.compiler.builder import is_free
from tapedebug.compiler.ir import (
    DIAGNOSTICS,
    Block,
    Custom,
    For,
    If,
    Node,
    Op,
    Value,
    While,
    blocks_of,
    results_of,
    walk,
)
from tapedebug.compiler.passes import custom
from tapedebug.compiler.passes.adjoint import Transform
from tapedebug.compiler.passes.adjoint_loops import Record, Values
from tapedebug.compiler.source_variables import Carried, Variables
from tapedebug.lang import types as t

LONGEST = 1 << 16
"""The most iterations that the reverse of a `while` may run: in Warp it may never end."""


MOST_BRANCHES = 1 << 12
"""The most branches of an emulated reverse, in which one of the kernel is computed again at each level that
it is nested in, also by calls: the code of longer ones takes LLVM many minutes."""


class NotEmulated(Exception):
    """A kernel whose treatment by Warp is not known, or takes too much code."""


class Branches:
    """Counts the branches of an emulated reverse, which takes far less time than to build it."""

    def __init__(self) -> None:
        self._forward: dict[tuple[int, bool], int] = {}

    def of(self, body: Block) -> int:
        """Return the number of branches of a kernel's forward sweep and its reverse."""
        return self.forward(body, recorded=True) + self.reverse(body)

    def forward(self, block: Block, *, recorded: bool) -> int:
        """Return the number of those that compute a block's values; recorded loops are for the reverse."""
        key = id(block), recorded
        if key not in self._forward:
            self._forward[key] = sum(self._forward_node(node, recorded) for node in block.ops)
        return self._forward[key]

    def _forward_node(self, node: Node, recorded: bool) -> int:
        match node:
            case Custom():
                return 0 if node.replay is not None else self.forward(node.body, recorded=False)
            case For() | While() if recorded:
                return 0
            case _:
                inner = sum(self.forward(block, recorded=recorded) for block in blocks_of(node))
                return inner + isinstance(node, If)

    def reverse(self, block: Block) -> int:
        """Return the number of those in the reverse of a block, in which inner blocks are computed again."""
        return sum(self._reverse_node(node) for node in block.ops)

    def _reverse_node(self, node: Node) -> int:
        match node:
            case Op():
                return 0
            case If():
                inner = [node.then, node.orelse]
            case Custom() if node.gradient is not None:
                inner = []
            case _:
                inner = [node.body]
        tested = self.forward(node.test, recorded=True) if isinstance(node, While) else 0
        return tested + sum(self.forward(block, recorded=True) + self.reverse(block) for block in inner)


class Forward(Transform):
    """The forward sweep. The variables of the kernel change while it is built, as they do in Warp.

    Args:
        variables: Which values of the kernel are one variable.
        active: The array parameters that have an adjoint array.
        retained: Those of them that keep the adjoints of what is written over.
        carrying: The values that have an adjoint.
    """

    def __init__(
        self, variables: Variables, active: frozenset[int], retained: frozenset[int], carrying: set[Value]
    ) -> None:
        super().__init__(active, frozenset(), carrying)
        self.variables = variables
        self.retained = retained
        self.before: dict[int, Values] = {}
        """Known values before each branch, when it was last computed."""

    def root(self, value: Value) -> Value:
        """The first value of the variable that a value is of."""
        return self.variables.root(value)

    def value(self, known: Values, primal: Value) -> Value:
        """Return the current value of a variable."""
        return super().value(known, primal if is_free(primal) else self.root(primal))

    def accumulate(self, adj: Values, primal: Value, contribution: Value) -> None:
        """Add to the adjoint of a variable."""
        super().accumulate(adj, self.root(primal), contribution)

    def _changed(self, node: Node, known: Values) -> list[Value]:
        """The variables from outside that a node changes, wherever in it."""
        found: dict[Value, None] = {}
        inner = [node, *(n for block in blocks_of(node) for n in walk(block))]
        for one in inner:
            values = [*results_of(one), *(one.carried if isinstance(one, For | While) else ())]
            found.update((root, None) for v in values if (root := self.root(v)) in known)
        return list(found)

    def _carried_by(self, node: For | While) -> Carried:
        facts = self.variables.loops.get(id(node))
        if facts is None:
            raise NotEmulated
        return facts

    # Forward sweep

    def _forward_op(self, op: Op, known: Values, first: bool) -> None:
        if op.kind in DIAGNOSTICS or op.kind == "store":
            return
        if op.kind == "atomic_add":
            if op.result is not None:
                known[op.result] = self.zero(op.result)
            return
        super()._forward_op(op, known, first)
        if op.result in known and op.result in self.variables.roots:
            known[self.root(op.result)] = known.pop(op.result)

    def _forward_custom(self, node: Custom, known: Values, record: Record | None, first: bool) -> None:
        if node.gradient is not None or node.replay is not None:
            custom.forward(self, node, known, None, first=first)
            return
        inside = dict(known)
        self.forward(node.body, inside, None, first=first)
        known.update((r, self.value(inside, r)) for r in node.results)

    def _branch(self, node: If, known: Values, record: Record | None, first: bool) -> None:
        condition, sides = self.value(known, node.condition), []
        for inner in (node.then, node.orelse):
            inside = dict(known)
            with self.builder.block() as block:
                self.forward(inner, inside, None if record is None else {}, first=first)
            sides.append((block, inside, [self.value(inside, v) for v in inner.yields]))
        changed = [r for r in known if any(inside[r] is not known[r] for _, inside, _ in sides)]
        new = [k for k, r in enumerate(node.results) if self.root(r) not in known]
        results = [Value(v.type, v.hint) for v in (*changed, *(node.results[k] for k in new))]
        for block, inside, yields in sides:
            block.yields = [*(inside[r] for r in changed), *(yields[k] for k in new)]
        self.builder.append(If(condition, sides[0][0], sides[1][0], results, node.span))
        self.builder.forget_loads()
        known.update(zip([*changed, *(self.root(node.results[k]) for k in new)], results, strict=True))

    def forward(self, block: Block, known: Values, record: Record | None, *, first: bool) -> None:
        """Compute a block's values: for its reverse without its loops, with no `record` as a call runs it."""
        for node in block.ops:
            self.builder.span = node.span
            match node:
                case If():
                    self.before[id(node)] = dict(known)
                    self._branch(node, known, record, first)
                case For() | While() if record is not None:
                    self._carried_by(node)
                    self._enter(node, known)
                    total = self.value(known, node.count) if isinstance(node, For) else None
                    record[id(node)] = (0, total or self.builder.constant(LONGEST, t.int64))
                case _:
                    super().forward(Block([node]), known, record, first=first)

    def _enter(self, node: For | While, known: Values) -> None:
        """Bring the variables of a loop to what they begin with."""
        begun = [(self.root(c), self.value(known, v)) for c, v in zip(node.carried, node.inits, strict=True)]
        for (root, value), init in zip(begun, node.inits, strict=True):
            if is_free(init) or self.root(init) is not root:
                known[root] = value

    def _assign(self, node: For | While, inside: Values) -> None:
        """Assign the results of a body to the variables of the loop, as Warp does at its end."""
        pairs = [(self.root(c), v) for c, v in zip(node.carried, node.body.yields, strict=True)]
        values = [self.value(inside, v) for _, v in pairs]
        for (root, _), value in zip(pairs, values, strict=True):
            inside[root] = value

    def forward_for(self, node: For, known: Values, record: Record | None, first: bool) -> None:
        """Run a counted loop."""
        b, total = self.builder, self.value(known, node.count)
        self._carried_by(node)
        self._enter(node, known)
        changed = self._changed(node, known)
        index = Value(t.int64, node.index.hint)
        carried = [Value(r.type, r.hint) for r in changed]
        inside = {**known, **dict(zip(changed, carried, strict=True)), node.index: index}
        b.forget_loads()
        with b.block() as body:
            self.forward(node.body, inside, None, first=first)
            self._assign(node, inside)
            body.yields = [inside[r] for r in changed]
        b.forget_loads()
        results = [Value(r.type, r.hint) for r in changed]
        b.append(For(total, index, [known[r] for r in changed], carried, body, results, node.span))
        known.update(zip(changed, results, strict=True))

    def forward_while(self, node: While, known: Values, record: Record | None, first: bool) -> Value:
        """Run a loop."""
        b = self.builder
        self._carried_by(node)
        self._enter(node, known)
        changed = self._changed(node, known)
        carried = [Value(r.type, r.hint) for r in changed]
        inside = {**known, **dict(zip(changed, carried, strict=True))}
        b.forget_loads()
        with b.block() as test:
            within = dict(inside)
            self.forward(node.test, within, None, first=first)
            test.yields = [self.value(within, v) for v in node.test.yields]
        b.forget_loads()
        with b.block() as body:
            self.forward(node.body, inside, None, first=first)
            self._assign(node, inside)
            body.yields = [inside[r] for r in changed]
        b.forget_loads()
        results = [Value(r.type, r.hint) for r in changed]
        b.append(While([known[r] for r in changed], carried, test, body, results, node.span))
        known.update(zip(changed, results, strict=True))
        return b.constant(0, t.int64)

"""Varying values, which differ between threads that run in lockstep, and uniform ones, which do not.

A value differs if it is made of the thread's own index, of an element at such a place, or of what was kept
for the reverse of a loop. A value that is assigned more than once (the result of a branch, what a loop
carries) differs, too, if it is assigned where not all threads go.

The generated text has names for a few things that are no values here: copies of carried values that change
together (`moved`), and the tops of the stack that keeps values for the reverse of loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from tapedebug._dataclass import dataclass
from tapedebug.compiler.ir import Block, For, Function, If, Node, Op, Value, While, operands, walk
from tapedebug.lang import types as t
from tapedebug.lang.rules import RULES

Move = tuple[Value, Value]
"""A carried value, and what it is in the next iteration."""


def moves_of(node: For | While) -> list[Move]:
    """The carried values that an iteration changes."""
    pairs = zip(node.carried, node.body.yields, strict=True)
    return [(carried, value) for carried, value in pairs if value is not carried]


def clash(moves: list[Move]) -> bool:
    """True if one is made of another that changes before it: then copies are made first."""
    changed: set[Value] = set()
    for carried, value in moves:
        if value in changed:
            return True
        changed.add(carried)
    return False


@dataclass
class Uniformity:
    """The varying values of a function whose threads run in lockstep along the last axis.

    Attributes:
        function: The function.
        varying: The values that differ between threads.
        copies: The carried values of which copies that are made before they change differ.
        bases: The tags of loops where what is kept begins at places that differ between threads.
        top: Whether the end of what is kept does.
    """

    function: Function
    varying: set[Value] = field(default_factory=set)
    copies: set[Value] = field(default_factory=set)
    bases: set[int] = field(default_factory=set)
    top: bool = False

    def __post_init__(self) -> None:
        before = -1
        while before != (before := self._size()):
            self._block(self.function.body, apart=False)

    def differs(self, value: Value) -> bool:
        """True if a value differs between threads."""
        op = value.op
        if op is not None and op.kind == "thread":
            return bool(op.data[0] == self.function.axes - 1)
        return value in self.varying

    def _size(self) -> int:
        return len(self.varying) + len(self.copies) + len(self.bases) + self.top

    def _block(self, block: Block, *, apart: bool) -> None:
        """Look at operations; `apart` where not all threads go."""
        for node in block.ops:
            self._node(node, apart)

    def _node(self, node: Node, apart: bool) -> None:
        match node:
            case Op():
                self._op(node, apart)
            case If():
                inside = apart or self.differs(node.condition)
                self._block(node.then, apart=inside)
                self._block(node.orelse, apart=inside)
                pairs = zip(node.results, node.then.yields, node.orelse.yields, strict=True)
                self._add(r for r, *values in pairs if inside or any(map(self.differs, values)))
            case For():
                self._block(node.body, apart=apart or self.differs(node.count))
                self._carry(node, apart, apart or self.differs(node.count))
            case While():
                inside = apart or self.differs(node.test.yields[0])
                self._block(node.test, apart=inside)
                self._block(node.body, apart=inside)
                self._carry(node, apart, inside)

    def _add(self, values: Iterator[Value]) -> None:
        self.varying.update(values)

    def _op(self, op: Op, apart: bool) -> None:
        match op.kind:
            case "reserve" if self.top:
                self.bases.add(op.data[0])
            case "commit" | "release":
                counts = any(map(self.differs, op.args))
                self.top = self.top or apart or counts or op.data[0] in self.bases
            case "restore":
                assert op.result is not None
                self.varying.add(op.result)
            case _ if op.result is not None:
                used = op.args[:1] if op.kind == "atomic_add" else op.args
                if any(map(self.differs, used)):
                    self.varying.add(op.result)

    def _carry(self, node: For | While, outside: bool, inside: bool) -> None:
        """Propagate to values that a loop carries: from before it if `outside`, from its body if `inside`."""
        self._add(c for c, init in zip(node.carried, node.inits, strict=True) if self.differs(init))
        moves = moves_of(node)
        copied = clash(moves)
        for carried, value in moves:
            source = self.differs(value)
            if copied and source:
                self.copies.add(carried)
            if source or outside or inside:
                self.varying.add(carried)
        self._add(r for r, c in zip(node.results, node.carried, strict=True) if c in self.varying)


def invariant(function: Function) -> set[Value]:
    """The places of elements that are the same for all threads, made of arguments and lengths alone."""
    found: set[Value] = set()

    def is_known(value: Value) -> bool:
        if value.op is None:
            return False
        if value.op.kind == "const":
            return value.type in (t.int64, t.bool)
        return value.op.kind in ("argument", "extent") or value in found

    for op in function.ops():
        rule = RULES.get(op.kind)
        if op.result is None or not all(map(is_known, op.args)):
            continue
        plain = rule is not None and not rule.calls and op.result.type in (t.int64, t.bool)
        if plain or op.kind == "offset":
            found.add(op.result)
    return found


def indices_of_additions(function: Function) -> set[Value]:
    """Return the values read from memory that are indices of additions."""
    sources: dict[Value, list[Value]] = {}
    counts: list[Value] = []
    left: list[Value] = []
    used = {value for node in walk(function.body) for value in operands(node)}
    for node in walk(function.body):
        match node:
            case Op(kind="commit"):
                counts += node.args
            case Op() if node.kind.startswith("add_") or (
                node.kind == "atomic_add" and node.result not in used
            ):
                left.append(node.args[0])
            case If():
                for result, *values in zip(node.results, node.then.yields, node.orelse.yields, strict=True):
                    sources[result] = values
            case For() | While():
                for carried, *values in zip(node.carried, node.inits, node.body.yields, strict=True):
                    sources[carried] = values
                sources |= {r: [c] for r, c in zip(node.results, node.carried, strict=True)}
    found: set[Value] = set()
    seen: set[Value] = set()
    while left:
        value = left.pop()
        if value in seen:
            continue
        seen.add(value)
        op = value.op
        if op is None:
            left += sources.get(value, [])
        elif op.kind == "load" or op.kind.startswith(("load_", "atomic_")):
            found.add(value)
        else:
            left += op.args
            left += counts if op.kind == "restore" else []
    return found

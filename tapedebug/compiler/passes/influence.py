"""The loads that influence each value: through data, through branches, through loop counts.

That is more than a derivative needs (`floor` and conditions pass none on), so that nothing is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from tapedebug.compiler.ir import Block, Custom, For, Function, If, Node, Op, Value, While, blocks_of

Bits = int
"""A set of accesses: bit k stands for the access of number k."""
READS = frozenset({"load", "atomic_add"})
WRITES = frozenset({"store", "atomic_add"})


class Influence:
    """The values that each access of a kernel depends on.

    Attributes:
        accesses: Loads, stores and atomics of arrays, in program order.
        looped: Those of them (by number) that are inside of a loop.
        into: For each write, by number, what has a part in it.
        deciding: What has a part in conditions, in counts of loops and in where elements are.
    """

    def __init__(self, function: Function) -> None:
        self.accesses: list[Op] = []
        self.looped: set[int] = set()
        for op, looped in _accesses(function.body, False):
            if looped:
                self.looped.add(len(self.accesses))
            self.accesses.append(op)
        self.numbers = {id(op): k for k, op in enumerate(self.accesses)}
        self.of: dict[Value, Bits] = {}
        self.into: dict[int, Bits] = {}
        self.deciding: Bits = 0
        self.changed = True
        while self.changed:  # loops carry what a later operation of their body gave
            self.changed = False
            self._block(function.body, 0)

    def _all(self, values: list[Value] | tuple[Value, ...]) -> Bits:
        found = 0
        for value in values:
            found |= self.of.get(value, 0)
        return found

    def _add(self, value: Value, bits: Bits) -> None:
        before = self.of.get(value, 0)
        if bits | before != before:
            self.of[value] = bits | before
            self.changed = True

    def _block(self, block: Block, control: Bits) -> None:
        for node in block.ops:
            self._node(node, control)

    def _node(self, node: Node, control: Bits) -> None:
        match node:
            case Op():
                self._op(node, control)
            case If():
                chosen = self._all([node.condition])
                self.deciding |= chosen
                for inner in (node.then, node.orelse):
                    self._block(inner, control | chosen)
                    for result, value in zip(node.results, inner.yields, strict=True):
                        self._add(result, chosen | self._all([value]))
            case For() | While():
                self._loop(node, control)
            case Custom():
                raise TypeError("influence is asked of kernels without custom regions")

    def _loop(self, node: For | While, control: Bits) -> None:
        if isinstance(node, While):
            self._block(node.test, control)
            decides = self._all(node.test.yields)
        else:
            decides = self._all([node.count])
        self.deciding |= decides
        for init, carried in zip(node.inits, node.carried, strict=True):
            self._add(carried, decides | self._all([init]))
        self._block(node.body, control | decides)
        for value, carried, result in zip(node.body.yields, node.carried, node.results, strict=True):
            self._add(carried, self._all([value]))
            self._add(result, decides | self._all([carried]))

    def _op(self, op: Op, control: Bits) -> None:
        bits = self._all(op.args)
        if op.kind == "offset":
            self.deciding |= bits
        number = self.numbers.get(id(op))
        if number is not None and op.kind in READS:
            bits |= 1 << number
        if number is not None and op.kind in WRITES:
            # What an atomic gives back it reads; what it adds to stays by itself.
            self.into[number] = self._all(op.args) | control
        if op.result is not None:
            self._add(op.result, bits)


def _accesses(block: Block, looped: bool) -> Iterator[tuple[Op, bool]]:
    for node in block.ops:
        if isinstance(node, Op):
            if node.kind in READS or node.kind in WRITES:
                yield node, looped
            continue
        for inner in blocks_of(node):
            yield from _accesses(inner, looped or isinstance(node, For | While))


def members(bits: Bits) -> Iterator[int]:
    """The numbers of a set of accesses."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low

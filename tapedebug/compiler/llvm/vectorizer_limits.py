"""Limits of LLVM's loop vectoriser: skip it for texts on which it takes too long.

For each operation of a loop, LLVM's vectoriser asks whether all iterations compute the same value: it asks
the same of its operands, and of theirs, and remembers no answer. An operand that differs between iterations
ends the search; what does not differ was moved out of the loop before, but for that which begins with an
element that a store of the loop might overwrite (`p[0]`, read by every thread). Such a value is searched once
for every path from it to such an element: `s = s - c*s*s` has three, so that twenty of these lines have three
thousand million.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

SEARCHED = 20_000
"""Steps of these searches in one loop that are still cheap: LLVM takes less than 0.1 s for them."""
UNROLLED = 2000
"""Syntax nodes that a loop with a known number of iterations may have, all together, for LLVM to write it
out. It does so up to some 300 instructions; this is well above."""

Paths = int | None
"""The steps of the search from a value: 0 if the value is the same outside the loop, None if it differs
between iterations."""


def is_searchable(tree: ast.Module) -> bool:
    """True if the vectoriser's search of a generated text ends soon."""
    return all(_Loop(loop).is_searchable() for loop in _loops(tree.body))


def _loops(body: Sequence[ast.stmt]) -> Iterator[ast.For | ast.While]:
    """The loops among statements and inside them."""
    for node in body:
        if isinstance(node, ast.For | ast.While):
            yield node
        yield from _loops(getattr(node, "body", ()))
        yield from _loops(getattr(node, "orelse", ()))


class _TooLong(Exception):
    """The search does not end soon."""


class _Loop:
    """The values of one loop, as if it were the one that is vectorised."""

    def __init__(self, loop: ast.For | ast.While) -> None:
        self.loop = loop
        # What is read before it is assigned holds what the iteration before left.
        self.paths: dict[str, Paths] = dict.fromkeys(_assigned([loop]))
        self.steps = 0

    def is_searchable(self) -> bool:
        try:
            self._suite(self.loop.body)
        except _TooLong:
            return False
        return True

    def _suite(self, body: list[ast.stmt]) -> None:
        for node in body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)]):
                    self._assign(name, self._of(node.value))
                case ast.If():
                    self._if(node)
                case ast.For():
                    for _ in range(_iterations(node)):
                        # After the loop its number is one less than their count.
                        self._assign(_counter(node), self._of(node.iter))
                        self._suite(node.body)
                case ast.While():
                    self._suite(node.body)

    def _assign(self, name: str, paths: Paths) -> None:
        self.paths[name] = paths
        self.steps += paths or 0
        if self.steps > SEARCHED:
            raise _TooLong

    def _if(self, node: ast.If) -> None:
        """Both sides are computed, and one is selected."""
        before, condition = dict(self.paths), self._of(node.test)
        self._suite(node.body)
        then, self.paths = self.paths, dict(before)
        self._suite(node.orelse)
        for name in dict.fromkeys(_assigned([node])):
            self._assign(name, _sum([condition, then.get(name, 0), self.paths.get(name, 0)]))

    def _of(self, node: ast.expr) -> Paths:
        match node:
            case ast.Name(id=name):
                return self.paths.get(name, 0)
            case ast.Subscript():
                index = self._of(node.slice)
                return None if index is None else 1 + index
            case ast.Call():
                return _sum([self._of(argument) for argument in node.args])
        return _sum([self._of(inner) for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.expr)])


def _sum(operands: list[Paths]) -> Paths:
    total = 0
    for paths in operands:
        if paths is None:
            return None
        total += paths
    return total and 1 + total


def _iterations(loop: ast.For) -> int:
    """Return how many copies LLVM makes of a loop body inside the loop that is vectorised."""
    match loop.iter:
        case ast.Call(args=[ast.Constant(value=int(count))]):
            size = sum(1 for _ in ast.walk(loop))
            return count if count * size <= UNROLLED else 1
    return 1


def _counter(loop: ast.For) -> str:
    assert isinstance(loop.target, ast.Name)
    return loop.target.id


def _assigned(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The names that statements give values to."""
    for node in body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name
            case ast.For():
                yield _counter(node)
        yield from _assigned(getattr(node, "body", ()))
        yield from _assigned(getattr(node, "orelse", ()))

"""The names of a generated text whose threads run in lockstep, with what the IR knows of them.

Threads of one block run each in a lane. A name that is the same for all of them is one register; one that
varies is a vector (`passes.uniformity` tells which do).
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from tapedebug.compiler.generated_source import SimdLoop
from tapedebug.compiler.llvm.simd.trailing_accesses import trailing_accesses


class LoopNames:
    """Facts about the names of a function whose innermost loop over threads is vectorised.

    Args:
        function: The generated code.
        lanes: Which loop that is, and what is known of the names in it.

    Attributes:
        varying: The names that differ between lanes.
        invariant: Places of elements that are the same in every iteration of the loop over threads.
        first: For each name, its first assignment in the text.
        sizes: How far apart the elements of places are, where they are numbered components of elements.
        statements: How many statements the loop over threads has.
        loops: Whether there are loops among them.
        scattering: The elements that are read as indices of elements to which something is added, by `id`.
        trailing: The elements that threads reach after others of the same array, by `id`.
        streams: Whether stores bypass the caches.
    """

    def __init__(self, function: ast.FunctionDef, lanes: SimdLoop) -> None:
        self.loop = loop = lanes.loop
        self.streams = lanes.streams
        facts = lanes.facts
        assignments = list(_assignments(function.body))
        times = Counter(name for name, _ in assignments)
        self.many = {name for name, number in times.items() if number > 1}
        self.first: dict[str, ast.Assign] = {}
        for name, node in assignments:
            self.first.setdefault(name, node)
        self.sizes = dict(facts.sizes)
        body = _loop_over(function.body, loop)
        assert body is not None
        statements = list(_statements(body.body))
        self.statements = len(statements)
        self.loops = any(isinstance(node, ast.For | ast.While) for node in statements)
        self.scattering = frozenset(
            id(node.value)
            for name, node in assignments
            if name in facts.indices and isinstance(node.value, ast.Subscript)
        )
        self.trailing = trailing_accesses(body.body, self.first, self.many)
        self._names: dict[int, frozenset[str]] = {}
        self._born: dict[int, frozenset[str]] = {}
        self.varying = {loop, *facts.varying}
        self.invariant = frozenset(facts.invariant)

    def names(self, node: ast.expr) -> frozenset[str]:
        """The names in an expression, those of functions too."""
        found = self._names.get(id(node))
        if found is None:
            found = self._names[id(node)] = frozenset(_names(node))
        return found

    def differs(self, node: ast.expr) -> bool:
        """True if an expression is varying: it can differ between lanes."""
        return not self.names(node).isdisjoint(self.varying)

    def is_invariant(self, node: ast.expr) -> bool:
        """True if the place of an element is the same for all threads."""
        return self.names(node) <= self.invariant

    def born(self, node: ast.If) -> frozenset[str]:
        """The names that differ between lanes, are assigned more than once, and inside a branch first."""
        found = self._born.get(id(node))
        if found is None:
            inside = (pair for pair in _assignments([node]) if self.first[pair[0]] is pair[1])
            found = self._born[id(node)] = frozenset(name for name, _ in inside) & self.many & self.varying
        return found


def _loop_over(body: list[ast.stmt], name: str) -> ast.For | None:
    """The loop with this variable."""
    for node in _statements(body):
        if isinstance(node, ast.For) and _target(node) == name:
            return node
    return None


def _target(node: ast.For) -> str:
    assert isinstance(node.target, ast.Name)
    return node.target.id


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """All statements, in the order of the text."""
    for node in body:
        yield node
        if not isinstance(node, ast.Assign):
            yield from _statements(getattr(node, "body", []))
            yield from _statements(getattr(node, "orelse", []))


def _assignments(body: list[ast.stmt]) -> Iterator[tuple[str, ast.Assign]]:
    """The assignments to names, in the order of the text."""
    for node in _statements(body):
        if isinstance(node, ast.Assign):
            (target,) = node.targets
            if isinstance(target, ast.Name):
                yield target.id, node


def _names(node: ast.expr) -> Iterator[str]:
    """The names in an expression; `ast.walk` takes five times as long."""
    match node:
        case ast.Name():
            yield node.id
        case ast.BinOp():
            yield from _names(node.left)
            yield from _names(node.right)
        case ast.Call():
            yield from _names(node.func)
            for argument in node.args:
                yield from _names(argument)
        case ast.Subscript():
            yield from _names(node.value)
            yield from _names(node.slice)
        case ast.Compare():
            yield from _names(node.left)
            yield from _names(node.comparators[0])
        case ast.UnaryOp():
            yield from _names(node.operand)

"""Uniformity analysis: the names of a generated text whose values differ between threads.

Threads of one block run in lockstep, each in a lane. A name that is the same for all of them is one register;
one that differs is a vector. A name that is assigned several times differs, too, if it is assigned where not
all lanes go: in a branch, or in a loop that they leave at different times.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from tapedebug.compiler.llvm.library import LIBRARY

OF_LANES = frozenset(name for name in LIBRARY if name.startswith("get_"))
"""What each lane has its own of, whatever the operands are: what was kept for the reverse pass."""


class Uniformity:
    """What is known of the names of a function whose innermost loop over threads is in lanes.

    Args:
        function: The generated code.
        loop: The variable of that loop.

    Attributes:
        wide: The names that differ between lanes.
        steady: Those whose value is the same in every iteration of the loop over threads.
        first: For each name, its first assignment in the text.
        sizes: How far apart the elements of places are, where they are numbered components of elements.
        statements: How many statements the loop over threads has.
        loops: Whether there are loops among them.
        scattering: The elements that are read as indices of elements to which something is added, by `id`.
    """

    def __init__(self, function: ast.FunctionDef, loop: str) -> None:
        self.loop = loop
        assignments = list(_assignments(function.body))
        times = Counter(name for name, _ in assignments)
        self.many = {name for name, number in times.items() if number > 1}
        self.first: dict[str, ast.Assign] = {}
        for name, node in assignments:
            self.first.setdefault(name, node)
        self.sizes = {
            name: node.value.right.value
            for name, node in self.first.items()
            if name not in self.many
            and isinstance(node.value, ast.BinOp)
            and isinstance(node.value.op, ast.Mult)
            and isinstance(node.value.right, ast.Constant)
            and isinstance(node.value.right.value, int)
        }
        body = _loop_over(function.body, loop)
        assert body is not None
        statements = list(_statements(body.body))
        self.statements = len(statements)
        self.loops = any(isinstance(node, ast.For | ast.While) for node in statements)
        self.scattering = frozenset(map(id, _scattering(body.body)))
        self._names: dict[int, frozenset[str]] = {}
        self._born: dict[int, frozenset[str]] = {}
        inside = {name for name, _ in _assignments(body.body)}
        self.wide: set[str] = {loop}
        before = 0
        while before != len(self.wide):
            before = len(self.wide)
            self._suite(function.body, apart=False)
        self.steady = self._steady(function, inside)

    def names(self, node: ast.expr) -> frozenset[str]:
        """The names in an expression, those of functions too."""
        found = self._names.get(id(node))
        if found is None:
            found = self._names[id(node)] = frozenset(_names(node))
        return found

    def differs(self, node: ast.expr) -> bool:
        """Whether an expression differs between lanes."""
        names = self.names(node)
        return not (names.isdisjoint(self.wide) and names.isdisjoint(OF_LANES))

    def is_steady(self, node: ast.expr) -> bool:
        """Whether an expression has one value for all threads, calls nothing and reads no array."""
        return self.names(node) <= self.steady

    def born(self, node: ast.If) -> frozenset[str]:
        """The names that differ between lanes, are assigned more than once, and inside a branch first."""
        found = self._born.get(id(node))
        if found is None:
            inside = (pair for pair in _assignments([node]) if self.first[pair[0]] is pair[1])
            found = self._born[id(node)] = frozenset(name for name, _ in inside) & self.many & self.wide
        return found

    def _suite(self, body: list[ast.stmt], *, apart: bool) -> None:
        for node in body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)]):
                    if self.differs(node.value) or (apart and name in self.many):
                        self.wide.add(name)
                case ast.If():
                    inside = apart or self.differs(node.test)
                    self._suite(node.body, apart=inside)
                    self._suite(node.orelse, apart=inside)
                case ast.For() if _target(node) == self.loop:
                    self._suite(node.body, apart=False)
                case ast.For():
                    self._suite(node.body, apart=apart or self.differs(node.iter))
                case ast.While():
                    self._suite(node.body, apart=apart or any(map(self.differs, _exits(node))))

    def _steady(self, function: ast.FunctionDef, inside: set[str]) -> set[str]:
        """What is assigned before the loop over threads, and once inside it from such names."""
        known = {
            name
            for name, node in _assignments([n for n in function.body if isinstance(n, ast.Assign)])
            if name not in self.many and not any(word.startswith("ptr_") for word in self.names(node.value))
        }
        for name, node in self.first.items():
            if name in inside and name not in self.many and self.names(node.value) <= known:
                known.add(name)
        return known


def _exits(loop: ast.While) -> Iterator[ast.expr]:
    """The conditions under which a loop ends."""
    for node in loop.body:
        if isinstance(node, ast.If) and any(isinstance(inner, ast.Break) for inner in node.body):
            yield node.test


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


def _scattering(body: list[ast.stmt]) -> Iterator[ast.Subscript]:
    """The elements whose values become indices of additions."""
    assigned: dict[str, list[ast.expr]] = {}
    for name, assignment in _assignments(body):
        assigned.setdefault(name, []).append(assignment.value)
    targets = (node.target for node in _statements(body) if isinstance(node, ast.AugAssign))
    left = [target.slice for target in targets if isinstance(target, ast.Subscript)]
    seen: set[str] = set()
    while left:
        node = left.pop()
        if isinstance(node, ast.Subscript):
            yield node
            continue
        for name in {*_names(node)} - seen:
            seen.add(name)
            left += assigned.get(name, [])


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

"""Which names of a generated text differ between threads, found from the text alone.

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


class Shapes:
    """What is known of the names of a function whose innermost loop over threads is in lanes.

    Args:
        function: The generated code.
        loop: The variable of that loop.

    Attributes:
        wide: The names that differ between lanes.
        steady: Those whose value is the same in every iteration of the loop over threads.
        first: For each name, its first assignment in the text.
        sizes: How far apart the elements of places are, where they are numbered components of elements.
        nodes: The size of the loop's body.
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
        body = next(n for n in ast.walk(function) if isinstance(n, ast.For) and _target(n) == loop)
        self.nodes = sum(1 for _ in ast.walk(body))
        inside = {name for name, _ in _assignments(body.body)} | {
            _target(n) for n in ast.walk(body) if isinstance(n, ast.For)
        }
        self.wide: set[str] = {loop}
        before = 0
        while before != len(self.wide):
            before = len(self.wide)
            self._suite(function.body, apart=False)
        self.steady = self._steady(function, inside)

    def differs(self, node: ast.AST) -> bool:
        """Whether an expression differs between lanes."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.Name) and (inner.id in self.wide or inner.id in OF_LANES):
                return True
        return False

    def is_steady(self, node: ast.expr) -> bool:
        """Whether an expression has one value for all threads, and reads no memory."""
        return not any(
            isinstance(inner, ast.Subscript | ast.Call)
            or (isinstance(inner, ast.Name) and inner.id not in self.steady)
            for inner in ast.walk(node)
        )

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
        known = {name for name, _ in _assignments([n for n in function.body if isinstance(n, ast.Assign)])}
        known -= self.many
        for name, node in self.first.items():
            reads = [n for n in ast.walk(node.value) if isinstance(n, ast.Name | ast.Subscript | ast.Call)]
            once = name in inside and name not in self.many
            if once and all(isinstance(n, ast.Name) and n.id in known for n in reads):
                known.add(name)
        return known


def _exits(loop: ast.While) -> Iterator[ast.expr]:
    """The conditions under which a loop ends."""
    for node in loop.body:
        if isinstance(node, ast.If) and any(isinstance(inner, ast.Break) for inner in node.body):
            yield node.test


def _target(node: ast.For) -> str:
    assert isinstance(node.target, ast.Name)
    return node.target.id


def _assignments(body: list[ast.stmt]) -> Iterator[tuple[str, ast.Assign]]:
    """The assignments to names, in the order of the text."""
    for node in body:
        if isinstance(node, ast.Assign):
            (target,) = node.targets
            if isinstance(target, ast.Name):
                yield target.id, node
        else:
            yield from _assignments(getattr(node, "body", []))
            yield from _assignments(getattr(node, "orelse", []))

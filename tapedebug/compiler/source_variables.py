"""The variables of the user's source that the values of a kernel stand for.

In our IR every value is assigned once. In the code that Warp generates, some variables are assigned again and
again: those that a loop carries, and the components and fields that are assigned in place. Its reverse pass
uses whatever they hold by then; who wants to know what it gets must know which values are one variable.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from tapedebug._dataclass import dataclass
from tapedebug._source import Span
from tapedebug.compiler.builder import is_free
from tapedebug.compiler.ir import Block, Custom, For, If, Node, Value, While

InPlace = Literal["component", "added", "field"]
"""The ways to assign a part of a variable: `v[k] = x` or `v.x = x`; `v[k] += x`; `s.field = x`."""

LEFT = frozenset({"%break", "%continue", "%return"})
"""The truth values that a loop carries to say that an iteration was left before its end."""


@dataclass(slots=True)
class Carried:
    """The variables that a loop carries.

    Attributes:
        names: The variable of each carried value.
        own: Variables that Warp does not carry: the loop's counter, and what is assigned inside only.
    """

    names: tuple[str, ...]
    own: frozenset[str]

    def left(self) -> list[int]:
        """The places of the carried values that say that an iteration was left."""
        return [k for k, name in enumerate(self.names) if name in LEFT]


@dataclass(slots=True, frozen=True)
class Stopped:
    """The place where Warp's adjoint of a function ends.

    Attributes:
        name: The function.
        what: Which argument, or its result.
        status: As in the table of measured adjoints.
    """

    name: str
    what: str
    status: str


@dataclass(slots=True)
class Variables:
    """The values that are one variable of the user's.

    Attributes:
        assigned: Values that replaced another one in place: that one, and how.
        loops: What each loop carries, by the identity of its node.
        roots: For each value that is not the first of its variable, the first.
        passed: Values that are arguments of functions.
        stopped: Arguments and results of functions through which Warp passes no adjoint on, or a wrong one.
        atomics: What atomics store that are no sums: the name of each, and the value that it was given.
        rewritten: Where `*=` and the like change elements of an array parameter.
    """

    assigned: dict[Value, tuple[Value, InPlace]] = field(default_factory=dict)
    loops: dict[int, Carried] = field(default_factory=dict)
    roots: dict[Value, Value] = field(default_factory=dict)
    rewritten: dict[Span, int] = field(default_factory=dict)
    passed: set[Value] = field(default_factory=set)
    stopped: dict[Value, Stopped] = field(default_factory=dict)
    atomics: dict[Value, tuple[str, Value]] = field(default_factory=dict)

    def root(self, value: Value) -> Value:
        """The first value of the variable that a value is of."""
        found = self.roots.get(value)
        while found is not None:
            value, found = found, self.roots.get(found)
        return value

    def carried_only(self, body: Block) -> Variables:
        """The same for a language in which parts of variables are not assigned in place."""
        other = Variables({}, self.loops, {}, self.rewritten, self.passed, {}, self.atomics)
        other.resolve(body)
        return other

    def with_adjoints(self, body: Block) -> Variables:
        """The same for a language whose functions have all their adjoints."""
        other = Variables(self.assigned, self.loops, {}, self.rewritten, self.passed, {}, self.atomics)
        other.resolve(body)
        return other

    def resolve(self, body: Block) -> None:
        """Find out which values of a kernel are one variable."""
        for node in body.ops:
            self._node(node)

    def _join(self, value: Value, first: Value) -> None:
        one, other = self.root(value), self.root(first)
        if one is not other and not is_free(one) and not is_free(other):
            self.roots[one] = other

    def _node(self, node: Node) -> None:
        match node:
            case If():
                for block in (node.then, node.orelse):
                    self.resolve(block)
                for result, one, two in zip(node.results, node.then.yields, node.orelse.yields, strict=True):
                    if self.root(one) is self.root(two):
                        self._join(result, one)
            case For() | While():
                self._loop(node)
            case Custom():
                for inner in (node.body, node.replay, node.gradient):
                    if inner is not None:
                        self.resolve(inner)
            case _:
                if node.result in self.assigned:
                    assert node.result is not None
                    self._join(node.result, self.assigned[node.result][0])

    def _loop(self, node: For | While) -> None:
        facts = self.loops.get(id(node), Carried((), frozenset()))
        groups = zip(facts.names, node.inits, node.carried, node.results, strict=False)
        for name, init, carried, result in groups:
            if name not in facts.own:
                self._join(carried, init)
            self._join(result, carried)
        for block in (node.test, node.body) if isinstance(node, While) else (node.body,):
            self.resolve(block)

"""Access paths to found objects, such as `self.net.weights[3]`: parsed once, followed many times."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

_START = re.compile(r"\w+")
_STEP = re.compile(r"\.(\w+)|\[([^\[\]]*)\]")

Step = tuple[bool, Any]
"""An attribute (True and the name), or a subscript (False and the index or key)."""


class AccessPath(NamedTuple):
    """A name and the steps that lead to the object it denotes.

    Attributes:
        name: The name as written.
        variable: The variable that the path starts from.
        steps: The attributes and subscripts from there.
    """

    name: str
    variable: str
    steps: tuple[Step, ...]

    def follow(self, variables: Mapping[str, Any]) -> Any:
        """Return the current value, or None; no user code runs."""
        found: Any = variables.get(self.variable)
        for step in self.steps:
            found = _inside(found, step)
        return found


class Container(NamedTuple):
    """Container of found objects, which is looked up once for all of them.

    Attributes:
        way: The access path to it; None for the variables themselves.
        items: The names of the objects as written, and the last steps to them.
    """

    way: AccessPath | None
    items: list[tuple[str, Step]]

    def follow(self, variables: dict[str, Any]) -> list[tuple[str, Any]]:
        """Return the names, and the current values or None; no user code runs."""
        found = variables if self.way is None else self.way.follow(variables)
        return [(name, _inside(found, step)) for name, step in self.items]


def containers_of(ways: Iterable[AccessPath]) -> list[Container]:
    """Return the containers that access paths lead into."""
    found: dict[Any, Container] = {}
    for way in ways:
        *before, last = (False, way.variable), *way.steps
        # `repr`, as the keys 1 and True are equal.
        known = found.get(repr(before))
        if known is None:
            outer = AccessPath("", way.variable, tuple(before[1:])) if before else None
            known = found[repr(before)] = Container(outer, [])
        known.items.append((way.name, last))
    return [*found.values()]


def _inside(found: object, step: Step) -> Any:
    is_attribute, key = step
    if is_attribute:
        try:
            return object.__getattribute__(found, "__dict__").get(key)
        except AttributeError:
            return None
    if type(found) is dict:
        return found.get(key)
    if (type(found) is list or type(found) is tuple) and type(key) is int and key < len(found):
        return found[key]
    return None


def access_path_of(name: str) -> AccessPath | None:
    """Return the access path that a name spells; None if it cannot be parsed, as keys may hold anything."""
    start = _START.match(name)
    if start is None:
        return None
    steps, at = [], start.end()
    while at < len(name):
        step = _STEP.match(name, at)
        if step is None:
            return None
        try:
            steps.append((True, step[1]) if step[1] is not None else (False, literal_eval(step[2])))
        except (ValueError, SyntaxError):
            return None
        at = step.end()
    return AccessPath(name, start[0], tuple(steps))

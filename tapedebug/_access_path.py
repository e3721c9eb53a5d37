"""Access paths to found objects, such as `self.net.weights[3]`: parsed once, followed many times."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
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


class Container:
    """Container of found objects, which is looked up once for all of them.

    Args:
        way: The access path to it; None for the variables themselves.
        names: The names of the objects as written.
        steps: The last steps to them, all attributes or all subscripts.
    """

    __slots__ = ("_kinds", "_pick", "_steps", "_way", "names")

    def __init__(self, way: AccessPath | None, names: Sequence[str], steps: Sequence[Step]) -> None:
        self._way, self.names, self._steps = way, names, steps
        keys = [key for _, key in steps]
        pick = itemgetter(*keys)
        self._pick: Callable[[Any], tuple[Any, ...]] = pick if len(keys) > 1 else lambda of: (pick(of),)
        self._kinds = _INDEXED if {*map(type, keys)} == {int} else _KEYED

    def follow(self, variables: Mapping[str, Any]) -> Sequence[Any]:
        """Return the current values, None where there is none any more; no user code runs."""
        found = variables if self._way is None else self._way.follow(variables)
        try:
            inside = object.__getattribute__(found, "__dict__") if self._steps[0][0] else found
            if type(inside) in self._kinds:
                return self._pick(inside)
        except (AttributeError, LookupError):
            pass
        return [_inside(found, step) for step in self._steps]


_KEYED = frozenset({dict})
_INDEXED = frozenset({dict, list, tuple})
"""Classes of containers that have subscripts of integers."""


def containers_of(ways: Iterable[AccessPath]) -> list[Container]:
    """Return the containers that access paths lead into."""
    found: dict[Any, tuple[AccessPath | None, list[str], list[Step]]] = {}
    for way in ways:
        *before, last = (False, way.variable), *way.steps
        outer = AccessPath("", way.variable, tuple(before[1:])) if before else None
        # `repr`, as the keys 1 and True are equal.
        _, names, steps = found.setdefault((repr(before), last[0]), (outer, [], []))
        names.append(way.name)
        steps.append(last)
    return [Container(*each) for each in found.values()]


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

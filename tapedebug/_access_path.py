"""Access paths to found objects, such as `self.net.weights[3]`: parsed once, followed many times."""

from __future__ import annotations

import re
from ast import literal_eval
from collections.abc import Mapping
from typing import Any, NamedTuple

_START = re.compile(r"\w+")
_STEP = re.compile(r"\.(\w+)|\[([^\[\]]*)\]")


class AccessPath(NamedTuple):
    """A name and the steps that lead to the object it denotes.

    Attributes:
        name: The name as written.
        variable: The variable that the path starts from.
        steps: Attributes (True and the name) or subscripts (False and the index or key).
    """

    name: str
    variable: str
    steps: tuple[tuple[bool, Any], ...]

    def follow(self, variables: Mapping[str, Any]) -> Any:
        """Return the current value, or None; no user code runs."""
        found: Any = variables.get(self.variable)
        for is_attribute, key in self.steps:
            if is_attribute:
                try:
                    found = object.__getattribute__(found, "__dict__").get(key)
                except AttributeError:
                    return None
            elif type(found) is dict:
                found = found.get(key)
            elif type(found) in (list, tuple) and type(key) is int and key < len(found):
                found = found[key]
            else:
                return None
        return found


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

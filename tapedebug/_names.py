"""Names for arrays, found in the variables of whoever is calling: `x`, `forces[3]`, `state.q`.

Arrays do not know what they are called. When a `with Tape():` block ends, and when a trace is made, the
variables of the calling frames are looked through, plain variables first. That costs microseconds and
stops when every array has a name.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

BUDGET = 4000
FRAMES = 12
DEPTH = 2
LONGEST = 512
_PLAIN = (str, bytes, int, float, complex, bool, type(None), type, ModuleType, FunctionType, CodeType)
_PACKAGE = __name__.partition(".")[0]
_MACHINERY = (
    _PACKAGE,
    "importlib",
    "runpy",
    "contextlib",
    "threading",
    "concurrent",
    "multiprocessing",
    "unittest",
    "pluggy",
    "_pytest",
    "asyncio",
    "tornado",
    "IPython",
    "ipykernel",
    "comm",
    "ipywidgets",
    "anywidget",
    "traitlets",
)
"""Packages between the user's frames and ours; one of their variables is the shell, and in it everything."""


Items = Iterable[tuple[Any, Any]]
"""Indices, keys or names of attributes, as they are written, with what stands there."""


def find_names(
    kind: type, key: Callable[[Any], Any], wanted: Iterable[Any], frame: FrameType | None = None
) -> dict[Any, list[str]]:
    """Return names for objects of type `kind`, by `key(object)`, nearest variables first.

    Args:
        kind: The class of what is named.
        key: Identifies an object; two objects with one key are one thing with two names.
        wanted: The keys of interest; the search ends with the variables in which the last of them was found.
        frame: Where to begin; by default the caller's nearest frame outside tapedebug.
    """
    names: dict[Any, list[str] | None] = dict.fromkeys(wanted)
    budget = BUDGET
    seen_scopes: set[int] = set()
    for variables in _scopes(frame or sys._getframe(1)):
        if id(variables) in seen_scopes:
            continue
        seen_scopes.add(id(variables))
        budget = _walk(variables, kind, key, names, budget)
        if budget <= 0 or all(names.values()):
            break
    return {identity: own for identity, own in names.items() if own is not None}


def _scopes(frame: FrameType) -> Iterator[dict[str, Any]]:
    """Local variables of the calling frames from the inside out, then the globals of the innermost one."""
    user: list[FrameType] = []
    at: FrameType | None = frame
    while at is not None and len(user) < FRAMES:
        module = str(at.f_globals.get("__name__", ""))
        if module.partition(".")[0] not in _MACHINERY:
            user.append(at)
        at = at.f_back
    globals_seen: list[dict[str, Any]] = []
    for at in user:
        if at.f_code.co_flags & 0x1:  # CO_OPTIMIZED: a function; module frames and cells have globals only
            variables = at.f_locals
            try:
                yield variables
            finally:
                _release(variables)
        if not any(at.f_globals is seen for seen in globals_seen):
            globals_seen.append(at.f_globals)
    yield from globals_seen


def _release(snapshot: dict[str, Any]) -> None:
    """Let go of our own objects in a snapshot of a function's variables.

    Before Python 3.13 `frame.f_locals` leaves the snapshot in the frame, where it would keep a tape, with all
    that it preserved, alive after the function has dropped it. A debugger shows variables from it: then it
    stays.
    """
    if sys.version_info < (3, 13) and sys.gettrace() is None:
        for name in [n for n, v in snapshot.items() if type(v).__module__.partition(".")[0] == _PACKAGE]:
            del snapshot[name]


def _walk(
    variables: dict[str, Any],
    kind: type,
    key: Callable[[Any], Any],
    names: dict[Any, list[str] | None],
    budget: int,
) -> int:
    """Breadth first through variables, short containers and attributes; returns the budget that is left."""
    first = [
        (name, value)
        for name, value in list(variables.items())
        if name.isidentifier()
        and not name.startswith("_")
        and name not in ("In", "Out", "exit", "quit", "get_ipython")
    ]
    # What stands side by side: what comes before and after each part of a name, the parts, how deep they are.
    queue: deque[tuple[str, Items, str, int]] = deque([("", first, "", 0)])
    seen: set[int] = set()
    while queue:
        before, items, after, depth = queue.popleft()
        for part, value in items:
            if budget <= 0:
                return 0
            budget -= 1
            if isinstance(value, kind):
                views = getattr(value, "_fields", None)
                if views:  # an array of structs is known by these
                    start = getattr(value, "part", "")
                    for view in views:
                        _note(names, key(view), f"{before}{part}{after}{view.part.removeprefix(start)}")
                else:
                    identity = key(value)
                    if identity in names:
                        _note(names, identity, f"{before}{part}{after}")
            elif depth < DEPTH and not isinstance(value, _PLAIN) and id(value) not in seen:
                seen.add(id(value))
                opening, inner, closing = _inside(value)
                if inner != ():
                    queue.append((f"{before}{part}{after}{opening}", inner, closing, depth + 1))
    return budget


def _note(names: dict[Any, list[str] | None], identity: Any, path: str) -> None:
    own = names.get(identity, ())
    if own is None:
        names[identity] = [path]
    elif own and path not in own:
        own.append(path)


def _inside(value: Any) -> tuple[str, Items, str]:
    """What a container or an object holds, and what comes before and after each in a name."""
    kind = type(value)
    if kind in (list, tuple):
        return "[", (enumerate(list(value)) if len(value) <= LONGEST else ()), "]"
    if kind is dict:
        if len(value) > LONGEST:
            return "", (), ""
        return "[", [(repr(name), item) for name, item in value.items() if isinstance(name, (str, int))], "]"
    # Only what the instance stores itself: properties and __getattr__ of other people's objects may do
    # anything.
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return "", (), ""
    if type(attributes) is not dict or len(attributes) > LONGEST:
        return "", (), ""
    if kind.__module__.partition(".")[0] in (_PACKAGE, "numpy"):  # `tape.loss` is nobody's name for an array
        return "", (), ""
    return ".", [(name, item) for name, item in attributes.items() if isinstance(name, str)], ""

"""Names for arrays, found in the caller's variables: `x`, `forces[3]`, `state.q`.

Arrays do not store their names. When a `with Tape():` block ends, and when a trace is made, the variables of
the calling frames are searched, plain variables first. The search costs microseconds and stops when every
array has a name.
"""

from __future__ import annotations

import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from inspect import CO_OPTIMIZED
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, NamedTuple

from tapedebug._access_path import AccessPath, Container, access_path_of, containers_of

BUDGET = 4000
FRAMES = 12
DEPTH = 2
LONGEST = 512
_PLAIN = (str, bytes, int, float, complex, bool, type(None), type, ModuleType, FunctionType, CodeType)
_PLAINEST: frozenset[type] = frozenset({*_PLAIN, BuiltinFunctionType})
_EMPTY: set[type] = set(_PLAINEST)
"""Classes whose instances are known to hold no named objects."""
_PACKAGE = __name__.partition(".")[0]
_SHELL = ("In", "Out", "exit", "quit", "get_ipython")
FEW = 8
"""Lists with more items than this are looked up as a whole."""
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
    "xdist",
    "execnet",
    "asyncio",
    "tornado",
    "IPython",
    "ipykernel",
    "comm",
    "ipywidgets",
    "anywidget",
    "traitlets",
    "marimo",
)
"""Packages between the user's frames and ours; one of their variables is the shell with all objects in it."""


Items = tuple[Sequence[Any], Sequence[Any]]
"""Indices, keys or attribute names as written, and the objects there."""

Sighting = tuple[str, str, Sequence[Any], Sequence[Any]]
"""Objects found in one container: the text before and after each name part, the parts, the objects' keys."""

_NONE: Items = (), ()
_WHOLE = ("",)
_LISTS = frozenset({list, tuple})
_VARIABLE = re.compile(r"\w+")

REMEMBERED = 256
"""Number of places for which the access paths of found names are cached."""
WAYS = 32
"""Names of a scope, without those of whole lists, that are followed; of more, the variables are searched."""


class _Found(NamedTuple):
    """Places of found objects in a scope.

    Attributes:
        lists: Whole lists of them, each with the text before and after an index, and the indices.
        containers: The containers of single ones.
        others: If these do not lead to all of them: the variables that hold any.
    """

    lists: list[tuple[AccessPath, str, str, Sequence[Any]]]
    containers: list[Container]
    others: list[str]


class _Last(NamedTuple):
    """Places of all objects that the last search from a function's code found.

    Attributes:
        code: The code.
        scopes: The places, by scope.
        amount: The number of names of found objects, and that of the objects.
        is_own: The places in the function's own variables lead to all of them.
    """

    code: CodeType
    scopes: list[_Found]
    amount: tuple[int, int]
    is_own: bool


_LAST: dict[tuple[int, type, int], _Last] = {}
"""By the `id` of the code, which the entry keeps alive: to hash it takes longer than to look it up."""


def find_names(
    kind: type, key: Callable[[Any], Any], wanted: Iterable[Any], frame: FrameType | None = None
) -> dict[Any, list[str]]:
    """Return names for objects of type `kind`, by `key(object)`, nearest variables first.

    Args:
        kind: The class of the named objects.
        key: Returns the identity of an object; two objects with the same key are one object with two names.
        wanted: The keys of interest; the search ends with the variables in which the last of them was found.
        frame: The first frame; by default the caller's nearest frame outside tapedebug.
    """
    return written_out(look_for(kind, key, set(wanted), frame or sys._getframe(1)))


def look_for(
    kind: type,
    key: Callable[[Any], Any],
    wanted: set[Any],
    frame: FrameType,
    known: Mapping[Any, Any] | None = None,
) -> list[Sighting]:
    """Find the objects that `find_names` names, without building the names: most are never used.

    Args:
        kind: The class of the named objects.
        key: Returns the identity of an object.
        wanted: The keys of interest.
        frame: The first frame.
        known: The keys of some objects; these keys are wanted ones and are truthy. If given, the search first
            looks at the places of the last one from the same code for as many objects. If these give as many
            as then, it ends there and misses further names that an object has got since.
    """
    place = id(frame.f_code), kind, len(known or ())
    last = None if known is None else _LAST.get(place)
    sightings: list[Sighting] = []
    if last is not None and known is not None:
        for before, variables in zip(last.scopes, _scopes(frame), strict=False):
            sightings += _found_again(variables, before, kind, known)
            if before.others:
                names = [name for name in before.others if name in variables]
                items = names, [variables[name] for name in names]
                _walk(items, kind, key, wanted, known, sightings, BUDGET)
        if _amount(sightings) == last.amount:
            return sightings
    sightings, scopes, budget = [], [], BUDGET
    for variables in _scopes(frame):
        found: list[Sighting] = []
        budget = _walk(_named(variables), kind, key, wanted, known or {}, found, budget)
        if known is not None:
            scopes.append(_to_find_again(found, variables, kind, known))
        sightings += found
        if budget <= 0 or len(_keys(sightings)) == len(wanted):
            break
    if known is not None:
        if len(_LAST) >= REMEMBERED:
            _LAST.clear()
        is_own = len(scopes) == 1 and not scopes[0].others and _is_function(frame)
        is_own = is_own and not _is_machinery(str(frame.f_globals.get("__name__", "")))
        _LAST[place] = _Last(frame.f_code, scopes, _amount(sightings), is_own)
    return sightings


def look_again(kind: type, frame: FrameType, known: Mapping[Any, Any]) -> list[Sighting] | None:
    """Return what `look_for` would, if the last search found all objects from one function's variables.

    That takes half the time of `look_for`. Else return None.
    """
    last = _LAST.get((id(frame.f_code), kind, len(known)))
    if last is None or not last.is_own:
        return None
    variables = frame.f_locals
    try:
        sightings = _found_again(variables, last.scopes[0], kind, known)
    finally:
        _release(variables)
    return sightings if _amount(sightings) == last.amount else None


def _found_again(
    variables: dict[str, Any], before: _Found, kind: type, known: Mapping[Any, Any]
) -> list[Sighting]:
    """Return the sightings at the places where objects were found before, but `others`."""
    sightings: list[Sighting] = []
    for way, start, after, parts in before.lists:
        values = way.follow(variables)
        if type(values) in _LISTS and len(values) == len(parts):
            sightings += _known_among(start, after, parts, values, kind, known)
    for container in before.containers:
        sightings += _known_among("", "", container.names, container.follow(variables), kind, known)
    return sightings


def _known_among(
    before: str, after: str, parts: Sequence[Any], values: Sequence[Any], kind: type, known: Mapping[Any, Any]
) -> list[Sighting]:
    """Return the sightings of known objects among values; others are not even hashed."""
    if {*map(type, values)} == {kind}:
        found = [*map(known.get, values)]
        if all(found):
            return [(before, after, parts, found)]
    return [
        (f"{before}{part}{after}", "", _WHOLE, (known[value],))
        for part, value in zip(parts, values, strict=True)
        if type(value) is kind and value in known
    ]


def _to_find_again(
    sightings: list[Sighting], variables: dict[str, Any], kind: type, known: Mapping[Any, Any]
) -> _Found:
    """Return the places of found objects, where the next search looks first."""
    lists, names = [], []
    for start, after, parts, _ in sightings:
        way = access_path_of(start[:-1]) if type(parts) is range and start[-1:] == "[" else None
        if way is not None:
            lists.append((way, start, after, parts))
        else:
            names += [f"{start}{part}{after}" for part in parts[:WAYS]]
    ways = [way for name in names[:WAYS] if (way := access_path_of(name)) is not None]
    ends = [way.follow(variables) for way in ways]
    if len(ways) == len(names) < WAYS and all(type(end) is kind and end in known for end in ends):
        return _Found(lists, containers_of(ways), [])
    starts = [before or part for before, _, parts, _ in sightings for part in parts]
    return _Found([], [], [*dict.fromkeys(_VARIABLE.findall(start)[0] for start in starts)])


def _amount(sightings: list[Sighting]) -> tuple[int, int]:
    """Return the number of names of found objects, and that of the objects."""
    found: list[Any] = []
    for _, _, _, keys in sightings:
        found += keys
    return len(found), len(set(found))


def _keys(sightings: list[Sighting]) -> set[Any]:
    return set().union(*[keys for _, _, _, keys in sightings])


def written_out(sightings: Iterable[Sighting]) -> dict[Any, list[str]]:
    """Return the names of found objects, by key, in the order in which they were found."""
    names: dict[Any, list[str]] = {}
    for before, after, parts, keys in sightings:
        for part, identity in zip(parts, keys, strict=True):
            own, path = names.setdefault(identity, []), f"{before}{part}{after}"
            if path not in own:
                own.append(path)
    return names


def _scopes(frame: FrameType) -> Iterator[dict[str, Any]]:
    """Yield the variables of the calling frames from the inside out, then the globals of functions' modules.

    The variables of a module or cell that runs are its globals: they come before what called it, which may
    hold thousands of objects.
    """
    modules: dict[int, dict[str, Any]] = {}
    running: set[int] = set()
    at: FrameType | None = frame
    left = FRAMES
    while at is not None and left:
        shared = at.f_globals
        if not _is_machinery(str(shared.get("__name__", ""))):
            left -= 1
            modules[id(shared)] = shared
            if _is_function(at):
                variables = at.f_locals
                try:
                    yield variables
                finally:
                    _release(variables)
            elif id(shared) not in running:
                running.add(id(shared))
                yield shared
        at = at.f_back
    yield from (variables for number, variables in modules.items() if number not in running)


def _is_function(frame: FrameType) -> bool:
    """Return False for modules and cells, which have globals only."""
    return bool(frame.f_code.co_flags & CO_OPTIMIZED)


@lru_cache(maxsize=1024)
def _is_machinery(module: str) -> bool:
    return module.partition(".")[0] in _MACHINERY


def _release(snapshot: dict[str, Any]) -> None:
    """Release our own objects in a snapshot of a function's variables.

    Before Python 3.13 `frame.f_locals` leaves the snapshot in the frame, where it would keep a tape, with all
    that it preserved, alive after the function has dropped it. Under a debugger, which shows variables from
    the snapshot, nothing is released.
    """
    if sys.version_info < (3, 13) and sys.gettrace() is None:
        for name, value in [*snapshot.items()]:
            if _is_ours(type(value)):  # type: ignore[arg-type]
                del snapshot[name]


@lru_cache(maxsize=256)
def _is_ours(kind: type) -> bool:
    return kind not in _PLAINEST and kind.__module__.partition(".")[0] == _PACKAGE


def _walk(
    items: Items,
    kind: type,
    key: Callable[[Any], Any],
    wanted: set[Any],
    known: Mapping[Any, Any],
    sightings: list[Sighting],
    budget: int,
) -> int:
    """Search `_named` variables, short containers and attributes breadth first; return the budget left."""
    # Containers: the text before each name part, the parts with their values, the text after, and the depth.
    queue: deque[tuple[str, Items, str, int]] = deque([("", items, "", 0)])
    seen: set[int] = set()
    while queue and budget > 0:
        before, (parts, values), after, depth = queue.popleft()
        parts, values = parts[:budget], values[:budget]
        budget -= len(values)
        if len(values) > FEW and known and set(map(type, values)) == {kind}:  # thousands in a list, perhaps
            found = list(map(known.get, values))
            if all(found):
                sightings.append((before, after, parts, found))
                continue
        for part, value in zip(parts, values, strict=True):
            # `isinstance` asks some objects for their class, and those of other libraries may warn.
            if issubclass(type(value), kind):
                sightings += _sighted(value, f"{before}{part}{after}", key, wanted)
            elif depth < DEPTH and type(value) not in _EMPTY and id(value) not in seen:
                seen.add(id(value))
                opening, inner, closing = _inside(value)
                if inner[1]:
                    queue.append((f"{before}{part}{after}{opening}", inner, closing, depth + 1))
    return budget


def _named(variables: dict[str, Any]) -> Items:
    """Return the public variables of user code whose values may be or hold named objects."""
    names, values = [], []
    for name, value in list(variables.items()):
        if type(value) not in _PLAINEST and name[:1] != "_" and name not in _SHELL and name.isidentifier():
            names.append(name)
            values.append(value)
    return names, values


def _columns(pairs: Iterable[tuple[Any, Any]]) -> Items:
    """Return pairs of a name part and a value as two lists."""
    both = list(pairs)
    return [part for part, _ in both], [value for _, value in both]


def _sighted(value: object, path: str, key: Callable[[Any], Any], wanted: set[Any]) -> Iterator[Sighting]:
    """Yield the sightings of one object: an array of structs is known by the views of its fields."""
    views: Sequence[Any] = getattr(value, "_fields", None) or ()
    start = getattr(value, "part", "") if views else ""
    if not views and (identity := key(value)) in wanted:
        yield path, "", ("",), (identity,)
    for view in views:
        if (identity := key(view)) in wanted:
            yield path, "", (view.part.removeprefix(start),), (identity,)


def _inside(value: Any) -> tuple[str, Items, str]:
    """Return the items of a container or object, and the text before and after each of them in a name."""
    kind = type(value)
    if kind in (list, tuple):
        inside = list(value) if len(value) <= LONGEST else []
        return "[", (range(len(inside)), inside), "]"
    if kind is dict:
        if len(value) > LONGEST:
            return "", _NONE, ""
        items = ((repr(n), item) for n, item in value.items() if issubclass(type(n), (str, int)))
        return "[", _columns(items), "]"
    if issubclass(kind, _PLAIN):
        return "", _NONE, ""
    if kind.__module__.partition(".")[0] in (_PACKAGE, "numpy"):  # programs do not name an array `tape.loss`
        _EMPTY.add(kind)
        return "", _NONE, ""
    # Only the attributes that the instance stores: properties and __getattr__ of user classes may do
    # anything.
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return "", _NONE, ""
    if type(attributes) is not dict or len(attributes) > LONGEST:
        return "", _NONE, ""
    return ".", _columns((n, item) for n, item in attributes.items() if isinstance(n, str)), ""

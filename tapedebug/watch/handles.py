"""Meshes, bounding volume hierarchies and hash grids, which kernels know by a number only.

A launch reads the arrays of such an object although they are no arguments of it. To run the launch again on
other memory, the object is made anew over that memory and refitted before each run.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from tapedebug.watch.hooks import WarpObject, look_up, not_intercepted
from tapedebug.watch.memory import WarpArray

ARRAYS = {
    "Mesh": ("points", "velocities", "indices", "groups"),
    "Bvh": ("lowers", "uppers", "groups"),
    "HashGrid": ("points",),
}
"""For each class of object the arrays that it is made of."""


@dataclass(frozen=True, slots=True)
class Build:
    """The last call of `HashGrid.build`."""

    points: WarpArray
    radius: float
    rest: tuple[Any, ...]


class Rebuilt(NamedTuple):
    """An object over the memory of a replay.

    Attributes:
        id: The number by which kernels know it.
        refresh: Adapts it to the present values of its arrays.
        held: The object.
    """

    id: Any
    refresh: Callable[[], object]
    held: WarpObject


@dataclass(frozen=True, slots=True)
class Handle:
    """An object that a launch received by its number.

    Attributes:
        kind: Its class.
        source: The object.
        arrays: The arrays that it is made of, by name.
        obstacle: The reason why it cannot be made anew; empty if it can.
        options: Options with which it was made.
    """

    kind: str
    source: WarpObject
    arrays: Mapping[str, WarpArray]
    obstacle: str = ""
    options: Mapping[str, Any] | None = None

    def rebuilt(self, arrays: Mapping[str, WarpArray]) -> Rebuilt:
        """Return the same object made of other arrays."""
        with not_intercepted():
            if self.kind == "HashGrid":
                return self._grid(arrays["points"])
            made = look_up(f"warp:{self.kind}")(**arrays, **(self.options or {}))
        return Rebuilt(made.id, made.refit, made)

    def _grid(self, points: WarpArray) -> Rebuilt:
        options = self.options or {}
        made = look_up("warp:HashGrid")(*options["dims"], device=self.source.device)
        build: Build = options["build"]
        return Rebuilt(made.id, lambda: made.build(points, build.radius, *build.rest), made)


class Handles:
    """The objects of the program that kernels know by a number."""

    def __init__(self) -> None:
        self._objects: dict[int, weakref.ref[Any]] = {}
        self._options: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
        self._builds: weakref.WeakKeyDictionary[Any, Build] = weakref.WeakKeyDictionary()
        self._numbers: set[int] = set()

    def note_made(self, made: WarpObject, options: Mapping[str, Any]) -> None:
        """Note an object that the program has made, and the options that its attributes do not tell."""
        if made.id:
            self._objects[int(made.id)] = weakref.ref(made)
            self._numbers.discard(int(made.id))
            self._options[made] = {
                name: value for name, value in options.items() if name not in ARRAYS[type(made).__name__]
            }

    def note_built(self, grid: WarpObject, points: WarpArray, radius: float, *rest: object) -> None:
        """Note that the program has built a hash grid."""
        self._builds[grid] = Build(points, float(radius), rest)

    def find(self, number: int) -> Handle | None:
        """Return the object with a number; None if there is none."""
        if number in self._numbers:
            return None
        known = self._objects.get(number)
        found = None if known is None else known()
        if found is None or found.id != number:
            found = self._search(number)
        return None if found is None else self._handle(found)

    def _search(self, number: int) -> WarpObject | None:
        """Search for an object that was made before watching began."""
        kinds = tuple(look_up(f"warp:{name}") for name in (*ARRAYS, "Volume"))
        for candidate in gc.get_objects():
            if isinstance(candidate, kinds) and getattr(candidate, "id", None) == number:
                self._objects[number] = weakref.ref(candidate)
                return candidate
        self._numbers.add(number)
        return None

    def _handle(self, source: WarpObject) -> Handle:
        kind = type(source).__name__
        options = dict(self._options.get(source, {}))
        if kind == "Volume":
            return Handle(kind, source, {}, "it uses a volume, whose memory is not known")
        if kind == "HashGrid":
            build = self._builds.get(source)
            if build is None:
                return Handle(kind, source, {}, "it uses a hash grid that was built before watching began")
            dims = [options.get(f"dim_{axis}") for axis in "xyz"]
            if None in dims:
                return Handle(kind, source, {}, "it uses a hash grid that was made before watching began")
            return Handle(kind, source, {"points": build.points}, options={"dims": dims, "build": build})
        arrays = {name: getattr(source, name, None) for name in ARRAYS[kind]}
        if kind == "Mesh":
            options.setdefault("support_winding_number", getattr(source, "support_winding_number", False))
        return Handle(kind, source, {n: a for n, a in arrays.items() if a is not None}, options=options)

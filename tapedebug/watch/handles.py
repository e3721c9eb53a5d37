"""Meshes, bounding volume hierarchies and hash grids, which kernels know by a number only.

A launch reads the arrays of such an object although they are no arguments of it. To run the launch again on
other memory, the object is made anew over that memory and refitted before each run.
"""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._interception import not_intercepted
from tapedebug.contract import Values
from tapedebug.watch.hooks import WarpObject, look_up
from tapedebug.watch.memory import WarpArray, is_on_host

ARRAYS = {
    "Mesh": ("points", "velocities", "indices", "groups"),
    "Bvh": ("lowers", "uppers", "groups"),
    "HashGrid": ("points",),
}
"""For each class of object the arrays that it is made of."""


REACH = 8.0
"""Cells beyond the outermost points that queries reach without meeting the points on the other side."""
FEWEST_CELLS = 16.0
"""Cells along each axis, at least: queries that reach this far in both directions meet no cell twice."""


@dataclass(frozen=True, slots=True)
class Build:
    """The last call of `HashGrid.build`."""

    points: WarpArray
    radius: float
    rest: tuple[Any, ...]


class GridOutgrown(Exception):
    """A hash grid has been made anew, with more cells: launches that know its number are bound anew."""


class Rebuilt(NamedTuple):
    """An object over the memory of a replay.

    Attributes:
        id: The number by which kernels know it.
        refresh: Adapts it to the present values of its arrays; raises `GridOutgrown` if it is outdated.
        held: The object.
    """

    id: Any
    refresh: Refresh
    held: WarpObject

    @property
    def is_outdated(self) -> bool:
        """True if a larger grid has taken the place of the object."""
        shared = self.refresh.shared
        return shared is not None and shared.made is not self.held


class SharedGrid:
    """A hash grid that all launches on one memory share: each of its own would take some 16 MB.

    Args:
        make: Returns a grid of some dimensions.
        dims: The dimensions.
        most: The dimensions of the program's grid, which it never exceeds.
        radius: The size of a cell.

    Attributes:
        made: The grid.
        last: What has built it last.
    """

    def __init__(
        self,
        make: Callable[[Sequence[int]], WarpObject],
        dims: Sequence[int],
        most: Sequence[int],
        radius: float,
    ) -> None:
        self._make, self._dims, self._most, self._radius = make, list(dims), list(most), radius
        self.made = make(dims)
        self.last: Refresh | None = None

    def require_cells(self, points: Sequence[Values]) -> None:
        """Test that points do not share cells by wrapping around that they would not share in the program.

        Raises:
            GridOutgrown: They did, so the grid has been made anew, with more cells.
        """
        if self._dims == self._most:
            return
        needed = dims_for(self._most, self._radius, points)
        if any(own < least for own, least in zip(self._dims, needed, strict=True)):
            self._dims = list(map(max, self._dims, needed))
            self.made, self.last = self._make(self._dims), None
            raise GridOutgrown


class Refresh:
    """Adapts an object to the values of its arrays, unless these are the same as the last time.

    Args:
        arrays: The arrays.
        run: Does it.
        shared: The object, if others adapt it, too.

    Attributes:
        shared: See above.
    """

    def __init__(
        self,
        arrays: Mapping[str, WarpArray],
        run: Callable[[], object],
        shared: SharedGrid | None = None,
    ) -> None:
        self._arrays, self._run = [a for a in arrays.values() if a.size], run
        self.shared, self._made = shared, None if shared is None else shared.made
        self._seen: list[bytes] | None = None

    def __call__(self) -> None:
        """Adapt the object, if an array or another user has changed it; always if one is on a device.

        Raises:
            GridOutgrown: A larger grid has taken its place.
        """
        shared = self.shared
        if shared is not None and shared.made is not self._made:
            raise GridOutgrown
        if not all(is_on_host(array.device) for array in self._arrays):
            self._run()
            return
        values = [array.numpy() for array in self._arrays]
        found = [each.tobytes() for each in values]
        changed = found != self._seen
        if changed and shared is not None:
            shared.require_cells(values)
        if changed or (shared is not None and shared.last is not self):
            self._run()
            self._seen = found
            if shared is not None:
                shared.last = self


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

    def rebuilt(self, arrays: Mapping[str, WarpArray], grids: dict[object, SharedGrid]) -> Rebuilt:
        """Return the same object made of other arrays.

        Args:
            arrays: The arrays.
            grids: The hash grids of this memory, by the grid of the program.
        """
        with not_intercepted():
            if self.kind == "HashGrid":
                return self._grid(arrays["points"], grids)
            made = look_up(f"warp:{self.kind}")(**arrays, **(self.options or {}))
        return Rebuilt(made.id, Refresh(arrays, made.refit), made)

    def _grid(self, points: WarpArray, grids: dict[object, SharedGrid]) -> Rebuilt:
        options = self.options or {}
        build: Build = options["build"]
        shared = grids.get(self.source)
        if shared is None:
            source, most = self.source, options["dims"]

            def make(dims: Sequence[int]) -> WarpObject:
                with not_intercepted():
                    return look_up("warp:HashGrid")(*dims, device=source.device, **_precision(source))

            shared = SharedGrid(make, enough_cells(most, build, points), most, build.radius)
            grids[self.source] = shared
        rebuild = partial(shared.made.build, points, build.radius, *build.rest)
        return Rebuilt(shared.made.id, Refresh({"points": points}, rebuild, shared), shared.made)


def _precision(grid: WarpObject) -> dict[str, Any]:
    """Return the option with the precision of a hash grid; older releases have none."""
    return {"dtype": grid.dtype} if hasattr(grid, "dtype") else {}


def enough_cells(dims: Sequence[int], build: Build, points: WarpArray) -> list[int]:
    """Return the dimensions of a grid that finds the same pairs as one of `dims`, in the same order.

    A build takes time for each cell, and programs often make the grid far larger than the points need.
    """
    if not is_on_host(points.device) or not is_on_host(build.points.device):
        return list(dims)
    return dims_for(dims, build.radius, [array.numpy() for array in (points, build.points) if array.size])


def dims_for(dims: Sequence[int], radius: float, points: Sequence[Values]) -> list[int]:
    """Return the least dimensions, up to `dims`, with which no points share a cell by wrapping around.

    Args:
        dims: The largest dimensions.
        radius: The size of a cell.
        points: Positions, each (n, 3) or of as many components as there are dimensions.
    """
    extents = [np.ptp(each.reshape(-1, each.shape[-1]), axis=0).astype(np.float64) for each in points]
    cells = np.max(extents, axis=0) / radius + 1 if extents else np.zeros(0)
    if len(cells) != len(dims) or not np.isfinite(cells).all():
        return list(dims)
    needed = np.maximum(cells + REACH, FEWEST_CELLS)
    return [min(own, 1 << math.ceil(math.log2(least))) for own, least in zip(dims, needed, strict=True)]


class Handles:
    """The objects of the program that kernels know by a number."""

    def __init__(self) -> None:
        self._objects: dict[int, weakref.ref[Any]] = {}
        self._options: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
        self._builds: weakref.WeakKeyDictionary[Any, Build] = weakref.WeakKeyDictionary()
        self._numbers: set[int] = set()
        self._types: dict[WarpObject, bool] = {}
        self._all_are_known = False

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

    def may_be_in(self, dtype: WarpObject) -> bool:
        """True if elements of a type may lead a launch to other memory, see `obstacle_of`."""
        found = self._types.get(dtype)
        if found is None:
            struct = isinstance(dtype, look_up("warp._src.codegen:Struct"))
            found = self._types[dtype] = (
                _has_array(dtype) or _has_number(dtype) if struct else dtype is look_up("warp:uint64")
            )
        return found

    def obstacle_of(self, source: WarpArray, current: Callable[[], Values]) -> str:
        """Return why a launch that reads an array cannot be run again; empty if it can.

        Elements may be numbers of meshes and other objects, or structs with pointers to arrays. A replay
        would follow them to the memory of the program.

        Args:
            source: The array of Warp, of a type for which `may_be_in` is True.
            current: Returns its values.
        """
        if source.dtype is look_up("warp:uint64"):
            return self._obstacle_in([current()]) if self._live_numbers() else ""
        if _has_array(source.dtype):
            return f"it uses an array of structs with arrays ({source.dtype.key})"
        if not self._live_numbers():
            return ""
        records = np.ascontiguousarray(current()).reshape(-1).view(source.dtype.numpy_dtype())
        return self._obstacle_in(_numbers_in(records))

    def _obstacle_in(self, several: Iterable[Values]) -> str:
        known = np.fromiter(self._live_numbers(), np.uint64)
        for numbers in several:
            found = np.intersect1d(numbers, known)
            handle = self.find(int(found[0])) if found.size else None
            if handle is not None:
                return f"it finds an object of class {handle.kind} in an array"
        return ""

    def _live_numbers(self) -> list[int]:
        """Return the numbers of all objects, also of those that were made before watching began."""
        if not self._all_are_known:
            self._all_are_known = True
            for candidate in _objects_with_numbers():
                self._objects.setdefault(int(candidate.id), weakref.ref(candidate))
        return [number for number, known in self._objects.items() if known() is not None]

    def _search(self, number: int) -> WarpObject | None:
        """Search for an object that was made before watching began."""
        for candidate in _objects_with_numbers():
            if candidate.id == number:
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


def _objects_with_numbers() -> Iterator[WarpObject]:
    """Yield all meshes and other objects of the process that kernels know by a number."""
    kinds = tuple(look_up(f"warp:{name}") for name in (*ARRAYS, "Volume"))
    for candidate in gc.get_objects():
        if isinstance(candidate, kinds) and getattr(candidate, "id", None):
            yield candidate


def _has_array(struct: WarpObject) -> bool:
    """True if a struct has an array among its fields, or among those of its structs."""
    return any(
        look_up("warp._src.types:is_array")(field.type)
        or (hasattr(field.type, "vars") and _has_array(field.type))
        for field in struct.vars.values()
    )


def _has_number(struct: WarpObject) -> bool:
    """True if a struct has a field that may be the number of an object, or one of its structs has."""
    return any(
        field.type is look_up("warp:uint64") or (hasattr(field.type, "vars") and _has_number(field.type))
        for field in struct.vars.values()
    )


def _numbers_in(records: Values) -> Iterator[Values]:
    """Yield the fields of structs that may be numbers of objects."""
    for name in records.dtype.names or ():
        if records[name].dtype.names:
            yield from _numbers_in(records[name])
        elif records[name].dtype == np.uint64:
            yield records[name]

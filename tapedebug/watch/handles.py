"""Meshes, bounding volume hierarchies and hash grids, which kernels know by a number only.

A launch reads the arrays of such an object although they are no arguments of it. To run the launch again on
other memory, the object is made anew over that memory and refitted before each run.
"""

from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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


KEPT_GRIDS = 4
"""Grids of different dimensions that launches on one memory keep: the largest take 16 MB."""


class Rebuilt(NamedTuple):
    """An object over the memory of a replay.

    Attributes:
        id: The number by which kernels know it when they are bound.
        refresh: Adapts it to the present values of its arrays, and returns the number that it then has.
        held: The object.
    """

    id: Any
    refresh: Callable[[], Any]
    held: object


class ReplayGrids:
    """The hash grids that stand for one grid of the program in one memory.

    A build takes time for each cell, and programs often make a grid far larger than its points need; in a
    replay with other inputs they may need more. So there are grids of several dimensions, each with the
    cells that the present points need.

    Args:
        make: Returns a grid of some dimensions.
        most: The dimensions of the program's grid, which are never exceeded.
        radius: The size of a cell.
    """

    def __init__(
        self, make: Callable[[Sequence[int]], WarpObject], most: Sequence[int], radius: float
    ) -> None:
        self._make, self._most, self._radius = make, tuple(most), radius
        self._grids: dict[tuple[int, ...], WarpObject] = {}
        self._content: dict[tuple[int, ...], object] = {}
        self._any: WarpObject | None = None

    @property
    def any(self) -> WarpObject:
        """One of the grids: launches are bound before it is known which one they need."""
        if self._any is None:
            self._any = self._with(tuple(min(int(FEWEST_CELLS), own) for own in self._most))
        return self._any

    def built(self, points: WarpArray, *rest: object) -> WarpObject:
        """Return a grid that is built of the present values of some points.

        Args:
            points: The points.
            rest: The other arguments of `HashGrid.build` after the radius.
        """
        if not is_on_host(points.device):
            grid = self._with(self._most)
            grid.build(points, self._radius, *rest)
            return grid
        values = points.numpy()
        dims = dims_for(self._most, self._radius, [values] if values.size else [])
        grid, content = self._with(dims), (values.tobytes(), *map(id, rest))
        if self._content.get(dims) != content:
            grid.build(points, self._radius, *rest)
            self._content[dims] = content
        return grid

    def _with(self, dims: tuple[int, ...]) -> WarpObject:
        found = self._grids.pop(dims, None)
        if found is None:
            if len(self._grids) == KEPT_GRIDS:
                oldest = next(iter(self._grids))
                del self._grids[oldest]
                self._content.pop(oldest, None)
            found = self._make(dims)
        self._grids[dims] = found  # the last one is that which was used last
        return found


class Refit:
    """Adapts a mesh or a hierarchy to the values of its arrays, unless these are the same as the last time.

    Args:
        made: The object.
        arrays: The arrays.
    """

    def __init__(self, made: WarpObject, arrays: Iterable[WarpArray]) -> None:
        self._made, self._arrays = made, [a for a in arrays if a.size]
        self._seen: list[bytes] | None = None

    def __call__(self) -> Any:
        """Adapt the object, always if an array is on a device; return its number."""
        seen = None
        if all(is_on_host(array.device) for array in self._arrays):
            seen = [array.numpy().tobytes() for array in self._arrays]
        if seen is None or seen != self._seen:
            self._made.refit()
            self._seen = seen
        return self._made.id


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

    def rebuilt(self, arrays: Mapping[str, WarpArray], grids: dict[object, ReplayGrids]) -> Rebuilt:
        """Return the same object made of other arrays.

        Args:
            arrays: The arrays.
            grids: The hash grids of this memory, by the grid of the program and the size of its cells.
        """
        with not_intercepted():
            if self.kind == "HashGrid":
                return self._grid(arrays["points"], grids)
            made = look_up(f"warp:{self.kind}")(**arrays, **(self.options or {}))
        return Rebuilt(made.id, Refit(made, arrays.values()), made)

    def _grid(self, points: WarpArray, grids: dict[object, ReplayGrids]) -> Rebuilt:
        options = self.options or {}
        build: Build = options["build"]
        source = self.source
        key = source, build.radius
        own = grids.get(key)
        if own is None:

            def make(dims: Sequence[int]) -> WarpObject:
                with not_intercepted():
                    return look_up("warp:HashGrid")(*dims, device=source.device, **_precision(source))

            own = grids[key] = ReplayGrids(make, options["dims"], build.radius)
        held = own
        return Rebuilt(own.any.id, lambda: held.built(points, *build.rest).id, own)


def _precision(grid: WarpObject) -> dict[str, Any]:
    """Return the option with the precision of a hash grid; older releases have none."""
    return {"dtype": grid.dtype} if hasattr(grid, "dtype") else {}


def dims_for(dims: Sequence[int], radius: float, points: Sequence[Values]) -> tuple[int, ...]:
    """Return the least dimensions, up to `dims`, with which no points share a cell by wrapping around.

    Such a grid finds the same pairs as one of `dims`, in the same order.

    Args:
        dims: The largest dimensions.
        radius: The size of a cell.
        points: Positions, each (n, 3) or of as many components as there are dimensions.
    """
    extents = [np.ptp(each.reshape(-1, each.shape[-1]), axis=0).astype(np.float64) for each in points]
    cells = np.max(extents, axis=0) / radius + 1 if extents else np.zeros(len(dims))
    if len(cells) != len(dims) or not np.isfinite(cells).all():
        return tuple(dims)
    needed = np.maximum(cells + REACH, FEWEST_CELLS)
    return tuple(min(own, 1 << math.ceil(math.log2(least))) for own, least in zip(dims, needed, strict=True))


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
        # `isinstance` asks some objects for their class, and those of other libraries may warn.
        if issubclass(type(candidate), kinds) and getattr(candidate, "id", None):
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

"""Who depends on whom on a tape: versions of arrays, and the launches between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from tapedebug.trace import Argument, ArrayInfo, Launch, Trace, Version

Node = tuple[int, int]
"""An array and one of its versions."""


@dataclass(frozen=True, slots=True)
class Edge:
    """Values flow from `source` to `target` through a launch (None: what was there before stays in part)."""

    source: Node
    target: Node
    launch: int | None
    param: int
    written_param: int


class Dependencies:
    """The data flow of a trace, walked backwards; an edge carries a gradient or it does not.

    At the level of arrays: everything that a launch writes depends on everything that it reads. Whether it
    really does is for an experiment to say.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.versions: dict[Node, Version] = {(v.array, v.version): v for v in trace.versions}

    def into(self, node: Node) -> Iterator[Edge]:
        """The edges that lead to a version."""
        version = self.versions[node]
        before = (node[0], node[1] - 1)
        if before in self.versions:
            yield Edge(before, node, None, 0, 0)
        if version.written_by is None:
            return
        launch = self.trace.launches[version.written_by]
        written = self._written(launch, node[0])
        for param, arg in enumerate(launch.args):
            if arg.array is not None and arg.reads and arg.read_version is not None:
                yield Edge((arg.array, arg.read_version), node, launch.index, param, written)
                yield from self._whole(arg, node, launch, param, written)

    def _whole(self, arg: Argument, node: Node, launch: Launch, param: int, written: int) -> Iterator[Edge]:
        """A view shows what was written through its parent and the other way round: same launch, same time."""
        mine = self.trace.arrays[arg.array or 0]
        for other in self.trace.arrays:
            if other.id != mine.id and overlaps(mine, other):
                latest = [
                    number
                    for (array, number), version in self.versions.items()
                    if array == other.id and (version.written_by is None or version.written_by < launch.index)
                ]
                if latest:
                    yield Edge((other.id, max(latest)), node, launch.index, param, written)

    def _written(self, launch: Launch, array: int) -> int:
        info = self.trace.arrays[array]
        for position, arg in enumerate(launch.args):
            if arg.writes and arg.array is not None:
                other = self.trace.arrays[arg.array]
                if other.id == array or overlaps(other, info):
                    return position
        return 0

    def carries(self, edge: Edge) -> bool:
        """Whether a gradient flows back along an edge."""
        arrays = self.trace.arrays
        if not (differentiable(arrays[edge.source[0]]) and differentiable(arrays[edge.target[0]])):
            return False
        return edge.launch is None or has_adjoint(self.trace, edge.launch)

    def upstream(self, start: list[Node], *, with_gradient: bool) -> set[Node]:
        """All versions that lead to `start`, along all edges or along those that carry a gradient."""
        seen = set(start)
        queue = deque(start)
        while queue:
            for edge in self.into(queue.popleft()):
                if edge.source not in seen and (not with_gradient or self.carries(edge)):
                    seen.add(edge.source)
                    queue.append(edge.source)
        return seen


def differentiable(info: ArrayInfo) -> bool:
    """Whether an array can have a gradient, and has one."""
    return info.requires_grad and is_float(info)


def is_float(info: ArrayInfo) -> bool:
    """Whether the elements are floating-point numbers or vectors of them."""
    return info.dtype.startswith("float") or (
        info.dtype.startswith("vec") and not info.dtype.endswith(("i", "l"))
    )


def has_adjoint(trace: Trace, launch: int) -> bool:
    """Whether the reverse pass does anything for a launch."""
    kernel = trace.launches[launch].kernel
    return kernel is None or trace.kernels[kernel].enable_backward


def overlaps(one: ArrayInfo, other: ArrayInfo) -> bool:
    """Whether two arrays share memory, as far as their byte ranges say."""
    return one.buffer == other.buffer and one.start < other.stop and other.start < one.stop

"""The dependency graph of a tape: versions of arrays, and the launches between them."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence

from tapedebug._dataclass import dataclass
from tapedebug.trace import Argument, ArrayInfo, Launch, Trace, Version

Node = tuple[int, int]
"""An array and one of its versions."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A flow of values from `source` to `target` through a launch (None: part of the old content stays)."""

    source: Node
    target: Node
    launch: int | None
    param: int


class Dependencies:
    """The data flow of a trace, traversed backwards; each edge carries a gradient or not.

    It is conservative, at the level of arrays: everything that a launch writes depends on everything that it
    reads. An experiment can show which dependencies are real.

    Args:
        trace: The tape.
        replacing: A copy or a fill replaces the whole array, so that its old content does not flow past it.
    """

    def __init__(self, trace: Trace, *, replacing: bool = False) -> None:
        self.trace = trace
        self.replacing = replacing
        self.versions: dict[Node, Version] = {(v.array, v.version): v for v in trace.versions}
        self._above: dict[tuple[int, ...], dict[Node, int]] = {}
        in_buffer: dict[int, list[ArrayInfo]] = {}
        for info in trace.arrays:
            in_buffer.setdefault(info.buffer, []).append(info)
        self._over = [
            [other.id for other in in_buffer[info.buffer] if other.id != info.id and overlaps(info, other)]
            for info in trace.arrays
        ]
        # The launches that wrote the versions of each array: entry n wrote version n + 1.
        self._writers: list[list[int]] = [[] for _ in trace.arrays]
        for version in trace.versions:
            if version.version > 0:
                before = self._writers[version.array][-1] if self._writers[version.array] else -1
                self._writers[version.array].append(
                    before if version.written_by is None else version.written_by
                )

    def aliases_of(self, array: int) -> list[int]:
        """Return the other arrays that share memory with an array."""
        return self._over[array]

    def into(self, node: Node) -> Iterator[Edge]:
        """Yield the edges that lead to a version; kept, those of a tape would take more than its trace."""
        version = self.versions[node]
        before = (node[0], node[1] - 1)
        launch = None if version.written_by is None else self.trace.launches[version.written_by]
        if before in self.versions and not (self.replacing and _replaces(launch, node[0])):
            yield Edge(before, node, None, 0)
        if launch is None:
            return
        for param, arg in enumerate(launch.args):
            if arg.array is not None and arg.reads and arg.read_version is not None:
                yield Edge((arg.array, arg.read_version), node, launch.index, param)
                # A write through a parent array also changes its views, and vice versa.
                for other in self._over[arg.array]:
                    yield Edge(
                        (other, bisect_left(self._writers[other], launch.index)), node, launch.index, param
                    )

    def leaves_above(self, leaves: Sequence[int]) -> dict[Node, int]:
        """Return for each version the inputs that lead to it, as bits in the order of `leaves`."""
        known = self._above.get(tuple(leaves))
        if known is not None:
            return known
        bits = {(leaf, 0): 1 << position for position, leaf in enumerate(leaves)}
        above: dict[Node, int] = {}

        def order(node: Node) -> tuple[int, int]:
            writer = self.versions[node].written_by
            return (
                self._writers[node[0]][node[1] - 1] if node[1] else -1
            ) if writer is None else writer, node[1]

        for node in sorted(self.versions, key=order):
            found = bits.get(node, 0)
            for edge in self.into(node):
                found |= above.get(edge.source, 0)
            above[node] = found
        self._above[tuple(leaves)] = above
        return above

    def carries(self, edge: Edge) -> bool:
        """Return True if a gradient flows back along an edge."""
        arrays = self.trace.arrays
        if not (differentiable(arrays[edge.source[0]]) and differentiable(arrays[edge.target[0]])):
            return False
        return edge.launch is None or has_adjoint(self.trace, edge.launch)

    def upstream(self, start: list[Node], *, with_gradient: bool) -> set[Node]:
        """Return all versions that lead to `start`, along all edges or along those that carry a gradient."""
        seen = set(start)
        queue = deque(start)
        while queue:
            for edge in self.into(queue.popleft()):
                if edge.source not in seen and (not with_gradient or self.carries(edge)):
                    seen.add(edge.source)
                    queue.append(edge.source)
        return seen


def _replaces(launch: Launch | None, array: int) -> bool:
    """Return True if a launch replaces the whole array, as a copy or a fill does with its target."""
    return launch is not None and launch.kind in ("copy", "fill") and launch.args[0].array == array


def read_by(arg: Argument) -> Node:
    """Return the version that an argument reads; the nonexistent (-1, -1) if it reads none."""
    return (-1, -1) if arg.array is None or arg.read_version is None else (arg.array, arg.read_version)


def differentiable(info: ArrayInfo) -> bool:
    """Return True if an array can have a gradient and has one."""
    return info.requires_grad and is_float(info)


def is_float(info: ArrayInfo) -> bool:
    """True if the elements are floating-point numbers, or vectors, matrices or quaternions of them."""
    compound = info.dtype.startswith(("vec", "mat", "quat"))
    # Names of compound types end with their scalar type: nothing or d of floats, b s i l (u…) of integers.
    return info.dtype.startswith("float") or (compound and not info.dtype.endswith(("b", "s", "i", "l")))


def is_integer(info: ArrayInfo) -> bool:
    """True if the elements are integers, or vectors or matrices of them: not floats, not structs."""
    compound = info.dtype.startswith(("vec", "mat", "quat"))
    return info.dtype.startswith(("int", "uint", "bool")) or (compound and not is_float(info))


def has_adjoint(trace: Trace, launch: int) -> bool:
    """Return True if a launch has an adjoint in the reverse pass."""
    kernel = trace.launches[launch].kernel
    return kernel is None or trace.kernels[kernel].enable_backward


def overlaps(one: ArrayInfo, other: ArrayInfo) -> bool:
    """Return True if the byte ranges of two arrays overlap."""
    return one.buffer == other.buffer and one.start < other.stop and other.start < one.stop

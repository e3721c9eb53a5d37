"""Folding of repeated launches and arrays into one node each without losing the data flow.

Of a repeated sequence the first round is drawn, and likewise for repetitions inside that round. Arrays that
the same argument of the same launch writes in different rounds are drawn as one node. A loop that swaps two
arrays, or uses a new one for every step, is then a cycle through that node, and launches that read the result
of the last round are still connected to it.

A tape that is still too long to be drawn launch by launch is drawn by kernel and place in the program: one
node, labelled accordingly, for all launches of a line in scopes of one name.
"""

from __future__ import annotations

from dataclasses import field

from tapedebug._dataclass import dataclass
from tapedebug.trace import Launch, Sequence, Trace, scope_names, sequences_of, sequences_within


@dataclass(slots=True)
class Folded:
    """The part of a trace that is drawn.

    Attributes:
        launches: The launches that are drawn.
        runs: The repeated sequences among them, outer ones before inner ones.
        group: The node of each array.
        members: The arrays of each node.
        stands_for: For each drawn launch, the launches that it represents, itself first.
        drawn: For each launch, the drawn launch that represents it.
        summary: Launches of one line are merged, whatever they read.
    """

    launches: list[Launch]
    runs: list[Sequence]
    group: list[int]
    members: dict[int, list[int]] = field(default_factory=dict)
    stands_for: dict[int, list[int]] = field(default_factory=dict)
    drawn: list[int] = field(default_factory=list)
    summary: bool = False


def fold(trace: Trace, *, simplify: bool, most: int) -> Folded:
    """Return the part of `trace` that is drawn.

    Args:
        trace: The tape.
        simplify: Draw one round of each repeated sequence instead of all launches.
        most: The largest number of launches that are drawn one by one, if `simplify`.
    """
    drawn = list(range(len(trace.launches)))
    nodes = _Nodes(len(trace.arrays))
    runs = _runs(trace) if simplify else []
    for run in reversed(runs):  # inner ones first: an outer one repeats the launches that they leave
        for offset in range(run.length):
            first = run.first + offset
            for index in range(first + run.length, run.first + run.length * run.count, run.length):
                drawn[index] = drawn[first]
                nodes.join_written(trace.launches[first], trace.launches[index])
    drawn = [_settled(drawn, index) for index in drawn]
    summary = simplify and len(set(drawn)) > most
    if summary:
        nodes = _Nodes(len(trace.arrays))
        _by_place(trace, drawn, nodes, most)
    stands_for: dict[int, list[int]] = {}
    for index, shown in enumerate(drawn):
        stands_for.setdefault(shown, []).append(index)
    return Folded(
        launches=[trace.launches[index] for index in stands_for],
        runs=[] if summary else runs,
        group=nodes.groups(),
        members=nodes.members(),
        stands_for=stands_for,
        drawn=drawn,
        summary=summary,
    )


def _runs(trace: Trace) -> list[Sequence]:
    """Return the repeated sequences, and recursively those within the first round of each."""
    level = trace.sequences or sequences_of(trace)
    runs: list[Sequence] = []
    while level:
        runs += level
        longer = [(run.first, run.length) for run in level if run.length > 1]
        found = sequences_within(trace, longer) if longer else []
        level = [run for within in found for run in within]
    return runs


def _settled(drawn: list[int], index: int) -> int:
    while drawn[index] != index:
        index = drawn[index]
    return index


def _by_place(trace: Trace, drawn: list[int], nodes: _Nodes, most: int) -> None:
    """Represent all launches of a kernel and line by one launch, and many arrays by one node if necessary."""
    first: dict[object, int] = {}
    scopes = scope_names(trace)
    for index, launch in enumerate(trace.launches):
        site = launch.call_site
        place = None if site is None else (site.file, site.line, site.column)
        key = (launch.kind, launch.kernel, launch.name, len(launch.args), place, scopes[launch.scope])
        drawn[index] = first.setdefault(key, index)
    if len(_edges(trace, drawn, nodes)) > 2 * most:
        for index, launch in enumerate(trace.launches):
            nodes.join_written(trace.launches[drawn[index]], launch)
    edges = _edges(trace, drawn, nodes)
    if len(edges) > 2 * most:  # thousands of arrays that are only read: one node for each argument
        written = {node for _, _, node, writes in edges if writes}
        leaders: dict[tuple[int, int], int] = {}
        for shown, argument, node, _ in edges:
            if node not in written:
                nodes.join(leaders.setdefault((shown, argument), node), node)


def _edges(trace: Trace, drawn: list[int], nodes: _Nodes) -> dict[tuple[int, int, int, bool], None]:
    """Return (drawn launch, argument, node of the array, True if written), in order, each once."""
    return {
        (shown, place, nodes.root(arg.array), arg.writes): None
        for shown, launch in zip(drawn, trace.launches, strict=True)
        for place, arg in enumerate(launch.args)
        if arg.array is not None
    }


class _Nodes:
    """Union-find of arrays that share a node."""

    def __init__(self, count: int) -> None:
        self.parents = list(range(count))

    def root(self, array: int) -> int:
        parents = self.parents
        while parents[array] != array:
            parents[array] = parents[parents[array]]
            array = parents[array]
        return array

    def join(self, one: int, other: int) -> None:
        a, b = self.root(one), self.root(other)
        self.parents[max(a, b)] = min(a, b)

    def join_written(self, one: Launch, other: Launch) -> None:
        """Join the arrays that the same argument of two launches writes."""
        for mine, theirs in zip(one.args, other.args, strict=True):
            if (
                mine.writes
                and mine.array is not None
                and theirs.array is not None
                and mine.array != theirs.array
            ):
                self.join(mine.array, theirs.array)

    def groups(self) -> list[int]:
        return [self.root(array) for array in range(len(self.parents))]

    def members(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for array, leader in enumerate(self.groups()):
            found.setdefault(leader, []).append(array)
        return found

"""Which launches and arrays stand for many: repetition folded without losing the data flow.

Of a sequence that repeats, the first round is drawn. Arrays that the same argument of the same launch
writes in different rounds are drawn as one node, so that a loop that swaps two arrays, or uses a new one
for every step, is a cycle through that node, and what reads the result of the last round is still
connected to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tapedebug.trace import Launch, Sequence, Trace, sequences_of


@dataclass(slots=True)
class Folded:
    """`launches` are drawn, `runs` are the sequences among them, `group[id]` is the node of array `id`."""

    launches: list[Launch]
    runs: list[Sequence]
    group: list[int]
    members: dict[int, list[int]] = field(default_factory=dict)
    stands_for: dict[int, list[int]] = field(default_factory=dict)


def fold(trace: Trace, *, simplify: bool) -> Folded:
    """Return what is drawn of `trace`: all of it, or (`simplify`) one round of each repeated sequence."""
    runs = (trace.sequences or sequences_of(trace)) if simplify else []
    parents = list(range(len(trace.arrays)))

    def root(array: int) -> int:
        while parents[array] != array:
            parents[array] = parents[parents[array]]
            array = parents[array]
        return array

    hidden: set[int] = set()
    stands_for: dict[int, list[int]] = {}
    for run in runs:
        for offset in range(run.length):
            first = run.first + offset
            rounds = [first + number * run.length for number in range(run.count)]
            stands_for[first] = rounds
            hidden.update(rounds[1:])
            for number in rounds[1:]:
                _merge(trace.launches[first], trace.launches[number], parents, root)
    group = [root(array) for array in range(len(trace.arrays))]
    members: dict[int, list[int]] = {}
    for array, leader in enumerate(group):
        members.setdefault(leader, []).append(array)
    shown = [launch for launch in trace.launches if launch.index not in hidden]
    return Folded(launches=shown, runs=runs, group=group, members=members, stands_for=stands_for)


def _merge(one: Launch, other: Launch, parents: list[int], root: Callable[[int], int]) -> None:
    """Join the arrays that the same argument of two rounds writes."""
    for mine, theirs in zip(one.args, other.args, strict=True):
        if mine.writes and mine.array is not None and theirs.array is not None:
            a, b = root(mine.array), root(theirs.array)
            if a != b:
                parents[max(a, b)] = min(a, b)

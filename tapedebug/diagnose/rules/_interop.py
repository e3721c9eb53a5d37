"""Values that leave the tape for PyTorch, NumPy or JAX between two launches, and come back as constants.

Both lines are known: where values were read while the tape recorded, and where an array or a number came in
later. That one follows from the other is shown by an experiment or by the source: PyTorch's own graph leads
from one to the other (then its part of the reverse pass is run), the array was made from a view of the
memory that was read, its values are those that were read, or the user's code computes it from them. Where
none of that can be told, it is a note of the coverage.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tapedebug.autograd.thresholds import INTEROP_GRADIENT_CHANGED
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments import interop_entries as interop
from tapedebug.diagnose.experiments.experiment import HostRead, relative_errors
from tapedebug.diagnose.experiments.interop_entries import InteropEntry, TorchGraph
from tapedebug.diagnose.experiments.numpy_roundtrip import NumpyRoundtrip, match
from tapedebug.diagnose.experiments.replay import Replay
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.trace_analysis import python_flow
from tapedebug.diagnose.trace_analysis.dependencies import Node, is_float
from tapedebug.diagnose.trace_analysis.reachability import Reachability
from tapedebug.diagnose.trace_analysis.value_flow import NOTHING, SURE
from tapedebug.trace import Location, Trace

SCALE = 1e-3
"""How far values are displaced, relatively, to see whether the loss depends on them."""
PAIRS = 400
"""Pairs of a place where values left and one where something came in that are looked at most."""
NOTED = 8
"""Notes about such pairs, at most."""
LIMIT = 1 << 26
"""Bytes of two arrays that are compared at most."""


@dataclass(slots=True)
class InteropCrossing:
    """Values of `source` left the tape at `read`, and `entry` follows from them.

    Attributes:
        proof: How that is known: `"graph"`, `"memory"`, `"values"`, `"source"`, or `"unsure"` where
            the source passes values to a function that is not known.
        leaves: The inputs whose gradient ends there.
        gone: Those of them that lead to the loss in no other way.
        error: By how much gradients are off without PyTorch's part of the reverse pass, if that could run.
        alike: How the values compare, if they do.
        others: PyTorch's leaves that are no arrays of the tape.
        moves_loss: By how much the loss changes when what came in is displaced.
        count: How many like it there are.
    """

    read: HostRead
    source: Node
    entry: InteropEntry
    proof: str = ""
    leaves: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    error: dict[int, float] = field(default_factory=dict)
    alike: NumpyRoundtrip | None = None
    others: int = 0
    moves_loss: float = 0.0
    count: int = 1


class InteropSearch:
    """Looks for values that came back to a tape.

    Args:
        context: The tape.
        replay: The tape, to be run again.
        reach: Which inputs lead to the loss.

    Attributes:
        entries: What came in while the tape recorded.
    """

    def __init__(self, context: RuleContext, replay: Replay, reach: Reachability) -> None:
        self.context, self.trace, self.replay, self.reach = context, context.trace, replay, reach
        self.reads = [read for read in replay.host_reads() if read.at is not None and read.stack]
        self._places: dict[Any, list[HostRead]] = {}
        for read in reversed(self.reads):
            self._places.setdefault(_spot(read.place), []).append(read)
        crossed = self.reads or interop.arrivals(replay)
        self.entries = interop.entries(replay) if crossed else []
        self._graphs: dict[int, TorchGraph] = {}
        self._flows: dict[Any, int | None] = {}
        self._notes: dict[Any, str] = {}

    def crossings(self) -> list[InteropCrossing]:
        """The pairs that are known to depend on each other, those of the same two lines as one."""
        groups: dict[Any, InteropCrossing] = {}
        for crossing in self._known():
            entry = crossing.entry
            number = entry.param if entry.array is None else -1
            first = groups.setdefault((*_spot(crossing.read.place), *_spot(entry.place), number), crossing)
            if first is not crossing:
                first.count += 1
                first.leaves += [leaf for leaf in crossing.leaves if leaf not in first.leaves]
                first.gone += [leaf for leaf in crossing.gone if leaf not in first.gone]
        for note in list(self._notes.values())[:NOTED]:
            self.context.skipped(note)
        return list(groups.values())

    def graph(self, entry: InteropEntry) -> TorchGraph:
        """Return what PyTorch has recorded of the tensor that came in."""
        if id(entry) not in self._graphs:
            self._graphs[id(entry)] = interop.graph_of(self.replay, entry)
        return self._graphs[id(entry)]

    def leads_to_loss(self, entry: InteropEntry) -> bool:
        """Return whether launches lead from what came in to the loss."""
        if entry.array is not None:
            return (entry.array, 0) in self.reach.reached and is_float(self.trace.arrays[entry.array])
        launch = self.trace.launches[entry.launch]
        written = [(arg.array, arg.write_version) for arg in launch.args if arg.write_version is not None]
        return any(node in self.reach.reached for node in written)

    # ---------------------------------------------------------------------- pairs

    def _known(self) -> Iterator[InteropCrossing]:
        looked, apart = 0, set()
        for entry in self.entries:
            number = entry.param if entry.array is None else -1
            plain = entry.tensor is None and entry.memory is None
            for read, source in self._before(entry) if self.leads_to_loss(entry) else ():
                pair = (*_spot(read.place), *_spot(entry.place), number)
                if plain and pair in apart:
                    continue
                looked += 1
                if looked > PAIRS:
                    self.context.skipped(
                        f"of the places where values left the tape and others came in, {PAIRS} pairs were "
                        "looked at"
                    )
                    return
                crossing = InteropCrossing(read, source, entry)
                if self._is_cut(crossing):
                    yield crossing
                    break
                if self._follows(read, entry) == NOTHING:
                    apart.add(pair)

    def _before(self, entry: InteropEntry) -> Iterator[tuple[HostRead, Node]]:
        """Return what left before something came in, of each place the latest; the latest first."""
        found = []
        for reads in self._places.values():
            if entry.clock:
                end = bisect_left(reads, entry.clock, key=lambda read: read.clock)
            else:
                end = bisect_right(reads, entry.launch, key=lambda read: read.at or 0)
            found += reads[end - 1 : end] if end else []
        for read in sorted(found, key=lambda read: -read.clock):
            nodes = [self._version(array, read.at or 0) for array in read.arrays if array != entry.array]
            node = next((node for node in nodes if self.reach.above.get(node)), None)
            if node is not None:
                yield read, node

    def _version(self, array: int, at: int) -> Node:
        """The version of an array that was read when the tape had `at` launches."""
        versions = self.trace.versions_of(array)
        found = next(
            (v for v in reversed(versions) if v.written_by is None or v.written_by < at), versions[0]
        )
        return (array, found.version) if is_float(self.trace.arrays[array]) else (-1, -1)

    def _is_cut(self, crossing: InteropCrossing) -> bool:
        """Return whether a gradient ends there that somebody wants; what cannot be told is noted."""
        proof = self._proof(crossing)
        if proof == "" or self._updates(crossing) or not self._confirmed(crossing):
            return False
        if proof is None or (proof == "unsure" and not crossing.gone):
            self._note(crossing, "if the second follows from the first, its gradient is not carried")
            return False
        if not crossing.gone and self._is_constant(crossing):
            self._note(crossing, "the second follows from the first, and is a constant without requires_grad")
            return False
        crossing.proof = proof
        return True

    def _updates(self, crossing: InteropCrossing) -> bool:
        """Return whether an input is given new values that follow from its own: an optimiser's step."""
        array, version = crossing.source
        entry, launch = crossing.entry, self.trace.launches[crossing.entry.launch]
        copied = launch.kind in ("copy", "fill") and launch.args[0].array == array
        return version == 0 and copied and entry.how in ("assign", "fill_")

    def _is_constant(self, crossing: InteropCrossing) -> bool:
        """Return whether what left or came in has no gradient; of an `assign`, its target."""
        entry = crossing.entry
        if not self.trace.arrays[crossing.source[0]].requires_grad:
            return True
        if entry.array is None:
            return False
        launch = self.trace.launches[entry.launch]
        number = launch.args[0].array if launch.kind == "copy" else entry.array
        return number is None or not self.trace.arrays[number].requires_grad

    def _confirmed(self, crossing: InteropCrossing) -> bool:
        """Does the loss move with what came in, and what left with an input? Else nothing is lost there."""
        entry, experiment, (array, _) = crossing.entry, self.context.experiment, crossing.source
        if entry.array is None:
            crossing.moves_loss = interop.moved_by_number(self.replay, entry, SCALE)
        else:
            crossing.moves_loss = experiment.loss_moved(entry.array, None, SCALE)
        if not crossing.moves_loss > 0:
            return False
        bits = self.reach.above[crossing.source]
        writer = self.reach.graph.versions[crossing.source].written_by
        crossing.leaves = [
            leaf
            for place, leaf in enumerate(self.reach.leaves)
            if bits >> place & 1
            if crossing.source == (leaf, 0) or experiment.values_moved(leaf, array, writer, SCALE) > 0
        ]
        crossing.gone = [leaf for leaf in crossing.leaves if not self.reach.leads_to_loss(leaf)]
        return bool(crossing.leaves)

    def _note(self, crossing: InteropCrossing, told: str) -> None:
        read, entry = crossing.read, crossing.entry
        source = self.trace.arrays[crossing.source[0]].label
        self._notes.setdefault(
            (*_spot(read.place), *_spot(entry.place)),
            f"{source} left the tape at {words.place(read.place)} ({read.how}), and "
            f"{target_of(self.trace, entry)} came in at {words.place(entry.place)} ({entry.how}): {told}",
        )

    # --------------------------------------------------------------------- proofs

    def _proof(self, crossing: InteropCrossing) -> str | None:
        """Return the proof that one follows from the other: empty if it does not, None if that is open."""
        read, entry = crossing.read, crossing.entry
        if entry.tensor is not None and self._through_graph(crossing):
            return "graph"
        shares = entry.memory is not None and entry.memory == read.memory
        follows = SURE if shares else self._follows(read, entry)
        if entry.array is not None and follows != NOTHING:
            crossing.alike = self._same_values(crossing, shares)
        if crossing.alike is not None:
            return "values"
        if follows is None or follows == NOTHING:
            return None if follows is None else ""
        return "memory" if shares else "source" if follows == SURE else "unsure"

    def _through_graph(self, crossing: InteropCrossing) -> bool:
        graph, read = self.graph(crossing.entry), crossing.read
        crossing.others = len(graph.others)
        leaf = next((array for array in read.arrays if array in graph.arrays), None)
        if leaf is None:
            return False
        if graph.plain:
            handed = interop.handed_on(self.replay, crossing.entry, leaf, graph.arrays[leaf], read.at or 0)
            if handed is not None:
                crossing.error = relative_errors(handed, self.context.experiment.gradients())
                return any(error > INTEROP_GRADIENT_CHANGED for error in crossing.error.values())
        return True

    def _follows(self, read: HostRead, entry: InteropEntry) -> int | None:
        """Return the certainty with which the user's code computes what came in from what left."""
        key = read.stack, entry.stack, entry.param if entry.how == "launch" else -1
        if key not in self._flows:
            argued = _as_argument if entry.how == "launch" else _as_array
            self._flows[key] = argued(read, entry)
        return self._flows[key]

    def _same_values(self, crossing: InteropCrossing, shares: bool) -> NumpyRoundtrip | None:
        entry, (array, _), at = crossing.entry, crossing.source, crossing.read.at or 0
        assert entry.array is not None
        infos = [self.trace.arrays[number] for number in (array, entry.array)]
        if sum(info.stop - info.start for info in infos) > LIMIT:
            return None
        left, back = (array, at), (entry.array, entry.launch)
        values = self.context.experiment.values_at({left, back})
        target = (entry.array, 0)
        if shares and np.array_equal(values[left], values[back]):
            return NumpyRoundtrip(crossing.source, target, entry.launch, values[left].size)
        return match(crossing.source, target, entry.launch, values[left], values[back])


def target_of(trace: Trace, entry: InteropEntry) -> str:
    """Return what people call what came in: the array, what `assign` or a fill writes, or the parameter."""
    launch = trace.launches[entry.launch]
    if entry.array is None and launch.kind != "fill":
        return str(launch.args[entry.param].name)
    written = launch.args[0].array if entry.how in ("assign", "fill_") else entry.array
    return str(trace.arrays[entry.array or 0 if written is None else written].label)


def framework(left: str, back: str = "") -> str:
    """The library that values left for, by how they were read and how they came back."""
    if "torch" in left or "torch" in back:
        return "PyTorch"
    return "JAX" if "jax" in left or "jax" in back else "NumPy"


def _as_array(read: HostRead, entry: InteropEntry) -> int | None:
    return python_flow.flows(read.stack, entry.stack)


def _as_argument(read: HostRead, entry: InteropEntry) -> int | None:
    """Return the certainty with which an argument of a launch is computed from what was read."""
    reached = python_flow.arguments_reached(read.stack, entry.stack)
    listed = python_flow.elements_of_launch(entry.stack)
    if reached is None or listed is None or entry.param >= len(listed):
        return None
    return reached.get(listed[entry.param], NOTHING)


def _spot(place: Location) -> tuple[str, int, int]:
    return place.file, place.line, place.column

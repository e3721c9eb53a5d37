"""Finds values that leave the tape for PyTorch, NumPy or JAX between two launches and return as constants.

Two source lines are known: one that read values while the tape recorded, and one through which an array or a
number entered later. An experiment or the source shows that the second depends on the first: PyTorch's graph
connects them (then its part of the reverse pass is run), the array was created from a view of the memory that
was read, its values equal those that were read, or the user's code computes it from them. If none of these
can be decided, the coverage has a note.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import field
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
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
"""Relative displacement of values to test if the loss depends on them."""
PAIRS = 400
"""Largest number of examined pairs of an exit and an entry of values."""
NOTED = 8
"""Largest number of notes about such pairs."""
LIMIT = 1 << 26
"""Largest number of bytes of two arrays that are compared."""


@dataclass(slots=True)
class InteropCrossing:
    """Values of `source` that left the tape at `read`, and the `entry` that depends on them.

    Attributes:
        proof: The proof of the dependence: `"graph"`, `"memory"`, `"values"`, `"source"`, or `"unsure"` if
            the source passes values to an unknown function.
        leaves: The inputs whose gradient ends there.
        gone: Those leaves that have no other path to the loss.
        error: The error of gradients without PyTorch's part of the reverse pass, if that could run.
        alike: The relation of the values, if they match.
        others: PyTorch's leaves that are no arrays of the tape.
        moves_loss: The change of the loss when the entry is displaced.
        count: The number of similar crossings.
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
    """A search for values that returned to a tape.

    Args:
        context: The tape.
        replay: The experiments on the tape.
        reach: The data flow from inputs to the loss.

    Attributes:
        entries: The arrays and numbers that entered while the tape recorded.
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
        """Return the pairs with a proven dependence, merged if they have the same two lines."""
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
        """Return the graph that PyTorch has recorded for the tensor that entered."""
        if id(entry) not in self._graphs:
            self._graphs[id(entry)] = interop.graph_of(self.replay, entry)
        return self._graphs[id(entry)]

    def leads_to_loss(self, entry: InteropEntry) -> bool:
        """Return True if launches lead from the entry to the loss."""
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
        """Yield the reads before an entry, the latest of each place, latest first."""
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
        """Return the version of an array that was read when the tape had `at` launches."""
        versions = self.trace.versions_of(array)
        found = next(
            (v for v in reversed(versions) if v.written_by is None or v.written_by < at), versions[0]
        )
        return (array, found.version) if is_float(self.trace.arrays[array]) else (-1, -1)

    def _is_cut(self, crossing: InteropCrossing) -> bool:
        """Return True if a required gradient ends there; undecided cases become notes."""
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
        """Return True if an input gets new values that depend on its own: an optimiser's step."""
        array, version = crossing.source
        entry, launch = crossing.entry, self.trace.launches[crossing.entry.launch]
        copied = launch.kind in ("copy", "fill") and launch.args[0].array == array
        return version == 0 and copied and entry.how in ("assign", "fill_")

    def _is_constant(self, crossing: InteropCrossing) -> bool:
        """Return True if the source or the entry has no gradient; for an `assign`, its target."""
        entry = crossing.entry
        if not self.trace.arrays[crossing.source[0]].requires_grad:
            return True
        if entry.array is None:
            return False
        launch = self.trace.launches[entry.launch]
        number = launch.args[0].array if launch.kind == "copy" else entry.array
        return number is None or not self.trace.arrays[number].requires_grad

    def _confirmed(self, crossing: InteropCrossing) -> bool:
        """Return True if the loss depends on the entry and the source on an input: a gradient is lost."""
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

    def _note(self, crossing: InteropCrossing, reason: str) -> None:
        read, entry = crossing.read, crossing.entry
        source = self.trace.arrays[crossing.source[0]].label
        self._notes.setdefault(
            (*_spot(read.place), *_spot(entry.place)),
            f"{source} left the tape at {words.place(read.place)} ({read.how}), and "
            f"{target_of(self.trace, entry)} came in at {words.place(entry.place)} ({entry.how}): {reason}",
        )

    # --------------------------------------------------------------------- proofs

    def _proof(self, crossing: InteropCrossing) -> str | None:
        """Return the proof of the dependence: empty if there is none, None if undecided."""
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
        """Return the certainty with which the user's code computes the entry from the source."""
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
    """Return the name of the entry: the array, the target of `assign` or a fill, or the parameter."""
    launch = trace.launches[entry.launch]
    if entry.array is None and launch.kind != "fill":
        return str(launch.args[entry.param].name)
    written = launch.args[0].array if entry.how in ("assign", "fill_") else entry.array
    return str(trace.arrays[entry.array or 0 if written is None else written].label)


def framework(left: str, back: str = "") -> str:
    """Return the library that values left for, from the methods by which they were read and returned."""
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

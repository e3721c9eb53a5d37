"""The inputs that lead to the loss, and the places where the data flow of the others ends."""

from __future__ import annotations

from collections.abc import Sequence

from tapedebug.diagnose.trace_analysis.dependencies import Dependencies, Edge, Node, is_integer
from tapedebug.trace import Trace


class Reachability:
    """The data flow of a trace between its inputs and its losses.

    A copy or a fill replaces a whole array, so no data flow passes it.

    Attributes:
        graph: The data flow.
        roots: The last versions of the losses.
        reached: The versions that lead to them.
        above: The inputs that lead to each version, as bits in the order of `leaves`.
    """

    def __init__(self, trace: Trace, leaves: Sequence[int], losses: Sequence[int]) -> None:
        self.trace, self.leaves = trace, list(leaves)
        self.graph = graph = Dependencies(trace, replacing=True)
        last = {version.array: version.version for version in trace.versions}
        self.roots: list[Node] = [(array, last[array]) for array in losses]
        self.reached = graph.upstream(self.roots, with_gradient=False)
        self.above = graph.leaves_above(leaves)

    def leads_to_loss(self, leaf: int) -> bool:
        """True if any chain of launches leads from an input to the loss."""
        return (leaf, 0) in self.reached and self.is_read(leaf)

    def is_read(self, leaf: int) -> bool:
        """True if anything reads the first values of an input, through it or a view."""
        near = [leaf, *self.graph.aliases_of(leaf)]
        return any(self.graph.versions[array, 0].reads for array in near)

    def after_the_loss(self, node: Node) -> bool:
        """True if a version was written when the losses were complete."""
        done = [self.graph.versions[root].written_by for root in self.roots]
        written = self.graph.versions[node].written_by
        return written is not None and all(index is not None and index < written for index in done)

    def computed_from(self, leaf: int) -> list[Node]:
        """Return the versions that launches computed from an input, in the order of the launches."""
        bit = 1 << self.leaves.index(leaf)
        if not self.is_read(leaf):
            return []
        found = [
            (version.written_by, node)
            for node, version in self.graph.versions.items()
            if version.written_by is not None and self.above.get(node, 0) & bit
        ]
        return [node for _, node in sorted(found)]

    def ends(self, leaf: int) -> list[Node]:
        """Return those from which nothing else is computed, the last first."""
        computed = self.computed_from(leaf)
        used = {edge.source for node in computed for edge in self.graph.into(node)}
        return [node for node in reversed(computed) if node not in used]

    def integers(self, leaf: int) -> Edge | None:
        """Return the last read of an array of integers that all chains from an input to the loss pass."""
        floats, queue = set(self.roots), list(self.roots)
        stopped: list[Edge] = []
        while queue:
            for edge in self.graph.into(queue.pop()):
                if is_integer(self.trace.arrays[edge.source[0]]):
                    stopped.append(edge)
                elif edge.source not in floats:
                    floats.add(edge.source)
                    queue.append(edge.source)
        if (leaf, 0) in floats:
            return None
        bit = 1 << self.leaves.index(leaf)
        mine = [edge for edge in stopped if self.above.get(edge.source, 0) & bit and edge.launch is not None]
        return max(mine, key=lambda edge: edge.launch or 0, default=None)

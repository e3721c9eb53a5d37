"""Marks in a drawing: overwritten values, interrupted gradients, findings of a diagnosis."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import field

from tapedebug._dataclass import dataclass
from tapedebug.trace import Finding, Launch, Trace
from tapedebug.visualize._fold import Folded

MARKS = {"error": "✕", "warning": "!"}
MOST = 3
"""Largest number of rules that are named at one node."""
_WHOLE_NUMBERS = re.compile(r"int|bool|^(vec|mat)\d+(b|ub|s|us|i|ui|l|ul)$")
_Key = tuple[int, int]


@dataclass(slots=True)
class Marks:
    """The marks, by node (`Folded.group`) or by drawn launch.

    Attributes:
        lost: For each node, the number of overwrites of values that an adjoint needs.
        kept: The number of such overwrites for which the tape kept copies.
        cut: Nodes at which the gradient ends: on a path from an input to the loss, without `requires_grad`.
        zero: Nodes whose measured adjoint is 0 in every element of every version on such a path.
        disabled: Launches on such a path whose kernel has no adjoint.
        of_nodes: The findings about each node, worst first: a mark and the rule.
        of_launches: The findings about each launch, likewise.
    """

    lost: dict[int, int] = field(default_factory=dict)
    kept: dict[int, int] = field(default_factory=dict)
    cut: set[int] = field(default_factory=set)
    zero: set[int] = field(default_factory=set)
    disabled: set[int] = field(default_factory=set)
    of_nodes: dict[int, list[str]] = field(default_factory=dict)
    of_launches: dict[int, list[str]] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """True if a gradient ends anywhere."""
        return bool(self.cut or self.zero or self.disabled)

    @property
    def found(self) -> bool:
        """True if a finding is marked."""
        return bool(self.of_nodes or self.of_launches)


def find_marks(trace: Trace, folded: Folded) -> Marks:
    """Return the marks of a trace that is drawn folded."""
    marks = Marks()
    for version in trace.versions:
        if version.status in ("lost", "preserved"):
            counts = marks.lost if version.status == "lost" else marks.kept
            node = folded.group[version.array]
            counts[node] = counts.get(node, 0) + 1
    _mark_ends(trace, folded, marks)
    _mark_findings(trace, folded, marks)
    return marks


def _mark_findings(trace: Trace, folded: Folded, marks: Marks) -> None:
    by_label = {info.label: info.id for info in trace.arrays}
    for severity, sign in MARKS.items():
        for finding in trace.findings:
            if finding.severity != severity:
                continue
            words = f"{sign} {finding.rule}"
            nodes = (folded.group[by_label[label]] for label in finding.arrays if label in by_label)
            _add_mark(marks.of_nodes, nodes, words)
            _add_mark(marks.of_launches, _launches_of(finding, folded), words)


def _launches_of(finding: Finding, folded: Folded) -> Iterator[int]:
    return (folded.drawn[index] for index in finding.launches)


def _add_mark(found: dict[int, list[str]], places: Iterable[int], words: str) -> None:
    for place in places:
        own = found.setdefault(place, [])
        if words not in own:
            own.append(words)


# ------------------------------------------------------------------------- where gradients end


def _mark_ends(trace: Trace, folded: Folded, marks: Marks) -> None:
    """Mark nodes and launches on a path from an array with a gradient to the loss that block the gradient."""
    way = _GradientPath(trace)
    zero: dict[int, bool] = {}
    for version in trace.versions:
        if (version.array, version.version) not in way.between:
            continue
        node = folded.group[version.array]
        if not trace.arrays[version.array].requires_grad:
            marks.cut.add(node)
        elif version.adjoint is not None:
            adjoint = version.adjoint
            nothing = adjoint.count > 0 and not (adjoint.nan or adjoint.inf or adjoint.norm)
            zero[node] = zero.get(node, True) and nothing
    marks.zero = {node for node, nothing in zero.items() if nothing} - marks.cut
    for launch in trace.launches:
        if (
            launch.kernel is not None
            and not trace.kernels[launch.kernel].enable_backward
            and way.passes(launch)
        ):
            marks.disabled.add(folded.drawn[launch.index])


class _GradientPath:
    """The versions of float arrays between an array with a gradient and the loss."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.floats = [_WHOLE_NUMBERS.search(info.dtype) is None for info in trace.arrays]
        self.written: dict[int, list[_Key]] = {}
        for version in trace.versions:
            if version.written_by is not None and self.floats[version.array]:
                self.written.setdefault(version.written_by, []).append((version.array, version.version))
        self.added_to = [
            {access.param for access in kernel.accesses if access.kind == "atomic"}
            for kernel in trace.kernels
        ]
        self.reached = self._from_inputs()
        self.leading = self._to_the_loss()
        self.between = self.reached & self.leading

    def _from_inputs(self) -> set[_Key]:
        """Return the versions that depend on an array with a gradient."""
        reached = {(info.id, 0) for info in self.trace.arrays if info.requires_grad and self.floats[info.id]}
        for launch in self.trace.launches:
            if any(key in reached for key in self._read(launch)):
                reached.update(self.written.get(launch.index, ()))
        return reached

    def _to_the_loss(self) -> set[_Key]:
        """Return the versions that the loss depends on; if no loss is known, any output with a gradient."""
        loss = self.trace.backward.loss
        ends = {
            info.id
            for info in self.trace.arrays
            if (info.id == loss if loss is not None else info.role == "output" and info.requires_grad)
        }
        last = {version.array: version.version for version in self.trace.versions if version.array in ends}
        leading = set(last.items())
        for launch in reversed(self.trace.launches):
            if any(key in leading for key in self.written.get(launch.index, ())):
                leading.update(self._read(launch))
        return leading

    def _read(self, launch: Launch) -> Iterator[_Key]:
        """Yield the versions that a launch reads or adds to."""
        added_to = self.added_to[launch.kernel] if launch.kernel is not None else ()
        for place, arg in enumerate(launch.args):
            if arg.array is None or not self.floats[arg.array]:
                continue
            if arg.reads and arg.read_version is not None:
                yield arg.array, arg.read_version
            elif place in added_to and arg.write_version:
                yield arg.array, arg.write_version - 1

    def passes(self, launch: Launch) -> bool:
        """True if a launch lies on a path from an array with a gradient to the loss."""
        return any(key in self.reached for key in self._read(launch)) and any(
            key in self.leading for key in self.written.get(launch.index, ())
        )

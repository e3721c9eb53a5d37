"""The norm of the adjoint at each launch of the reverse pass, by one replay."""

from __future__ import annotations

import dataclasses
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._float_types import is_float
from tapedebug.autograd.subjects.long_vectors import BLOCK
from tapedebug.contract import Array, Operation
from tapedebug.contract import Replay as TapeReplay
from tapedebug.trace import Summary, Version

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

Norms = dict[int, float]
"""Euclidean norms by parameter."""


@dataclass(slots=True)
class LaunchNorms:
    """Norms of values and adjoints at one launch, by parameter number.

    Attributes:
        read: The arrays that it reads, before it ran.
        written: The arrays that it writes, after it ran.
        incoming: The adjoints of the arrays that it writes, before its adjoint ran.
        outgoing: The amounts that its adjoint added to the adjoints of the arrays that it reads.
        gathered: The adjoints of the arrays that it reads, after its adjoint ran.
    """

    read: Norms = field(default_factory=dict)
    written: Norms = field(default_factory=dict)
    incoming: Norms = field(default_factory=dict)
    outgoing: Norms = field(default_factory=dict)
    gathered: Norms = field(default_factory=dict)

    @property
    def arrives(self) -> float:
        """The norm of all incoming adjoints."""
        return math.hypot(*self.incoming.values())

    @property
    def leaves(self) -> float:
        """The norm of all outgoing adjoints."""
        return math.hypot(*self.outgoing.values())


_UNKNOWN = -1.0
"""The number that stands for a missing norm."""


class _Passages(Sequence[LaunchNorms]):
    """The norms at each launch, as columns of numbers.

    As dicts they would take more memory than the records of launches on tiny arrays.

    Args:
        records: The launches.
    """

    def __init__(self, records: Sequence[Operation]) -> None:
        self._starts = array("q", accumulate((len(record.args) for record in records), initial=0))
        self._columns = {
            each.name: array("d", [_UNKNOWN]) * self._starts[-1] for each in dataclasses.fields(LaunchNorms)
        }

    def put(self, launch: int, **norms: Norms) -> None:
        """Set norms at a launch, by the names of `LaunchNorms`."""
        start = self._starts[launch]
        for name, found in norms.items():
            column = self._columns[name]
            for param, norm in found.items():
                column[start + param] = norm

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, launch: int) -> LaunchNorms: ...

    @overload
    def __getitem__(self, launch: slice) -> list[LaunchNorms]: ...

    def __getitem__(self, launch: int | slice) -> LaunchNorms | list[LaunchNorms]:
        if isinstance(launch, slice):
            return [self[each] for each in range(*launch.indices(len(self)))]
        place = range(len(self))[launch]
        own = slice(self._starts[place], self._starts[place + 1])
        found = {
            name: {param: norm for param, norm in enumerate(column[own]) if norm != _UNKNOWN}
            for name, column in self._columns.items()
        }
        return LaunchNorms(**found)


@dataclass(slots=True)
class AdjointProfile:
    """Norms of values and adjoints along a tape.

    Attributes:
        passages: The norms at each launch.
        gradients: Norms of the gradients of the inputs, by array.
        inputs: Norms of the inputs' values, by array.
        losses: Norms of the losses' values, by array.
    """

    passages: Sequence[LaunchNorms]
    gradients: Mapping[int, float]
    inputs: Mapping[int, float]
    losses: Mapping[int, float]


def measure(replay: Replay) -> AdjointProfile:
    """Return the profile of a tape; the adjoints use the values of the forward pass.

    Args:
        replay: The tape; its gradients must be computable (`blocked` is empty).
    """
    passages = _Passages(replay.records)
    known = _KnownNorms(replay)
    observed = not known.fill(passages, replay.records)

    def before(index: int) -> None:
        if index < len(passages) and observed:
            record = replay.records[index]
            read = {p: _norm(shadow.values(record.args[p])) for p in _floats(record, "reads")}
            passages.put(index, read=read)

    def after(record: Operation) -> None:
        written = {p: _norm(shadow.values(record.args[p])) for p in _floats(record, "writes")}
        passages.put(record.index, written=written)
        before(record.index + 1)

    with replay.rewound() as shadow:
        inputs = {leaf: _norm(shadow.values(replay.arrays[leaf])) for leaf in replay.leaves}
        before(0)
        shadow.forward(on_operation=after if observed else None)
        losses = {loss: _norm(shadow.values(replay.arrays[loss])) for loss in replay.losses}
        _reverse(replay, shadow, passages, known)
        gradients = {leaf: _norm(shadow.gradient(replay.arrays[leaf])) for leaf in replay.leaves}
    return AdjointProfile(passages, gradients, inputs, losses)


class _KnownNorms:
    """The norms that the summaries of the trace have, so that a replay need not compute them.

    Args:
        replay: The tape. Without summaries, or if arrays overlap, no norms are known.
    """

    def __init__(self, replay: Replay) -> None:
        trace = replay.recorded.trace
        self._launches = trace.launches
        self._versions = {(item.array, item.version): item for item in trace.versions}
        as_recorded = replay.patch is None and not _overlap(replay.arrays)
        self._seeded = frozenset(replay.losses)
        self._values = as_recorded
        self._adjoints = as_recorded and replay.recorded.tape.preserves_values

    def fill(self, passages: _Passages, records: Sequence[Operation]) -> bool:
        """Set the norms of the values at each launch; return False if one of them is unknown."""
        if not self._values:
            return False
        for record in records:
            norms: dict[str, Norms] = {"reads": {}, "writes": {}}
            for what, known in norms.items():
                for param in _floats(record, what):
                    found = self._version(record, param, before=what == "reads")
                    value = None if found is None else found.value
                    if value is None:
                        return False
                    known[param] = _summarised_norm(value)
            passages.put(record.index, read=norms["reads"], written=norms["writes"])
        return True

    def incoming(self, record: Operation, param: int) -> float | None:
        """Return the norm of the adjoint of an array before the adjoint of its writer; None if unknown."""
        found = self._version(record, param, before=False) if self._adjoints else None
        adjoint = None if found is None else found.adjoint
        return None if adjoint is None else _summarised_norm(adjoint)

    def gathered(self, record: Operation, param: int) -> float | None:
        """Return the norm of the adjoint of an array after that of its only reader; None if unknown."""
        found = self._version(record, param, before=True) if self._adjoints else None
        if found is None or found.reads != [record.index] or found.array in self._seeded:
            return None
        adjoint = found.adjoint
        return None if adjoint is None else _summarised_norm(adjoint)

    def _version(self, record: Operation, param: int, *, before: bool) -> Version | None:
        argument = self._launches[record.index].args[param]
        version = argument.read_version if before else argument.write_version
        return None if version is None else self._versions.get((argument.array or 0, version))


def _reverse(replay: Replay, shadow: TapeReplay, passages: _Passages, known: _KnownNorms) -> None:
    incoming: dict[int, Any] = {}

    def before(index: int) -> None:
        incoming.clear()
        if index >= 0:
            record = replay.records[index]
            written = [p for p in _floats(record, "writes") if p in record.active]
            norms: Norms = {}
            for p in written:
                norm = known.incoming(record, p)
                norms[p] = _norm(shadow.gradient(record.args[p])) if norm is None else norm
            passages.put(index, incoming=norms)
            own = {id(record.args[p].region) for p in written}
            # The adjoint of an array that is read and written is consumed by the launch: its outgoing
            # amount is then all of its adjoint.
            incoming.update(
                (p, shadow.gradient(record.args[p]))
                for p in _floats(record, "reads")
                if p in record.active and id(record.args[p].region) not in own
                if known.gathered(record, p) is None
            )

    def look(record: Operation) -> None:
        gathered: Norms = {}
        outgoing: Norms = {}
        for p in _floats(record, "reads"):
            if p in record.active and (norm := known.gathered(record, p)) is not None:
                gathered[p] = outgoing[p] = norm
            elif p in record.active:
                now = shadow.gradient(record.args[p])
                gathered[p] = _norm(now)
                with np.errstate(invalid="ignore"):
                    outgoing[p] = _norm(now - incoming[p]) if p in incoming else gathered[p]
        passages.put(record.index, gathered=gathered, outgoing=outgoing)
        before(record.index - 1)

    total = len(replay.records)
    shadow.backward(replay.seeds, start=total, stop=total)
    before(total - 1)
    shadow.backward(None, on_operation=look)


def _overlap(arrays: Sequence[Array]) -> bool:
    """Return True if two arrays may share memory: a version of one is then changed through the other."""
    ends: dict[int, int] = {}
    for a in sorted(arrays, key=lambda each: (id(each.region), each.start)):
        if a.start < ends.get(id(a.region), a.start):
            return True
        ends[id(a.region)] = max(a.stop, ends.get(id(a.region), a.stop))
    return False


def _summarised_norm(summary: Summary | None) -> float:
    """Return the norm that a summary has; inf if a value is not finite."""
    return math.inf if summary is None or summary.nan or summary.inf else summary.norm or 0.0


def _floats(record: Operation, what: str) -> list[int]:
    return [p for p in sorted(getattr(record, what)) if is_float(record.args[p].scalar_dtype)]


def _norm(values: np.ndarray[Any, Any]) -> float:
    """Return the Euclidean norm; inf if a value is not finite."""
    if values.size > BLOCK:
        parts = values.ravel()
        return math.hypot(*(_norm(parts[at : at + BLOCK]) for at in range(0, parts.size, BLOCK)))
    found = values.astype(np.float64)
    largest = float(np.max(np.abs(found), initial=0.0))
    if not math.isfinite(largest):
        return math.inf
    return largest * float(np.linalg.norm(found / largest)) if largest else 0.0

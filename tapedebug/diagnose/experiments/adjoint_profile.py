"""The norm of the adjoint at each launch of the reverse pass, by one replay."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

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


@dataclass(slots=True)
class AdjointProfile:
    """Norms of values and adjoints along a tape.

    Attributes:
        passages: The norms at each launch.
        gradients: Norms of the gradients of the inputs, by array.
        inputs: Norms of the inputs' values, by array.
        losses: Norms of the losses' values, by array.
    """

    passages: list[LaunchNorms]
    gradients: Mapping[int, float]
    inputs: Mapping[int, float]
    losses: Mapping[int, float]


def measure(replay: Replay) -> AdjointProfile:
    """Return the profile of a tape; the adjoints use the values of the forward pass.

    Args:
        replay: The tape; its gradients must be computable (`blocked` is empty).
    """
    passages = [LaunchNorms() for _ in replay.records]
    shadow = replay._shadow()
    known = _KnownNorms(replay)
    observed = not known.fill(passages, replay.records)

    def before(index: int) -> None:
        if index < len(passages) and observed:
            record = replay.records[index]
            passages[index].read = {p: _norm(shadow.values(record.args[p])) for p in _floats(record, "reads")}

    def after(record: Operation) -> None:
        passages[record.index].written = {
            p: _norm(shadow.values(record.args[p])) for p in _floats(record, "writes")
        }
        before(record.index + 1)

    shadow.forward(stop=0)
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

    def fill(self, passages: Sequence[LaunchNorms], records: Sequence[Operation]) -> bool:
        """Set the norms of the values at each launch; return False if one of them is unknown."""
        if not self._values:
            return False
        for passage, record in zip(passages, records, strict=True):
            for what, norms in (("reads", passage.read), ("writes", passage.written)):
                for param in _floats(record, what):
                    found = self._version(record, param, before=what == "reads")
                    if found is None or found.value is None:
                        return False
                    norms[param] = _summarised_norm(found.value)
        return True

    def incoming(self, record: Operation, param: int) -> float | None:
        """Return the norm of the adjoint of an array before the adjoint of its writer; None if unknown."""
        found = self._version(record, param, before=False) if self._adjoints else None
        return None if found is None or found.adjoint is None else _summarised_norm(found.adjoint)

    def gathered(self, record: Operation, param: int) -> float | None:
        """Return the norm of the adjoint of an array after that of its only reader; None if unknown."""
        found = self._version(record, param, before=True) if self._adjoints else None
        if found is None or found.adjoint is None or found.reads != [record.index]:
            return None
        if found.array in self._seeded:
            return None
        return _summarised_norm(found.adjoint)

    def _version(self, record: Operation, param: int, *, before: bool) -> Version | None:
        argument = self._launches[record.index].args[param]
        version = argument.read_version if before else argument.write_version
        return None if version is None else self._versions.get((argument.array or 0, version))


def _reverse(replay: Replay, shadow: TapeReplay, passages: list[LaunchNorms], known: _KnownNorms) -> None:
    incoming: dict[int, Any] = {}

    def before(index: int) -> None:
        incoming.clear()
        if index >= 0:
            record = replay.records[index]
            written = [p for p in _floats(record, "writes") if p in record.active]
            for p in written:
                norm = known.incoming(record, p)
                passages[index].incoming[p] = _norm(shadow.gradient(record.args[p])) if norm is None else norm
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
        passage = passages[record.index]
        for p in _floats(record, "reads"):
            if p in record.active and (norm := known.gathered(record, p)) is not None:
                passage.gathered[p] = passage.outgoing[p] = norm
            elif p in record.active:
                now = shadow.gradient(record.args[p])
                passage.gathered[p] = _norm(now)
                with np.errstate(invalid="ignore"):
                    passage.outgoing[p] = _norm(now - incoming[p]) if p in incoming else passage.gathered[p]
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

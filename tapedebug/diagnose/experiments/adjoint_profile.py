"""The norm of the adjoint at each launch of the reverse pass, by one replay."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.contract import Operation
from tapedebug.contract import Replay as TapeReplay

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

    def before(index: int) -> None:
        if index < len(passages):
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
    shadow.forward(on_operation=after)
    losses = {loss: _norm(shadow.values(replay.arrays[loss])) for loss in replay.losses}
    _reverse(replay, shadow, passages)
    gradients = {leaf: _norm(shadow.gradient(replay.arrays[leaf])) for leaf in replay.leaves}
    return AdjointProfile(passages, gradients, inputs, losses)


def _reverse(replay: Replay, shadow: TapeReplay, passages: list[LaunchNorms]) -> None:
    incoming: dict[int, Any] = {}

    def before(index: int) -> None:
        incoming.clear()
        if index >= 0:
            record = replay.records[index]
            found = {
                p: shadow.gradient(record.args[p]) for p in _floats(record, "writes") if p in record.active
            }
            passages[index].incoming = {p: _norm(values) for p, values in found.items()}
            own = {id(record.args[p].region) for p in found}
            # The adjoint of an array that is read and written is consumed by the launch: its outgoing
            # amount is then all of its adjoint.
            incoming.update(
                (p, shadow.gradient(record.args[p]))
                for p in _floats(record, "reads")
                if p in record.active and id(record.args[p].region) not in own
            )

    def look(record: Operation) -> None:
        passage = passages[record.index]
        for p in _floats(record, "reads"):
            if p in record.active:
                now = shadow.gradient(record.args[p])
                passage.gathered[p] = _norm(now)
                with np.errstate(invalid="ignore"):
                    passage.outgoing[p] = _norm(now - incoming[p]) if p in incoming else passage.gathered[p]
        before(record.index - 1)

    total = len(replay.records)
    shadow.backward(replay.seeds, start=total, stop=total)
    before(total - 1)
    shadow.backward(None, on_operation=look)


def _floats(record: Operation, what: str) -> list[int]:
    return [p for p in sorted(getattr(record, what)) if record.args[p].scalar_dtype.kind == "f"]


def _norm(values: np.ndarray[Any, Any]) -> float:
    """Return the Euclidean norm; inf if a value is not finite."""
    found = values.astype(np.float64)
    largest = float(np.max(np.abs(found), initial=0.0))
    if not math.isfinite(largest):
        return math.inf
    return largest * float(np.linalg.norm(found / largest)) if largest else 0.0

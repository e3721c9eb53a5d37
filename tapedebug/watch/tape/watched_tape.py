"""Tapes of NVIDIA Warp, as the debugger sees them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeVar, cast

from tapedebug.contract import (
    Array,
    ConsumedGradients,
    ElementTracking,
    EngineCoverage,
    LocalReplays,
    Operation,
    RecordedTape,
    RecordingGaps,
    Repeatability,
    Rerecording,
    SharedGradients,
    StructChanges,
    Tangents,
    ThreadScheduling,
    UnrecordedLaunches,
    Values,
    WarpReverse,
    memory_key,
)
from tapedebug.operations import OperationReplay, OperationTangentReplay, PushesTangents
from tapedebug.operations.replay_memory import IdleReplays
from tapedebug.watch.kernel_source import is_known_to_repeat
from tapedebug.watch.memory import WatchedArray
from tapedebug.watch.mirror import MirroredElementTracking, MirroredThreadScheduling, verify_mirrors
from tapedebug.watch.struct_changes import WarpStructChanges
from tapedebug.watch.tape.array_substitution import arrays_by_region, with_arrays
from tapedebug.watch.tape.coverage import Coverage, Gaps
from tapedebug.watch.tape.shared_gradients import OverlappingGradients, overlapping_gradients
from tapedebug.watch.tape.tape_recording import TapeRecording
from tapedebug.watch.tape.unrecorded_launches import Unrecorded, forget_unused
from tapedebug.watch.tape.warp_reverse import OwnReverse

T = TypeVar("T")

REPLAYED = (ElementTracking, LocalReplays, Tangents, ThreadScheduling)
"""The capabilities of tapes whose launches this engine runs."""


class WatchedTape(TapeRecording):
    """The operations that ran while a tape of Warp recorded, with all capabilities."""

    def new_replay(self, *, float64: bool = False) -> OperationReplay:
        """Return a new replay; see `OperationTape.new_replay`."""
        self.verify()
        return super().new_replay(float64=float64)

    def capability(self, kind: type[T], /) -> T | None:
        """Return the implementation of a capability protocol, or None."""
        if kind in REPLAYED:
            self.verify()
        if kind is Tangents and not all(_pushes(operation) for operation in self.operations):
            return None
        if kind in MADE_ANEW:
            return cast("T", MADE_ANEW[kind](self))
        if kind in MADE_LATER and kind not in self.capabilities:
            self.capabilities[kind] = MADE_LATER[kind](self)
        return super().capability(kind)

    def _before_pass(self, inputs: Sequence[Array]) -> None:
        super()._before_pass(inputs)
        forget_unused(self)
        self.shared_gradients = overlapping_gradients(self)

    def verify(self) -> None:
        """Compare the results of launches that this engine runs, too, with Warp's, unless that was done."""
        if self._verified < len(self.operations):
            self._verified = len(self.operations)
            self.look()
            verify_mirrors(self, self.launches, self.history.shared.mirrored)


def _pushes(operation: Operation) -> bool:
    return operation.capability(PushesTangents) is not None


class _Consumed:
    """The capability `ConsumedGradients`."""

    def __init__(self, tape: WatchedTape) -> None:
        self._tape = tape

    def consumed(self, array: Array, /) -> Values | None:
        """Return what the last reverse pass added to the gradient of an input; None if it is not known."""
        return self._tape.consumed.get(memory_key(array))


class _Tangents:
    """The capability `Tangents`, if this engine runs all operations."""

    def __init__(self, tape: WatchedTape) -> None:
        self._tape = tape

    def tangent_replay(self, *, float64: bool = False) -> OperationTangentReplay:
        """Return a new replay that can push tangents."""
        self._tape.verify()
        return OperationTangentReplay(self._tape, float64)


class _Repeatability:
    """The capability `Repeatability`: on the host, Warp runs the threads of a launch one after the other."""

    def __init__(self, tape: WatchedTape) -> None:
        self._tape = tape

    def is_repeatable(self) -> bool:
        """True if the tape has launches, copies and fills only, all on the host, and no C++ of the user."""
        kinds = {operation.kind for operation in self._tape.operations}
        if not kinds <= {"kernel", "copy", "fill"} or not all(r.on_host for r in self._tape.regions):
            return False
        native = {launch.kernel: None for launch in self._tape.launches.values() if launch.mirrored is None}
        return all(map(is_known_to_repeat, native))


class _Rerecording:
    """The capability `Rerecording`."""

    def __init__(self, tape: WatchedTape) -> None:
        self._tape = tape

    def rerecorded(
        self, revived: Callable[[Any], frozenset[int]], stop: int | None = None, /
    ) -> RecordedTape:
        """Return a tape of the same operations in which more arrays have a gradient."""
        return _Rerecorded(self._tape, revived, stop)


MADE_ANEW: Mapping[type, Callable[[WatchedTape], Any]] = {
    ElementTracking: lambda tape: MirroredElementTracking(
        tape,
        tape.launches,
        tape.unwritten,
        tape.sees_all_arrays and all(region.on_host for region in tape.regions),
    ),
    StructChanges: lambda tape: WarpStructChanges(tape.launches, tape.structs),
    Repeatability: _Repeatability,
    ThreadScheduling: lambda tape: MirroredThreadScheduling(tape.launches),
}
"""Capabilities for the launches that a tape has when they are asked for."""

MADE_LATER: Mapping[type, Callable[[WatchedTape], Any]] = {
    ConsumedGradients: _Consumed,
    EngineCoverage: Coverage,
    RecordingGaps: Gaps,
    SharedGradients: OverlappingGradients,
    Rerecording: _Rerecording,
    Tangents: _Tangents,
    UnrecordedLaunches: Unrecorded,
    WarpReverse: OwnReverse,
}
"""Capabilities of a tape that refer to it. They are made when they are asked for: a tape that is not
diagnosed is in no cycle of references, so that its copies of memory are gone as soon as nothing uses it."""


class _Rerecorded(WatchedTape):
    """A tape of the operations of another one, in which more arrays have a gradient."""

    def __init__(
        self, tape: WatchedTape, revived: Callable[[Operation], frozenset[int]], stop: int | None
    ) -> None:
        self.__dict__ |= {name: copy.copy(value) for name, value in vars(tape).items() if name != "memory"}
        self.memory = tape.memory
        self.given_values = None
        self.idle_replays = IdleReplays(kept=True)
        own = Rerecording, Tangents, WarpReverse
        kinds = [*tape.capabilities, *MADE_LATER]
        self.capabilities = {kind: tape.capability(kind) for kind in kinds if kind not in own}
        keys = {
            _range(operation.args[param])
            for operation in tape.operations[:stop]
            for param in revived(operation)
        }
        made: dict[Hashable, WatchedArray] = {}

        def alive(array: WatchedArray) -> WatchedArray:
            key = _range(array)
            if array.requires_grad or not array.is_float or key not in keys:
                return array
            if key not in made:
                made[key] = copy.copy(array)
                made[key].requires_grad = True
            return made[key]

        self.operations = [with_arrays(operation, alive) for operation in tape.operations[:stop]]
        self.regions = arrays_by_region(self.operations)

    def look(self) -> None:
        """Do nothing: later writes of the program are not visible here."""


def _range(array: WatchedArray) -> Hashable:
    return array.region, array.start, array.stop, array.shape, array.strides

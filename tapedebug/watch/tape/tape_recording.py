"""The recording of a tape of Warp: its operations, and what happens to the memory that they use."""

from __future__ import annotations

import copy
from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from types import FrameType
from typing import Literal, cast

import numpy as np

from tapedebug._float_types import float_info, is_float
from tapedebug._source import display_file
from tapedebug.contract import (
    Array,
    ArrayMemory,
    ArrayOrigins,
    Arrivals,
    Engine,
    OutsideReads,
    Place,
    ProgramArrays,
    SharedGradient,
    UnrecordedLaunch,
    Values,
    ValueSamples,
    memory_key,
    share_bytes,
)
from tapedebug.operations import ExecutableOperation, OperationTape, Region, SnapshotBudget
from tapedebug.operations.outside_writes import UNSEEN, Mask, WriteOrigin
from tapedebug.operations.pass_history import norm_of
from tapedebug.operations.recorded_memory import RecordedRegion
from tapedebug.watch.arguments import Arguments
from tapedebug.watch.earlier_launches import EarlierLaunch
from tapedebug.watch.hooks import look_up
from tapedebug.watch.host_transfers import HostTransfers
from tapedebug.watch.launch import LaunchTemplate, PresentStructs, WarpLaunch
from tapedebug.watch.memory import MemoryMap, WarpArray, WatchedArray, WatchedRegion, tensor_of
from tapedebug.watch.shared_history import SharedHistory, WatchedHistory
from tapedebug.watch.struct_changes import present_structs
from tapedebug.watch.tape.array_substitution import arrays_by_region, with_arrays
from tapedebug.watch.tape.program_arrays import WarpArrays
from tapedebug.watch.unwritten_memory import UnwrittenMemory

Computed = tuple[Literal["launch", "copy", "call"], str, Sequence[WatchedArray]]
"""An operation that writes arrays: its kind, its name, and the arrays that it reads."""

LEFT_BEHIND = (
    "{name} was made of a tensor whose .grad was None when backward ended: optimizers of PyTorch do not see "
    "the gradient unless the program copies it; zero_grad(set_to_none=False) keeps the memory that both share"
)

MOVED_ON = (
    "values changed between two reverse passes of this tape: the gradients that the later one left were not "
    "compared with those of its replay"
)

SET_LATER = {
    True: "requires_grad of {name} was set to True at {place}, after the tape recorded {operation}: the "
    "reverse pass computed its gradient all the same",
    False: "requires_grad of {name} was set to False at {place}, after the tape recorded {operation}: the "
    "reverse pass computed no gradient of it, and passed none on through it",
}
"""Notes about arrays whose gradients the program made or dropped after an operation had used them."""

MOST_UNRECORDED = 1000
"""Largest number of launches off a tape that it stores."""

SUM_ROUNDING = 1e-6
"""The rounding of a gradient, as a part of a pass's addition to it, up to which that can be compared."""


class TapeRecording(OperationTape):
    """The operations that ran while a tape of Warp recorded, with their values.

    Args:
        engine: Warp, with its version and device.
        memory: The memory of the program's arrays.
        created_at: The place in the program that began to record.
        budget: The number of bytes for copies of what tapes found.
        shared: The events of the memory of all tapes.
        unwritten: The memory that nothing has written.

    Attributes:
        history: The events of this tape, and those of the memory that it uses.
        transfers: The reads of arrays, and the arrays that were made of values from outside.
        consumed: What the program's last reverse pass added to the gradients of the inputs, by their memory.
        inherited: The inputs whose gradients were not zero when the first reverse pass of this tape began.
        gaps: The parts of the recording that are not covered, as sentences.
        unwritten: The memory that nothing had written when the tape first used it, each with the number of
            operations after which something off the tape may have done so; None if nothing has.
        given: The memory that held, when the tape first used it, the values that the program made it of.
        sees_all_arrays: All arrays were made while the program was watched.
    """

    def __init__(
        self,
        engine: Engine,
        memory: MemoryMap,
        created_at: Place,
        budget: SnapshotBudget | None = None,
        shared: SharedHistory | None = None,
        unwritten: UnwrittenMemory | None = None,
    ) -> None:
        super().__init__(engine, budget=budget)
        self._unwritten = unwritten
        self.unwritten: dict[Region, int | None] = {}
        self.given: set[Region] = set()
        self.sees_all_arrays = True
        self.history: WatchedHistory = WatchedHistory(shared or SharedHistory(), self)
        self.created_at = created_at
        self.memory = memory
        self.consumed: dict[Hashable, Values] = {}
        self.inherited: list[Array] = []
        self._gradients: dict[Array, Values | None] = {}
        self.gaps: dict[str, int] = {}
        self.templates: dict[Hashable, LaunchTemplate] = {}
        self.unrecorded: list[UnrecordedLaunch] = []
        self.earlier: dict[Hashable, tuple[EarlierLaunch, WatchedArray, dict[WatchedArray, str]]] = {}
        self.structs: dict[int, PresentStructs] = {}
        self._settings: dict[Hashable, tuple[bool, Place]] = {}
        self.set_later: dict[Hashable, str] = {}
        self.shared_gradients: list[SharedGradient] = []
        self._not_recorded: set[Region] = set()
        self.transfers = HostTransfers()
        self._verified = 0
        arrays = WarpArrays(memory, self.history, self.given)
        self.capabilities |= {
            ProgramArrays: arrays,
            ArrayMemory: arrays,
            ArrayOrigins: arrays,
            ValueSamples: self.history.shared,
            OutsideReads: self.transfers,
            Arrivals: self.transfers,
        }

    def begin(self) -> None:
        """Begin or resume recording."""
        self.history.tape_begins()
        super().begin()

    def end(self) -> None:
        """Stop recording."""
        self.transfers.tape_ends(self.regions, self.memory.find)
        super().end()

    @property
    def launches(self) -> dict[int, WarpLaunch]:
        """The launches of kernels, by index."""
        return {o.index: o for o in self.operations if isinstance(o, WarpLaunch)}

    def array(self, source: WarpArray) -> WatchedArray:
        """Return the array of the contract for an array of Warp."""
        return self.memory.find(source)

    def find_names(self, frame: FrameType) -> None:
        """Search the variables of the program for names of the tape's arrays."""
        self.note_names(look_up("warp:array"), frame, self.memory.find)

    def note_gap(self, text: str) -> None:
        """Note that a part of the program is not covered; equal notes are counted."""
        self.gaps[text] = self.gaps.get(text, 0) + 1

    def note_not_recorded(self, arrays: Sequence[WatchedArray]) -> None:
        """Note arrays of a launch that could not be recorded: its adjoint may consume their gradients."""
        self._not_recorded.update(array.region for array in arrays)

    def note_unrecorded(self, computed: Computed, writes: Sequence[WatchedArray], place: Place) -> None:
        """Note a launch or a copy that this tape does not record, as long as it may record more."""
        if not self.operations or self._is_settled() or len(self.unrecorded) >= MOST_UNRECORDED:
            return
        earlier = [array for each in self.unrecorded for array in each.writes]
        kind, name, reads = computed
        if not any(self.uses(read) or any(share_bytes(read, a) for a in earlier) for read in reads):
            return
        at = len(self.operations)
        launch = UnrecordedLaunch(name, reads, writes, at, place, not self.is_recording, kind)
        if launch not in self.unrecorded[-len(writes) - 1 :]:
            self.unrecorded.append(launch)

    def _find_late_writes(self, inputs: Sequence[Array]) -> None:
        """Find what NumPy has written into large inputs, of which only samples are compared before."""
        injected = {write.region for write in self._writes}
        for region in {cast("Region", array.region): None for array in inputs}:
            if region not in injected and (found := self._seen[region].changed_from_start()) is not None:
                self._inject(self._seen[region], *found)

    def _inject(self, seen: RecordedRegion, first: int, changed: Mask, origin: WriteOrigin = UNSEEN) -> None:
        """Store the bytes of a write outside the tape; see `OperationTape`.

        One that was found by comparison may be that of an operation which another tape recorded meanwhile.
        """
        if origin.call_site is None:
            found = self.history.written_by_others(seen.region, first, first + changed.size)
            if found is not None:
                origin = replace(origin, how="launch", call_site=found.call_site)
        super()._inject(seen, first, changed, origin)

    def was_input(self, array: Array) -> bool:
        """True if the last reverse pass left a gradient of an array."""
        return array in self._gradients

    def note_zeroed(self, call_site: Place | None = None) -> None:
        """Note that the program has zeroed the gradients that reverse passes of this tape have used."""
        zeroed = [
            array
            for array in self._inputs()
            if (gradient := array.current_gradient()) is not None and not gradient.any()
        ]
        self.history.note_zeroed(self.id, len(self.operations), zeroed, call_site)

    def _see(self, region: Region) -> RecordedRegion:
        if self._unwritten and self._unwritten.take(cast("WatchedRegion", region)):
            self.unwritten[region] = None
        if self._unwritten is not None and self._unwritten.take_given(cast("WatchedRegion", region)):
            self.given.add(region)
        return super()._see(region)

    def note_perhaps_written(self, array: WatchedArray | None = None) -> None:
        """Note that something off the tape may write an array from now on; without one, any memory."""
        for region in list(self.unwritten) if array is None else [array.region]:
            if self.unwritten.get(region, 0) is None:
                self.unwritten[region] = len(self.operations)

    def note_requires_grad(self, array: WatchedArray, value: bool, place: Place) -> None:
        """Note where the program has set `requires_grad` of an array."""
        self._settings[memory_key(array)] = value, place

    def _before_pass(self, inputs: Sequence[Array]) -> None:
        """Store the gradients of the inputs before a reverse pass of the program."""
        self._find_late_writes(inputs)
        self._gradients = {array: array.current_gradient() for array in inputs}
        for array in inputs:
            if tensor_of(array) is not None:
                self.history.shared.note_viewed(array)
        if not self.reverse_passes:
            self.inherited = [
                a for a, values in self._gradients.items() if values is not None and values.any()
            ]

    def note_gradients(self, seeds: Collection[WarpArray] = ()) -> None:
        """Use, for launches and fills, the gradients that their arrays have when a reverse pass begins.

        Warp's reverse pass asks each array of a launch for its gradient then. Structs hold the gradients that
        their arrays had when they became fields, and copies are recorded or not when they run.

        Args:
            seeds: The arrays to which `backward` gives a seed, and a gradient if they have none.
        """
        given = {id(array) for array in seeds}
        now: dict[WatchedArray, WatchedArray] = {}
        for arrays in self.regions.values():
            for array in cast("dict[WatchedArray, None]", arrays):
                if array.is_float and (found := self._as_reversed(array, id(array.source) in given)):
                    now[array] = found
        if not now:
            return
        self._restore()
        for index, operation in enumerate(self.operations):
            if isinstance(operation, WarpLaunch):
                direct = {a for leaf in operation.leaves if len(leaf.path) == 1 and (a := leaf.array) in now}
            elif operation.kind == "fill":
                direct = {access.array for access in operation.accesses if access.array in now}
            else:
                continue
            if direct:
                found = with_arrays(operation, lambda a, direct=direct: now[a] if a in direct else a)  # type: ignore[misc]
                found.accesses = [
                    access._replace(active=access.array.requires_grad) for access in found.accesses
                ]
                self.operations[index] = found
                for array in direct:
                    self._note_set_later(now[array], operation)
        self.regions = arrays_by_region(self.operations)
        self.templates.clear()
        self.given_values = None
        self._verified = 0

    def _as_reversed(self, array: WatchedArray, seeded: bool) -> WatchedArray | None:
        """Return an array with the gradient that a reverse pass finds; None if that is the recorded one."""
        source = array.source
        if source is None or not source.ptr or source.ptr != array.address:
            return None
        gradient = source.grad
        if gradient is None and seeded and not array.requires_grad:
            found = copy.copy(array)
            found.requires_grad = True
            return found
        at = None if gradient is None else gradient.ptr
        return None if at == array.gradient_address else self.memory.array_of(source)

    def _note_set_later(self, array: WatchedArray, operation: ExecutableOperation) -> None:
        setting = self._settings.get(memory_key(array))
        if setting is not None and setting[0] == array.requires_grad:
            value, place = setting
            text = SET_LATER[value].format(
                name=next(iter(self.names(array)), "an array"),
                place=f"{display_file(place.file)}:{place.line}",
                operation=f"operation {operation.index} ({operation.name})",
            )
            self.set_later.setdefault((memory_key(array), value), text)

    def note_structs(self, arguments: Arguments) -> None:
        """Store what structs of launches hold now, if they have changed since."""
        self.structs = {}
        for index, launch in self.launches.items():
            found = None
            if launch.given:
                found = present_structs(launch, arguments, self.regions, self._budget)
            launch.as_reversed = found
            if found is not None:
                self.structs[index] = found

    def note_consumed(self) -> None:
        """Store what a reverse pass of the program has just added to the gradients of the inputs."""
        self.consumed = {}
        for array in self._gradients:
            tensor = tensor_of(array)
            if tensor is not None and tensor.requires_grad and tensor.is_leaf and tensor.grad is None:
                name = next(iter(self.names(array)), "an input")
                self.gaps[LEFT_BEHIND.format(name=name)] = 1
        if any(write.settled for write in self._writes):
            self.gaps[MOVED_ON] = 1
            return
        for array, before in self._gradients.items():
            gradient = array.current_gradient() if array.region not in self._not_recorded else None
            if gradient is not None and before is not None and is_float(gradient.dtype):
                added = gradient - before
                rounding = float_info(added.dtype).eps * norm_of(before)
                if np.isfinite(rounding) and not rounding > SUM_ROUNDING * norm_of(added):
                    self.consumed[memory_key(array)] = added

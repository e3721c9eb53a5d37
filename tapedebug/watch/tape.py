"""Tapes of NVIDIA Warp, as the debugger sees them."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from types import FrameType
from typing import Any, Literal, TypeVar, cast

import numpy as np

from tapedebug._float_types import float_info, is_float
from tapedebug._names import find_names
from tapedebug._source import display_file
from tapedebug.contract import (
    Array,
    ArrayMemory,
    ArrayOrigins,
    Arrivals,
    ConsumedGradients,
    ElementTracking,
    Engine,
    EngineCoverage,
    Irreplayable,
    LocalReplays,
    Operation,
    OutsideReads,
    Place,
    ProgramArrays,
    RecordedTape,
    RecordingGaps,
    Replay,
    Rerecording,
    ReverseDivergence,
    Seeds,
    SharedGradient,
    SharedGradients,
    StructChanges,
    Tangents,
    ThreadScheduling,
    UnrecordedLaunch,
    UnrecordedLaunches,
    Values,
    ValueSamples,
    WarpReverse,
    memory_key,
    share_bytes,
)
from tapedebug.operations import (
    ExecutableOperation,
    HostOperation,
    OperationReplay,
    OperationTangentReplay,
    OperationTape,
    PushesTangents,
    Region,
    RunsInFloat64,
    SnapshotBudget,
)
from tapedebug.operations.outside_writes import UNSEEN, WriteOrigin
from tapedebug.operations.pass_history import norm_of
from tapedebug.operations.recorded_memory import RecordedRegion
from tapedebug.operations.replay_memory import IdleReplays
from tapedebug.watch.arguments import Arguments
from tapedebug.watch.builtin_operations import CopyOperation
from tapedebug.watch.earlier_launches import EarlierLaunch
from tapedebug.watch.hooks import look_up
from tapedebug.watch.host_transfers import HostTransfers
from tapedebug.watch.launch import LaunchTemplate, PresentStructs, WarpLaunch
from tapedebug.watch.memory import MemoryMap, WarpArray, WatchedArray, WatchedRegion, tensor_of
from tapedebug.watch.mirror import (
    AdjointComparison,
    MirroredElementTracking,
    MirroredThreadScheduling,
    verify_mirrors,
)
from tapedebug.watch.shared_history import SharedHistory, WatchedHistory
from tapedebug.watch.struct_changes import WarpStructChanges, present_structs
from tapedebug.watch.unwritten_memory import UnwrittenMemory

T = TypeVar("T")
Mask = np.ndarray[Any, np.dtype[np.bool_]]

LOST = (
    "values that the tape found were overwritten outside of Warp before they were copied: raise memory_budget"
)

INHERITED = (
    "the gradient of {name} was not zero when the reverse pass of this tape began: what the pass added to it "
    "was checked, not the sum"
)

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

Computed = tuple[Literal["launch", "copy", "call"], str, Sequence[WatchedArray]]
"""An operation that writes arrays: its kind, its name, and the arrays that it reads."""

MOST_UNRECORDED = 1000
"""Largest number of launches off a tape that it stores."""

SUM_ROUNDING = 1e-6
"""The rounding of a gradient, as a part of a pass's addition to it, up to which that can be compared."""

REPLAYED = (ElementTracking, LocalReplays, Tangents, ThreadScheduling)
"""The capabilities of tapes whose launches this engine runs."""

DEVICE = "writes to arrays on a device are noticed only if a function of Warp makes them"


class WatchedTape(OperationTape):
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
        self.transfers = HostTransfers()
        self._verified = 0
        arrays = _Arrays(memory, self.history, self.given)
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

    def verify(self) -> None:
        """Compare the results of launches that this engine runs, too, with Warp's, unless that was done."""
        if self._verified < len(self.operations):
            self._verified = len(self.operations)
            self.look()
            verify_mirrors(self, self.launches, self.history.shared.mirrored)

    def array(self, source: WarpArray) -> WatchedArray:
        """Return the array of the contract for an array of Warp."""
        return self.memory.find(source)

    def find_names(self, frame: FrameType) -> None:
        """Search the variables of the program for names of the tape's arrays."""
        self.note_names(look_up("warp:array"), frame, self.memory.find)

    def note_gap(self, text: str) -> None:
        """Note that a part of the program is not covered; equal notes are counted."""
        self.gaps[text] = self.gaps.get(text, 0) + 1

    def _before_pass(self, inputs: Sequence[Array]) -> None:
        """Store the gradients of the inputs before a reverse pass of the program."""
        self._find_late_writes(inputs)
        self._forget_unrecorded()
        self.shared_gradients = self._find_shared_gradients()
        self._gradients = {array: array.current_gradient() for array in inputs}
        for array in inputs:
            if tensor_of(array) is not None:
                self.history.shared.note_viewed(array)
        if not self.reverse_passes:
            self.inherited = [
                a for a, values in self._gradients.items() if values is not None and values.any()
            ]

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

    def arrays_with_gradient(self) -> list[WatchedArray]:
        """Return the arrays of the tape that have a gradient."""
        return [
            array
            for arrays in self.regions.values()
            for array in cast("dict[WatchedArray, None]", arrays)
            if array.requires_grad
        ]

    def read_first(self, arrays: Sequence[WatchedArray]) -> list[WatchedArray]:
        """Return those of some arrays whose values operations read before any writes their memory."""
        waiting = {array.region: array for array in arrays if memory_key(array) not in self.earlier}
        found = []
        for operation in self.operations if waiting else ():
            for access in operation.accesses:
                region = cast("WatchedRegion", access.array.region)
                if access.reads and region in waiting:
                    found.append(waiting.pop(region))
            for access in operation.accesses:
                if access.writes:
                    waiting.pop(cast("WatchedRegion", access.array.region), None)
            if not waiting:
                break
        return found

    def note_earlier(
        self, launch: EarlierLaunch, written: WatchedArray, sources: Sequence[WatchedArray], frame: FrameType
    ) -> None:
        """Note a launch or a copy that computed an array before the tape began to record.

        Args:
            launch: The launch.
            written: The array.
            sources: The arrays from which it computed, also by other such launches.
            frame: The first frame in which their names are searched.
        """
        wanted = {memory_key(array) for array in sources}
        names = find_names(
            look_up("warp:array"), lambda found: memory_key(self.memory.find(found)), wanted, frame
        )
        named = {array: next(iter(names.get(memory_key(array), ())), "an array") for array in sources}
        self.earlier[memory_key(written)] = launch, written, named

    def gradient_was_read(self, array: WatchedArray) -> bool:
        """True if the program read the gradient of an array after the last reverse pass of this tape."""
        passes = [e.clock for e in self.history.events() if e.kind == "backward" and e.tape == self.id]
        return bool(passes) and any(
            event.kind == "read" and event.of == "gradient" and event.clock > passes[-1]
            for event in self.history.shared.events([array.region])
        )

    def _find_shared_gradients(self) -> list[SharedGradient]:
        """Return neighbours in memory whose gradients overlap although their values do not, in that way."""
        placed = [
            (array.gradient_address + array.start - array.offset, array)
            for arrays in self.regions.values()
            for array in cast("dict[WatchedArray, None]", arrays)
            if array.gradient_address and array.address and array.size
        ]
        placed.sort(key=lambda item: item[0])
        found = []
        for (start, one), (following, other) in pairwise(placed):
            assert one.address and one.gradient_address and other.address and other.gradient_address
            apart = other.address - one.address != other.gradient_address - one.gradient_address
            if apart and following < start + one.stop - one.start:
                places = (self.memory.gradient_given(array.source) for array in (other, one))
                found.append(SharedGradient(one, other, next(filter(None, places), None)))
        return found

    def _find_late_writes(self, inputs: Sequence[Array]) -> None:
        """Find what NumPy has written into large inputs, of which only samples are compared before."""
        injected = {write.region for write in self._writes}
        for region in {cast("Region", array.region): None for array in inputs}:
            if region not in injected and (found := self._seen[region].changed_from_start()) is not None:
                self._inject(self._seen[region], *found)

    def _forget_unrecorded(self) -> None:
        """Forget launches off the tape of whose results it has used none, so that it does not keep these."""
        kept: list[UnrecordedLaunch] = []
        for launch in reversed(self.unrecorded):
            later = [array for each in kept for array in each.reads]
            if any(self.uses(a) or any(share_bytes(a, read) for read in later) for a in launch.writes):
                kept.append(launch)
        self.unrecorded = kept[::-1]

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
                found = _with_arrays(operation, lambda a, direct=direct: now[a] if a in direct else a)  # type: ignore[misc]
                found.accesses = [
                    access._replace(active=access.array.requires_grad) for access in found.accesses
                ]
                self.operations[index] = found
                for array in direct:
                    self._note_set_later(now[array], operation)
        self.regions = {}
        for operation in self.operations:
            for access in operation.accesses:
                self.regions.setdefault(cast("Region", access.array.region), {})[access.array] = None
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
            gradient = array.current_gradient()
            if gradient is not None and before is not None and is_float(gradient.dtype):
                added = gradient - before
                rounding = float_info(added.dtype).eps * norm_of(before)
                if np.isfinite(rounding) and not rounding > SUM_ROUNDING * norm_of(added):
                    self.consumed[memory_key(array)] = added


class _Arrays:
    """The capabilities `ProgramArrays`, `ArrayMemory` and `ArrayOrigins`."""

    def __init__(self, memory: MemoryMap, history: WatchedHistory, given: Collection[Region]) -> None:
        self._memory, self._history, self._given = memory, history, given
        self.kind: type = look_up("warp:array")

    def array_of(self, found: WarpArray, /) -> WatchedArray:
        """Return the array of the contract for an array of Warp."""
        return self._memory.find(found)

    def address(self, array: WatchedArray, /) -> int:
        """Return the address of the first element."""
        return array.region.address + array.offset

    def gradient_reads(self, array: WatchedArray, /) -> None:
        """Return None: reads through memory that Warp shares with PyTorch are not seen."""

    def given(self, array: WatchedArray, /) -> bool:
        """True if an array was made with values that differ, and first used by this tape."""
        return array.region in self._given

    def used_elsewhere(self, array: WatchedArray, /) -> bool:
        """True if another tape that still exists uses an array."""
        return self._history.others_use(array)

    def retains_gradient(self, array: WatchedArray, /) -> bool:
        """True if the program set `retain_grad`."""
        return bool(getattr(array.source, "retain_grad", False))


class _Consumed:
    """The capability `ConsumedGradients`."""

    def __init__(self, tape: WatchedTape) -> None:
        self._tape = tape

    def consumed(self, array: Array, /) -> Values | None:
        """Return what the last reverse pass added to the gradient of an input; None if it is not known."""
        return self._tape.consumed.get(memory_key(array))


class _SharedGradients:
    """The capability `SharedGradients`."""

    def __init__(self, tape: WatchedTape) -> None:
        self._tape = tape

    def shared(self) -> Sequence[SharedGradient]:
        """Return pairs of arrays whose gradients were the same memory when the last reverse pass began."""
        return self._tape.shared_gradients


class _Gaps:
    """The capability `RecordingGaps`."""

    def __init__(self, tape: WatchedTape) -> None:
        self._tape = tape

    def notes(self) -> list[str]:
        """Return what is not covered, as sentences; launches that only Warp can run compute in float32."""
        native: Counter[tuple[str, str]] = Counter()
        for launch in self._tape.launches.values():
            if launch.mirrored is None and not launch.obstacle:
                native[launch.name, launch.mirror_obstacle] += 1
        gaps = [text if count == 1 else f"{text} (×{count})" for text, count in self._tape.gaps.items()]
        for (name, reason), count in native.items():
            launches = f"{count} launches" if count > 1 else "1 launch"
            gaps.append(f"{launches} of {name} can only be run by Warp, in float32: {reason}")
        later = self._tape.later_operations
        if later:
            names = Counter(operation.name for operation in later).items()
            listed = ", ".join(name if count == 1 else f"{name} (×{count})" for name, count in names)
            gaps.append(f"recorded after the last reverse pass, and no part of it: {listed}")
        gaps += self._tape.set_later.values()
        gaps += [LOST] if self._tape.lost else []
        for array in self._tape.inherited:
            name = next(iter(self._tape.names(array)), "an input")
            gaps.append(INHERITED.format(name=name))
        return gaps if all(region.on_host for region in self._tape.regions) else [*gaps, DEVICE]


WAYS = {
    "mirrored": "mirrored launches run again in tapedebug's translation of their kernels, also in float64",
    "native": "native launches run again in Warp itself, in float32",
    "not covered": "",
}
"""The ways in which launches run again, each with a sentence."""


class _Coverage:
    """The capability `EngineCoverage`."""

    def __init__(self, tape: WatchedTape) -> None:
        self._tape = tape

    def counts(self) -> dict[str, int]:
        """Return the number of launches by way."""
        counts = dict.fromkeys(WAYS, 0)
        for operation in self._tape.operations:
            if operation.kind == "kernel":
                counts[_way(operation)] += 1
        return counts

    def notes(self) -> list[str]:
        """Return a sentence for each way in which launches run again."""
        found = [WAYS[way] for way, count in self.counts().items() if count and WAYS[way]]
        return [*found, *self._copies()]

    def _copies(self) -> list[str]:
        """Return a sentence for each way in which the adjoint of copies differs in older releases of Warp."""
        copies = [
            operation
            for operation in self._tape.operations
            if isinstance(operation, CopyOperation) and not operation.accumulates
        ]
        found: dict[str, list[str]] = {}
        for each in copies:
            later = (access for o in self._tape.operations[each.index + 1 :] for access in o.accesses)
            note, place = each.note(later), each.call_site
            if note and place is not None:
                found.setdefault(note, []).append(f"{display_file(place.file)}:{place.line}")
        return [f"{note} (at {', '.join(dict.fromkeys(places))})" for note, places in found.items()]


def _way(operation: Operation) -> str:
    if operation.capability(Irreplayable) is not None:
        return "not covered"
    return "native" if operation.capability(RunsInFloat64) is None else "mirrored"


def _pushes(operation: Operation) -> bool:
    return operation.capability(PushesTangents) is not None


class _Tangents:
    """The capability `Tangents`, if this engine runs all operations."""

    def __init__(self, tape: WatchedTape) -> None:
        self._tape = tape

    def tangent_replay(self, *, float64: bool = False) -> OperationTangentReplay:
        """Return a new replay that can push tangents."""
        self._tape.verify()
        return OperationTangentReplay(self._tape, float64)


class _Unrecorded:
    """The capability `UnrecordedLaunches`."""

    def __init__(self, tape: WatchedTape) -> None:
        self._tape = tape

    def launches(self) -> Sequence[UnrecordedLaunch]:
        """Return the launches and copies of whose results the tape used some afterwards.

        Those that only pass values on to others are followed.
        """
        found: list[UnrecordedLaunch] = []
        passed: list[tuple[Array, Sequence[Array]]] = []
        for launch in self._tape.unrecorded:
            reads = {array: None for array in launch.reads if self._tape.uses(array)}
            for array, sources in passed:
                if any(share_bytes(array, read) for read in launch.reads):
                    reads |= dict.fromkeys(sources)
            passed += [(array, list(reads)) for array in launch.writes]
            writes = [array for array in launch.writes if self._is_read(array, launch.at)]
            if writes:
                found.append(replace(launch, reads=list(reads), writes=writes))
        return [*self._earlier(), *found]

    def _earlier(self) -> list[UnrecordedLaunch]:
        """Return those that ran before the tape began to record."""
        found = []
        for launch, written, sources in self._tape.earlier.values():
            if not self._tape.uses(written):
                continue
            lost = {} if launch.is_reversed else sources
            reads = [array for array in lost if self._tape.uses(array)]
            unset = [
                name
                for array, name in lost.items()
                if not self._tape.uses(array)
                and (gradient := array.current_gradient()) is not None
                and not gradient.any()
                and self._tape.gradient_was_read(array)
            ]
            found.append(
                UnrecordedLaunch(
                    launch.name,
                    reads,
                    [written],
                    0,
                    launch.place,
                    kind=launch.kind,
                    earlier=True,
                    unset=unset,
                )
            )
        return found

    def _is_read(self, array: Array, at: int) -> bool:
        """True if an operation from number `at` on reads an array."""
        return self._tape.uses(array) and any(
            access.reads and share_bytes(access.array, array)
            for operation in self._tape.operations[at:]
            for access in operation.accesses
        )


class _WarpReverse:
    """The capability `WarpReverse`: Warp's adjoint kernels, measured beside exact adjoints."""

    consumed = True
    is_own = True

    def __init__(self, tape: WatchedTape) -> None:
        self._tape = tape
        self._comparison: AdjointComparison | None = None
        self._compared = 0, 0

    def _measured(self) -> AdjointComparison:
        """Return the comparison for the last reverse pass, which is made once."""
        now = len(self._tape.operations), len(self._tape.reverse_passes)
        if self._comparison is None or self._compared != now:
            self._compared = now
            self._comparison = AdjointComparison(self._tape, self._tape.launches)
            if self._tape.seeds:
                self._comparison.measure(self._tape.seeds)
        return self._comparison

    def divergences(self) -> Mapping[int, Sequence[ReverseDivergence]]:
        """Return the constructs of each launch whose adjoint kernel gives other adjoints than the exact one.

        If no construct is known to be reversed wrongly, it is the kernel as a whole.
        """
        found: dict[int, Sequence[ReverseDivergence]] = {}
        launches = self._tape.launches
        for index in self._measured().differences:
            mirrored = launches[index].mirrored
            if mirrored is not None:
                found[index] = mirrored.divergences()
        return found

    def left_out(self) -> Sequence[str]:
        """Return the kernels of which only some launches were compared."""
        return [
            f"Warp's adjoint kernel of {name} was compared for {compared} of {total} launches"
            for name, (compared, total) in self._measured().left_out.items()
        ]

    def commands(self) -> list[int]:
        """Return the launches of recorded commands, which are not on Warp's tape."""
        return [o.index for o in self._tape.operations if isinstance(o, WarpLaunch) and not o.taped]

    def rewritten(self, operation: int, /) -> frozenset[int]:
        """Return the parameters that an operation stores to and whose arrays keep their gradients."""
        return frozenset(
            access.param
            for access in self._tape.operations[operation].accesses
            if access.writes
            and not access.atomic
            and isinstance(access.array, WatchedArray)
            and getattr(access.array.source, "retain_grad", False)
        )

    def backward(
        self,
        replay: Replay,
        seeds: Seeds,
        operations: Collection[int],
        *,
        parts: bool = True,
        functions: bool = True,
        retained: bool = False,
    ) -> bool:
        """Run a replay forward and backward, with Warp's adjoint kernels for some operations.

        `parts` and `functions` are not distinguished.
        """
        if not isinstance(replay, OperationReplay):
            return False
        self._measured().backward(replay, seeds, operations, retains=retained)
        return True


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
    ThreadScheduling: lambda tape: MirroredThreadScheduling(tape.launches),
}
"""Capabilities for the launches that a tape has when they are asked for."""

MADE_LATER: Mapping[type, Callable[[WatchedTape], Any]] = {
    ConsumedGradients: _Consumed,
    EngineCoverage: _Coverage,
    RecordingGaps: _Gaps,
    SharedGradients: _SharedGradients,
    Rerecording: _Rerecording,
    Tangents: _Tangents,
    UnrecordedLaunches: _Unrecorded,
    WarpReverse: _WarpReverse,
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

        self.operations = [_with_arrays(operation, alive) for operation in tape.operations[:stop]]
        self.regions = {}
        for operation in self.operations:
            for access in operation.accesses:
                self.regions.setdefault(cast("Region", access.array.region), {})[access.array] = None

    def look(self) -> None:
        """Do nothing: later writes of the program are not visible here."""


def _range(array: WatchedArray) -> Hashable:
    return array.region, array.start, array.stop, array.shape, array.strides


def _with_arrays(operation: ExecutableOperation, changed: Callable[[WatchedArray], WatchedArray]) -> Any:
    """Return an operation with other arrays of the contract in place of its own."""
    found: Any = copy.copy(operation)
    found.args = [changed(arg) if isinstance(arg, WatchedArray) else arg for arg in operation.args]
    found.accesses = [
        access._replace(array=array, active=access.active or array.requires_grad)
        for access in operation.accesses
        for array in [changed(cast("WatchedArray", access.array))]
    ]
    if isinstance(operation, HostOperation):
        found.capabilities = {
            kind: found if each is operation else each for kind, each in operation.capabilities.items()
        }
    found.arrays_changed(changed)
    return found

"""Accesses of the threads of mirrored launches, element by element."""

from __future__ import annotations

import copy
import ctypes
import math
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any, Protocol, cast

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import BoundsError
from tapedebug.compiler.access_tags import tag_of
from tapedebug.contract import (
    Array,
    ElementConflicts,
    Operation,
    Replay,
    SuspectLaunches,
    Values,
)
from tapedebug.contract.element_tracking import ElementQuery, Mask
from tapedebug.lang import types
from tapedebug.operations import Memory, OperationReplay, OperationTape, Region
from tapedebug.runtime.launch.access_tags import (
    BEFORE,
    LAST,
    OUTSIDE,
    WRITES,
    AccessTags,
    epoch_of,
    surely_inside,
    surroundings,
)
from tapedebug.runtime.launch.print_buffer import PrintBuffer
from tapedebug.runtime.replay.tracked_elements import TrackedRun, is_plain
from tapedebug.runtime.tape.element_tracking import Tracking, run_private
from tapedebug.runtime.tape.record import Record
from tapedebug.watch.mirror.mirrored_launch import MirroredLaunch

ELSEWHERE = (
    "uninitialised-read was not looked for in arrays that were made before Warp was watched, or on a device"
)


class Tracked(Operation, Protocol):
    """A launch whose accesses can perhaps be tracked."""

    @property
    def tracked(self) -> MirroredLaunch | None:
        """The launch as this engine runs it, with the same parameters; None if it cannot."""


class MirroredElementTracking:
    """The capability `contract.ElementTracking` of a tape with mirrored launches.

    Args:
        tape: The tape.
        launches: Its launches, by index.
        unwritten: The memory that nothing had written when the tape first used it, each with the number of
            operations after which something off the tape may have done so, or None.
        complete: This is all memory that nothing had written.
    """

    def __init__(
        self,
        tape: OperationTape,
        launches: Mapping[int, Tracked],
        unwritten: Mapping[Region, int | None] = MappingProxyType({}),
        complete: bool = True,
    ) -> None:
        self._tape, self._launches = tape, launches
        self._unwritten, self._complete = unwritten, complete

    def arrays_in(self, region: Hashable, /) -> Sequence[Array]:
        """Return the ranges of a region that the tape uses, as arrays.

        If unwritten memory was copied into it, those of that memory are among them.
        """
        regions = {region: None}
        for operation in reversed(self._tape.operations):
            if operation.kind == "copy":
                dest, src = (access.array.region for access in operation.accesses[:2])
                if dest in regions and src in self._unwritten:
                    regions[src] = None
        return [array for each in regions for array in self._tape.regions.get(cast("Any", each), ())]

    def suspects(self) -> SuspectLaunches:
        """Return the launches that may have conflicts; nothing is run."""
        if len(self._tape.operations) > LAST:
            reason = f"tapes of more than {LAST} launches are not looked at element by element"
            return SuspectLaunches(untracked=[reason])
        kinds: dict[Any, list[int]] = {}
        untracked: dict[str, int] = {}
        for index, launch in self._launches.items():
            mirror = launch.tracked
            if mirror is None:
                untracked[launch.name] = untracked.get(launch.name, 0) + 1
                continue
            record = mirror.record
            plan: Any = record.plan
            race_checked, _ = surroundings(plan, record.args, set())
            if race_checked or not surely_inside(record):
                shapes = tuple(record.args[p].shape for p in plan.touched)
                key = plan.kernel, plan.active, race_checked, record.dim, shapes
                kinds.setdefault(key, []).append(index)
        found = SuspectLaunches(list(kinds.values()))
        for name, count in untracked.items():
            launches = f"{count} launches of {name} are" if count > 1 else f"1 launch of {name} is"
            found.untracked.append(f"{launches} run by Warp alone: the accesses of threads were not tracked")
        if not self._complete:
            found.untracked.append(ELSEWHERE)
        found.unwritten = [
            index
            for index, launch in self._launches.items()
            if launch.tracked is not None and any(a.array.region in self._unwritten for a in launch.accesses)
        ]
        return found

    def conflicts(
        self, replay: Replay, launches: Collection[int], if_unwritten: Collection[int] = (), /
    ) -> ElementConflicts:
        """Run a new replay of the tape with some launches tracked."""
        assert isinstance(replay, OperationReplay)
        replay.forward(stop=0)
        found = ElementConflicts()
        tracking: Tracking | None = None
        fresh = _FreshMemory(self._tape, self._unwritten if if_unwritten else {})
        last = max([*launches, *if_unwritten], default=-1)
        for index in range(last + 1):
            fresh.forget_written(index)
            operation = self._tape.operations[index]
            is_fresh = fresh.is_used_by(operation)
            if index not in launches and not (is_fresh and index in if_unwritten):
                if is_fresh:
                    fresh.note_whole(operation)
                continue
            mirror = self._launches[index].tracked
            assert mirror is not None
            replay.forward(replay.position, index)
            replay.load_outside(index)
            record = _numbered(mirror.record, index)
            if tracking is None:
                tracking = Tracking(_Records(), report=True)
            if is_fresh:
                fresh.show(tracking, mirror, operation)
            else:
                tracking.fresh = set()
            run = TrackedRun(_ReplayMemory(mirror, replay.memory), tracking, found=found)
            run.launch(record)
            if is_fresh:
                fresh.note_stamped(tracking, mirror, operation, record)
            try:
                replay.forward(index, index + 1)
            except BoundsError:  # it is reported, and later launches are not known
                found.ended_after = index if index < last else None
                break
        return found

    def accessed(
        self, replay: Replay, wanted: Collection[ElementQuery], /
    ) -> Mapping[ElementQuery, Mask] | None:
        """Return the elements that launches read or wrote, each launch with stamps of its own."""
        assert isinstance(replay, OperationReplay)
        found: dict[ElementQuery, Mask] = {}
        print_buffer = PrintBuffer()
        replay.forward(stop=0)
        for index in sorted({launch for launch, _, _ in wanted}):
            keys = [key for key in wanted if key[0] == index]
            launch = self._launches.get(index)
            if launch is None:  # a copy or a fill
                found |= {key: np.ones(key[1].shape, np.bool_) for key in keys}
                continue
            mirror = launch.tracked
            if mirror is None or not is_plain(mirror.record.kernel):
                return None
            replay.forward(replay.position, index)
            replay.load_outside(index)
            record = _numbered(mirror.record, index)
            tracking = Tracking(_Records([record]))
            variant = tracking.variant(record, frozenset())
            run_private(tracking, _ReplayMemory(mirror, replay.memory), record, variant, print_buffer)
            tracking.ran[index] = variant
            for key in keys:
                a = next((mirror.record.args[p] for p in _params(launch, key[1])), None)
                if a is None:
                    return None
                stamps = tracking.merged_stamps(a, index + 1).view(a, int(key[2] == "read")).max(axis=-1)
                found[key] = epoch_of(stamps) == index
        return found


class _FreshMemory:
    """The bytes of memory that operations have written, of memory that nothing had written before the tape.

    Args:
        tape: The tape.
        unwritten: The memory; see `MirroredElementTracking`.
    """

    def __init__(self, tape: OperationTape, unwritten: Mapping[Region, int | None]) -> None:
        self._tape, self._unwritten = tape, unwritten
        self._written: dict[Hashable, Mask] = {
            region: np.zeros(region.nbytes, np.bool_) for region in unwritten if region in tape.regions
        }

    def forget_written(self, index: int) -> None:
        """Forget memory of which every byte is written, or that something off the tape may have written."""
        changed = {write.region for write in self._tape.injections(index)} if self._written else set()
        for region in list(self._written):
            since = self._unwritten[cast("Region", region)]
            if region in changed or (since is not None and since <= index) or self._written[region].all():
                del self._written[region]

    def is_used_by(self, operation: Operation) -> bool:
        """True if an operation uses memory of which bytes are not written."""
        return bool(self._written) and any(a.array.region in self._written for a in operation.accesses)

    def show(self, tracking: Tracking, mirror: MirroredLaunch, operation: Operation) -> None:
        """Stamp what is written, so that a launch that runs tracked reports reads of the rest."""
        tracking.fresh = set()
        for region, arrays in self._own(mirror, operation).items():
            stamps = tracking.stamps(arrays[0])
            words = stamps.words[:, WRITES]
            words[:] = np.where(self._scalars(region, stamps), np.maximum(words, BEFORE_TAPE), 0)
            tracking.fresh.add(arrays[0].buffer)

    def note_stamped(
        self, tracking: Tracking, mirror: MirroredLaunch, operation: Operation, record: Record
    ) -> None:
        """Note what a launch that ran tracked has written."""
        for region, arrays in self._own(mirror, operation).items():
            stamps = tracking.stamps(arrays[0])
            for p in record.plan.touched:
                if record.args[p].buffer is arrays[0].buffer:
                    tracking._merge(stamps, record, p)
            written = np.repeat(stamps.words[:, WRITES] > 0, stamps.itemsize)
            self._written[region] |= written[: self._written[region].size]

    def note_whole(self, operation: Operation) -> None:
        """Note what an operation has written that did not run tracked: all of each array that it writes.

        What is copied from unwritten memory stays unwritten.
        """
        for access in operation.accesses:
            written = self._written.get(access.array.region)
            if written is None or not access.writes:
                continue
            target = _bytes_of(access.array, written)
            source = next((a.array for a in operation.accesses if a.reads), None)
            known = None if source is None else self._written.get(source.region)
            if operation.kind == "copy" and source is not None and known is not None:
                target[...] = _bytes_of(source, known).reshape(target.shape)
            else:
                target[...] = True

    def _own(self, mirror: MirroredLaunch, operation: Operation) -> dict[Region, list[Any]]:
        """Return the arrays of a mirrored launch in unwritten memory, by region; of one size of scalars."""
        found: dict[Region, list[Any]] = {}
        for a in (mirror.record.args[p] for p in mirror.record.plan.touched):
            region = mirror.region_of(a)
            if region in self._written:
                found.setdefault(cast("Region", region), []).append(a)
        for region, arrays in list(found.items()):
            if len({types.numpy_dtype(a.dtype).itemsize for a in arrays}) > 1:
                del found[region], self._written[region]
        return found

    def _scalars(self, region: Region, stamps: AccessTags) -> Mask:
        """Return the scalars of a region whose bytes are all written."""
        written = self._written[region]
        size = len(stamps.words) * stamps.itemsize
        whole = np.ones(size, np.bool_)
        whole[: written.size] = written
        found: Mask = np.all(whole.reshape(-1, stamps.itemsize), axis=1)
        return found


def _bytes_of(array: Array, mask: Mask) -> Mask:
    """Return an array as a view of a mask of the bytes of its region."""
    nbytes = array.scalar_dtype.itemsize * math.prod(array.element_shape)
    return np.ndarray((*array.shape, nbytes), np.bool_, mask.data, array.offset, (*array.strides, 1))


BEFORE_TAPE = tag_of(BEFORE, 0, 0) + OUTSIDE
"""The tag of memory that was written before a launch that is tracked."""


@dataclass(slots=True)
class _Records:
    """A `TrackedMemory` without writes from outside: what came before is not asked for."""

    records: Sequence[Record] = ()
    outside: Sequence[Any] = ()
    ledgers: Mapping[Any, Any] = field(default_factory=dict)


class _ReplayMemory:
    """The memory of a replay, as a `PrivateMemory` of one launch."""

    def __init__(self, mirror: MirroredLaunch, memory: Memory) -> None:
        self._mirror, self._memory = mirror, memory
        self._space = mirror.space(memory, memory, memory, False)

    def packed(self, record: Record, /) -> bytes:
        """Return the packed arguments of the launch."""
        _, _, address, _ = self._mirror.bound(self._memory)
        return ctypes.string_at(address, record.plan.kernel.layout.size)

    def value_view(self, record: Record, param: int, /) -> Values:
        """Return a view of the values of an argument."""
        return self._space.value_view(record.args[param])


def _numbered(record: Record, index: int) -> Record:
    """Return a record as that of an operation of the tape."""
    found = copy.copy(record)
    found.index = index
    return found


def _params(launch: Tracked, array: Array) -> Sequence[int]:
    """Return the parameters of a launch that are an array."""
    return [access.param for access in launch.accesses if access.array is array]

"""Accesses of the threads of mirrored launches, element by element."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np

from tapedebug._errors import BoundsError
from tapedebug.contract import (
    Array,
    ElementConflicts,
    Operation,
    Replay,
    SuspectLaunches,
    Values,
)
from tapedebug.contract.element_tracking import ElementQuery, Mask
from tapedebug.operations import Memory, OperationReplay, OperationTape
from tapedebug.runtime.launch.access_tags import LAST, epoch_of, surely_inside, surroundings
from tapedebug.runtime.launch.print_buffer import PrintBuffer
from tapedebug.runtime.replay.tracked_elements import TrackedRun, is_plain
from tapedebug.runtime.tape.element_tracking import Tracking, run_private
from tapedebug.runtime.tape.record import Record
from tapedebug.watch.mirror.mirrored_launch import MirroredLaunch

UNWRITTEN = "uninitialised-read was not looked for: it is not known which memory was never written"


class Tracked(Operation, Protocol):
    """A launch whose accesses can perhaps be tracked."""

    @property
    def tracked(self) -> MirroredLaunch | None:
        """The launch as this engine runs it, with the same parameters; None if it cannot."""


class MirroredElementTracking:
    """The capability `contract.ElementTracking` of a tape with mirrored launches.

    It is not known which memory was never written: unwritten memory is not looked for.

    Args:
        tape: The tape.
        launches: Its launches, by index.
    """

    def __init__(self, tape: OperationTape, launches: Mapping[int, Tracked]) -> None:
        self._tape, self._launches = tape, launches

    def arrays_in(self, region: Hashable, /) -> Sequence[Array]:
        """Return the ranges of a region that the tape uses, as arrays."""
        return list(self._tape.regions.get(cast("Any", region), ()))

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
        found.untracked.append(UNWRITTEN)
        return found

    def conflicts(
        self, replay: Replay, launches: Collection[int], if_unwritten: Collection[int] = (), /
    ) -> ElementConflicts:
        """Run a new replay of the tape with some launches tracked."""
        assert isinstance(replay, OperationReplay)
        replay.forward(stop=0)
        found = ElementConflicts()
        tracking: Tracking | None = None
        for index in sorted(launches):
            mirror = self._launches[index].tracked
            assert mirror is not None
            replay.forward(replay.position, index)
            replay.load_outside(index)
            record = _numbered(mirror.record, index)
            if tracking is None:
                tracking = Tracking(_Records(), report=True)
            run = TrackedRun(_ReplayMemory(mirror, replay.memory), tracking, found=found)
            run.launch(record)
            try:
                replay.forward(index, index + 1)
            except BoundsError:  # it is reported, and later launches are not known
                found.ended_after = index if index < max(launches) else None
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

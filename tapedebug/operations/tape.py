"""Tapes of executable operations, which an engine records and the debugger reads."""

from __future__ import annotations

import copy
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from tapedebug._clock import clock, tape_ids
from tapedebug._dataclass import dataclass
from tapedebug._display import renderer
from tapedebug._errors import TapeError
from tapedebug._float_types import is_short_float
from tapedebug._names import find_names
from tapedebug._tape_observers import enrol, notify
from tapedebug.contract import (
    A,
    Access,
    Array,
    Engine,
    Float64,
    History,
    Irreplayable,
    LocalReplays,
    Place,
    ReplayReuse,
    Values,
    memory_key,
)
from tapedebug.operations.memory import Bytes, Memory, Region
from tapedebug.operations.operation import ExecutableOperation, RunsInFloat64, caller_place
from tapedebug.operations.outside_writes import (
    UNSEEN,
    Injection,
    Mask,
    OutsideWrite,
    OutsideWrites,
    WriteOrigin,
)
from tapedebug.operations.pass_history import PassHistory
from tapedebug.operations.recorded_memory import GRAIN, RecordedRegion, SnapshotBudget, Touched
from tapedebug.operations.replay import OperationReplay
from tapedebug.operations.replay_memory import IdleReplays

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from tapedebug.operations.adjoint_values import When

T = TypeVar("T")


@dataclass(slots=True)
class Scope:
    """A named group of operations, `first … last` inclusive; `last` is None while it is open."""

    name: str
    parent: int | None
    first: int
    last: int | None = None


@dataclass(slots=True, eq=False)
class ReversePass:
    """A reverse pass that the program ran."""

    seeds: Mapping[Array, Values]
    preset: Sequence[Array]
    operation_count: int
    loss: Array | None
    seconds: float = 0.0
    off_tape: Sequence[Array] = ()
    _objective: Array | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if len(self.seeds) == 1:
            ((array, values),) = self.seeds.items()
            self._objective = array if values.size == 1 and values.item() == 1 else None

    @property
    def objective(self) -> Array | None:
        """The array of one float that has the only seed, 1."""
        return self._objective

    @property
    def unseeded(self) -> bool:
        """True if there was no seed."""
        return not self.seeds

    @property
    def stale(self) -> Sequence[Array]:
        """The arrays whose gradients held results of another tape; unknown here, so empty."""
        return ()


@dataclass(slots=True, eq=False)
class _SetAside:
    """Operations after the last reverse pass, with the writes and scopes of the whole recording."""

    operations: list[ExecutableOperation]
    injections: list[Injection]
    scopes: list[Scope]


class OperationTape:
    """A `contract.RecordedTape` of operations that can be run again.

    An engine calls `begin`, `record` for each operation, `end`, and enters `reverse_pass` around the
    program's own reverse pass.

    Args:
        engine: The engine, as reports name it.
        arrays: The arrays that exist when recording begins. The tape starts from their values at that time,
            even if an unrecorded write changes them before an operation uses them.
        preserves_values: The program's reverse pass reads the values that each operation had.
        listed: The tape belongs to the program and is in the list of live tapes.
        budget: The number of bytes for copies of what the tape found; by default there is no limit.
    """

    def __init__(
        self,
        engine: Engine,
        arrays: Collection[Array] = (),
        preserves_values: bool = False,
        *,
        listed: bool = True,
        budget: SnapshotBudget | None = None,
    ) -> None:
        self.engine = engine
        self.preserves_values = preserves_values
        self.id = next(tape_ids)
        self.created_at: Place = caller_place([type(self).__module__])
        self.began = self.ended = 0
        self.is_recording = False
        self.operations: list[ExecutableOperation] = []
        self.scopes: list[Scope] = []
        self.reverse_passes: list[ReversePass] = []
        self.capabilities: dict[type, Any] = {}
        self.regions: dict[Region, dict[Array, None]] = {}
        self.given_values: dict[int, When] | None = None
        self.history = PassHistory()
        self.idle_replays = IdleReplays()
        self._names: dict[Hashable, list[str]] = {}
        self._budget = SnapshotBudget() if budget is None else budget
        self._seen: dict[Region, RecordedRegion] = {}
        self._writes = OutsideWrites()
        self._ranges_written: dict[Hashable, list[tuple[int, int, int]]] = {}
        self._ranges_written_until: tuple[int, ExecutableOperation | None] = 0, None
        self._scope: int | None = None
        self._set_aside: _SetAside | None = None
        self._reversed_in_block = False
        for array in arrays:
            self.watch(array)
        if listed:
            enrol(self)

    def __repr__(self) -> str:
        return f"<{self.engine.name} tape {self.id}: {len(self.operations)} operations>"

    # -- recording --------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin or resume recording."""
        self._restore()
        self._reversed_in_block = False
        self.began = self.began or clock.tick()
        self.is_recording = True

    def end(self) -> None:
        """Stop recording.

        Operations after a reverse pass inside the same block are no part of it: unless values are preserved,
        it has not seen what they overwrite. They are `later_operations` until the tape records again or is
        reversed again.
        """
        self.is_recording = False
        self.ended = clock.tick()
        if self._reversed_in_block and not self.preserves_values:
            self._split(self.reverse_passes[-1].operation_count)
        notify("tape_exited", self)

    @property
    def later_operations(self) -> Sequence[ExecutableOperation]:
        """The operations after the last reverse pass, if that ran inside the block that recorded them."""
        return () if self._set_aside is None else self._set_aside.operations

    def _split(self, count: int) -> None:
        """Set all operations aside but the first `count`."""
        if count < len(self.operations):
            self._set_aside = _SetAside(self.operations[count:], self._writes.split(count), self.scopes)
            del self.operations[count:]
            self.scopes = [
                replace(scope, last=None if scope.last is None else min(scope.last, count - 1))
                for scope in self.scopes
                if scope.first < count
            ]
            self.given_values = None

    def _restore(self) -> None:
        """Add the operations that were set aside, before what was written since."""
        aside, self._set_aside = self._set_aside, None
        if aside is not None:
            self.operations += aside.operations
            self._writes.restore(aside.injections, len(self.operations))
            self.scopes = aside.scopes
            self.given_values = None

    def watch(self, array: Array) -> None:
        """Store the current content of an array as the one that the tape found, for later operations."""
        region = _region(array)
        if region not in self._seen:
            self._see(region)

    def _see(self, region: Region) -> RecordedRegion:
        found = self._seen[region] = RecordedRegion(region, self._budget)
        return found

    def record(self, operation: ExecutableOperation, run: Callable[[], T]) -> T:
        """Run an operation of the program, and record it.

        Args:
            operation: The operation; it gets its index, scope and time here.
            run: Runs it on the program's own memory.

        Returns:
            The result of `run`.
        """
        touched = self.touched(operation.accesses)
        self.find_writes(touched)
        started = perf_counter()
        result = run()
        self.add(operation, touched, perf_counter() - started)
        return result

    def touched(self, accesses: Sequence[Access]) -> list[Touched]:
        """Return the memory that accesses touch, which may be kept for later operations with equal ones."""
        found: dict[Hashable, Touched] = {}
        for access in accesses:
            array = access.array
            region = _region(array)
            seen = self._seen.get(region) or self._see(region)
            key = region, array.start, array.stop, access.writes
            each = found.get(key)
            if each is None:
                each = found[key] = Touched(seen, array.start, array.stop, access.writes)
            each.arrays.append(array)
        return list(found.values())

    def find_writes(self, touched: Sequence[Touched]) -> None:
        """Find writes outside the tape to memory of the next operation, and copy what it overwrites."""
        for each in touched:
            if not each.is_unchanged() and (found := each.seen.changed(each.start, each.stop)) is not None:
                self._inject(each.seen, *found)
            if each.writes:
                each.seen.preserve(each.start, each.stop)

    def add(self, operation: ExecutableOperation, touched: Sequence[Touched], seconds: float) -> None:
        """Record an operation that the program has run after `find_writes`."""
        described: Any = operation
        described.seconds = seconds
        described.index, described.scope = len(self.operations), self._scope
        self.operations.append(operation)
        self.given_values = None
        replayed = operation.capability(Irreplayable) is None
        for each in touched:
            if not each.is_listed:
                each.is_listed = True
                self.regions.setdefault(each.seen.region, {}).update(dict.fromkeys(each.arrays))
            if each.writes and replayed:  # what others write is found as an outside write
                each.note()

    def note_names(
        self, kind: type, frame: FrameType, array_of: Callable[[Any], Array] = lambda found: found
    ) -> None:
        """Search the program's variables for names of the tape's arrays.

        Args:
            kind: The class of the arrays that the program's variables hold.
            frame: The first frame.
            array_of: Function that converts such an object to the array of the tape.
        """
        wanted = {memory_key(array) for arrays in self.regions.values() for array in arrays}
        for key, names in find_names(kind, lambda found: memory_key(array_of(found)), wanted, frame).items():
            known = self._names.setdefault(key, [])
            known += [name for name in names if name not in known]

    def name_array(self, array: Array, name: str) -> None:
        """Give an array a name, beside those of variables."""
        known = self._names.setdefault(memory_key(array), [])
        if name not in known:
            known.append(name)

    def note_outside(self, array: Array, how: str, call_site: Place | None, at: int | None = None) -> None:
        """Note that the program has written an array outside the tape, if the tape uses its memory.

        Args:
            array: The array.
            how: The way it was written.
            call_site: The place in the program.
            at: The time, if the clock has advanced for this write already.
        """
        region = _region(array)
        if region in self._seen:
            self._look(region, array.start, array.stop, WriteOrigin(how, call_site, at))

    def about_to_write(self, array: Array) -> None:
        """Note that the program is about to write an array outside the tape."""
        region = _region(array)
        if region in self._seen:
            self._look(region, array.start, array.stop).preserve(array.start, array.stop)

    def note_zeroed(self, call_site: Place | None = None) -> None:
        """Note that the program has set all gradients to zero."""
        self.history.note_zeroed(self.id, len(self.operations), self._inputs(), call_site)

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Group the operations of a block under a name; groups nest."""
        self.open_scope(name)
        try:
            yield
        finally:
            self.close_scope()

    def open_scope(self, name: str) -> None:
        """Begin a group of operations inside the one that is open."""
        self.scopes.append(Scope(name, self._scope, len(self.operations)))
        self._scope = len(self.scopes) - 1

    def close_scope(self) -> None:
        """End the innermost group that is open, if there is one."""
        if self._scope is not None:
            scope = self.scopes[self._scope]
            scope.last, self._scope = len(self.operations) - 1, scope.parent

    @contextmanager
    def reverse_pass(
        self, seeds: Mapping[Array, Values], loss: Array | None = None, call_site: Place | None = None
    ) -> Iterator[None]:
        """Note a reverse pass, which the program runs inside the block.

        Gradients of arrays that the tape writes are part of its seeds if they are not zero when it begins.
        Seeds of arrays that no operation uses have no effect: the pass lists them as `off_tape`.

        Args:
            seeds: The gradients that the program is about to set.
            loss: The array that the program named as its loss.
            call_site: The place in the program.

        Raises:
            TapeError: Nothing was recorded.
        """
        if not self.operations:
            raise TapeError("backward: the tape is empty", hint="record operations first")
        self._restore()
        self._reversed_in_block = self.is_recording
        self.look()
        preset = self._preset(seeds)
        given = {a: np.array(values, a.scalar_dtype) for a, values in seeds.items() if self.uses(a)}
        off_tape = [a for a in seeds if a not in given]
        self._before_pass(inputs := self._inputs())
        began = self.history.begin(inputs)
        noted = ReversePass(
            {**preset, **given},
            list(preset),
            len(self.operations),
            loss if loss is None or self.uses(loss) else None,
            off_tape=off_tape,
        )
        started = perf_counter()
        yield
        noted.seconds = perf_counter() - started
        last = self.reverse_passes[-1] if self.reverse_passes else None
        again = last is not None and _repeats(last.seeds, noted.seeds)
        number = len(self.reverse_passes) + 1
        self.history.end(began, self.id, len(self.operations), number, again, call_site)
        for earlier in self.reverse_passes:
            earlier.seeds = {}
        self.reverse_passes.append(noted)
        notify("backward_done", self)

    def _before_pass(self, inputs: Sequence[Array]) -> None:
        """Do nothing; for engines that compare gradients before and after a reverse pass."""

    def _inputs(self) -> list[Array]:
        """Return the arrays with a gradient that operations only read, each range of memory once."""
        written = {array.region for array in self._written()}
        found: dict[Hashable, Array] = {}
        for operation in self.operations:
            for access in operation.accesses:
                if access.reads and access.array.requires_grad and access.array.region not in written:
                    found.setdefault(memory_key(access.array), access.array)
        return list(found.values())

    def _preset(self, given: Collection[Array]) -> dict[Array, Values]:
        found = {}
        for array in self._written():
            gradient = None if array in given else array.current_gradient()
            if gradient is not None and gradient.any():
                found[array] = gradient
        return found

    def _written(self) -> list[Array]:
        """Return the arrays that operations write, each range of memory once."""
        found: dict[Hashable, Array] = {}
        for operation in self.operations:
            for access in operation.accesses:
                if access.writes:
                    array = access.array
                    found.setdefault((array.region, array.start, array.shape, array.strides), array)
        return list(found.values())

    # -- memory -----------------------------------------------------------------------------------------

    def look(self) -> None:
        """Find writes outside the tape since the last comparison."""
        for region in list(self._seen):
            self._look(region, 0, region.nbytes)

    def _look(self, region: Region, start: int, stop: int, origin: WriteOrigin = UNSEEN) -> RecordedRegion:
        """Find a write outside the tape to a range; return what is stored of its region."""
        seen = self._seen.get(region)
        if seen is None:
            return self._see(region)
        found = seen.changed(start, stop)
        if found is not None:
            self._inject(seen, *found, origin)
        return seen

    def _inject(self, seen: RecordedRegion, first: int, changed: Mask, origin: WriteOrigin = UNSEEN) -> None:
        """Store the bytes of a write outside the tape that was found by comparison."""
        region, at = seen.region, len(self.operations)
        settled, passes = self._is_settled(), len(self.reverse_passes)
        earlier = None
        if settled and self._set_aside is None:
            earlier = self._writes.replaceable(at, region, passes)
        if earlier is not None:
            self._writes.remove(earlier, self._as_outside_writes(earlier))
            first, changed = earlier.with_later(first, changed)
        self._writes.add(
            Injection(
                at=at,
                settled=settled,
                clock=clock.tick() if origin.clock is None else origin.clock,
                call_site=origin.call_site,
                how=origin.how,
                region=region,
                start=first,
                changed=changed,
                content=region.values[first : first + changed.size].copy(),
                passes=passes,
            )
        )

    def _is_settled(self) -> bool:
        """True if a reverse pass has run over all operations recorded so far."""
        return bool(self.reverse_passes) and self.reverse_passes[-1].operation_count == len(self.operations)

    def last_writer(self, region: Region, start: int, stop: int) -> ExecutableOperation | None:
        """Return the last operation that wrote bytes of a region; None if others have written since."""
        seen = self._seen.get(region)
        late = self._writes.before(len(self.operations))
        if seen is None or not seen.is_unchanged(start, stop) or any(w.region is region for w in late):
            return None
        for index, low, high in reversed(self._writes_of(region)):
            if low < stop and start < high:
                return self.operations[index]
        return None

    def _writes_of(self, region: Region) -> Sequence[tuple[int, int, int]]:
        """Return index and range of each write of operations to a region, in order."""
        count, last = self._ranges_written_until
        if count > len(self.operations) or (count and self.operations[count - 1] is not last):
            self._ranges_written.clear()  # the tape was reset
            count = 0
        for operation in self.operations[count:]:
            for access in operation.accesses:
                if access.writes:
                    a = access.array
                    self._ranges_written.setdefault(a.region, []).append((operation.index, a.start, a.stop))
        if self.operations:
            self._ranges_written_until = len(self.operations), self.operations[-1]
        return self._ranges_written.get(region, ())

    def live_in(self, region: Hashable, /) -> Bytes:
        """Return the bytes that the tape found in a region."""
        return self._seen[cast("Region", region)].live_in()

    @property
    def lost(self) -> bool:
        """True if values that the tape found were overwritten outside before they were copied."""
        return any(self._seen[region].lost for region in self.regions)

    @property
    def stored_bytes(self) -> int:
        """The number of bytes that are stored of the program's memory."""
        return sum(seen.nbytes for seen in self._seen.values()) + sum(w.content.size for w in self._writes)

    def injections(self, at: int, /) -> list[Injection]:
        """Return the outside writes just before an operation, or after the last one."""
        found = self._writes.before(at)
        return [write for write in found if write.region in self.regions] if found else []

    @property
    def outside_writes(self) -> list[OutsideWrite]:
        """The writes to arrays of the tape that are not on it, in order; of many late ones, not all."""
        found = [each for write in self._writes for each in self._as_outside_writes(write)]
        replaced = self._writes.replaced
        return sorted([*replaced, *found], key=lambda write: write.clock) if replaced else found

    def _as_outside_writes(self, write: Injection) -> list[OutsideWrite]:
        return write.of(write.arrays(self.regions.get(cast("Region", write.region), ())))

    # -- the debugger's contract --------------------------------------------------------------------------

    @property
    def seeds(self) -> Mapping[Array, Values]:
        """The seeds of the last reverse pass; before the first one, the gradients of written arrays."""
        return self.reverse_passes[-1].seeds if self.reverse_passes else self._preset(())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        return renderer().panel(self)

    def _display_(self) -> Any:
        return renderer().marimo(self)

    def uses(self, array: Array, /) -> bool:
        """True if an operation accesses the array's region."""
        return array.region in self.regions

    def names(self, array: Array, /) -> list[str]:
        """Return the names of an array that `note_names` found, the best first."""
        return self._names.get(memory_key(array), [])

    def new_replay(self, *, float64: bool = False) -> OperationReplay:
        """Return a new replay.

        Raises:
            TapeError: A float64 replay is not possible.
        """
        self.look()
        obstacle = self._mixed_memory() if float64 else ""
        if obstacle:
            raise TapeError(f"replay: not in float64: {obstacle}", hint="leave out float64")
        return OperationReplay(self, float64)

    def capability(self, kind: type[T], /) -> T | None:
        """Return the implementation of a capability protocol, or None."""
        if kind is Float64:
            return cast("T", _InFloat64(self))
        if kind is LocalReplays:
            return cast("T", _LocalReplays(self))
        if kind is ReplayReuse:
            return cast("T", self.idle_replays)
        if kind is History:
            return cast("T", self.history)
        return cast("T | None", self.capabilities.get(kind))

    def wide_regions(self) -> Mapping[Hashable, np.dtype[Any]]:
        """Return the regions that a float64 replay widens, with the dtype that they have in the program."""
        return {
            region: array.scalar_dtype
            for region, arrays in self.regions.items()
            for array in arrays
            if is_short_float(array.scalar_dtype)
        }

    def float64_obstacle(self) -> str:
        """Return why a float64 replay is not possible, or not entirely in float64; empty if it is."""
        narrow = self.narrow_operations()
        if narrow:
            first, others = narrow[0], len(narrow) - 1
            more = f", as do {others} more" if others else ""
            return f"operation {first.index} ({first.name}) computes in float32{more}"
        return self._mixed_memory()

    def narrow_operations(self) -> list[ExecutableOperation]:
        """Return the operations that compute in float32 in a float64 replay."""
        return [
            o
            for o in self.operations
            if o.capability(RunsInFloat64) is None and o.capability(Irreplayable) is None
        ]

    def _mixed_memory(self) -> str:
        """Return why memory cannot hold shorter floats as float64; empty if it can."""
        for region, arrays in self.regions.items():
            kinds = {a.scalar_dtype for a in arrays}
            for kind in filter(is_short_float, kinds):
                if len(kinds) > 1 or region.nbytes % GRAIN % kind.itemsize:
                    return "arrays of several types share memory"
        return ""


@dataclass(frozen=True, slots=True)
class _InFloat64:
    """The capability `contract.Float64` of a tape."""

    tape: OperationTape

    def obstacle(self) -> str:
        """Return why a float64 replay is not possible, or not entirely in float64; empty if it is."""
        return self.tape.float64_obstacle()

    def narrow(self) -> list[int]:
        """Return the indices of the operations that compute in float32 in a float64 replay."""
        return [operation.index for operation in self.tape.narrow_operations()]


@dataclass(frozen=True, slots=True)
class _LocalReplays:
    """The capability `contract.LocalReplays` of a tape."""

    tape: OperationTape

    def new_replay(
        self, index: int, values: Mapping[A, Values], /, *, float64: bool = False
    ) -> OperationReplay:
        """Return a replay of one operation, from these values.

        Raises:
            TapeError: The operation has no float64 form.
        """
        return _OneOperation(self.tape, index, values).new_replay(float64=float64)


class _OneOperation(OperationTape):
    """A tape with one operation of another tape, which starts from given values."""

    def __init__(self, tape: OperationTape, index: int, values: Mapping[A, Values]) -> None:
        super().__init__(tape.engine, listed=False)
        operation: Any = copy.copy(tape.operations[index])
        operation.index, operation.scope = 0, None
        self.operations.append(operation)
        for access in operation.accesses:
            self.regions.setdefault(_region(access.array), {})[access.array] = None
        found = Memory({region: region.fetched(0, region.nbytes) for region in self.regions})
        for array, content in values.items():
            if array.region in found.bytes:
                found.view(array)[...] = content
        budget = SnapshotBudget()
        self._seen = {r: RecordedRegion(Region(found.bytes[r]), budget) for r in self.regions}

    def look(self) -> None:
        """Do nothing: later writes of the program are not visible here."""


def _repeats(earlier: Mapping[Array, Values], later: Mapping[Array, Values]) -> bool:
    """True if a pass starts from all seeds of an earlier one, given again or left in their gradients."""
    return bool(earlier) and all(a in later and np.array_equal(earlier[a], later[a]) for a in earlier)


def _region(array: Array) -> Region:
    region = array.region
    assert isinstance(region, Region)
    return region

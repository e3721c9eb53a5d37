"""Conversion of a tape to a trace: plain data, on demand."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator
from dataclasses import field
from types import FrameType
from typing import Any, Literal
from uuid import uuid4

from tapedebug._dataclass import dataclass
from tapedebug._environment import environment
from tapedebug._gc_pause import gc_paused
from tapedebug._interval_index import IntervalIndex
from tapedebug._names import find_names
from tapedebug._source import display_file
from tapedebug._tape_functions import register
from tapedebug._tape_observers import program_tape, recorded_tape
from tapedebug.contract import (
    Access,
    Array,
    KernelSource,
    Operation,
    Place,
    RecordedTape,
    Retention,
    arrays_overlap,
    memory_key,
    overwrite_mode,
)
from tapedebug.trace._events import events_of
from tapedebug.trace._kernels import kernel_info, mark_needed
from tapedebug.trace._labels import choose_labels
from tapedebug.trace._naming import candidate_names
from tapedebug.trace._versions import VersionBook, set_fates
from tapedebug.trace.engine_notes import OWN_ENGINE, engine_notes, engine_title
from tapedebug.trace.missing_capabilities import missing_capabilities
from tapedebug.trace.model import (
    Argument,
    ArrayInfo,
    Backward,
    KernelInfo,
    Launch,
    Location,
    Role,
    Scope,
    TapeInfo,
    Trace,
    Version,
)
from tapedebug.trace.repeats import sequences_of

MAX_BYTES = 1 << 28
MAX_SECONDS = 60.0
PLAIN = frozenset({bool, int, float, str, type(None)})
"""The types of arguments that a trace holds unchanged."""


@register
def record(
    tape: RecordedTape,
    *,
    values: bool | Literal["arrays"] = False,
    max_bytes: int = MAX_BYTES,
    max_seconds: float | None = MAX_SECONDS,
    name: str | None = None,
) -> Trace:
    """Return the content of `tape` as a `Trace`.

    Args:
        tape: The tape. It is not changed.
        values: True: also summarise values and adjoints of every version, by replaying the tape in private
            memory. `"arrays"`: keep the values and adjoints themselves, too, for `Trace.values`,
            `Trace.adjoints` and files.
        max_bytes: The size limit of `"arrays"`, in the order of the launches; the rest has summaries only.
        max_seconds: The time limit of the replay; None for no limit. The trace's `notes` list what was left
            out because of a limit.
        name: The name of the trace; by default that of the variable that holds the tape.

    Raises:
        ValueError: `values` has another value, or a limit is not a number or is negative.
    """
    if values not in (False, True, "arrays"):
        raise ValueError(f'trace: values is False, True or "arrays"; got {values!r}')
    for parameter, limit in (("max_bytes", max_bytes), ("max_seconds", max_seconds)):
        number = isinstance(limit, (int, float)) and not isinstance(limit, bool) and limit >= 0
        if not number and not (limit is None and parameter == "max_seconds"):
            raise ValueError(f"trace: {parameter} is a number of 0 or more; got {limit!r}")
    recorded = record_with_arrays(recorded_tape(tape), name=name)
    if values:
        from tapedebug.trace.replayed_values import add_summaries

        keep = max_bytes if values == "arrays" else None
        add_summaries(recorded, max_seconds=max_seconds, keep_bytes=keep)
    return recorded.trace


@dataclass(slots=True)
class TraceBinding:
    """A trace, the tape that it shows, and the arrays of the tape by their ids in the trace.

    `outside`: for each launch the versions that were written outside the tape just before it.
    """

    trace: Trace
    arrays: list[Array]
    tape: RecordedTape
    outside: dict[int, list[Version]] = field(default_factory=dict)
    _ids: dict[Hashable, int] = field(default_factory=dict, init=False, repr=False, compare=False)

    def id_of(self, array: Array) -> int | None:
        """Return the id of the memory range that an array covers; None if the tape never used it."""
        if not self._ids:
            for number, own in enumerate(self.arrays):
                self._ids.setdefault(memory_key(own), number)
        return self._ids.get(memory_key(array))


@register
def record_with_arrays(
    tape: RecordedTape, *, name: str | None = None, longest_names: bool = False
) -> TraceBinding:
    """Return the trace of `record(tape)` together with the tape and its arrays; see `record`."""
    builder = _Builder(tape)
    with gc_paused():
        trace = builder.build(sys._getframe(1), longest_names)
    trace.name = name or _tape_name(tape)
    return TraceBinding(trace, builder.arrays, tape, builder.outside)


_PROCESS = uuid4().hex


def recording_of(tape: RecordedTape) -> str:
    """Return the id of the current recording of a tape: a tape that is reset begins a new one."""
    return f"{_PROCESS}-{tape.id}-{tape.began}"


def is_of(trace: Trace, tape: RecordedTape) -> bool:
    """True if a trace shows the current content of a tape: nothing was recorded or reset since."""
    return trace.recording == recording_of(tape) and trace.tape.launches == len(tape.operations)


def location_of(place: Place) -> Location:
    """Return a place of the contract as a location of the trace."""
    return Location(
        file=display_file(place.file), line=place.line, column=place.column, function=place.function
    )


def _tape_name(tape: RecordedTape) -> str:
    own = program_tape(tape)
    names = find_names(type(own), id, [id(own)]).get(id(own))
    return names[0] if names else f"tape {tape.id}"


class _Builder:
    """One pass over the operations of a tape."""

    def __init__(self, tape: RecordedTape) -> None:
        self.tape = tape
        self.arrays: list[Array] = []
        self.ids: dict[Hashable, int] = {}
        self.by_object: dict[int, int] = {}
        self.buffers: dict[int, int] = {}
        self.kernels: dict[Hashable, KernelInfo] = {}
        self.requires_grad: list[bool] = []
        self.in_buffer: dict[int, IntervalIndex] = {}
        self.places: dict[int, tuple[Place, Location]] = {}
        self.marked: set[tuple[int, Hashable]] = set()
        self.is_array: dict[type, bool] = {}
        self.needed_after: list[list[int]] = []
        self.outside: dict[int, list[Version]] = {}

    def build(self, frame: FrameType, longest_names: bool) -> Trace:
        tape = self.tape
        launches = [self._launch(item) for item in tape.operations]
        book = VersionBook([self._overlapping(number) for number in range(len(self.arrays))])
        outside: dict[int, list[Array]] = {}
        for event in tape.outside_writes:
            outside.setdefault(event.at, []).append(event.array)
        for launch in launches:
            for a in outside.get(launch.index, ()):
                versions = book.write_outside(self._overlapping_arrays(a))
                self.outside.setdefault(launch.index, []).extend(versions)
            book.add(launch.index, launch.args, self.needed_after[launch.index])
        versions = book.finish()
        set_fates(versions, launches, tape)
        parents = [self._parent(number) for number in range(len(self.arrays))]
        candidates, sure = candidate_names(tape, self.arrays, parents, launches, frame)
        labels = choose_labels(candidates, sure, longest=longest_names)
        arrays = [self._info(number, label, parents[number]) for number, label in enumerate(labels)]
        events, dropped = events_of(tape, self.arrays, self._place)
        retention = tape.capability(Retention)
        trace = Trace(
            name="",
            tape=TapeInfo(
                id=tape.id,
                on_overwrite=overwrite_mode(tape),
                launches=len(launches),
                backward_runs=len(tape.reverse_passes),
                preserved_bytes=0 if retention is None else retention.preserved_bytes,
                livein_bytes=0 if retention is None else retention.livein_bytes,
                began=tape.began,
                ended=tape.ended,
                engine=engine_title(tape),
            ),
            kernels=list(self.kernels.values()),
            arrays=arrays,
            launches=launches,
            scopes=self._scopes(launches),
            versions=versions,
            backward=self._backward(),
            events=events,
            events_dropped=dropped,
            environment=_environment_of(tape),
            recording=recording_of(tape),
        )
        if tape.engine.name != OWN_ENGINE:
            trace.coverage.notes += [*engine_notes(tape), *missing_capabilities(tape)]
        _set_roles(trace)
        trace.sequences = sequences_of(trace)
        return trace

    # ------------------------------------------------------------------ arrays

    def array_id(self, a: Array) -> int | None:
        """Return the id of an array that the tape used."""
        return self.ids.get(memory_key(a))

    def _enter(self, a: Array) -> int:
        known = self.by_object.get(id(a))
        if known is not None:
            return known
        key = memory_key(a)
        number = self.ids.get(key)
        if number is None:
            number = self.ids[key] = len(self.arrays)
            self.arrays.append(a)
            self.requires_grad.append(False)
            region = id(a.region)
            if region not in self.buffers:
                self.buffers[region] = len(self.buffers)
                self.in_buffer[region] = IntervalIndex()
            self.in_buffer[region].add(a.start, a.stop, number)
        if a.requires_grad:
            self.requires_grad[number] = True
        self.by_object[id(a)] = number
        return number

    def _overlapping(self, number: int) -> list[int]:
        mine = self.arrays[number]
        return [
            other
            for other in self._near(mine)
            if other != number and arrays_overlap(mine, self.arrays[other])
        ]

    def _overlapping_arrays(self, a: Array) -> list[int]:
        """Return the ids of the tape's arrays that share bytes with an array."""
        known = self._near(a) if id(a.region) in self.in_buffer else ()
        return [number for number in known if arrays_overlap(a, self.arrays[number])]

    def _near(self, a: Array) -> Iterator[int]:
        """Yield the arrays of the same memory that may share bytes with `a`, and `a` itself."""
        return self.in_buffer[id(a.region)].near(a.start, a.stop)

    def _info(self, number: int, label: str, parent: int | None) -> ArrayInfo:
        a = self.arrays[number]
        return ArrayInfo(
            id=number,
            label=label,
            dtype=a.dtype_name,
            shape=list(a.shape),
            requires_grad=self.requires_grad[number],
            buffer=self.buffers[id(a.region)],
            start=a.start,
            stop=a.stop,
            parent=parent,
        )

    def _parent(self, number: int) -> int | None:
        """Return the smallest array of the tape that contains all bytes of this one, and more."""
        mine = self.arrays[number]
        best: int | None = None
        for other in self._near(mine):
            theirs = self.arrays[other]
            if other == number or not theirs.is_contiguous:
                continue
            holds = theirs.start <= mine.start and mine.stop <= theirs.stop and _size(theirs) > _size(mine)
            if holds and (best is None or _size(theirs) < _size(self.arrays[best])):
                best = other
        return best

    # ---------------------------------------------------------------- launches

    def _launch(self, item: Operation) -> Launch:
        kernel = self._kernel(item.capability(KernelSource))  # an engine may learn from it what adjoints need
        accesses: dict[int, Access] = {}
        late: list[int] = []
        for access in item.accesses:
            accesses[access.param] = access
            if access.needs_after:
                late.append(access.param)
        self.needed_after.append(late)
        args = []
        for number, value in enumerate(item.args):
            found = accesses.get(number)
            if found is not None:
                arg = Argument(
                    name=found.name,
                    array=self._enter(found.array),
                    reads=found.reads,
                    writes=found.writes,
                    needed=found.needs_before,
                )
                if found.writes and found.active and found.array.is_float:  # perhaps no longer, by the array
                    self.requires_grad[arg.array or 0] = True
            elif type(value) in PLAIN:
                arg = Argument(name=item.param_name(number), value=value)
            elif self._is_array(value):
                arg = Argument(name=item.param_name(number), array=self._enter(value))
            else:
                arg = Argument(name=item.param_name(number), value=_as_json(value))
            args.append(arg)
        return Launch(
            index=item.index,
            kind=item.kind,
            kernel=kernel,
            name=item.name,
            dim=list(item.dim),
            args=args,
            scope=item.scope,
            seconds=item.seconds,
            backward_seconds=item.backward_seconds,
            call_site=self._place(item.call_site),
        )

    def _is_array(self, value: object) -> bool:
        """True if an argument that the operation does not access is an array."""
        kind = type(value)
        if kind not in self.is_array:
            self.is_array[kind] = isinstance(value, Array)
        return self.is_array[kind]

    def _place(self, place: Place) -> Location:
        """Return the location of a call site, cached: a time loop has few of them."""
        known = self.places.get(id(place))
        if known is None:
            known = self.places[id(place)] = place, location_of(place)
        return known[1]

    def _kernel(self, source: KernelSource | None) -> int | None:
        if source is None:
            return None
        info = self.kernels.get(source.kernel)
        if info is None:
            info = self.kernels[source.kernel] = kernel_info(len(self.kernels), source)
        key = info.id, source.needed_key
        if key not in self.marked:
            self.marked.add(key)
            mark_needed(info, source.needed)
        return info.id

    def _scopes(self, launches: list[Launch]) -> list[Scope]:
        """Return the scopes that hold launches, renumbered; empty ones are left out."""
        numbers: dict[int, int] = {}
        scopes: list[Scope] = []
        for position, scope in enumerate(self.tape.scopes):
            last = len(launches) - 1 if scope.last is None else min(scope.last, len(launches) - 1)
            if last < scope.first:
                continue
            numbers[position] = len(scopes)
            parent = None if scope.parent is None else numbers.get(scope.parent)
            scopes.append(Scope(id=len(scopes), name=scope.name, parent=parent, first=scope.first, last=last))
        for launch in launches:
            launch.scope = None if launch.scope is None else numbers.get(launch.scope)
        return scopes

    def _backward(self) -> Backward:
        passes = self.tape.reverse_passes
        if not passes:
            return Backward()
        last = passes[-1]
        visited = [item.index for item in self.tape.operations[: last.operation_count] if item.has_adjoint]
        loss = last.objective if last.loss is None else last.loss
        return Backward(ran=True, loss=None if loss is None else self.array_id(loss), order=visited[::-1])


def _environment_of(tape: RecordedTape) -> dict[str, str]:
    own, engine = environment(), tape.engine
    return own if engine.name == OWN_ENGINE else {**own, engine.name: engine.version}


def _size(a: Array) -> int:
    return int(a.stop - a.start)


def _as_json(value: Any) -> Any:
    """Return a scalar or vector argument as JSON data."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if hasattr(value, "tolist"):
        return value.tolist()
    try:
        return [_as_json(component) for component in value]
    except TypeError:
        return str(value)


def _set_roles(trace: Trace) -> None:
    written = {arg.array for launch in trace.launches for arg in launch.args if arg.writes}
    read = {arg.array for launch in trace.launches for arg in launch.args if arg.reads}
    first_read = {version.array for version in trace.versions if version.version == 0 and version.reads}
    for info in trace.arrays:
        role: Role = "intermediate"
        if info.id == trace.backward.loss or (info.id in written and info.id not in read):
            role = "output"
        elif info.id not in written:
            role = "input" if info.requires_grad else "constant"
        elif info.id in first_read and info.requires_grad:
            role = "input"
        info.role = role

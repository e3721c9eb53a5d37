"""From a tape to a trace: plain data, made when it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

import numpy as np

from tapedebug._environment import environment
from tapedebug._interval_index import IntervalIndex, range_key
from tapedebug._names import find_names
from tapedebug._source import Span, display_file
from tapedebug.trace._events import events_of
from tapedebug.trace._kernels import kernel_info, mark_needed
from tapedebug.trace._labels import choose_labels
from tapedebug.trace._naming import candidate_names
from tapedebug.trace._versions import VersionBook, set_fates
from tapedebug.trace.gc_pause import gc_paused
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

if TYPE_CHECKING:
    from types import FrameType

    from tapedebug.runtime import Tape
    from tapedebug.runtime import array as Array
    from tapedebug.runtime.tape.record import Record, Site


MAX_BYTES = 1 << 28
MAX_SECONDS = 60.0


def record(
    tape: Tape,
    *,
    values: bool | Literal["arrays"] = False,
    max_bytes: int = MAX_BYTES,
    max_seconds: float | None = MAX_SECONDS,
    name: str | None = None,
) -> Trace:
    """Return what `tape` recorded as a `Trace`.

    Args:
        tape: The tape. It is not changed.
        values: True: also summarise values and adjoints of every version, by replaying the tape in private
            memory. `"arrays"`: keep the values and adjoints themselves, too, for `Trace.values`,
            `Trace.adjoints` and files.
        max_bytes: How much `"arrays"` may keep, in the order of the launches; of the rest there are
            summaries.
        max_seconds: How long the replay may take; None for as long as it needs. What was left out, here or
            for lack of room, is said in the trace's `notes`.
        name: What the trace is called; by default that of the variable that holds the tape.

    Raises:
        ValueError: `values` is something else, or a limit is no number or negative.
    """
    if values not in (False, True, "arrays"):
        raise ValueError(f'trace: values is False, True or "arrays"; got {values!r}')
    for parameter, limit in (("max_bytes", max_bytes), ("max_seconds", max_seconds)):
        number = isinstance(limit, (int, float)) and not isinstance(limit, bool) and limit >= 0
        if not number and not (limit is None and parameter == "max_seconds"):
            raise ValueError(f"trace: {parameter} is a number of 0 or more; got {limit!r}")
    recorded = record_with_arrays(tape, name=name)
    if values:
        from tapedebug.trace.replayed_values import add_summaries

        keep = max_bytes if values == "arrays" else None
        add_summaries(recorded, max_seconds=max_seconds, keep_bytes=keep)
    return recorded.trace


@dataclass(slots=True)
class TraceBinding:
    """A trace, and which array of the runtime is which in it (`arrays[id]`).

    `outside`: for each launch the versions that something outside the tape wrote just before it.
    """

    trace: Trace
    arrays: list[Array]
    tape: Tape
    outside: dict[int, list[Version]] = field(default_factory=dict)

    def id_of(self, key: Any) -> int | None:
        """Return the id of the memory range that `key` covers, None if the tape never used it."""
        wanted = range_key(key)
        return next((number for number, own in enumerate(self.arrays) if range_key(own) == wanted), None)


def record_with_arrays(tape: Tape, *, name: str | None = None, longest_names: bool = False) -> TraceBinding:
    """Return `record(tape)` with the arrays; see there."""
    builder = _Builder(tape)
    with gc_paused():
        trace = builder.build(sys._getframe(1), longest_names)
    trace.name = name or _tape_name(tape)
    return TraceBinding(trace, builder.arrays, tape, builder.outside)


_PROCESS = uuid4().hex


def recording_of(tape: Tape) -> str:
    """Return what tells this recording from all others: a tape that is reset begins a new one."""
    return f"{_PROCESS}-{tape.id}-{tape.began}"


def is_of(trace: Trace, tape: Tape) -> bool:
    """Return whether a trace shows what is on a tape now: neither more was recorded, nor something else."""
    return trace.recording == recording_of(tape) and trace.tape.launches == len(tape.records)


def location_of(span: Span) -> Location:
    """Return a span as a place that a person can open."""
    return Location(file=display_file(span.file), line=span.line, column=span.column, function=span.function)


def _tape_name(tape: Tape) -> str:
    names = find_names(type(tape), id, [id(tape)]).get(id(tape))
    return names[0] if names else f"tape {tape.id}"


class _Builder:
    """One pass over the records of a tape."""

    def __init__(self, tape: Tape) -> None:
        from tapedebug.runtime import array as array_class

        self.tape = tape
        self.array_class = array_class
        self.arrays: list[Array] = []
        self.ids: dict[tuple[Any, ...], int] = {}
        self.by_object: dict[int, int] = {}
        self.buffers: dict[int, int] = {}
        self.kernels: dict[int, KernelInfo] = {}
        self.requires_grad: list[bool] = []
        self.in_buffer: dict[int, IntervalIndex] = {}
        self.places: dict[Any, Location] = {}
        self.marked: set[tuple[int, int]] = set()
        self.outside: dict[int, list[Version]] = {}

    def build(self, frame: FrameType, longest_names: bool) -> Trace:
        tape = self.tape
        launches = [self._launch(item) for item in tape.records]
        book = VersionBook([self._overlapping(number) for number in range(len(self.arrays))])
        outside: dict[int, list[Array]] = {}
        for event in tape.tracker.outside:
            outside.setdefault(event.at, []).append(event.array)
        for launch in launches:
            for a in outside.get(launch.index, ()):
                versions = book.write_outside(self._sharing(a))
                self.outside.setdefault(launch.index, []).extend(versions)
            book.add(launch.index, launch.args, tape.records[launch.index].plan.late)
        versions = book.finish()
        set_fates(versions, launches, tape)
        parents = [self._parent(number) for number in range(len(self.arrays))]
        candidates, sure = candidate_names(tape, self.arrays, parents, launches, frame)
        labels = choose_labels(candidates, sure, longest=longest_names)
        arrays = [self._info(number, label, parents[number]) for number, label in enumerate(labels)]
        events, dropped = events_of(tape, self.arrays, self._site)
        trace = Trace(
            name="",
            tape=TapeInfo(
                id=tape.id,
                on_overwrite=tape.on_overwrite,
                launches=len(launches),
                backward_runs=len(tape.backward_calls),
                preserved_bytes=tape.preserved_bytes,
                livein_bytes=tape.livein_bytes,
                began=tape.began,
                ended=tape.ended,
            ),
            kernels=list(self.kernels.values()),
            arrays=arrays,
            launches=launches,
            scopes=self._scopes(launches),
            versions=versions,
            backward=self._backward(),
            events=events,
            events_dropped=dropped,
            environment=environment(),
            recording=recording_of(tape),
        )
        _set_roles(trace)
        trace.sequences = sequences_of(trace)
        return trace

    # ------------------------------------------------------------------ arrays

    def array_id(self, a: Array) -> int | None:
        """Return the id of an array that the tape used."""
        return self.ids.get(range_key(a))

    def _enter(self, a: Array) -> int:
        known = self.by_object.get(id(a))
        if known is not None:
            return known
        key = range_key(a)
        number = self.ids.get(key)
        if number is None:
            number = self.ids[key] = len(self.arrays)
            self.arrays.append(a)
            self.requires_grad.append(False)
            self.buffers.setdefault(id(a.buffer), len(self.buffers))
            if id(a.buffer) not in self.in_buffer:
                self.in_buffer[id(a.buffer)] = IntervalIndex()
            self.in_buffer[id(a.buffer)].add(a.start, a.stop, number)
        self.requires_grad[number] = self.requires_grad[number] or a.requires_grad
        self.by_object[id(a)] = number
        return number

    def _overlapping(self, number: int) -> list[int]:
        mine = self.arrays[number]
        return [other for other in self._near(mine) if other != number and overlap(mine, self.arrays[other])]

    def _sharing(self, a: Array) -> list[int]:
        """The arrays of the tape that share bytes with any array."""
        known = self._near(a) if id(a.buffer) in self.in_buffer else ()
        return [number for number in known if overlap(a, self.arrays[number])]

    def _near(self, a: Array) -> Iterator[int]:
        """The arrays of the same memory that may share bytes with `a`, and `a` itself."""
        return self.in_buffer[id(a.buffer)].near(a.start, a.stop)

    def _info(self, number: int, label: str, parent: int | None) -> ArrayInfo:
        from tapedebug.lang import types

        a = self.arrays[number]
        return ArrayInfo(
            id=number,
            label=label,
            dtype=types.type_name(a.dtype),
            shape=list(a.shape),
            requires_grad=self.requires_grad[number],
            buffer=self.buffers[id(a.buffer)],
            start=a.start,
            stop=a.stop,
            parent=parent,
        )

    def _parent(self, number: int) -> int | None:
        """The smallest array of the tape that holds all bytes of this one, and more."""
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

    def _launch(self, item: Record) -> Launch:
        plan = item.plan
        args = []
        for number, value in enumerate(item.args):
            if isinstance(value, self.array_class):
                args.append(
                    Argument(
                        name=plan.names[number],
                        array=self._enter(value),
                        reads=number in plan.reads and not plan.fresh_in(item, number),
                        writes=number in plan.writes,
                        needed=number in plan.early,
                    )
                )
            else:
                args.append(Argument(name=plan.names[number], value=_plain(value)))
        kernel = self._kernel(item) if item.kernel is not None else None
        return Launch(
            index=item.index,
            kind=item.kind,  # type: ignore[arg-type]
            kernel=kernel,
            name=item.name,
            dim=list(item.dim),
            args=args,
            scope=item.scope,
            seconds=item.elapsed,
            backward_seconds=item.backward_elapsed,
            call_site=self._place(item),
        )

    def _place(self, item: Record) -> Location:
        """The call site; a time loop has thousands of launches and three places, which they share."""
        return self._site(item.site)

    def _site(self, site: Site) -> Location:
        place = self.places.get(site)
        if place is None:
            from tapedebug.runtime.tape.record import site_span

            place = self.places[site] = location_of(site_span(site))
        return place

    def _kernel(self, item: Record) -> int:
        kernel = item.kernel
        info = self.kernels.get(id(kernel))
        if info is None:
            info = self.kernels[id(kernel)] = kernel_info(len(self.kernels), item)
        if item.info is not None and (info.id, id(item.info)) not in self.marked:
            self.marked.add((info.id, id(item.info)))
            mark_needed(info, item.info.need_spans)
        return info.id

    def _scopes(self, launches: list[Launch]) -> list[Scope]:
        """The scopes that hold launches; those that hold none are left out, and the others numbered anew."""
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
        calls = self.tape.backward_calls
        if not calls:
            return Backward()
        visited = [item.index for item in self.tape.records[: calls[-1].records] if differentiates(item)]
        loss = calls[-1].objective if calls[-1].loss is None else calls[-1].loss
        return Backward(ran=True, loss=None if loss is None else self.array_id(loss), order=visited[::-1])


def differentiates(item: Record) -> bool:
    """Return whether the reverse pass does anything for a record."""
    return bool(item.active) and (item.kind != "kernel" or item.info is not None)


def _size(a: Array) -> int:
    return int(a.stop - a.start)


def overlap(a: Array, b: Array) -> bool:
    """Return whether two arrays of one buffer share an element, exactly for strided views too."""
    if a.stop <= b.start or b.stop <= a.start:
        return False
    if a.is_contiguous and b.is_contiguous:
        return True
    try:
        return bool(np.shares_memory(a._look(), b._look(), max_work=20_000))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True


def _plain(value: Any) -> Any:
    """A scalar or vector argument as JSON data."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if hasattr(value, "tolist"):
        return value.tolist()
    try:
        return [_plain(component) for component in value]
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

"""Values and adjoints of every version, as summaries or in full, from a private replay of the tape.

Nothing is measured while a tape records: that would cost as much as the launches themselves, on every tape,
for a trace that is rarely requested; and the adjoint of a version exists only in the middle of a reverse
pass. A replay gives the same numbers to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np

from tapedebug._float_types import is_bfloat16
from tapedebug.contract import Consume, Operation, Replay, Seeds, Values
from tapedebug.trace.model import Content, ContentKind, Version, pack_summary
from tapedebug.trace.summaries import summarise

if TYPE_CHECKING:
    from tapedebug.trace.recording import TraceBinding


class _OutOfTime(Exception):
    """The replay exceeded its time limit."""


def add_summaries(
    recorded: TraceBinding,
    seeds: Seeds | None = None,
    pulse: Callable[[], None] | None = None,
    *,
    max_seconds: float | None = None,
    keep_bytes: int | None = None,
) -> None:
    """Set `value` and `adjoint` of the versions of a trace; its `notes` list what was left out.

    Args:
        recorded: The trace and its tape, which is not modified.
        seeds: Incoming adjoints of the reverse pass; by default those of the last `Tape.backward`. Adjoints
            are left out if there was none. They are those that the tape consumed, right or wrong.
        pulse: Called at each launch; may raise to cancel.
        max_seconds: The time limit; None for no limit.
        keep_bytes: Also keep the arrays themselves, up to this size; None keeps none.
    """
    until = None if max_seconds is None else monotonic() + max_seconds

    def check() -> None:
        if pulse is not None:
            pulse()
        if until is not None and monotonic() > until:
            raise _OutOfTime

    tape = recorded.tape
    if seeds is None and tape.reverse_passes:
        seeds = tape.reverse_passes[-1].seeds
    replay = tape.new_replay()
    replay.pulse = check
    watcher = _Watcher(recorded, replay, keep_bytes)
    try:
        watcher.forward()
        if seeds:
            watcher.backward(seeds)
    except _OutOfTime:
        what = "values" if replay.position < len(tape.operations) else "adjoints"
        recorded.trace.notes.append(
            f"{what} are not complete: looking at them took longer than max_seconds={max_seconds:g}"
        )
    watcher.say_what_is_missing()


class _Watcher:
    """Observer that summarises the versions while a replay produces them."""

    def __init__(self, recorded: TraceBinding, replay: Replay, room: int | None) -> None:
        self.recorded = recorded
        self.replay = replay
        self.room = room
        self.left_out: list[int] = []
        self.written: dict[int, list[Version]] = {}
        self.starts: list[Version] = []
        for version in recorded.trace.versions:
            if version.written_by is not None:
                self.written.setdefault(version.written_by, []).append(version)
            elif version.version == 0:
                self.starts.append(version)

    def forward(self) -> None:
        self._values(self.starts)
        self.replay.on_outside = self._outside
        try:
            self.replay.forward(on_operation=lambda each: self._values(self.written.get(each.index, ())))
        finally:
            self.replay.on_outside = None  # a cycle would keep the tape until the next garbage collection

    def _outside(self, operation: Operation) -> None:
        """Summarise the last of several writes between two launches."""
        last = {version.array: version for version in self.recorded.outside.get(operation.index, ())}
        self._values(last.values())

    def _values(self, versions: Iterable[Version]) -> None:
        for version in versions:
            # The content of an array before a launch that overwrites all of it unread is meaningless.
            if version.version > 0 or version.reads or version.overwritten_by is None:
                values = self.replay.values(self.recorded.arrays[version.array])
                version.value = pack_summary(summarise(values))
                self._keep(version, "value", values)

    def backward(self, seeds: Seeds) -> None:
        """Summarise each adjoint just before the adjoint of the launch that wrote the version runs."""
        tape = self.recorded.tape
        consume: Consume = "versions" if tape.preserves_values else "current"
        count, stop = len(tape.operations), self._first_that_can_be_reversed()

        def look(operation: Operation) -> None:
            if operation.index:
                self._adjoints(self.written.get(operation.index - 1, ()))

        if count:
            self.replay.backward(seeds, consume=consume, start=count, stop=count)
            self._adjoints(self.written.get(count - 1, ()))
            self.replay.backward(None, consume=consume, stop=stop, on_operation=look)
            if not stop:
                self._adjoints(version for version in self.starts if version.reads)

    def _first_that_can_be_reversed(self) -> int:
        """Return the index after the last custom function, where the reverse pass of a replay has to end."""
        for operation in reversed(self.recorded.tape.operations):
            if operation.kind == "func":
                self.recorded.trace.notes.append(
                    f"adjoints of what was written before launch {operation.index} are left out: it is the "
                    f"custom function {operation.name}, which works on the arrays themselves and is not "
                    "replayed"
                )
                return int(operation.index + 1)
        return 0

    def _adjoints(self, versions: Iterable[Version]) -> None:
        for version in versions:
            if self.recorded.trace.arrays[version.array].requires_grad:
                values = self.replay.gradient(self.recorded.arrays[version.array])
                version.adjoint = pack_summary(summarise(values))
                self._keep(version, "adjoint", values)

    def _keep(self, version: Version, kind: ContentKind, values: Values) -> None:
        if self.room is None:
            return
        if values.nbytes > self.room:
            self.left_out.append(values.nbytes)
            return
        self.room -= values.nbytes
        if is_bfloat16(values.dtype):
            values = values.astype(np.float32)  # the file's readers need no package for it
        values = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        values.flags.writeable = False
        suffix = "" if kind == "value" else f"-{kind}"
        content = Content(
            array=version.array,
            version=version.version,
            kind=kind,
            dtype=values.dtype.str,
            shape=list(values.shape),
            member=f"arrays/{version.array:04d}-v{version.version}{suffix}.bin",
        )
        self.recorded.trace.contents.append(content)
        self.recorded.trace.data[content.member] = values

    def say_what_is_missing(self) -> None:
        if self.left_out:
            count, size = len(self.left_out), sum(self.left_out)
            self.recorded.trace.notes.append(
                f"{count:,} array{'s' if count > 1 else ''} ({size:,} bytes) of values or adjoints "
                f"{'are' if count > 1 else 'is'} summarised only: max_bytes did not leave room"
            )

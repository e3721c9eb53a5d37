"""Snapshots: show the user's arrays as they were between two launches of a tape, and restore them.

The tape is replayed in private memory up to the moment; then its values (and adjoints) are swapped with those
of the arrays, and swapped back when the block ends, for whatever reason.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from tapedebug._errors import TapeError
from tapedebug.runtime.interrupts import deferred
from tapedebug.runtime.memory.buffer import Buffer, Bytes, gradients
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.reverse.borrowed_seed import values_of
from tapedebug.runtime.reverse.seeds import checked_seeds
from tapedebug.runtime.state import others_record, state
from tapedebug.runtime.tape.buffer_versions import elements_of
from tapedebug.runtime.tape.record import Record

if TYPE_CHECKING:
    from tapedebug.contract import Seeds
    from tapedebug.runtime.memory.array import array
    from tapedebug.runtime.tape.tape import Tape

ORDER = ("before", "after")


class TapeSnapshot:
    """A point between two launches of a tape, for a `with` block; see `Tape.at`.

    Attributes:
        tape: The tape.
        record: The launch.
        when: `"before"` it or `"after"`.
        backward: `.grad` holds adjoints.
        uncovered: The reasons why values may differ from the recorded ones; empty if there are none.
    """

    def __init__(
        self,
        tape: Tape,
        launch: int | Record,
        when: str,
        backward: bool,
        loss: array | None,
        grads: Mapping[array, Any] | None,
    ) -> None:
        if when not in ORDER:
            raise TapeError(f"at: when is 'before' or 'after'; got {when!r}", hint="use one of these")
        self.tape = tape
        self.when = when
        self.backward = bool(backward or loss is not None or grads)
        self.record = _record(tape, launch)
        self.uncovered: list[str] = []
        self._seeds = self._find_seeds(loss, grads) if self.backward else {}
        self._open = contextlib.ExitStack()

    @property
    def stop(self) -> int:
        """The number of launches that have run."""
        return self.record.index + (self.when == "after")

    def __repr__(self) -> str:
        adjoints = ", with adjoints" if self.backward else ""
        return f"<moment {self.when} launch {self.record.index} ({self.record.name}){adjoints}>"

    def __enter__(self) -> Self:
        """Swap values into the arrays."""
        self._check()
        shadow = self._travel()
        try:
            with deferred():
                self._open.enter_context(_swapped(shadow, self))
            return self
        except BaseException:
            self._leave()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Swap the values back."""
        self._leave()

    def _leave(self) -> None:
        with deferred():
            self._open.close()

    def _check(self) -> None:
        if state.moment is not None:
            raise TapeError(
                f"at: the arrays are those of {state.moment!r} already, and moments do not nest",
                hint="leave that `with` block first",
            )
        if state.tape is not None or others_record():
            raise TapeError(
                "at: a tape is recording, and would record what is done at another time",
                hint="leave the `with` block of the tape first",
            )
        functions = [r for r in self.tape.records if r.kind == "func" and r.func is not None]
        if self.backward and functions:
            first = functions[0]
            raise TapeError(
                f"at: record {first.index} is a custom function ({first.name}), which works on the arrays "
                "themselves: there are no adjoints without it",
                hint="pass backward=False",
            )

    def _find_seeds(self, loss: array | None, grads: Mapping[array, Any] | None) -> Seeds:
        if loss is not None or grads:
            found = checked_seeds(self.tape.tracker, loss, grads, {})
            return {a: values_of(seed) for a, seed in found.items()}
        seeds = self.tape.seeds
        if not seeds and not self.tape.backward_calls:
            raise TapeError(
                "at: no loss is known: backward has not been called on this tape",
                hint="pass loss=… or grads=…, as for backward",
            )
        return seeds

    def _travel(self) -> Shadow:
        """Return a replay of the tape, at the moment."""
        shadow = self.tape.replay(stop=None if self.backward else self.stop)
        self.uncovered = list(shadow.uncovered)
        if self.backward:
            kept = self.tape.on_overwrite in ("preserve", "error")
            shadow.backward(self._seeds, consume="versions" if kept else "current", stop=self.stop)
            values = self.tape.replay(stop=self.stop)
            for buffer, private in shadow.space.buffers.items():
                private.data = values.space.buffers[buffer].data
        return shadow


def _record(tape: Tape, launch: Any) -> Record:
    records = tape.records
    if not records:
        raise TapeError("at: the tape is empty", hint="run the launches inside `with tape:` first")
    if isinstance(launch, Record):
        index = launch.index if launch.index < len(records) and records[launch.index] is launch else None
    else:
        try:
            index = None if isinstance(launch, bool) else operator.index(launch)
        except TypeError:
            index = None
    if index is None or not -len(records) <= index < len(records):
        raise TapeError(
            f"at: {launch!r} is no launch of this tape, which has {len(records)}",
            hint=f"pass an index from 0 to {len(records) - 1}, or one of tape.records",
        )
    return records[index]


class _Now:
    """The present state of a buffer and its watchers; none of them is notified until `restore`."""

    def __init__(self, buffer: Buffer) -> None:
        for ledger, tracker in buffer.watchers():
            tracker.catch_up(ledger, [ledger.numbered(number) for number in ledger.guarded])
        self.buffer = buffer
        self.content = buffer.data.copy()
        self.facts = buffer.fill, buffer.writes, buffer.watch
        self.windows = buffer.windows
        buffer.watch = ()
        buffer.fill = None

    def restore(self) -> None:
        """Restore the state; views opened meanwhile and still open, or closed since, are announced."""
        buffer = self.buffer
        buffer.data[:] = self.content
        buffer.fill, buffer.writes, buffer.watch = self.facts
        for ledger, tracker in buffer.watchers():
            if buffer.windows and not self.windows:
                buffer.fill = None
                tracker.window_opened(ledger, 0, buffer.nbytes)
            elif self.windows and not buffer.windows:
                tracker.window_closed(ledger)


@contextlib.contextmanager
def _swapped(shadow: Shadow, moment: TapeSnapshot) -> Iterator[None]:
    """Context manager that swaps a shadow's values into the arrays, and restores them also on failure."""
    kept: list[_Now] = []
    fresh: list[Buffer] = []
    state.moment = moment
    try:
        tracker = moment.tape.tracker
        for buffer, ledger in tracker.ledgers.items():
            private = shadow.space.buffers[buffer]
            kept.append(_Now(buffer))
            _write(buffer, ledger.states, private.data)
            if buffer.adjoint is None:
                fresh.append(buffer)
            elif all(now.buffer is not buffer.adjoint for now in kept):
                kept.append(_Now(buffer.adjoint))
            if moment.backward and any(each.array.requires_grad for each in ledger.states):
                _write(buffer.gradient(), ledger.states, private.gradient())
        yield
    finally:
        for now in reversed(kept):
            now.restore()
        for buffer in fresh:
            buffer.adjoint = None
            gradients.taken += 1
        state.moment = None


def _write(buffer: Buffer, states: list[Any], content: Bytes) -> None:
    """Set the ranges that a tape uses, but not the gaps between them, to the content of private memory."""
    for each in states:
        if each.is_contiguous:
            buffer.data[each.start : each.stop] = content[each.start : each.stop]
        else:
            elements_of(buffer.data, each.array)[...] = elements_of(content, each.array)

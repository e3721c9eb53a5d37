"""The recording of a watched program: its memory, its tapes, and writes outside them."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tapedebug._source import Span
from tapedebug._tape_retention import TapeRetention
from tapedebug.contract import Array, Values
from tapedebug.operations import SnapshotBudget
from tapedebug.watch.arguments import Arguments
from tapedebug.watch.call_site import user_place
from tapedebug.watch.earlier_launches import EarlierLaunches
from tapedebug.watch.handles import Handles
from tapedebug.watch.hooks import WarpObject, look_up
from tapedebug.watch.memory import MemoryMap, NotWatchable, WatchedArray
from tapedebug.watch.recorder.not_covered import NotCovered
from tapedebug.watch.shared_history import SharedHistory
from tapedebug.watch.tape import Computed, WatchedTape
from tapedebug.watch.unwritten_memory import UnwrittenMemory


class Recording:
    """The state that all intercepted functions of Warp share.

    Args:
        memory_budget: The number of bytes for copies of what tapes found; None for no limit.

    Attributes:
        not_covered: The parts of the program that were not recorded, with the number of times.
        tapes: The tapes of this package, by those of Warp.
        live: Those of them that still exist.
        current: The tape of Warp that records, with that of this package; what `tape` found last.
        uncovered: The tapes of Warp that began to record before watching began.
    """

    def __init__(self, memory_budget: int | None = None) -> None:
        self.budget = SnapshotBudget(memory_budget)
        self._runtime: WarpObject = None
        self.array: type[WarpObject] = look_up("warp:array")
        self.memory = MemoryMap()
        self.unwritten = UnwrittenMemory()
        self.sees_all_arrays = self.runtime is None
        self.objects = Handles()
        self.arguments = Arguments(self.memory, self.objects)
        self.history = SharedHistory()
        self.earlier = EarlierLaunches(self.array)
        self.retention = TapeRetention()
        self.not_covered: dict[NotCovered, int] = {}
        self.current: tuple[WarpObject, WatchedTape | None] = (None, None)
        self.tapes: weakref.WeakKeyDictionary[Any, WatchedTape] = weakref.WeakKeyDictionary()
        self.uncovered: weakref.WeakSet[Any] = weakref.WeakSet()
        self.live: weakref.WeakSet[WatchedTape] = weakref.WeakSet()

    @property
    def runtime(self) -> WarpObject:
        """The runtime of Warp; None until the program has initialized Warp."""
        if self._runtime is None:
            self._runtime = look_up("warp._src.context:runtime")
        return self._runtime

    def tape(self) -> WatchedTape | None:
        """Return the tape that records; None if there is none, or it is not covered."""
        tape = None if self.runtime is None else self.runtime.tape
        if tape is None:
            return None
        if tape is self.current[0]:
            return self.current[1]
        found = self.tapes.get(tape)
        self.current = tape, found
        if found is None and tape not in self.uncovered:
            self.uncovered.add(tape)
            self.skip(None, "a tape", "it began to record before watching began")
        return found

    def outside(
        self,
        run: Callable[[], Any],
        arrays: Sequence[WatchedArray],
        how: str,
        place: Span,
        computed: Computed | None = None,
    ) -> Any:
        """Run something that writes arrays outside the live tapes, and note that.

        Args:
            run: Runs it.
            arrays: The arrays.
            how: The way it is done.
            place: The place in the program.
            computed: A launch, a copy or a call that it is, and the arrays that it reads.
        """
        tapes = list(self.live)
        before: dict[Array, Values | None] = {}
        with self.guarded(None, "a write outside of the tapes", place):
            before = {array: self.history.before_write(array) for array in arrays}
        for tape in tapes:
            with self.guarded(tape, "a write outside of the tape", place):
                for array in arrays:
                    tape.about_to_write(array)
        result = run()
        times: dict[Array, int] = {}
        with self.guarded(None, "a write outside of the tapes", place):
            times = {array: self.history.note_write(array, how, place, before.get(array)) for array in arrays}
        for tape in tapes:
            with self.guarded(tape, "a write outside of the tape", place):
                for array in arrays:
                    tape.note_outside(array, how, place, times.get(array))
                    tape.note_perhaps_written(array)
                if computed is not None:
                    tape.note_unrecorded(computed, arrays, place)
        return result

    def anything_written(self) -> None:
        """Note that something that is not covered may write any memory."""
        self.unwritten.clear()
        for tape in self.live:
            tape.note_perhaps_written()

    def skip(self, tape: WatchedTape | None, what: str, reason: str, place: Span | None = None) -> None:
        """List a part of the program as not covered."""
        found = NotCovered(what, place or user_place(3), reason)
        self.not_covered[found] = self.not_covered.get(found, 0) + 1
        if tape is not None:
            tape.note_gap(str(found))

    @contextlib.contextmanager
    def guarded(self, tape: WatchedTape | None, what: str, place: Span | None = None) -> Iterator[list[str]]:
        """Context in which an error of ours does not reach the program: it makes `what` not covered."""
        failed: list[str] = []
        try:
            yield failed
        except Exception as error:
            failed.append(reason_of(error))
        if failed:
            self.skip(tape, what, failed[0], place or user_place(4))


class Calls:
    """Base of the handlers of intercepted calls: the parts of the recording that they use most.

    Args:
        recording: The recording.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.array, self.memory, self.history = recording.array, recording.memory, recording.history
        self.unwritten, self.earlier, self._live = recording.unwritten, recording.earlier, recording.live


def reason_of(error: Exception) -> str:
    """Return why an error made something not covered."""
    return error.message if isinstance(error, NotWatchable) else f"{type(error).__name__}: {error}"

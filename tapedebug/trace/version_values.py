"""The values of single versions, one after the other, for readers that step through a tape.

One replay in private memory answers many requests: it keeps the versions of the requested array that it
passes, within a budget, and continues from its position if the next request is ahead of it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from time import monotonic
from typing import TYPE_CHECKING

from tapedebug._errors import TapedebugError
from tapedebug.contract import Consume, Operation, Replay, Values
from tapedebug.trace.model import ContentKind, Version

if TYPE_CHECKING:
    from tapedebug.trace.recording import TraceBinding

KEPT = 1 << 26
"""Bytes of values that are kept between requests."""
AROUND = 1 << 24
"""Bytes of versions before and after the requested one that a replay keeps in passing."""
MAX_REPLAY_BYTES = 1 << 28
"""Largest size of arrays, in bytes, for which the private memory is kept for the next request."""
SECONDS = 10.0
"""Time limit of a replay, in seconds, as a user of the panel waits for the answer."""


class _OutOfTime(Exception):
    """The replay exceeded its time limit."""


class VersionValues:
    """The values and adjoints of any version of a recorded tape.

    Args:
        recorded: The trace and its tape, which is not modified.
        max_seconds: The time limit of one replay.
    """

    def __init__(self, recorded: TraceBinding, max_seconds: float = SECONDS) -> None:
        self.recorded = recorded
        self.max_seconds = max_seconds
        self._known: OrderedDict[tuple[ContentKind, int, int], Values] = OrderedDict()
        self._passes = 0
        self._replayed: Replay | None = None
        self._versions: dict[int, list[Version]] = {}
        for version in recorded.trace.versions:
            self._versions.setdefault(version.array, []).append(version)

    def values(self, array: int, version: int, kind: ContentKind = "value") -> Values:
        """Return the values, or the adjoint, of a version; the array must not be modified.

        Raises:
            TapedebugError: They are not available; the message contains the reason.
        """
        calls = len(self.recorded.tape.reverse_passes)
        if calls != self._passes:  # the adjoints of another reverse pass differ
            self._passes = calls
            for key in [key for key in self._known if key[0] == "adjoint"]:
                del self._known[key]
        key = (kind, array, version)
        if key not in self._known:
            wanted = self._version(array, version)
            self._refuse(wanted, kind)
            self._replay(wanted, kind)
        found = self._known.get(key)
        if found is None:
            raise TapedebugError(
                f"{self._name(array, version)} was written outside the tape, and overwritten before a launch "
                "could see it: the tape has no copy."
            )
        self._known.move_to_end(key)
        return found

    def _version(self, array: int, number: int) -> Version:
        for version in self._versions.get(array, ()):
            if version.version == number:
                return version
        raise TapedebugError(f"The tape has no version {number!r} of array {array!r}.")

    def _name(self, array: int, version: int) -> str:
        return f"{self.recorded.trace.arrays[array].label} v{version}"

    def _refuse(self, version: Version, kind: ContentKind) -> None:
        """Raise an error with the reason if it is known beforehand that a version is not available."""
        name = self._name(version.array, version.version)
        tape = self.recorded.tape
        if kind == "value":
            if _means_nothing(version):
                raise TapedebugError(
                    f"Nothing read {name} before launch {version.overwritten_by} overwrote it, so the tape "
                    "kept no copy of what was there."
                )
            return
        if not self.recorded.trace.arrays[version.array].requires_grad:
            raise TapedebugError(f"{name} has no adjoint: the array was made without requires_grad=True.")
        if not tape.reverse_passes:
            raise TapedebugError(
                "No reverse pass has run: call tape.backward(loss), then there are adjoints."
            )
        if not tape.reverse_passes[-1].seeds:
            raise TapedebugError("The last reverse pass had no seed, so that there are no adjoints.")
        if version.written_by is None and version.version > 0:
            raise TapedebugError(
                f"{name} was written outside the tape: the reverse pass has no adjoint of it."
            )
        if version.written_by is None and not version.reads:
            raise TapedebugError(f"No launch read {name}: it has no adjoint.")
        self._refuse_behind_function(version, name)

    def _refuse_behind_function(self, version: Version, name: str) -> None:
        """Raise an error for an adjoint before the last custom function, which replays cannot reverse."""
        first = -1 if version.written_by is None else version.written_by
        for operation in reversed(self.recorded.tape.operations[first + 1 :]):
            if operation.kind == "func":
                raise TapedebugError(
                    f"The adjoint of {name} lies behind launch {operation.index}, the custom function "
                    f"{operation.name}, which works on your arrays themselves and is not replayed. Ask for "
                    "retain_grad=True on the array to see its gradient."
                )

    # -- replaying ------------------------------------------------------------------------------------

    def _replay(self, wanted: Version, kind: ContentKind) -> None:
        near = self._near(wanted)
        replay = self._replayed or self.recorded.tape.new_replay()
        self._replayed = None  # unless the replay ends well
        until = monotonic() + self.max_seconds

        def check() -> None:
            if monotonic() > until:
                raise _OutOfTime

        replay.pulse = check
        try:
            if kind == "value":
                self._forward(replay, wanted, near)
            else:
                self._backward(replay, wanted, near)
        except _OutOfTime:
            what = "values" if kind == "value" else "adjoint"
            raise TapedebugError(
                f"Replaying the tape to find the {what} of {self._name(wanted.array, wanted.version)} took "
                f"longer than {self.max_seconds:g} s. `with tape.at(…)` in a cell takes its time."
            ) from None
        finally:
            replay.pulse = replay.on_outside = None
        if self._memory() <= MAX_REPLAY_BYTES:
            self._replayed = replay

    def _memory(self) -> int:
        ends: dict[int, int] = {}
        for info in self.recorded.trace.arrays:
            ends[info.buffer] = max(ends.get(info.buffer, 0), info.stop)
        return sum(ends.values())

    def _near(self, wanted: Version) -> dict[int, Version]:
        """Return the versions of the array around the requested one, by number, as many as may be kept."""
        info = self.recorded.trace.arrays[wanted.array]
        reach = max(1, AROUND // max(1, 2 * (info.stop - info.start)))
        low, high = wanted.version - reach, wanted.version + reach
        near = (v for v in self._versions[wanted.array] if low <= v.version <= high)
        return {v.version: v for v in near if not _means_nothing(v)}

    def _forward(self, replay: Replay, wanted: Version, near: Mapping[int, Version]) -> None:
        # the version before is usually requested next, to see the changes of this launch
        need = [near[number] for number in (wanted.version - 1, wanted.version) if number in near]
        unknown = [v for v in need if ("value", v.array, v.version) not in self._known]
        after = [self._after(version) for version in unknown]
        start = replay.position if 0 < replay.position <= min(after) - 1 else 0
        if start == 0:
            replay.forward(0, 0)
            if near.get(0) is not None:
                self._keep(replay, "value", near[0])
        written = {v.written_by: v for v in near.values() if v.written_by is not None}

        def outside(operation: Operation) -> None:
            """Keep the last of several writes between two launches."""
            for version in reversed(self.recorded.outside.get(operation.index, ())):
                if version.array == wanted.array:
                    if version.version in near:
                        self._keep(replay, "value", version)
                    return

        def look(operation: Operation) -> None:
            version = written.get(operation.index)
            if version is not None:
                self._keep(replay, "value", version)

        replay.on_outside = outside
        if max(after) > start:
            replay.forward(start, max(after), on_operation=look)

    def _after(self, version: Version) -> int:
        """Return the number of launches that have run when a version exists."""
        if version.written_by is not None:
            return version.written_by + 1
        if version.version == 0:
            return 0
        for index, outside in self.recorded.outside.items():
            if any(item is version for item in outside):
                return index + 1
        return 0

    def _backward(self, replay: Replay, wanted: Version, near: Mapping[int, Version]) -> None:
        """Keep each adjoint just before the adjoint of the launch that wrote the version runs."""
        tape = self.recorded.tape
        consume: Consume = "versions" if tape.preserves_values else "current"
        count = len(tape.operations)
        written = {v.written_by: v for v in near.values() if v.written_by is not None}
        stop = 0 if wanted.written_by is None else wanted.written_by + 1

        def look(operation: Operation) -> None:
            version = written.get(operation.index - 1)
            if version is not None:
                self._keep(replay, "adjoint", version)

        replay.forward()
        replay.backward(tape.reverse_passes[-1].seeds, consume=consume, start=count, stop=count)
        if count - 1 in written:
            self._keep(replay, "adjoint", written[count - 1])
        replay.backward(None, consume=consume, stop=stop, on_operation=look)
        if wanted.written_by is None:
            self._keep(replay, "adjoint", wanted)

    def _keep(self, replay: Replay, kind: ContentKind, version: Version) -> None:
        a = self.recorded.arrays[version.array]
        values = replay.values(a) if kind == "value" else replay.gradient(a)
        values.flags.writeable = False
        key = (kind, version.array, version.version)
        self._known.pop(key, None)
        self._known[key] = values
        total = sum(item.nbytes for item in self._known.values())
        # the last two are kept at any size: they are the ones displayed
        while total > KEPT and len(self._known) > 2:
            total -= self._known.popitem(last=False)[1].nbytes


def _means_nothing(version: Version) -> bool:
    """True for the content that an array had before a launch overwrote all of it unread."""
    return version.version == 0 and not version.reads and version.overwritten_by is not None

"""Replays of a tape of executable operations: forward and in reverse, in private memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tapedebug._errors import TapeError
from tapedebug._float_types import are_equal, is_float
from tapedebug.contract import A, Array, Consume, OnReplay, Values
from tapedebug.operations.adjoint_values import given_values
from tapedebug.operations.memory import Bytes, Memory, Region, widened
from tapedebug.operations.narrowed import NarrowedStep
from tapedebug.operations.operation import (
    ExecutableOperation,
    ProgramReverse,
    ReadsStoredValues,
    Step,
)
from tapedebug.operations.replay_memory import OperationRanges, Range

if TYPE_CHECKING:
    from tapedebug.operations.outside_writes import Injection
    from tapedebug.operations.tape import OperationTape


class _SavedRange:
    """The content of a range of bytes at one time, for adjoints: in memory, or a copy once overwritten."""

    __slots__ = ("copy", "region", "start", "stop")

    def __init__(self, region: Hashable, start: int, stop: int) -> None:
        self.region, self.start, self.stop = region, start, stop
        self.copy: Bytes | None = None


SavedRanges = tuple[list[_SavedRange], list[_SavedRange]]
"""The values that the adjoint of an operation may read: those before it, and those after it."""
NONE: SavedRanges = ([], [])
"""The values of an operation that does not run in reverse."""


class OperationReplay:
    """A `contract.Replay` of an `OperationTape`.

    Values that adjoints need are copied just before they are overwritten.

    Args:
        tape: The tape. Its arrays are read, never written.
        float64: Hold float32 values as float64; every operation of the tape can do that.

    Attributes:
        position: The index of the operation that runs next.
        pulse: Called before each operation that runs; may raise to cancel.
        forward_only: The replay will not run in reverse and keeps no overwritten values.
        on_outside: Called with an operation before which there was an outside write, after that is loaded.
        after_operation: Called with this replay and each operation that ran forward; may change values.
        before, after: The values of `load_values`.
        after_adjoint: Called likewise after the adjoint of each operation; may change adjoints.
    """

    def __init__(self, tape: OperationTape, float64: bool = False) -> None:
        self.tape = tape
        self.is_float64 = float64
        self.operations: list[ExecutableOperation] = list(tape.operations)
        self._kept = tape.idle_replays.take(tape, float64)
        self.wide, self.sizes = self._kept.wide, self._kept.sizes
        self.memory = self._kept.values
        self.before, self.after = self._kept.before, self._kept.after
        self.pulse: Callable[[], None] | None = None
        self.on_outside: Callable[[Any], Any] | None = None
        self.after_operation: OnReplay | None = None
        self.after_adjoint: OnReplay | None = None
        self.forward_only = False
        self.position = 0
        self._inputs: dict[Array, Values] = {}
        self._unused: Array | None = None  # was set after the first operation, and nothing has run since
        self._saved: list[SavedRanges] = []
        self._open: dict[Hashable, dict[tuple[int, int], _SavedRange]] = {}
        self._loaded: tuple[dict[Hashable, dict[tuple[int, int], _SavedRange]], ...] = ({}, {})
        self._steps: list[Step | None] = list(self._kept.steps)
        self._written: set[Hashable] | None = None
        self._found: dict[Region, Bytes] = {}  # what regions would hold without the inputs that were set
        self._is_fresh = False  # nothing but inputs has been set since the memory was filled
        self._restart()

    def __del__(self) -> None:
        kept = getattr(self, "_kept", None)
        if kept is not None:
            self.tape.idle_replays.give(kept)

    @property
    def is_narrow(self) -> bool:
        """True if operations compute in float32 although the replay is in float64."""
        return any(isinstance(step, NarrowedStep) for step in self._steps)

    def keep_memory(self) -> None:
        """Keep the memory from later replays, because something in it was changed for good."""
        self._kept.is_changed = True

    def use(self, index: int, step: Step) -> None:
        """Run another step for an operation in all further runs of this replay."""
        self._steps[index] = step

    @property
    def adjoint(self) -> Memory:
        """The memory of the adjoints."""
        if self._kept.has_earlier_adjoints:
            self._kept.clear_adjoint()
        return self._kept.adjoint

    @property
    def records(self) -> list[ExecutableOperation]:
        """The operations, in order."""
        return self.operations

    def written_outside(self, index: int) -> bool:
        """True if the program wrote memory outside the tape just before an operation."""
        return bool(self.tape.injections(index))

    # -- memory -----------------------------------------------------------------------------------------

    def reset(self, discard: bool = False) -> OperationReplay:
        """Return to the state before the first operation, with the values that the tape found.

        Args:
            discard: Drop values that were set after the first operation and have not been used.

        Raises:
            TapeError: There are such values, and `discard` is False.
        """
        if not discard:
            self._refuse_unused("reset() drops them", f"to use these, go on with forward({self.position})")
        self._is_fresh = self._is_fresh and not self._inputs
        self._inputs.clear()
        self._unused = None
        self._restart()
        return self

    def set(self, array: Array, values: Values, /) -> None:
        """Replace the values of an array before the operation that runs next; see `contract.Replay.set`."""
        view = self.memory.view(self._known(array))
        found = np.asarray(values)
        if found.shape != view.shape:
            raise TapeError(
                f"replay: values of shape {found.shape} do not fit an array of shape {view.shape}",
                hint=f"pass values of shape {view.shape}",
            )
        if self.position == 0:
            self._inputs.pop(array, None)  # if inputs overlap, the last one wins
            self._inputs[array] = found.copy()
        else:
            self._unused = array
        self._preserve(array.region, array.start, array.stop)
        view[...] = found

    def inject(self) -> None:
        """Load the outside writes just before the operation that runs next."""
        self.load_outside(self.position)

    def values(self, array: Array, /) -> Values:
        """Return a copy of the values of an array now."""
        return self.memory.view(self._known(array)).copy()

    def gradient(self, array: Array, /) -> Values:
        """Return a copy of the adjoint of an array now."""
        return self.adjoint.view(self._known(array)).copy()

    def set_gradient(self, array: Array, values: Values, /) -> None:
        """Replace the adjoint of an array."""
        self._kept.has_adjoints = True
        self.adjoint.view(self._known(array))[...] = values

    def matches_live(self) -> bool:
        """True if the values computed here equal, bit for bit, those of the program's arrays.

        Arrays that were written outside the tape after the tape's last write are left out.
        """
        self.tape.look()
        last: dict[Array, int] = {}
        for operation in self.operations:
            last.update({each.array: operation.index for each in operation.accesses if each.writes})
        outside = self.tape.outside_writes
        for array, index in last.items():
            late = any(write.at > index and write.array.region == array.region for write in outside)
            mine = self.memory.view(self._known(array))
            if not late and not are_equal(mine, array.current(), equal_nan=is_float(array.scalar_dtype)):
                return False
        return True

    def _known(self, array: Array) -> Array:
        if array.region not in self.sizes:
            raise TapeError(
                f"replay: an array of shape {array.shape} is not on the tape",
                hint="pass an array that a recorded operation uses",
            )
        return array

    def _restart(self) -> None:
        self._refuse_unused("forward(0) starts over", f"else go on with forward({self.position})")
        self.position = 0
        self._saved.clear()
        self._open.clear()
        self._found.clear()
        if not self._is_fresh:
            self._kept.restart()
            for array, values in self._inputs.items():
                self.memory.view(array)[...] = values
        self._is_fresh = True

    def _refuse_unused(self, what: str, otherwise: str) -> None:
        """Raise an error if values that were set after the first operation and never used would be dropped.

        Raises:
            TapeError: There are such values.
        """
        if self._unused is not None:
            raise TapeError(
                f"replay: the values that were set for an array of shape {self._unused.shape} before "
                f"operation {self.position} would be lost: {what}",
                hint=f"for an input, call reset(discard=True) before set(); {otherwise}",
            )

    # -- forward ----------------------------------------------------------------------------------------

    def forward(
        self,
        start: int = 0,
        stop: int | None = None,
        on_operation: Callable[[Any], Any] | None = None,
        skip: Collection[int] = (),
    ) -> OperationReplay:
        """Run the operations `start … stop-1`; `start` is `position`, or 0 to start over."""
        last = len(self.operations) if stop is None else min(stop, len(self.operations))
        if start == 0:
            self._restart()
        elif start != self.position:
            raise TapeError(
                f"replay: cannot run from operation {start}: the replay stands before {self.position}",
                hint=f"start at {self.position}, or at 0",
            )
        if start < last:
            self._unused = None
            self._is_fresh = False
        for index in range(start, last):
            if self.pulse is not None:
                self.pulse()
            self.load_outside(index)
            self._run(index, index in skip)
            self.position = index + 1
            if self.after_operation is not None:
                self.after_operation(self, self.operations[index])
                self._unused = None  # the values it set are part of the run
            if on_operation is not None:
                on_operation(self.operations[index])
        return self

    def load_outside(self, index: int) -> None:
        """Load the outside writes just before an operation."""
        writes = self.tape.injections(index)
        self._is_fresh = self._is_fresh and not writes
        for write in writes:
            stop = write.start + write.content.size
            self._preserve(write.region, write.start, stop)
            if self._is_step(write) and any(array.region is write.region for array in self._inputs):
                self._continue_from(write)
            else:
                write.load(self.memory)
        if writes and self.on_outside is not None and index < len(self.operations):
            self.on_outside(self.operations[index])

    def _is_step(self, write: Injection) -> bool:
        """True if a write is an update, between two passes of the tape, of an input that no operation writes.

        The gradient of such an input is the sum over all values that it had, so changes of the input that
        were requested stay.
        """
        if not write.settled:
            return False
        arrays = self.tape.regions.get(cast("Region", write.region), ())
        kinds = {array.scalar_dtype for array in arrays}
        if len(kinds) != 1 or not is_float(next(iter(kinds))):
            return False
        if self._written is None:
            self._written = {
                access.array.region for o in self.operations for access in o.accesses if access.writes
            }
        return write.region not in self._written

    def _continue_from(self, write: Injection) -> None:
        """Load a write, and add the difference of the values before it to those that the tape found."""
        region = cast("Region", write.region)
        found = self._found.get(region)
        if found is None:
            content = self.tape.live_in(region)
            found = widened(content, self.wide[region]) if region in self.wide else content.copy()
            self._found[region] = found
        scalar = next(iter(self.tape.regions[region])).scalar_dtype
        kind = np.dtype(np.float64) if region in self.wide else scalar
        size = found.size // kind.itemsize * kind.itemsize
        now, plain = self.memory.bytes[region][:size].view(kind), found[:size].view(kind)
        bits = np.dtype(f"u{kind.itemsize}")
        changed = now.view(bits) != plain.view(bits)  # what is no number differs from itself
        difference = (now - plain)[changed]
        write.load(self.memory)
        write.load(Memory({region: found}, self.wide))
        now[:] = plain
        now[changed] += difference

    def _run(self, index: int, skipped: bool) -> None:
        step = None if skipped else self._steps[index]
        if self.forward_only:
            if step is not None:
                self._advance(index, step)
            self._saved.append(NONE)
            return
        ranges = self._ranges(index)
        found = self._keep(ranges.before)
        if step is not None:
            for region, start, stop in ranges.writes:
                if region in self._open:
                    self._preserve(region, start, stop)
            self._advance(index, step)
        self._saved.append((found, self._keep(ranges.after)))

    def _advance(self, index: int, step: Step) -> None:
        """Run an operation; `OperationTangentReplay` replaces this."""
        step.forward(self.memory)

    def _ranges(self, index: int) -> OperationRanges:
        found = self._kept.ranges[index]
        if found is None:
            found = self._kept.ranges[index] = OperationRanges(self.operations[index])
        return found

    def _keep(self, ranges: Sequence[Range]) -> list[_SavedRange]:
        """Return the current values of ranges, which are copied just before they are overwritten."""
        found = []
        for region, start, stop in ranges:
            known = self._open.get(region)
            if known is None:
                known = self._open[region] = {}
            saved = known.get((start, stop))
            if saved is None:
                saved = known[start, stop] = _SavedRange(region, start, stop)
            found.append(saved)
        return found

    def _preserve(self, region: Hashable, start: int, stop: int) -> None:
        """Copy the values that adjoints need from a range that is about to be overwritten."""
        known = self._open.get(region)
        if not known:
            return
        for low, high in [key for key in known if key[0] < stop and start < key[1]]:
            known.pop((low, high)).copy = self.memory.range(region, low, high).copy()

    # -- reverse ----------------------------------------------------------------------------------------

    def backward(
        self,
        seeds: Mapping[A, Values] | None,
        consume: Consume = "versions",
        start: int | None = None,
        stop: int = 0,
        on_operation: Callable[[Any], Any] | None = None,
        skip: Collection[int] = (),
    ) -> OperationReplay:
        """Run the adjoints of the operations `start-1 … stop`, after `forward`; see `contract.Replay`."""
        if self.forward_only:
            raise TapeError("replay: this replay runs forward only", hint="make another one to run backward")
        first = self.position if start is None else start
        if first > self.position:
            raise TapeError(
                f"replay: cannot run backward from operation {first}: forward has run {self.position}",
                hint="run forward further first",
            )
        self._unused = None
        if seeds is not None:
            self._kept.clear_adjoint()
            for array, values in seeds.items():
                self.set_gradient(array, values)
        self._kept.has_adjoints = True
        for loaded in self._loaded:
            loaded.clear()
        adjoint = self.adjoint
        current = self._as_they_ended() if consume == "current" else None
        for index in reversed(range(stop, first)):
            if self.pulse is not None:
                self.pulse()
            operation, step = self.operations[index], self._steps[index]
            if step is not None and operation.has_adjoint and index not in skip:
                if current is not None and operation.capability(ReadsStoredValues) is None:
                    program = operation.capability(ProgramReverse)
                    if program is None:
                        step.vjp(current, current, adjoint)
                    else:
                        program.program_vjp(step, current, adjoint)
                else:
                    self._pull(operation, step)
            if self.after_adjoint is not None:
                self.after_adjoint(self, operation)
            if on_operation is not None:
                on_operation(operation)
        return self

    def _pull(self, operation: ExecutableOperation, step: Step) -> None:
        """Run an adjoint with the values that its operation had."""
        if all(saved.copy is None for ranges in self._saved[operation.index] for saved in ranges):
            step.vjp(self.memory, self.memory, self.adjoint)  # they are where the forward run left them
            return
        self.load_values(operation.index)
        given = self.before
        if self._ranges(operation.index).is_measured:
            given = self.after if given_values(self.tape)[operation.index] == "after" else self.before
        step.vjp(given, self.after, self.adjoint)

    def load_values(self, index: int) -> None:
        """Fill `before` and `after` with the values around an operation that its adjoint may read."""
        for memory, loaded, ranges in zip(
            (self.before, self.after), self._loaded, self._saved[index], strict=True
        ):
            for saved in ranges:
                self._load(memory, loaded.setdefault(saved.region, {}), saved)

    def _load(self, memory: Memory, loaded: dict[tuple[int, int], _SavedRange], saved: _SavedRange) -> None:
        key = saved.start, saved.stop
        if loaded.get(key) is saved:
            return
        content = saved.copy if saved.copy is not None else self.memory.range(saved.region, *key)
        memory.range(saved.region, *key)[:] = content
        for low, high in [other for other in loaded if other[0] < key[1] and key[0] < other[1]]:
            del loaded[low, high]
        loaded[key] = saved

    def _as_they_ended(self) -> Memory:
        """Return memory as the program's reverse pass found it, with the writes after the last operation."""
        if self.position < len(self.operations):
            return self.memory
        late = [write for write in self.tape.injections(self.position) if not write.settled]
        if not late:  # a copy of all memory would be the same
            return self.memory
        ended = self._kept.memory_at_end()
        for write in late:
            write.load(ended)
        return ended

"""Intercepted calls that copy, fill and reduce arrays without a kernel of the program."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from tapedebug.watch.builtin_operations import CopyOperation, FillOperation
from tapedebug.watch.call_site import user_place
from tapedebug.watch.hooks import WarpObject, is_capturing, look_up, parameter_names
from tapedebug.watch.memory import WatchedArray
from tapedebug.watch.recorder.recording import Calls, Recording
from tapedebug.watch.recorder.transfer_calls import TransferCalls
from tapedebug.watch.tape import Computed


class WriteCalls(Calls):
    """Handlers of copies, fills and reductions.

    Args:
        recording: The recording.
        transfers: Notes what they read.
    """

    def __init__(self, recording: Recording, transfers: TransferCalls) -> None:
        super().__init__(recording)
        self._transfers = transfers
        self._accumulates = "dest_retain_grad" in parameter_names(look_up("warp._src.context:adj_copy"))
        version = str(look_up("warp:config.version")).split(".")
        self._swaps_offsets = [int(part) for part in version[:2]] < [1, 15]  # see `CopyOperation`

    def copy(self, original: FunctionType, *args: object, **named: object) -> Any:
        """Record a copy between arrays."""
        given: dict[str, Any] = {**dict(zip(parameter_names(original), args, strict=False)), **named}
        dest, src = given.get("dest"), given.get("src")
        tape = self.recording.tape()
        if isinstance(src, self.array):
            self._transfers.note_gradient_read(src, "copy")
        if not isinstance(dest, self.array) or not isinstance(src, self.array):
            return self._written(getattr(dest, "data", dest), "copy", lambda: original(*args, **named))
        known = self.memory.is_known(dest), self.memory.is_known(src)
        if tape is None or not (any(known) or src.requires_grad) or is_capturing(dest.device):
            copied = src if tape is None and known[1] else None
            result = self._written(dest, "copy", lambda: original(*args, **named), copied)
            if tape is None and self.earlier.wants((dest, src)):
                self.earlier.note("copy", None, "copy", user_place(), (dest, src))
            return result
        if not known[1] and isinstance(getattr(src, "_ref", None), np.ndarray):
            return self._written(dest, "assign", lambda: original(*args, **named))
        place = user_place()
        operation = None
        with self.recording.guarded(tape, "a copy", place):
            count = given.get("count", 0) or src.size
            to, source = self.memory.array_of(dest), self.memory.array_of(src)
            swapped = None
            if count and dest.dtype == src.dtype:
                offsets = given.get("dest_offset", 0), given.get("src_offset", 0)
                fits = max(offsets) + count <= min(to.size, source.size)
                if self._swaps_offsets and offsets[0] != offsets[1] and fits:
                    swapped = (
                        self.memory.part_of(to, offsets[1], count),
                        self.memory.part_of(source, offsets[0], count),
                    )
                to = self.memory.part_of(to, offsets[0], count)
                source = self.memory.part_of(source, offsets[1], count)
                if to.size == source.size and (
                    to.shape == source.shape or (to.is_contiguous and source.is_contiguous)
                ):
                    operation = CopyOperation(to, source, place, False, self._accumulates, swapped)
        if operation is None:
            return self._written(dest, "copy", lambda: original(*args, **named))
        warp_tape = self.recording.runtime.tape
        before = len(warp_tape.launches)
        result = tape.record(operation, lambda: original(*args, **named))
        operation.taped = len(warp_tape.launches) > before
        return result

    def fill(self, original: FunctionType, array: WarpObject, *args: object, **named: object) -> Any:
        """Record `fill_`."""
        if self._transfers.may_be_gradient(array) and self.memory.with_gradient_at(array) is None:
            with self.recording.guarded(None, "an array that is filled"):
                self.history.note_early_fill(array, "fill_", user_place())
        return self._filled(array, "fill_", lambda: original(array, *args, **named))

    def zero(self, original: FunctionType, array: WarpObject) -> Any:
        """Record `zero_`."""
        return self._filled(array, "zero_", lambda: original(array))

    def fill_indexed(self, original: FunctionType, array: WarpObject, *args: object, **named: object) -> Any:
        """Note that a part of an array is filled."""
        return self._written(getattr(array, "data", None), "fill", lambda: original(array, *args, **named))

    def _filled(self, array: WarpObject, method: str, run: Callable[[], Any]) -> Any:
        if not array.ptr or not self._live:
            self.unwritten.written(array)
            self.earlier.written(array)
            return run()
        tape = self.recording.tape()
        gradient = self.memory.with_gradient_at(array)
        if gradient is not None:
            result = run()
            with self.recording.guarded(None, "a gradient that is set"):
                self.history.note_gradient("zero", gradient, method, user_place())
            return result
        if tape is None or not self.memory.is_known(array) or is_capturing(array.device):
            return self._written(array, "fill", run)
        operation = None
        with self.recording.guarded(tape, f"a call of {method}"):
            operation = FillOperation(self.memory.array_of(array), user_place(), method)
        if operation is None:
            return run()
        filled = operation

        def fill() -> Any:
            result = run()
            filled.note_value()
            return result

        return tape.record(operation, fill)

    def reduced(self, original: FunctionType, *args: object, **named: object) -> Any:
        """Note a sum or an inner product that Warp computes without a launch, which no tape records."""
        given = {**dict(zip(parameter_names(original), args, strict=False)), **named}
        out = given.get("out")
        sources = [a for name in ("values", "a", "b") if isinstance(a := given.get(name), self.array)]
        computed: Computed | None = None
        written: list[WatchedArray] = []
        if self._live and isinstance(out, self.array) and any(map(self.memory.is_known, sources)):
            with self.recording.guarded(None, f"the call of {original.__name__}"):
                computed = "call", original.__name__, [self.memory.array_of(a) for a in sources]
                written.append(self.memory.array_of(out))
        if not written:
            for source in sources if out is None and self._live else ():  # the result is a number
                self._transfers.note_read(source, original.__name__)
            return self._written(out, "launch", lambda: original(*args, **named))
        self.unwritten.written(out)
        return self.recording.outside(
            lambda: original(*args, **named), written, "launch", user_place(), computed
        )

    def _written(self, array: WarpObject, how: str, run: Callable[[], Any], copied: WarpObject = None) -> Any:
        """Run something that writes an array, and note that for the tapes that use its memory.

        Args:
            array: The array.
            how: The way it is done.
            run: Runs it.
            copied: An array that a tape uses and that is copied while none records; else None.
        """
        known: list[WatchedArray] = []
        place = user_place()
        computed: Computed | None = None
        self.unwritten.written(array)
        self.earlier.written(array)
        if self._live and isinstance(array, self.array):
            with self.recording.guarded(None, "a write", place):
                if copied is not None:
                    computed = "copy", how, [self.memory.array_of(copied)]
                if computed is not None or self.memory.is_known(array):
                    known.append(self.memory.array_of(array))
                gradient = self.memory.with_gradient_at(array)
                if gradient is not None:
                    self.history.note_gradient("write", gradient, how, place)
        return self.recording.outside(run, known, how, place, computed) if known else run()

"""Intercepted methods of Warp's tapes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tapedebug._tape_observers import link, notify
from tapedebug.contract import Array, Engine, Values
from tapedebug.operations import FunctionOperation, ReplayableFunction
from tapedebug.watch.builtin_operations import OpaqueFunction
from tapedebug.watch.call_site import user_frame, user_place
from tapedebug.watch.hooks import WarpObject, is_capturing, look_up
from tapedebug.watch.recorder.earlier_sources import EarlierSources
from tapedebug.watch.recorder.recording import Calls, Recording
from tapedebug.watch.tape import WatchedTape


class TapeCalls(Calls):
    """Handlers of the methods of tapes.

    Args:
        recording: The recording.
        sources: The search for launches before a tape.
    """

    def __init__(self, recording: Recording, sources: EarlierSources) -> None:
        super().__init__(recording)
        self.arguments = recording.arguments
        self._sources = sources

    def enter(self, original: FunctionType, tape: WarpObject) -> Any:
        """Begin to record with a tape."""
        result = original(tape)
        found = self.recording.tapes.get(tape)
        if found is None:
            if tape.launches:
                self.recording.tape()
                return result
            device = str(look_up("warp:get_device")())
            engine = Engine("NVIDIA Warp", str(look_up("warp:config.version")), device)
            found = self.recording.tapes[tape] = WatchedTape(
                engine, self.memory, user_place(), self.recording.budget, self.history, self.unwritten
            )
            found.sees_all_arrays = self.recording.sees_all_arrays
            link(tape, found)
            self._live.add(found)
            self.recording.retention.tape_created(found)
        found.begin()
        self.recording.current = tape, found
        return result

    def exit(self, original: FunctionType, tape: WarpObject, *error: object) -> Any:
        """End recording with a tape."""
        try:
            return original(tape, *error)
        finally:
            found = self.recording.tapes.get(tape)
            self.recording.current = None, None
            if found is not None and found.is_recording:
                with self.recording.guarded(found, "the names of a tape's arrays"):
                    found.find_names(user_frame())
                with self.recording.guarded(found, "launches before a tape"):
                    self._sources.note(found, user_frame())
                with self.recording.guarded(found, "the end of a tape"):
                    found.end()
                    self.recording.retention.tape_exited(found)

    def backward(
        self,
        original: FunctionType,
        tape: WarpObject,
        loss: WarpObject = None,
        grads: Mapping[WarpObject, WarpObject] | None = None,
    ) -> Any:
        """Note a reverse pass, with its seeds and the gradients that it leaves."""
        found = self.recording.tapes.get(tape)
        if found is None and tape.launches and tape not in self.recording.uncovered:
            self.recording.uncovered.add(tape)
            self.recording.skip(None, "a reverse pass", "its tape was recorded before watching began")
        if found is None or not found.operations or _is_capturing_now():
            return original(tape, loss, grads)
        place = user_place()
        with contextlib.ExitStack() as stack:
            with self.recording.guarded(found, "a reverse pass"):
                found.note_gradients(grads or {})
                found.note_structs(self.arguments)
                seeds: dict[Array, Values] = {}
                target = None
                if loss:
                    target = self.memory.array_of(loss)
                    seeds[target] = np.ones((*target.shape, *target.element_shape))
                for array, seed in (grads or {}).items():
                    known = self.memory.array_of(array)
                    values = seed.numpy() if hasattr(seed, "numpy") else seed
                    seeds[known] = np.asarray(values).reshape(*known.shape, *known.element_shape)
                stack.enter_context(found.reverse_pass(seeds, target, place))
            result = original(tape, loss, grads)
            with self.recording.guarded(found, "the gradients of a reverse pass"):
                found.note_consumed()
        self.recording.retention.backward_done(found)
        return result

    def zero(self, original: FunctionType, tape: WarpObject) -> Any:
        """Note that gradients of a tape are zeroed: those that its reverse passes have used."""
        found = self.recording.tapes.get(tape)
        result = original(tape)
        if found is not None:
            with self.recording.guarded(found, "zeroed gradients"):
                found.note_zeroed(user_place())
        return result

    def reset(self, original: FunctionType, tape: WarpObject) -> Any:
        """Finish the recording of a tape: what it records next is another one."""
        found = self.recording.tapes.get(tape)
        result = original(tape)
        if found is not None:
            with self.recording.guarded(found, "a tape that is reset"):
                found.note_zeroed(user_place())
                notify("tape_reset", found)
                self.recording.retention.tape_reset(found)
            del self.recording.tapes[tape]
            self.recording.current = None, None
        return result

    def function(
        self, original: FunctionType, tape: WarpObject, backward: object, arrays: Sequence[WarpObject]
    ) -> Any:
        """Record a function that only runs in reverse."""
        found = self.recording.tapes.get(tape)
        if found is not None and isinstance(backward, ReplayableFunction):
            return self._replayable(found, backward, lambda: original(tape, backward, arrays))
        result = original(tape, backward, arrays)
        if found is not None:
            name = getattr(backward, "__name__", type(backward).__name__)
            with self.recording.guarded(found, f"record_func({name})"):
                known = [self.memory.array_of(array) for array in arrays]
                found.record(OpaqueFunction(name, known, user_place()), lambda: None)
        return result

    def _replayable(self, tape: WatchedTape, function: ReplayableFunction, record: Callable[[], Any]) -> Any:
        """Run a function that a program puts on Warp's tape, and record it as an operation."""
        place = user_place()
        operation = None
        with self.recording.guarded(tape, f"the call of {function.name}", place):
            reads = [self.memory.array_of(a) for a in function.reads]
            writes = [self.memory.array_of(a) for a in function.writes]
            operation = FunctionOperation(function, reads, writes, place)
            for array, name in function.labels:
                tape.name_array(self.memory.array_of(array), name)
        if operation is None:
            function.run()
            return record()
        tape.record(operation, function.run)
        return record()

    def scope_begin(
        self, original: FunctionType, tape: WarpObject, scope_name: str, *rest: object, **named: object
    ) -> Any:
        """Begin a group of operations."""
        found = self.recording.tapes.get(tape)
        if found is not None:
            found.open_scope(str(scope_name))
        return original(tape, scope_name, *rest, **named)

    def scope_end(self, original: FunctionType, tape: WarpObject, *rest: object, **named: object) -> Any:
        """End a group of operations."""
        result = original(tape, *rest, **named)
        found = self.recording.tapes.get(tape)
        if found is not None:
            found.close_scope()
        return result


def _is_capturing_now() -> bool:
    return is_capturing(look_up("warp:get_device")())

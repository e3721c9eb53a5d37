"""Intercepted calls with which a program makes arrays, their gradients, meshes and grids."""

from __future__ import annotations

import sys
from types import FunctionType
from typing import Any

from tapedebug.watch.call_site import is_user, user_place
from tapedebug.watch.hooks import WarpObject, parameter_names
from tapedebug.watch.host_transfers import host_place
from tapedebug.watch.recorder.recording import Calls, Recording

POINTER = 3
"""The position of `ptr` among the arguments of `warp.array` after `data`."""


class CreationCalls(Calls):
    """Handlers of what makes arrays and other objects of Warp.

    Args:
        recording: The recording.
    """

    def __init__(self, recording: Recording) -> None:
        super().__init__(recording)
        self.objects = recording.objects

    def empty(self, original: FunctionType, *args: object, **named: object) -> Any:
        """Note memory that the program itself allocates without values."""
        found = original(*args, **named)
        if is_user(sys._getframe(3)):  # the frames of this method, its entry and the redirection are known
            with self.recording.guarded(None, "an array without values"):
                self.unwritten.note_made(found)
        return found

    def new_array(
        self, original: FunctionType, array: WarpObject, data: object = None, *args: object, **named: object
    ) -> None:
        """Note an array that the program makes of values from outside while a tape records."""
        original(array, data, *args, **named)
        at = named.get("ptr", args[POINTER] if len(args) > POINTER else None)
        if data is None and at is None and is_user(sys._getframe(3)):
            with self.recording.guarded(None, "an array without values"):
                self.unwritten.note_made(array)
        if data is not None and array.requires_grad and is_user(sys._getframe(3)):
            with self.recording.guarded(None, "an array with values"):
                self.unwritten.note_given(array)
        if data is None or not self._live or not getattr(array, "ptr", None):
            return
        tape = self.recording.tape()
        if tape is not None and not isinstance(data, self.array):
            with self.recording.guarded(tape, "an array that is made of values"):
                if not self.memory.is_known(array):
                    tape.transfers.note_arrival(array, "array", host_place(), len(tape.operations))

    def from_torch(self, original: FunctionType, t: object, *args: object, **named: object) -> Any:
        """Note an array over the memory of a tensor that the program makes while a tape records."""
        made = original(t, *args, **named)
        tape = self.recording.tape() if self._live else None
        if tape is not None and isinstance(made, self.array):
            with self.recording.guarded(tape, "an array that is made of a tensor"):
                if not self.memory.is_known(made):
                    computed = t if getattr(t, "grad_fn", None) is not None else None
                    at = len(tape.operations)
                    tape.transfers.note_arrival(made, "from_torch", host_place(), at, computed)
        return made

    def gradient(self, original: FunctionType, array: WarpObject, gradient: WarpObject) -> None:
        """Note where the program gives an array another array as its gradient."""
        original(array, gradient)
        if isinstance(gradient, self.array):
            with self.recording.guarded(None, "a gradient that is set"):
                self.memory.note_gradient_given(array, user_place())

    def requires_grad(self, original: FunctionType, array: WarpObject, value: object) -> None:
        """Note that the program sets `requires_grad` of an array that a tape uses."""
        changes = self._live and bool(value) != (array.grad is not None)
        original(array, value)
        if changes:
            with self.recording.guarded(None, "requires_grad that is set"):
                if self.memory.is_known(array):
                    known, place = self.memory.array_of(array), user_place()
                    for tape in self._live:
                        if tape.uses(known):
                            tape.note_requires_grad(known, bool(value), place)

    def made(self, original: FunctionType, made: WarpObject, *args: object, **named: object) -> Any:
        """Note a mesh, a bounding volume hierarchy or a hash grid that the program makes."""
        result = original(made, *args, **named)
        options = {**dict(zip(parameter_names(original)[1:], args, strict=False)), **named}
        with self.recording.guarded(None, f"a {type(made).__name__}"):
            self.objects.note_made(made, options)
        return result

    def grid_build(
        self,
        original: FunctionType,
        grid: WarpObject,
        points: WarpObject,
        radius: float,
        *rest: object,
        **named: object,
    ) -> Any:
        """Note the points that a hash grid is built of."""
        result = original(grid, points, radius, *rest, **named)
        self.objects.note_built(grid, points, radius, *rest, *named.values())
        return result

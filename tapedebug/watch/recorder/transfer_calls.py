"""Intercepted calls through which a program reads arrays and gradients of Warp."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from tapedebug.contract import Values
from tapedebug.watch.call_site import user_place
from tapedebug.watch.hooks import WarpObject
from tapedebug.watch.host_transfers import host_place
from tapedebug.watch.memory import is_on_host
from tapedebug.watch.recorder.recording import Calls

SMALL_GRADIENT = 1_000_000
"""Largest number of elements of an array whose early reads are noted, which computes its norm."""


class TransferCalls(Calls):
    """Handlers of reads through NumPy, lists and PyTorch.

    Args:
        recording: The recording.
    """

    def read_numpy(self, original: FunctionType, array: WarpObject, *args: object, **named: object) -> Any:
        """Note that the program reads an array or a gradient through NumPy."""
        found = original(array, *args, **named)
        self._note_view(array)
        if self._live:
            self.note_read(array, "numpy")
        self.note_gradient_read(array, "numpy", found)
        return found

    def read_list(self, original: FunctionType, array: WarpObject) -> Any:
        """Note that the program reads an array or a gradient as a list."""
        if self._live:
            self.note_read(array, "list")
        self.note_gradient_read(array, "list")
        return original(array)

    def read_torch(self, original: FunctionType, a: WarpObject, *args: object, **named: object) -> Any:
        """Note that the program reads an array or a gradient through PyTorch."""
        self._note_view(a)
        if self._live:
            self.note_read(a, "to_torch")
        self.note_gradient_read(a, "to_torch")
        return original(a, *args, **named)

    def array_interface(self, original: FunctionType, array: WarpObject) -> Any:
        """Note that another library may get a view of an array."""
        self._note_view(array)
        return original(array)

    def _note_view(self, array: WarpObject) -> None:
        """Note that the program may write an array through a view from now on."""
        with self.recording.guarded(None, "a view of an array"):
            self.unwritten.written(array)
            self.earlier.viewed(array)
            if self._live and self.memory.is_known(array):
                known = self.memory.array_of(array)
                for tape in self._live:
                    tape.note_perhaps_written(known)

    def note_read(self, array: WarpObject, how: str) -> None:
        """Note for the tapes that use an array, and for the one that records, that the program reads it."""
        with self.recording.guarded(None, "an array that is read"):
            if not isinstance(array, self.array) or not self.memory.is_known(array):
                return
            known, tape = self.memory.array_of(array), self.recording.tape()
            readers = [each for each in self._live if each is tape or each.uses(known)]
            place = host_place() if readers else None
            for each in readers:
                own = each is tape
                at = len(each.operations) if own else None
                assert place is not None
                each.transfers.note_read(known, how, place, at, tape is not None and not own)

    def note_gradient_read(self, array: WarpObject, how: str, view: Values | None = None) -> None:
        """Note that the program reads a gradient, or an array that may turn out to be one."""
        gradient = self.memory.with_gradient_at(array)
        if gradient is not None:
            with self.recording.guarded(None, "a gradient that is read"):
                values = gradient.current_gradient()
                self.history.note_gradient("read", gradient, how, user_place(), values, view)
        elif self.may_be_gradient(array):
            with self.recording.guarded(None, "an array that is read"):
                self.history.note_early_read(array, how, user_place(), self.memory.values_of(array))

    def may_be_gradient(self, array: WarpObject) -> bool:
        """True if an array that no tape uses may turn out to be the gradient of one."""
        return (
            type(array) is self.array
            and bool(array.ptr)
            and array.size <= SMALL_GRADIENT
            and not array.requires_grad
            and is_on_host(array.device)
            and self.memory.element_type(array.dtype).is_float
            and not self.memory.is_known(array)
        )

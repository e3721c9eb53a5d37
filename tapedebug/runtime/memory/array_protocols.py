"""Array protocols for other libraries: NumPy's array interface, DLPack, copies and pickles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._errors import ArrayError
from tapedebug._float_types import is_bfloat16
from tapedebug.lang import types
from tapedebug.lang.compound_types import from_words, in_words
from tapedebug.runtime.memory import convert
from tapedebug.runtime.memory.buffer import Window
from tapedebug.runtime.tape.gradient_history import note_read

if TYPE_CHECKING:
    from tapedebug.runtime.memory.array import Values, array

_HOST = (1, 0)
"""The CPU as a DLPack device: (kDLCPU, device 0)."""


class ArrayProtocols:
    """The methods by which other libraries read and share the memory of an array.

    Code that shares memory can write it without notifying the tape. The buffer counts such views as long as
    they live (`windows`), and meanwhile tapes copy the values that they rely on and compare them later.
    """

    __slots__ = ()

    def _numpy_view(self: Any) -> Values:
        """Return a NumPy view for short internal use; it does not count as a window."""
        scalar = types.numpy_dtype(self.dtype)
        inner = types.value_shape(self.dtype)
        shape, strides, buffer = self.shape, self.strides, self.buffer
        if inner:
            shape += inner
            strides += convert.contiguous_strides(inner, scalar.itemsize)
        return np.ndarray(shape, scalar, buffer.data.data, self.ptr - buffer.address, strides)

    @property
    def __array_interface__(self: Any) -> dict[str, Any]:
        look = self._numpy_view()
        if look.dtype.kind == "V":  # an interface cannot describe these: NumPy calls `__array__` then
            raise AttributeError(f"arrays of {types.type_name(self.dtype)} have no __array_interface__")
        note_read(self, "numpy")
        whole = {
            "data": (self.buffer.address, False),
            "shape": (self.buffer.nbytes,),
            "typestr": "|u1",
            "version": 3,
        }
        return {
            # A byte array instead of an address: the array that NumPy derives from it keeps the window open.
            "data": np.asarray(Window(self.buffer, whole, self.start, self.stop)),
            "offset": self.ptr - self.buffer.address,
            "shape": look.shape,
            "strides": look.strides,
            "typestr": look.dtype.str,
            "version": 3,
        }

    def __array__(self: Any, dtype: Any = None, copy: bool | None = None) -> Values:
        """Return the values for NumPy if the elements are structs or bfloat16."""
        values: Values = self.numpy()
        return np.array(values, dtype=dtype) if copy or dtype not in (None, values.dtype) else values

    def numpy(self: Any) -> Values:
        """Return the values as a NumPy array of shape `shape` plus the vector dimension, sharing memory.

        For structs, it is a structured array. Writing into it changes the array without notifying the tape,
        which detects the change by comparison; prefer `assign`.
        """
        note_read(self, "numpy")
        values: Values = self._shared()
        return values

    def _shared(self: Any) -> Values:
        """Return the view that `numpy` gives; callers that pass it on call `note_read` first."""
        look = self._numpy_view()
        interface = {
            "data": (self.ptr, False),
            "shape": look.shape,
            "strides": look.strides,
            "typestr": look.dtype.str,
            "version": 3,
        }
        values = np.asarray(Window(self.buffer, interface, self.start, self.stop))
        return values.view(look.dtype) if look.dtype.kind == "V" else values

    def list(self: Any) -> list[Any]:
        """Return all elements in a flat list: Python numbers, vectors, matrices, quaternions or structs."""
        note_read(self, "list")
        look = self._numpy_view()
        if types.is_struct(self.dtype):
            from tapedebug.runtime.memory.held_arrays import array_at

            return [self.dtype.from_numpy(one, array_at) for one in look.reshape(-1)]
        if not types.value_shape(self.dtype):
            return list((look.astype(np.float32) if is_bfloat16(look.dtype) else look).reshape(-1).tolist())
        return [self.dtype(*one) for one in look.reshape(-1, types.components(self.dtype))]

    def __iter__(self: Any) -> Iterator[Any]:
        return (self[i] for i in range(self.shape[0]))

    def __dlpack__(self: Any, **options: Any) -> Any:
        """Return a DLPack capsule that shares the memory; vector elements are a last dimension.

        Args:
            options: `stream`, `max_version`, `dl_device` and `copy`, as the protocol defines them.

        Raises:
            ArrayError: A stride is negative, which DLPack consumers do not expect, or elements are structs.
        """
        if types.is_struct(self.dtype):
            raise ArrayError(
                f"an array of {types.type_name(self.dtype)} cannot be shared through DLPack, which has no "
                "structs",
                hint="share the arrays of its fields",
            )
        if types.scalar_of(self.dtype) is types.bfloat16:
            raise ArrayError(
                "an array of bfloat16 cannot be shared through DLPack: NumPy has no such type",
                hint="share the bits: wp.from_numpy(a.numpy().view(np.uint16)), which the other side views",
            )
        if any(s < 0 for s, n in zip(self.strides, self.shape, strict=True) if n > 1):
            raise ArrayError(
                f"an array with negative strides {self.strides} cannot be shared through DLPack",
                hint="share contiguous(), which is a copy",
            )
        note_read(self, "dlpack")
        return self._shared().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's type and number of the device that holds the memory: the CPU."""
        return _HOST

    def __copy__(self: Any) -> array:
        """Return a second array over the same memory."""
        from tapedebug.runtime.memory.array import make

        return make(self.buffer, self.ptr, self.dtype, self.shape, self.strides, like=self)

    def __deepcopy__(self: Any, memo: dict[int, Any]) -> array:
        """Return a contiguous copy with a copy of the gradient; tapes do not record it."""
        function, state = self._pickled()
        made: array = function(*state)
        if types.is_struct(self.dtype):
            from tapedebug.runtime.memory.held_arrays import keep_alive

            keep_alive(made)
        return made

    def __reduce__(self: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return values, type and gradient for pickling; views and tapes are not included.

        Raises:
            ArrayError: Its elements hold arrays, of which they have addresses only.
        """
        if types.is_struct(self.dtype) and self.dtype.holds_arrays():
            raise ArrayError(
                f"an array of {types.type_name(self.dtype)} cannot be pickled: its elements hold addresses "
                "of arrays",
                hint="pickle list(), a list of structs with their arrays",
            )
        made: tuple[Any, tuple[Any, ...]] = self._pickled()
        return made

    def _pickled(self: Any) -> tuple[Any, tuple[Any, ...]]:
        """Return the function that makes an equal array, and its arguments."""
        gradient = (
            self.grad._numpy_view().copy() if self.requires_grad and self.buffer.adjoint is not None else None
        )
        state = (
            self._numpy_view().copy(),
            _spelled(self.dtype),
            self.requires_grad,
            self.retain_grad,
            gradient,
        )
        return _rebuilt, state


def _spelled(dtype: Any) -> Any:
    """Return a description from which another process can recreate a type; a struct is found by name."""
    return dtype if types.is_struct(dtype) else in_words(dtype)


def _rebuilt(
    values: Values,
    spelled: Any,
    grad: bool,
    retain: bool,
    gradient: Values | None,
) -> array:
    """Recreate an array from the state that `ArrayProtocols.__reduce__` returns."""
    from tapedebug.runtime.memory.array import new

    dtype = spelled if types.is_struct(spelled) else from_words(*spelled)
    inner = () if types.is_struct(dtype) else types.value_shape(dtype)
    made = new(values.shape[: values.ndim - len(inner)], dtype)
    made._numpy_view()[...] = values
    made.requires_grad, made.retain_grad = grad, retain
    if gradient is not None and made.grad is not None:
        made.grad._numpy_view()[...] = gradient
    return made

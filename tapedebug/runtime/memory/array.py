"""The array: a typed, strided view of a buffer.

Views (slices, `reshape`, `flatten`, `transpose`, `view`) share their buffer with its gradient memory, so that
versions and gradients belong to memory, not to Python objects.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from struct import Struct
from typing import Any

import numpy as np

from tapedebug._display import renderer
from tapedebug._errors import ArrayError
from tapedebug.lang import types
from tapedebug.runtime.device import CPU, Device, get_device
from tapedebug.runtime.memory import convert
from tapedebug.runtime.memory.array_protocols import ArrayProtocols
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.memory.derivable import Derivable
from tapedebug.runtime.memory.operators import Arithmetic
from tapedebug.runtime.state import here

Values = np.ndarray[Any, Any]
Shape = tuple[int, ...]

_SLOTS = tuple(Struct(f"=Q{2 * ndim}q") for ndim in range(5))

KINDS: dict[tuple[Any, int, bool, bool, bool], int] = {}
"""Small integers for (dtype, ndim, contiguous, requires_grad, is a gradient): keys of `launch` plans."""


class array(ArrayProtocols, Arithmetic, Derivable, by_program=False):
    """A fixed-size array of scalars or vectors, of 1 to 4 dimensions.

    `array(dtype=float)`, `array(dtype=vec3, ndim=2)` and `array[float]` (without data) are annotations of
    kernel parameters. Arrays hash and compare by identity, so they can be keys of `Tape.gradients`.

    Args:
        data: A sequence, a NumPy array or another array. Vector elements come from vectors or from a last
            dimension of their length: `(N, 3)` gives N vec3. Complex NumPy numbers give a vec2 of real and
            imaginary part.
        dtype: Element type; `float`, `int`, `bool` mean float32, int32, bool. By default that of the data (a
            list of Python floats is float64, as in NumPy).
        shape: Shape of the array, without the vector dimension. Given alone, the content is undefined.
        strides: Byte strides, with `ptr` only.
        ptr: Address of existing memory to use. If it lies within the memory of another array, the two share
            gradients and versions, like views.
        capacity: Bytes of that memory, if it is larger than the shape needs.
        device: Only `"cpu"` exists.
        pinned: Accepted and ignored on the CPU.
        copy: False uses the memory of a NumPy array of the right dtype instead of copying it.
        deleter: Called with the address and size of the memory at `ptr` when it is no longer used. Without a
            deleter, keep the owner of the memory alive.
        ndim: Number of dimensions of an annotation.
        grad: The gradient array; implies `requires_grad`.
        requires_grad: True if the array takes part in differentiation.
        retain_grad: Keep `.grad` of an intermediate array after `Tape.backward`: for each element, the
            adjoint of its value after the last launch that wrote it or the part of the array around it.

    Raises:
        ArrayError: Data, dtype and shape do not fit together.
        DeviceError: There is no such device.
    """

    __slots__ = (
        "__weakref__",
        "_fields",
        "_grad",
        "_kind",
        "_packed",
        "_requires_grad",
        "_retain_grad",
        "buffer",
        "dtype",
        "is_contiguous",
        "ndim",
        "part",
        "ptr",
        "shape",
        "size",
        "start",
        "stop",
        "strides",
    )

    dtype: Any
    """Element type: a scalar or vector class of the kernel language."""
    shape: Shape
    strides: Shape
    """Bytes between neighbours, for each dimension."""
    ndim: int
    size: int
    """Number of elements."""
    ptr: int
    """Address of element (0, …)."""
    buffer: Buffer
    start: int
    """First byte of the buffer that the elements occupy."""
    stop: int
    is_contiguous: bool
    part: str
    """For a view of a field of an array of structs, the suffix of the array's name: `.pos`."""
    _retain_grad: bool
    _fields: tuple[array, ...] | None
    """For an array of structs, the cached views of its fields at any depth (`struct_fields.leaves`)."""
    _kind: int
    _packed: bytes
    """Pointer, shape and strides, packed as kernels take them."""
    _requires_grad: bool
    _grad: array | None

    _ndim_wanted = 0

    def __new__(  # noqa: D102
        cls,
        data: Any = None,
        dtype: Any = None,
        shape: Any = None,
        strides: Any = None,
        ptr: int | None = None,
        capacity: int | None = None,
        device: Any = None,
        pinned: bool = False,
        copy: bool = True,
        deleter: Callable[[int, int], object] | None = None,
        ndim: int | None = None,
        grad: array | None = None,
        requires_grad: bool = False,
        retain_grad: bool = False,
    ) -> Any:
        if data is None and ptr is None and shape is None:
            return types.ArrayType(float if dtype is None else dtype, ndim or cls._ndim_wanted or 1)
        from tapedebug.runtime.memory import construct

        get_device(device)
        if data is not None:
            made = construct.from_data(data, None if dtype is Any else dtype, shape, copy)
            if here.thread.tape is not None:
                _border().arrived(made, "array", data)
        elif ptr is not None:
            kind = float if dtype is None else dtype
            made = construct.from_pointer(ptr, shape, kind, strides, capacity, deleter)
        else:
            made = construct.from_shape(shape, float if dtype is None else dtype)
        if cls._ndim_wanted and made.ndim != cls._ndim_wanted:
            raise ArrayError(
                f"{cls.__name__}: the data has {made.ndim} dimensions (shape {made.shape})",
                hint="reshape the data, or use array()",
            )
        if grad is not None:
            made.grad = grad
        elif requires_grad:
            made.requires_grad = True
            if not types.is_float(made.dtype):
                from tapedebug.runtime.messages import warn_of_no_slope

                warn_of_no_slope(made)
        if retain_grad and not made.requires_grad:
            raise ArrayError(
                "array: retain_grad=True needs requires_grad=True", hint="pass requires_grad=True too"
            )
        made.retain_grad = retain_grad
        return made

    def __class_getitem__(cls, params: Any) -> types.ArrayType:
        """Return an annotation: `array[float]`, `array2d[vec3]`, `array[float, Literal[2]]`."""
        return types.ArrayType(*types.subscript_arguments(params, cls._ndim_wanted or 1))

    # -- what it is -------------------------------------------------------------------------------------

    @property
    def item_size(self) -> int:
        """Bytes of one element."""
        return convert.item_bytes(self.dtype)

    @property
    def kernel_type(self) -> types.ArrayType:
        """The type of a kernel parameter, or of a struct field, that takes this array."""
        return types.ArrayType(self.dtype, self.ndim)

    @property
    def region(self) -> Buffer:
        """The memory that holds the elements: the same object for all views of one allocation."""
        return self.buffer

    @property
    def offset(self) -> int:
        """Byte offset of element (0, …) in the region."""
        return self.ptr - self.buffer.address

    @property
    def scalar_dtype(self) -> np.dtype[Any]:
        """The NumPy type of one scalar: `float32` for an array of `vec3`."""
        return types.numpy_dtype(self.dtype)

    @property
    def element_shape(self) -> tuple[int, ...]:
        """The shape of one element: `(3,)` for `vec3`, `()` for scalars."""
        return types.value_shape(self.dtype)

    @property
    def is_float(self) -> bool:
        """True if the values have derivatives; a struct does if one of its fields does."""
        return types.is_float(self.dtype)

    @property
    def dtype_name(self) -> str:
        """The name of the element type in annotations of kernels: `float32`, `vec3`."""
        return types.type_name(self.dtype)

    @property
    def capacity(self) -> int:
        """Bytes of memory that the elements need."""
        return self.size * self.item_size

    @property
    def pinned(self) -> bool:
        """True if the memory is pinned for copies to a GPU; always False on the CPU."""
        return False

    @property
    def is_transposed(self) -> bool:
        """True if the array is contiguous in the reverse order of its dimensions."""
        return self.transpose().is_contiguous

    @property
    def device(self) -> Device:
        """The device that holds the memory."""
        return CPU

    @property
    def requires_grad(self) -> bool:
        """True if the array takes part in differentiation; settable."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value and not self._requires_grad and hasattr(self, "_requires_grad"):
            for _, tracker in self.buffer.watchers():
                tracker.activated = True
        self._requires_grad = bool(value)
        if not value:
            self._retain_grad = False
        self._fields = None
        self._kind = _kind_of(self)

    @property
    def retain_grad(self) -> bool:
        """True if `Tape.backward` keeps the gradient of an intermediate array; settable.

        Setting it raises an ArrayError (a ValueError) where the array has no gradient.
        """
        return self._retain_grad

    @retain_grad.setter
    def retain_grad(self, value: bool) -> None:
        if value and not self._requires_grad:
            raise ArrayError(
                f"retain_grad=True needs requires_grad=True; {self!r} has no gradient",
                hint="set requires_grad = True first",
            )
        self._retain_grad = bool(value)

    @property
    def grad(self) -> array | None:
        """The gradient, of the same shape and dtype, or None without `requires_grad`.

        Setting it makes the array require a gradient. A gradient array that matches the whole buffer is used
        without a copy; for a view, its values are copied into the gradient of the buffer. Setting `None`
        switches the gradient off.
        """
        if not self._requires_grad:
            return None
        memory = self.buffer.gradient()
        gradient = self._grad
        if gradient is None or gradient.buffer is not memory:
            gradient = self._grad = make(
                memory, memory.address + self.ptr - self.buffer.address, self.dtype, self.shape, self.strides
            )
        return gradient

    @grad.setter
    def grad(self, value: array | None) -> None:
        if value is None:
            self.requires_grad = False
            self._grad = None
            return
        seen: Any = value
        if not isinstance(seen, array) or seen.shape != self.shape or seen.dtype is not self.dtype:
            raise ArrayError(
                f"the gradient of an array{self._facts()} must be an array of the same shape and dtype; "
                f"got {value!r}",
                hint="pass zeros_like(array), or an array made from data of that shape and dtype",
            )
        self.requires_grad = True
        whole = (
            value.is_contiguous and self.is_contiguous and value.size * self.item_size == self.buffer.nbytes
        )
        if whole and value.buffer.nbytes == self.buffer.nbytes:
            self.buffer.take_gradient(value.buffer)
            value.buffer.handed_over = value.buffer.is_foreign
            value._kind = _kind_of(value)
            self._grad = value
        else:
            own = self.grad
            assert own is not None
            own.assign(value)

    def _facts(self) -> str:
        return f"(shape={self.shape}, dtype={types.type_name(self.dtype)})"

    def __repr__(self) -> str:
        return f"array{self._facts()}"

    def __str__(self) -> str:
        return str(self._numpy_view())

    def __len__(self) -> int:
        return self.shape[0]

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """Return the MIME bundle for a notebook."""
        return renderer().static(self)

    # -- values -----------------------------------------------------------------------------------------

    def current(self) -> np.ndarray[Any, Any]:
        """Return a copy of the values; tapes do not record this read."""
        return self._numpy_view().copy()

    def current_gradient(self) -> np.ndarray[Any, Any] | None:
        """Return a copy of the gradient, or None if there is none; tapes do not record this read."""
        if not self._requires_grad or self.buffer.adjoint is None or self.grad is None:
            return None
        return self.grad._numpy_view().copy()

    def assign(self, src: Any) -> None:
        """Copy `src` (an array, or what `array` takes) into this array; recorded on an active tape."""
        from tapedebug.runtime.memory.transfer import assign

        assign(self, src)

    def fill_(self, value: Any) -> None:
        """Set every element to `value`; recorded on an active tape."""
        from tapedebug.runtime.memory.transfer import fill

        fill(self, value)

    def zero_(self) -> None:
        """Set every element to zero; recorded on an active tape."""
        self.fill_(0)

    def mark_read(self) -> None:
        """Notify the active tape that code outside kernels reads this array (with `Tape.record_func`)."""
        from tapedebug.runtime.memory.transfer import mark

        mark(self, writes=False)

    def mark_write(self) -> None:
        """Notify live tapes, *before* the write, that code outside kernels writes this array."""
        from tapedebug.runtime.memory.transfer import mark

        mark(self, writes=True)

    def mark_init(self) -> None:
        """Do nothing: tapes record reads and writes without it. Exists for programs that call it."""

    # -- views ------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Any:
        """Return a view (ints and slices), or the value of an element (one int for each dimension).

        For an array of structs, `a["pos"]` is the view of a field. A key that contains arrays of indices
        gives an `indexedarray`.
        """
        from tapedebug.runtime.memory import array_views

        return array_views.item(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        from tapedebug.runtime.memory import array_views

        array_views.set_item(self, key, value)

    def reshape(self, shape: Any) -> array:
        """Return a view of another shape with as many elements; one size may be -1.

        Raises:
            ArrayError: The sizes differ, or the array is not contiguous.
        """
        from tapedebug.runtime.memory import array_views

        return array_views.reshaped(self, shape)

    def flatten(self) -> array:
        """Return a one-dimensional view of a contiguous array."""
        return self if self.ndim == 1 and self.is_contiguous else self.reshape((self.size,))

    def transpose(self, axes: Any = None) -> array:
        """Return a view with the dimensions in another order (reversed by default)."""
        from tapedebug.runtime.memory import array_views

        return array_views.transposed(self, axes)

    def view(self, dtype: Any) -> array:
        """Return a view of the same memory with elements of another type of the same size (float32 as int32).

        Vectors and matrices can be viewed as their scalars, with additional dimensions. Scalars whose last
        dimension (for matrices, last two) has the right length can be viewed as vectors: `(N, 3)` as N vec3.

        Raises:
            ArrayError: The sizes do not fit.
        """
        from tapedebug.runtime.memory import array_views

        return array_views.viewed(self, dtype)

    def contiguous(self) -> array:
        """Return this array if it is contiguous, else a contiguous copy (recorded on an active tape)."""
        if self.is_contiguous:
            return self
        from tapedebug.runtime.memory.transfer import clone

        return clone(self)

    def to(self, device: Any, requires_grad: bool | None = None) -> array:
        """Return this array: there is one device only.

        Args:
            device: Only `"cpu"` exists.
            requires_grad: Accepted and ignored.
        """
        get_device(device)
        return self


@cache
def _border() -> Any:
    from tapedebug.runtime.tape import imported_arrays

    return imported_arrays


def make(
    buffer: Buffer, ptr: int, dtype: Any, shape: Shape, strides: Shape, *, like: array | None = None
) -> array:
    """Return an array over existing memory; it inherits `requires_grad` and `retain_grad` from `like`."""
    a: array = object.__new__(array)
    a.buffer, a.dtype, a.shape, a.strides = buffer, dtype, shape, strides
    scalar = types.numpy_dtype(dtype).itemsize
    item = scalar * types.components(dtype)
    size, low, high, step, contiguous = 1, 0, item, item, True
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n > 1:
            contiguous = contiguous and stride == step
            low += min(0, (n - 1) * stride)
            high += max(0, (n - 1) * stride)
        size *= n
        step *= n
    first = ptr - buffer.address
    a.ndim, a.size = len(shape), size
    a.is_contiguous = contiguous or size == 0
    a.start, a.stop = (first + low, first + high) if size else (first, first)
    _place(a, ptr)
    a._grad = a._fields = None
    a.part = ""
    a._retain_grad = like._retain_grad if like is not None else False
    a._requires_grad = like._requires_grad if like is not None else False
    a._kind = _kind_of(a)
    return a


def new(shape: Shape, dtype: Any, *, zeroed: bool = False, requires_grad: bool = False) -> array:
    """Return a contiguous array in new memory."""
    nbytes, strides, size, words = _layout(shape, dtype)
    buffer = Buffer.allocate(nbytes, zeroed=zeroed)
    a: array = object.__new__(array if buffer.deferred_zero is None else _Late)
    a.buffer, a.dtype, a.shape, a.strides = buffer, dtype, shape, strides
    a.ndim, a.size, a.is_contiguous, a.start, a.stop = len(shape), size, True, 0, nbytes
    if buffer.deferred_zero is None:
        a.ptr = ptr = buffer.address
        a._packed = _SLOTS[0].pack(ptr) + words
    a._grad = a._fields = None
    a.part, a._retain_grad, a._requires_grad = "", False, requires_grad
    a._kind = KINDS.setdefault((dtype, a.ndim, True, requires_grad, False), len(KINDS))
    return a


@lru_cache(maxsize=1024)
def _layout(shape: Shape, dtype: Any) -> tuple[int, Shape, int, bytes]:
    """Return size in bytes, strides, element count and packed shape and strides of a contiguous array."""
    item, size = convert.item_bytes(dtype), math.prod(shape)
    strides = convert.contiguous_strides(shape, item)
    scalar = types.numpy_dtype(dtype).itemsize
    words = Struct(f"={2 * len(shape)}q").pack(*shape, *[s // scalar for s in strides])
    return size * item, strides, size, words


class _Late(array, by_program=False):
    """An array whose memory is cleared on the first use of its address; it then becomes an `array`.

    A separate class, because attribute lookup is faster in a class without `__getattr__`.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name not in ("ptr", "_packed"):
            raise AttributeError(f"'array' object has no attribute '{name}'", name=name, obj=self)
        _place(self, self.buffer.address)
        self.__class__ = array  # type: ignore[assignment]
        return getattr(self, name)


_Late.__name__, _Late.__qualname__ = array.__name__, array.__qualname__


def settled(args: tuple[Any, ...]) -> None:
    """Clear the memory of arrays whose clearing was deferred; they become instances of `array`."""
    for a in args:
        if a.__class__ is _Late:
            _ = a.ptr


def _place(a: array, ptr: int) -> None:
    scalar = types.numpy_dtype(a.dtype).itemsize
    a.ptr = ptr
    a._packed = _SLOTS[a.ndim].pack(ptr, *a.shape, *[s // scalar for s in a.strides])


def _kind_of(a: array) -> int:
    history = a.buffer.history
    key = (a.dtype, a.ndim, a.is_contiguous, a._requires_grad, history is not None and history.of_gradient)
    return KINDS.setdefault(key, len(KINDS))


def range_key(a: array) -> tuple[Any, ...]:
    """Return a key that is equal for arrays of the same bytes; the shape of contiguous arrays is ignored."""
    if a.is_contiguous:
        return (id(a.buffer), a.start, a.stop)
    return (id(a.buffer), a.ptr, a.shape, a.strides, a.dtype)

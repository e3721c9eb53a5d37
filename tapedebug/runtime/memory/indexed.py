"""Indexed arrays: the elements of an array that index arrays select, axis by axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapedebug._display import renderer
from tapedebug._errors import ArrayError
from tapedebug.lang import types
from tapedebug.runtime.device import Device, get_device
from tapedebug.runtime.memory.array import Shape, Values, array, new
from tapedebug.runtime.memory.derivable import Derivable
from tapedebug.runtime.memory.operators import Arithmetic


class indexedarray(Arithmetic, Derivable, by_program=False):
    """A selection of elements of an array, in the array's own memory: reads and writes access `data`.

    `indexedarray(dtype=float, ndim=2)` without data is an annotation of a kernel parameter, and so are
    `indexedarray1d(dtype=float)` to `indexedarray4d`. In kernels `a[i, j]` is the element of `data` at
    `indices[0][i]`, `indices[1][j]`; gradients accumulate in the gradient of `data`.

    Args:
        data: The array.
        indices: For each axis of `data` a one-dimensional array of int32, or None for the whole axis. Missing
            trailing entries count as None. A single array of indices applies to the first axis.
        dtype: Element type of an annotation.
        ndim: Number of dimensions of an annotation.

    Attributes:
        data: The array.
        indices: For each axis the array of indices, or None.

    Raises:
        ArrayError: `data` is not an array, or an entry of `indices` is not valid for its axis.
    """

    __slots__ = ("__weakref__", "_tables", "data", "indices")

    data: array
    indices: list[array | None]
    _tables: tuple[array, ...] | None

    _ndim_wanted = 0

    def __new__(  # noqa: D102
        cls, data: Any = None, indices: Any = None, dtype: Any = None, ndim: int | None = None
    ) -> Any:
        if data is None:
            return types.IndexedArrayType(float if dtype is None else dtype, ndim or cls._ndim_wanted or 1)
        if not isinstance(data, array):
            raise ArrayError(f"indexedarray: the data must be an array; got {data!r}", hint="pass array(…)")
        if cls._ndim_wanted and data.ndim != cls._ndim_wanted:
            raise ArrayError(
                f"{cls.__name__}: the data has {data.ndim} dimensions (shape {data.shape})",
                hint="use indexedarray()",
            )
        made = object.__new__(indexedarray)
        made.data = data
        made.indices = _checked(data, indices)
        made._tables = None
        return made

    def __class_getitem__(cls, params: Any) -> types.IndexedArrayType:
        """Return an annotation: `indexedarray[float]`, `indexedarray[float, Literal[2]]`."""
        return types.IndexedArrayType(*types.subscript_arguments(params, cls._ndim_wanted or 1))

    # -- what it is -------------------------------------------------------------------------------------

    @property
    def dtype(self) -> Any:
        """Element type."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self.data.ndim

    @property
    def shape(self) -> Shape:
        """Number of selected elements along each axis."""
        pairs = zip(self.indices, self.data.shape, strict=True)
        return tuple(n if chosen is None else chosen.shape[0] for chosen, n in pairs)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def kernel_type(self) -> types.IndexedArrayType:
        """The type of a kernel parameter, or of a struct field, that takes this array."""
        return types.IndexedArrayType(self.dtype, self.ndim)

    @property
    def tables(self) -> tuple[array, ...]:
        """For each axis an array of indices; if none was given, all indices of the axis in order."""
        if self._tables is None:
            pairs = zip(self.indices, self.data.shape, strict=True)
            self._tables = tuple(_every(n) if chosen is None else chosen for chosen, n in pairs)
        return self._tables

    @property
    def is_contiguous(self) -> bool:
        """False always: the elements are not contiguous in the memory of `data`."""
        return False

    @property
    def requires_grad(self) -> bool:
        """True if `data` takes part in differentiation."""
        return self.data.requires_grad

    @property
    def grad(self) -> indexedarray | None:
        """The same selection of the gradient of `data`, or None if it has none."""
        gradient = self.data.grad
        if gradient is None:
            return None
        found: indexedarray = indexedarray(gradient, self.indices)
        return found

    @property
    def device(self) -> Device:
        """The device that holds the memory."""
        return self.data.device

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"indexedarray(shape={self.shape}, dtype={types.type_name(self.dtype)})"

    def __str__(self) -> str:
        return str(self.numpy())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """Return the MIME bundle for a notebook."""
        return renderer().static(self)

    def __getitem__(self, key: Any) -> Any:
        raise ArrayError(
            f"{self!r} is indexed in kernels only",
            hint="index contiguous(), a copy, or data, the whole array",
        )

    # -- values -----------------------------------------------------------------------------------------

    def numpy(self) -> Values:
        """Return a copy of the elements as a NumPy array.

        Raises:
            IndexError: An index lies outside the data.
        """
        found: Values = self.data._numpy_view()[np.ix_(*(table._numpy_view() for table in self.tables))]
        return found

    def list(self) -> list[Any]:
        """Return all elements in a flat list."""
        copied: array = array(self.numpy(), dtype=self.dtype)
        return copied.list()

    def contiguous(self) -> array:
        """Return a contiguous copy; differentiable on an active tape."""
        from tapedebug.runtime.memory import gather

        self.numpy()  # raises IndexError for an index outside the data
        made = new(self.shape, self.dtype)
        made.requires_grad = self.requires_grad
        gather.gather(self, made)
        return made

    def assign(self, src: Any) -> None:
        """Write `src` (an array, or what `array` takes) to the elements; recorded on an active tape."""
        from tapedebug.runtime.memory import gather

        if isinstance(src, indexedarray):
            src = src.contiguous()
        if not isinstance(src, array):
            src = array(src, dtype=self.dtype)
        if src.shape != self.shape or src.dtype is not self.dtype:
            raise ArrayError(
                f"assign to an {self!r}: the source has shape {src.shape} and dtype "
                f"{types.type_name(src.dtype)}",
                hint="assign an array of the same shape and dtype",
            )
        self.numpy()
        gather.scatter(src, self)

    def fill_(self, value: Any) -> None:
        """Set every element to `value`; recorded on an active tape."""
        from tapedebug.runtime.memory.factory import full

        self.assign(full(self.shape, value, dtype=self.dtype))

    def zero_(self) -> None:
        """Set every element to zero; recorded on an active tape."""
        self.fill_(0)

    def to(self, device: Any) -> indexedarray:
        """Return this array: there is one device only."""
        get_device(device)
        return self


class indexedarray1d(indexedarray, by_program=False):
    """An indexed array, or an annotation, of one dimension."""

    __slots__ = ()
    _ndim_wanted = 1


class indexedarray2d(indexedarray, by_program=False):
    """An indexed array, or an annotation, of two dimensions."""

    __slots__ = ()
    _ndim_wanted = 2


class indexedarray3d(indexedarray, by_program=False):
    """An indexed array, or an annotation, of three dimensions."""

    __slots__ = ()
    _ndim_wanted = 3


class indexedarray4d(indexedarray, by_program=False):
    """An indexed array, or an annotation, of four dimensions."""

    __slots__ = ()
    _ndim_wanted = 4


def _checked(data: array, indices: Any) -> list[array | None]:
    """Return checked indices, one entry for each axis."""
    if is_index(indices):
        indices = [indices]
    given = list(indices) if isinstance(indices, Sequence) else [] if indices is None else [indices]
    if len(given) > data.ndim:
        raise ArrayError(
            f"indexedarray: {len(given)} arrays of indices for data of shape {data.shape}",
            hint=f"pass at most {data.ndim}",
        )
    found = [_table(data, axis, one) for axis, one in enumerate(given)]
    return found + [None] * (data.ndim - len(found))


def is_index(given: Any) -> bool:
    """True if `given` selects along one axis: a tapedebug array, or a sequence of integers."""
    if isinstance(given, array):
        return True
    if isinstance(given, np.ndarray):
        return given.dtype.kind in "iu" and given.ndim == 1
    return isinstance(given, list) and bool(given) and all(isinstance(n, int | np.integer) for n in given)


def _table(data: array, axis: int, given: Any) -> array | None:
    """Return a checked array of indices along an axis, or None for the whole axis."""
    if given is None:
        return None
    length = data.shape[axis]
    if not isinstance(given, array):
        if not is_index(given) and not (isinstance(given, list) and not given):
            raise ArrayError(
                f"indexedarray: indices along axis {axis} are an array of int32 or None; got {given!r}",
                hint="pass array([…], dtype=int)",
            )
        values = np.asarray(given, dtype=np.int64)
        wrong = values[(values < 0) | (values >= length)]
        if wrong.size:
            raise ArrayError(
                f"indexedarray: the index {wrong[0]} lies outside axis {axis} of data of shape {data.shape}",
                hint=f"its indices are 0 to {length - 1}",
            )
        made: array = array(values.astype(np.int32), dtype=int)
        return made
    if given.dtype is not types.int32 or given.ndim != 1:
        raise ArrayError(
            f"indexedarray: indices along axis {axis} are a one-dimensional array of int32; got {given!r}",
            hint="make it with dtype=int",
        )
    return given


def _every(length: int) -> array:
    made: array = array(np.arange(length, dtype=np.int32), dtype=int)
    return made

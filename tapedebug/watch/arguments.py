"""Arguments of launches, with structs, indexed arrays and numbers of objects split into their parts."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from tapedebug.watch.handles import Handle, Handles
from tapedebug.watch.hooks import WarpObject, look_up
from tapedebug.watch.kernel_accesses import Path
from tapedebug.watch.memory import MemoryMap, NotWatchable, WatchedArray

WarpKernel = WarpObject
"""An object of class `warp.Kernel`."""


class Leaf(NamedTuple):
    """An argument of a launch, or a field of a struct that is one.

    Attributes:
        param: The number of the parameter of the kernel.
        path: The name of the parameter, and those of the fields.
        value: The value as the program has it.
        array: The array, if it is one.
        handle: The object of which it is the number.
    """

    param: int
    path: Path
    value: object
    array: WatchedArray | None
    handle: Handle | None = None

    @property
    def name(self) -> str:
        """The name as the kernel's source writes it."""
        return ".".join(self.path)

    @property
    def place(self) -> tuple[int, str]:
        """The number of the parameter, and the path of the field."""
        return self.param, ".".join(self.path[1:])


Plain = tuple[list["WatchedArray | None"], bool]
"""The array of each argument, None for other arguments; and whether the program may change one of these."""


class Arguments:
    """Splits arguments of launches into leaves.

    Args:
        memory: The memory of the program's arrays.
        handles: The objects that kernels know by a number.
    """

    def __init__(self, memory: MemoryMap, handles: Handles) -> None:
        self._memory, self._handles = memory, handles
        self._number: type = look_up("warp:uint64")
        self._array: type[WarpObject] = look_up("warp:array")
        self._indexed: type[WarpObject] = look_up("warp._src.types:indexedarray")
        self._descriptor: type[WarpObject] = look_up("warp._src.types:array_t")
        self._is_struct: Callable[[object], bool] = look_up("warp._src.types:is_struct")
        self._is_array: Callable[[object], bool] = look_up("warp._src.types:is_array")
        self._signatures: dict[WarpKernel, _Signature] = {}
        self._others: dict[type, bool] = {}
        self._plain: set[type] = set()  # those of `_others` that are none
        self._values: dict[type, bool] = {int: False, float: False, bool: False}

    def plain(self, kernel: WarpKernel, values: Sequence[object]) -> Plain | None:
        """Return the arrays among the arguments if these are arrays, numbers and vectors only; else None.

        Raises:
            NotWatchable: An argument cannot be watched.
        """
        signature = self._signatures.get(kernel) or self._signature(kernel)
        if signature.has_handles:
            return None
        found: list[WatchedArray | None] = []
        mutable = False
        array, array_of, known = self._array, self._memory.array_of, self._values
        for value in values:
            kind = type(value)
            if kind is array:
                found.append(array_of(value))
            elif kind in known:
                found.append(None)
                mutable |= known[kind]
            else:
                return None
        return found, mutable

    def leaves(self, kernel: WarpKernel, values: Sequence[object]) -> list[Leaf]:
        """Return the arguments, with structs, indexed arrays and handles split into their parts.

        Raises:
            NotWatchable: An argument cannot be watched.
        """
        signature = self._signatures.get(kernel) or self._signature(kernel)
        found: list[Leaf] = []
        values = self.with_arrays(kernel, values)
        for param, ((path, kind), value) in enumerate(zip(signature.parameters, values, strict=True)):
            found.extend(self._leaves(param, path, kind, value))
        return found

    def with_arrays(self, kernel: WarpKernel, values: Sequence[object]) -> list[Any]:
        """Return the arguments with arrays of Warp in place of others that Warp takes, over the same memory.

        These are arrays of NumPy, tensors, and descriptors that hold their tensors, which
        `from_torch(…, return_ctype=True)` makes.

        Raises:
            NotWatchable: A descriptor does not hold a tensor: the memory may be freed at any time.
        """
        if self._plain.issuperset(map(type, values)):
            return list(values)
        parameters = (self._signatures.get(kernel) or self._signature(kernel)).parameters
        return [
            self._as_array(path, kind, value) if self._is_other_array(type(value)) else value
            for (path, kind), value in zip(parameters, values, strict=True)
        ]

    def _is_other_array(self, kind: type) -> bool:
        """True for classes of arrays that are not Warp's own."""
        found = self._others.get(kind)
        if found is None:
            own = issubclass(kind, (self._array, self._indexed))
            found = issubclass(kind, self._descriptor) or (hasattr(kind, "__array__") and not own)
            self._others[kind] = found
            if not found:
                self._plain.add(kind)
        return found

    def _as_array(self, path: Path, kind: WarpObject, value: WarpObject) -> WarpObject:
        """Return an array over the memory of an argument, if its parameter is one; numbers as they are."""
        if isinstance(value, self._descriptor):
            return self._described(path, kind, value)
        if not self._is_array(kind):
            return value
        return self._array(np.asarray(value), dtype=kind.dtype, device="cpu", copy=False)

    @staticmethod
    def _described(path: Path, kind: WarpObject, value: WarpObject) -> WarpObject:
        """Return the array of a descriptor, the same each time."""
        tensor, gradient = getattr(value, "_ref", None), getattr(value, "_gradref", None)
        if tensor is None or not hasattr(kind, "dtype"):
            raise NotWatchable(f"{'.'.join(path)} is the address of an array")
        if not hasattr(value, "_watched"):
            from_torch = look_up("warp._src.torch:from_torch")
            value._watched = from_torch(tensor, kind.dtype, requires_grad=gradient is not None, grad=gradient)
        return value._watched

    def _signature(self, kernel: WarpKernel) -> _Signature:
        parameters = [((argument.label,), argument.type) for argument in kernel.adj.args]
        found = _Signature(parameters, any(kind is self._number for _, kind in parameters))
        self._signatures[kernel] = found
        return found

    def _leaves(self, param: int, path: Path, kind: object, value: WarpObject) -> Iterator[Leaf]:
        memory = self._memory
        if kind is self._number and (number := int(value.value if hasattr(value, "value") else value)):
            handle = self._handles.find(number)
            yield Leaf(param, path, value, None, handle)
            for name, array in () if handle is None else handle.arrays.items():
                yield Leaf(param, (*path, name), array, memory.array_of(array))
        elif isinstance(value, self._array):
            yield Leaf(param, path, value, memory.array_of(value))
        elif isinstance(value, self._indexed):
            yield Leaf(param, path, value.data, memory.array_of(value.data))
            for axis, indices in enumerate(value.indices):
                if indices is not None:
                    yield Leaf(param, (*path, f"indices[{axis}]"), indices, memory.array_of(indices))
        elif self._is_struct(value):
            for name, field in value._cls.vars.items():
                yield from self._leaves(param, (*path, name), field.type, getattr(value, name))
        elif self._is_array(value) or (hasattr(value, "__array_interface__") and self._is_array(kind)):
            raise NotWatchable(f"{'.'.join(path)} is an object of class {type(value).__name__}")
        else:
            self._values[type(value)] = isinstance(value, MUTABLE)
            yield Leaf(param, path, frozen(value), None)


class _Signature(NamedTuple):
    """The parameters of a kernel, each with its path and type; objects may be passed as numbers."""

    parameters: Sequence[tuple[Path, object]]
    has_handles: bool


MUTABLE = (ctypes.Array, list, tuple, np.ndarray)
"""The classes of vectors and matrices; a tuple may hold rows that the program changes."""


class FrozenStruct:
    """The fields of a struct, as they were at one time.

    Args:
        struct: The struct.
    """

    __slots__ = ("_fields", "_kind")

    def __init__(self, struct: WarpObject) -> None:
        self._kind = struct._cls
        self._fields = [frozen(getattr(struct, name)) for name in self._kind.vars]

    def thawed(self) -> Any:
        """Return a new struct with these fields."""
        found = self._kind()
        for name, value in zip(self._kind.vars, self._fields, strict=True):
            setattr(found, name, thawed(value))
        return found


def frozen(value: WarpObject) -> Any:
    """Return an argument as it is now: a copy of what the program may change, such as a struct or vector."""
    if type(value) in NUMBERS:
        return value
    if isinstance(value, ctypes.Array):
        return type(value).from_buffer_copy(value)
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, (list, tuple)):  # a vector, or the rows of a matrix
        return [frozen(each) for each in value]
    return FrozenStruct(value) if look_up("warp._src.types:is_struct")(value) else value


def thawed(value: object) -> Any:
    """Return an argument, as Warp takes it, of one that is frozen."""
    return value.thawed() if isinstance(value, FrozenStruct) else value


NUMBERS = frozenset({int, float, bool})
"""The types of most arguments that are no arrays."""

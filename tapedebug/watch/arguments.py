"""Arguments of launches, with structs, indexed arrays and numbers of objects split into their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
        self._parameters: dict[WarpKernel, list[tuple[Path, object, bool]]] = {}

    def leaves(self, kernel: WarpKernel, values: Sequence[object]) -> list[Leaf]:
        """Return the arguments, with structs, indexed arrays and handles split into their parts.

        Raises:
            NotWatchable: An argument cannot be watched.
        """
        parameters = self._parameters.get(kernel)
        if parameters is None:
            parameters = self._parameters[kernel] = [
                ((argument.label,), argument.type, argument.type is self._number)
                for argument in kernel.adj.args
            ]
        found: list[Leaf] = []
        for param, ((path, kind, number), value) in enumerate(zip(parameters, values, strict=True)):
            if type(value) is self._array:
                found.append(Leaf(param, path, value, self._memory.array_of(value)))
            elif type(value) in PLAIN and not number:
                found.append(Leaf(param, path, value, None))
            else:
                found.extend(self._leaves(param, path, kind, value))
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
        elif look_up("warp._src.types:is_struct")(value):
            for name, field in value._cls.vars.items():
                yield from self._leaves(param, (*path, name), field.type, getattr(value, name))
        elif look_up("warp._src.types:is_array")(value) or (
            hasattr(value, "__array_interface__") and not isinstance(value, np.generic)
        ):
            raise NotWatchable(f"{'.'.join(path)} is an object of class {type(value).__name__}")
        else:
            yield Leaf(param, path, value, None)


PLAIN = frozenset({int, float, bool})
"""The types of most arguments that are no arrays."""


def frozen(value: WarpObject) -> Any:
    """Return an argument as it is now: a copy of a struct, as the program may give it other fields."""
    if type(value) in PLAIN or not look_up("warp._src.types:is_struct")(value):
        return value
    found = value._cls()
    for name in value._cls.vars:
        setattr(found, name, frozen(getattr(value, name)))
    return found

"""Launches of NVIDIA Warp bound to the memory of a replay: arrays over it, and objects that are made anew."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from tapedebug._interception import not_intercepted
from tapedebug.contract import Array
from tapedebug.operations import Memory
from tapedebug.watch.arguments import Leaf
from tapedebug.watch.device_staging import Staging
from tapedebug.watch.handles import Handle, Rebuilt
from tapedebug.watch.hooks import WarpObject, look_up
from tapedebug.watch.memory import WarpArray, WatchedArray, is_on_host


class BoundLaunch:
    """A launch that is bound to memory; `held` keeps what it points to alive."""

    __slots__ = ("_command", "_held", "_numbered", "_staged")

    def __init__(self, command: WarpObject, binding: Binding, held: object) -> None:
        self._command, self._numbered, self._staged = command, binding.numbered, binding.staged
        self._held = held

    def run(self) -> None:
        """Run the launch."""
        if self._command is None:  # a launch without threads
            return
        with not_intercepted():
            for each in self._staged:
                each.staging.upload(each.array, each.device)
            for numbered in self._numbered:
                numbered.adapt(self._command)
            self._command.launch()
            for each in self._staged:
                if each.is_written:
                    each.staging.download(each.array, each.device)
            if self._staged:
                look_up("warp:synchronize_device")(self._staged[0].device)


class NumberedObject:
    """An object that a bound launch knows by a number.

    Args:
        rebuilt: The object.
        param: The number of the parameter that is its number, or a struct with it.
        struct: The struct as the launch got it; None if the parameter is the number itself.
        field: The names of the field in it.
    """

    __slots__ = ("_field", "_number", "_param", "_rebuilt", "_struct")

    def __init__(self, rebuilt: Rebuilt, param: int, struct: WarpObject, field: Sequence[str]) -> None:
        self._rebuilt, self._param, self._struct, self._field = rebuilt, param, struct, field
        self._number = rebuilt.id

    def adapt(self, command: WarpObject) -> None:
        """Adapt the object to its arrays, and a launch to its number, which may have changed."""
        number = self._rebuilt.refresh()
        if number == self._number:
            return
        self._number = number
        value = number if self._struct is None else _with_field(self._struct, self._field, number)
        command.set_param_at_index(self._param, value)


def _with_field(struct: WarpObject, path: Sequence[str], value: object) -> WarpObject:
    """Set a field of a struct, or of the structs in it, and return the struct."""
    name, *rest = path
    setattr(struct, name, _with_field(getattr(struct, name), rest, value) if rest else value)
    return struct


class StagedArray(NamedTuple):
    """An array that a launch uses on a device, and the copies of the replay's memory there."""

    staging: Staging
    array: WatchedArray
    device: WarpObject
    is_written: bool


class Binding:
    """Replaces the arrays in the arguments of a launch by arrays over other memory.

    Args:
        leaves: The leaves of the arguments, in order.
        values: The memory of the values.
        adjoint: The memory of the adjoints; None for a forward run.
        retains: Arrays keep their gradients if the program says so.

    Attributes:
        numbered: The objects that are made anew, which the launch knows by a number.
        staged: The arrays on a device.
        written: The arrays that the launch writes.
    """

    def __init__(self, leaves: Iterator[Leaf], values: Memory, adjoint: Memory | None, retains: bool) -> None:
        self.leaves, self.values, self.adjoint, self.retains = leaves, values, adjoint, retains
        self.numbered: list[NumberedObject] = []
        self.staged: list[StagedArray] = []
        self.written: Collection[Array] = ()

    def argument(self, value: WarpObject, whole: WarpObject = None) -> tuple[Any, Any]:
        """Return an argument with its arrays in other memory, and its adjoint.

        Args:
            value: The argument, or a field of it.
            whole: In a field, the struct that is returned for the argument.
        """
        if look_up("warp._src.types:is_struct")(value):
            struct, gradients = value._cls(), value._cls()
            for name in value._cls.vars:
                field = getattr(value, name)
                inner, gradient = self.argument(field, struct if whole is None else whole)
                setattr(struct, name, inner)
                is_array = look_up("warp._src.types:is_array")(field)
                setattr(gradients, name, gradient if is_array or gradient is not None else field)
            return struct, gradients
        leaf = next(self.leaves)
        if leaf.handle is not None:
            rebuilt = self.handle(leaf.handle)
            self.numbered.append(NumberedObject(rebuilt, leaf.param, whole, leaf.path[1:]))
            return rebuilt.id, None
        if leaf.array is None:
            return value, None
        found, gradient = self.array(leaf)
        if leaf.value is not value:  # the data of an indexed array
            indices = [None if i is None else self.array(next(self.leaves))[0] for i in value.indices]
            found = look_up("warp._src.types:indexedarray")(found, indices[: found.ndim])
        return found, gradient

    def handle(self, handle: Handle) -> Rebuilt:
        """Return a mesh or the like over the memory of the replay; launches on the host share it."""
        leaves = {name: next(self.leaves) for name in handle.arrays}
        build = id((handle.options or {}).get("build"))
        key = handle.source, build, self.adjoint, self.retains, *(leaf.array for leaf in leaves.values())
        found: Rebuilt | None = self.values.bound.get(key)
        if found is None or self.staged or not is_on_host(handle.source.device):
            grids = self.values.bound.setdefault("hash grids", {})
            found = handle.rebuilt({name: self.array(leaf)[0] for name, leaf in leaves.items()}, grids)
            self.values.bound[key] = found
        return found

    def array(self, leaf: Leaf) -> tuple[WarpArray, WarpArray | None]:
        """Return an array over the memory of the replay, and its gradient; launches on the host share it."""
        source: WarpArray = leaf.value
        if not source.ptr or leaf.array is None:
            return source, None
        if not is_on_host(source.device):
            return self._new_array(source, leaf.array)
        keeps = self.retains and getattr(source, "retain_grad", False)
        key = "array", leaf.array, source.dtype, source.shape, source.strides, self.adjoint, keeps
        found: tuple[WarpArray, WarpArray | None] | None = self.values.bound.get(key)
        if found is None:
            found = self.values.bound[key] = self._new_array(source, leaf.array)
        return found

    def _new_array(self, source: WarpArray, array: WatchedArray) -> tuple[WarpArray, WarpArray | None]:
        """Return an array like the program's over the memory of the replay, and its gradient."""
        gradient = None
        if self.adjoint is not None and array.requires_grad:
            gradient = self._array_in(source, array, self.adjoint, None)
        found = self._array_in(source, array, self.values, gradient)
        if self.retains and gradient is not None and getattr(source, "retain_grad", False):
            found.retain_grad = True
        return found, gradient

    def _array_in(
        self, source: WarpArray, array: WatchedArray, memory: Memory, gradient: WarpArray | None
    ) -> WarpArray:
        """Return an array of Warp over the memory of the replay or, on a device, over a copy of it."""
        if is_on_host(source.device):
            start = int(memory.bytes[array.region].ctypes.data)
        else:
            staging, forward = Staging.of(memory), self.adjoint is None
            start = staging.address(array, source.device)
            written = memory is self.adjoint or (forward and array in self.written)
            self.staged.append(StagedArray(staging, array, source.device, written))
        return look_up("warp:array")(
            ptr=start + array.offset,
            dtype=source.dtype,
            shape=source.shape,
            strides=source.strides,
            device=source.device,
            grad=gradient,
        )

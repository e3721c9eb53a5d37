"""A launch that Warp itself runs on the memory of a test, beside its mirror."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp

from tapedebug.operations import HostArray, Memory, Region
from tapedebug.watch.mirror import Difference, MirroredLaunch, mirror_kernel
from tests.watch.both_engines import compare_adjoint, compare_forward, random_adjoints

Place = tuple[int, str]


def _fields(value: Any) -> list[str]:
    return list(value._cls.vars) if hasattr(value, "_cls") and hasattr(value._cls, "vars") else []


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


class Program:
    """The memory of the arrays of a launch."""

    def __init__(self) -> None:
        self.regions: dict[int, Region] = {}
        self.owners: list[Any] = []

    def region(self, a: Any) -> Region:
        owner = a
        while isinstance(getattr(owner, "_ref", None), wp.array):
            owner = owner._ref
        if owner.ptr not in self.regions:
            memory = (ctypes.c_uint8 * owner.capacity).from_address(owner.ptr)
            self.regions[owner.ptr] = Region(np.frombuffer(memory, np.uint8))
            self.owners.append(owner)
        return self.regions[owner.ptr]

    def array(self, a: Any) -> HostArray:
        scalar = getattr(a.dtype, "_wp_scalar_type_", a.dtype)
        if not a.size or hasattr(a.dtype, "vars"):
            region = self.region(a) if a.ptr else Region(np.zeros(1, np.uint8))
            item = wp.types.type_size_in_bytes(a.dtype)
            offset = a.ptr - region.address if a.ptr else 0
            values = np.ndarray((*a.shape, item), np.uint8, region.values.data, offset, (*a.strides, 1))
            return HostArray(values, region, False, 1)
        shape = tuple(getattr(a.dtype, "_shape_", ()))
        dtype = np.dtype(wp.dtype_to_numpy(scalar))
        inner = tuple(dtype.itemsize * int(np.prod(shape[n + 1 :])) for n in range(len(shape)))
        region = self.region(a)
        values = np.ndarray(
            (*a.shape, *shape), dtype, region.values.data, a.ptr - region.address, (*a.strides, *inner)
        )
        return HostArray(values, region, a.requires_grad, len(shape))

    def places(self, args: Sequence[Any]) -> dict[Place, HostArray]:
        found: dict[Place, HostArray] = {}

        def walk(value: Any, param: int, path: str) -> None:
            if isinstance(value, wp.array):
                found[param, path] = self.array(value)
            elif isinstance(value, wp.indexedarray):
                found[param, path] = self.array(value.data)
                for axis, table in enumerate(value.indices):
                    if table is not None:
                        found[param, _joined(path, f"indices[{axis}]")] = self.array(table)
            for name in _fields(value):
                walk(getattr(value, name), param, _joined(path, name))

        for param, value in enumerate(args):
            walk(value, param, "")
        return found


class NativeLaunch:
    """A launch as Warp runs it; a `Step`, as `MirroredLaunch` is one."""

    def __init__(
        self,
        kernel: Any,
        dim: Any,
        args: Sequence[Any],
        arrays: Mapping[Place, HostArray],
        launch: Any = None,
    ) -> None:
        self.kernel, self.dim, self.args, self.arrays = kernel, dim, args, arrays
        self.launch = launch or wp.launch

    def _bound(self, values: Memory, adjoint: Memory | None) -> tuple[list[Any], list[Any]]:
        def over(memory: Memory, a: Any, spot: HostArray, **more: Any) -> Any:
            address = memory.bytes[spot.region].ctypes.data + spot.offset
            return wp.array(
                ptr=address, dtype=a.dtype, shape=a.shape, strides=a.strides, device="cpu", **more
            )

        def bind(value: Any, param: int, path: str) -> tuple[Any, Any]:
            if isinstance(value, wp.array):
                if not value.size:
                    return value, None
                spot = self.arrays[param, path]
                if adjoint is None or not (value.requires_grad and spot.is_float):
                    return over(values, value, spot), None
                gradient = over(adjoint, value, spot)
                return over(values, value, spot, grad=gradient, requires_grad=True), gradient
            if isinstance(value, wp.indexedarray):
                data, _ = bind(value.data, param, path)
                return wp.indexedarray(data, value.indices[: data.ndim]), None
            if names := _fields(value):
                made, gradients = value._cls(), value._cls()
                for name in names:
                    inner, gradient = bind(getattr(value, name), param, _joined(path, name))
                    if inner is not None:
                        setattr(made, name, inner)
                    if gradient is not None:
                        setattr(gradients, name, gradient)
                return made, gradients
            return value, None

        both = [bind(value, number, "") for number, value in enumerate(self.args)]
        return [value for value, _ in both], [gradient for _, gradient in both]

    def forward(self, values: Memory) -> None:
        args, _ = self._bound(values, None)
        self.launch(self.kernel, self.dim, args, device="cpu", record_tape=False)

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        args, gradients = self._bound(before, adjoint)
        self.launch(
            self.kernel,
            self.dim,
            args,
            adj_inputs=gradients,
            device="cpu",
            adjoint=True,
            record_tape=False,
        )


class Both:
    """A launch of a kernel, by Warp and by its mirror, on copies of the memory of its arguments."""

    def __init__(self, kernel: Any, dim: Any, args: Sequence[Any], launch: Any = None) -> None:
        self.program = Program()
        self.arrays = self.program.places(args)
        self.mirror = MirroredLaunch(mirror_kernel(kernel, args), dim, args, self.arrays)
        self.native = NativeLaunch(kernel, dim, args, self.arrays, launch)
        regions = {array.region for array in self.arrays.values()}
        self.before = Memory({region: region.values.copy() for region in regions})
        self.after = Memory({region: region.values.copy() for region in regions})

    def forward(self) -> list[Difference]:
        self.mirror.forward(self.after)
        return compare_forward(self.mirror, self.native, self.mirror.accesses, self.before)

    def adjoint(self, seed: int = 0) -> list[Difference]:
        accesses = self.mirror.accesses
        self.adjoints = random_adjoints(accesses, self.before, seed)
        return compare_adjoint(self.mirror, self.native, accesses, self.before, self.after, self.adjoints)

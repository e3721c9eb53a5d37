"""Launches of NVIDIA Warp's kernels as operations that Warp's own compiled code runs again on any memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from tapedebug.contract import (
    Access,
    Array,
    CallArguments,
    CustomGradients,
    Irreplayable,
    KernelOperations,
    KernelSource,
    Place,
    Threads,
)
from tapedebug.operations import ExactAdjoint, HostOperation, Memory, ProgramReverse, RunsInFloat64, Step
from tapedebug.watch.arguments import Leaf, WarpKernel, frozen
from tapedebug.watch.device_staging import Staging
from tapedebug.watch.handles import Rebuilt
from tapedebug.watch.hooks import WarpObject, look_up, not_intercepted
from tapedebug.watch.kernel_accesses import Path, Use
from tapedebug.watch.kernel_source import WarpKernelSource, is_reversible
from tapedebug.watch.memory import WarpArray, WatchedArray, is_on_host
from tapedebug.watch.mirror import MirroredLaunch, MirrorError, mirror_kernel

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    """Options of a launch that its repetitions need."""

    device: WarpObject
    max_blocks: int = 0
    block_dim: int | None = None

    def arguments(self) -> dict[str, Any]:
        """Return them as keyword arguments of `warp.launch`."""
        found = {"device": self.device}
        if self.max_blocks:
            found["max_blocks"] = self.max_blocks
        if self.block_dim is not None:
            found["block_dim"] = self.block_dim
        return found


class LaunchTemplate:
    """What launches of one kernel on the same arrays have in common.

    Args:
        kernel: The kernel.
        leaves: The arguments with structs split into fields.
        uses: The use of each array.
    """

    def __init__(self, kernel: WarpKernel, leaves: Sequence[Leaf], uses: Mapping[Path, Use]) -> None:
        self.accesses: list[Access] = []
        for number, leaf in enumerate(leaves):
            if leaf.array is not None:
                use = uses.get(leaf.path, READ_ONLY)
                self.accesses.append(
                    Access(
                        number,
                        leaf.name,
                        leaf.array,
                        use.reads,
                        use.writes,
                        use.atomic,
                        needs_before=use.reads,
                        needs_after=use.left or (use.reads and use.writes),
                        active=leaf.array.requires_grad,
                    )
                )
        self.written = [access.array for access in self.accesses if access.writes]
        self.params = [leaf.name for leaf in leaves]
        self.name = str(kernel.key)
        self.has_adjoint = is_reversible(kernel)
        self.source = WarpKernelSource(kernel, leaves, uses)


MIRRORED = frozenset(
    {
        CallArguments,
        CustomGradients,
        ExactAdjoint,
        KernelOperations,
        KernelSource,
        RunsInFloat64,
        Threads,
    }
)
"""The capabilities that launches have if this engine translates their kernels."""
COUNTED = MIRRORED - {ExactAdjoint, RunsInFloat64}
"""Those that count the arguments of a launch."""


class WarpLaunch(HostOperation):
    """A launch of a kernel, run again by Warp.

    If this engine can run it, too, its adjoint is the exact one, and it has a float64 form. Warp's own
    adjoint kernel is that of `native`. It runs where replays repeat the reverse pass of the program.

    Args:
        kernel: The kernel.
        dim: The launch dimensions.
        values: The arguments as the program has them.
        options: Options of the launch.
        leaves: The arguments with structs split into fields.
        template: The description that it shares with other launches.
        call_site: The place in the program.
        obstacle: The reason why it cannot be run again; empty if it can.

    Attributes:
        taped: Warp's tape has recorded it.
        mirror_obstacle: The reason why this engine cannot run it; empty if it can, or nobody has asked.
    """

    def __init__(
        self,
        kernel: WarpKernel,
        dim: tuple[int, ...],
        values: Sequence[object],
        options: LaunchOptions,
        leaves: Sequence[Leaf],
        template: LaunchTemplate,
        call_site: Place,
        obstacle: str = "",
    ) -> None:
        super().__init__(
            name=template.name,
            args=[leaf.value if leaf.array is None else leaf.array for leaf in leaves],
            params=template.params,
            accesses=template.accesses,
            call_site=call_site,
            dim=dim,
            code=kernel,
        )
        self.kernel, self.options, self.leaves = kernel, options, leaves
        self.values = list(map(frozen, values))
        self.taped = True
        self.has_adjoint = template.has_adjoint
        self.obstacle = obstacle
        self.capabilities[KernelSource] = template.source
        self.capabilities[ProgramReverse] = self
        if obstacle:
            self.capabilities[Irreplayable] = self
        self.mirror_obstacle = ""
        self._mirror: MirroredLaunch | None = None
        self._mirror_is_known = False

    @property
    def native(self) -> Step:
        """The launch as Warp runs it, forward and in reverse."""
        return _Native(self)

    @property
    def mirrored(self) -> MirroredLaunch | None:
        """The launch as this engine runs it; None if it cannot."""
        if not self._mirror_is_known:
            self._mirror_is_known = True
            self._mirror = self._new_mirror()
        return self._mirror

    def _new_mirror(self) -> MirroredLaunch | None:
        if self.obstacle or self.mirror_obstacle:
            return None
        arrays = {leaf.place: leaf.array for leaf in self.leaves if leaf.array is not None}
        try:
            mirror = MirroredLaunch(mirror_kernel(self.kernel, self.values), self.dim, self.values, arrays)
        except MirrorError as error:
            self.mirror_obstacle = error.reason
            return None
        found = {mirror.places[access.param]: access for access in mirror.accesses}
        self.accesses = [_joined(own, found.get(self.leaves[own.param].place)) for own in self.accesses]
        return mirror

    def refuse_mirror(self, reason: str) -> None:
        """Let Warp alone run this launch from now on."""
        self.mirror_obstacle = self.mirror_obstacle or reason
        self._mirror, self._mirror_is_known = None, True

    def capability(self, kind: type[T], /) -> T | None:
        """Return the implementation of a capability protocol, or None."""
        if kind in MIRRORED and (mirror := self.mirrored) is not None:
            counted = kind not in COUNTED or mirror.places == [leaf.place for leaf in self.leaves]
            if counted and (found := mirror.capability(kind)) is not None:
                return found
        return super().capability(kind)

    def arrays_changed(self, changed: Callable[[WatchedArray], WatchedArray]) -> None:
        """Use other arrays of the contract in place of those of the program."""
        self.leaves = [
            leaf if leaf.array is None else leaf._replace(array=changed(leaf.array)) for leaf in self.leaves
        ]
        self._mirror, self._mirror_is_known = None, bool(self.mirror_obstacle)

    def reason(self) -> str:
        """Return why it cannot be run again, as a clause."""
        return f"launch {self.index} ({self.name}) is not run again: {self.obstacle}"

    def forward(self, values: Memory) -> None:
        """Run the kernel on this memory."""
        self.native.forward(values)

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        """Run the exact adjoint or, if there is none, Warp's adjoint kernel with the values in `before`."""
        mirror = self.mirrored
        if mirror is not None:
            mirror.vjp(before, after, adjoint)
        else:
            self.native.vjp(before, after, adjoint)

    def program_vjp(self, step: Step, values: Memory, adjoint: Memory) -> None:
        """Do what the program's reverse pass did, in which some arrays may keep their gradients."""
        if not self.taped:
            return
        if step is self:
            self.command(values, adjoint, retains=True).run()
        else:
            step.vjp(values, values, adjoint)

    def command(self, values: Memory, adjoint: Memory | None, *, retains: bool = False) -> _Command:
        """Return the launch bound to memory, which is done once for each memory."""
        key = self, adjoint, retains
        found = values.bound.get(key)
        if found is None:
            found = values.bound[key] = self._bind(values, adjoint, retains)
        return cast("_Command", found)

    def _bind(self, values: Memory, adjoint: Memory | None, retains: bool) -> _Command:
        binding = _Binding(iter(self.leaves), values, adjoint, retains)
        binding.written = {access.array for access in self.accesses if access.writes}
        both = [binding.argument(value) for value in self.values]
        given = [value for value, _ in both]
        options: dict[str, Any] = self.options.arguments()
        if adjoint is not None:
            options |= {"adjoint": True, "adj_inputs": [gradient for _, gradient in both]}
        with not_intercepted():
            made = look_up("warp._src.context:launch")(
                self.kernel, self.dim, given, record_cmd=True, record_tape=False, **options
            )
        return _Command(made, binding, both)


class _Native:
    """A launch as Warp runs it.

    Args:
        launch: The launch.
    """

    def __init__(self, launch: WarpLaunch) -> None:
        self._launch = launch

    def forward(self, values: Memory) -> None:
        """Run the kernel on this memory."""
        self._launch.command(values, None).run()

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        """Run Warp's adjoint kernel with the values in `before`."""
        self._launch.command(before, adjoint).run()


def _joined(own: Access, mirrored: Access | None) -> Access:
    """Return an access with all that the adjoint of the mirror needs, too."""
    if mirrored is None:
        return own
    return own._replace(
        needs_before=own.needs_before or mirrored.needs_before,
        needs_after=own.needs_after or mirrored.needs_after,
    )


READ_ONLY = Use(reads=True)
"""The use of the arrays of a handle, and of the index arrays of an indexed array."""


class _Command:
    """A launch that is bound to memory; `held` keeps what it points to alive."""

    __slots__ = ("_command", "_held", "_rebuilt", "_staged")

    def __init__(self, command: WarpObject, binding: _Binding, held: object) -> None:
        self._command, self._rebuilt, self._staged = command, binding.rebuilt, binding.staged
        self._held = held

    def run(self) -> None:
        if self._command is None:  # a launch without threads
            return
        with not_intercepted():
            for each in self._staged:
                each.staging.upload(each.array, each.device)
            for rebuilt in self._rebuilt:
                rebuilt.refresh()
            self._command.launch()
            for each in self._staged:
                if each.is_written:
                    each.staging.download(each.array, each.device)
            if self._staged:
                look_up("warp:synchronize_device")(self._staged[0].device)


class _Staged(NamedTuple):
    """An array that a launch uses on a device, and the copies of the replay's memory there."""

    staging: Staging
    array: WatchedArray
    device: WarpObject
    is_written: bool


class _Binding:
    """Replaces the arrays in the arguments of a launch by arrays over other memory.

    Args:
        leaves: The leaves of the arguments, in order.
        values: The memory of the values.
        adjoint: The memory of the adjoints; None for a forward run.
        retains: Arrays keep their gradients if the program says so.

    Attributes:
        rebuilt: The objects that are made anew.
        staged: The arrays on a device.
        written: The arrays that the launch writes.
    """

    def __init__(self, leaves: Iterator[Leaf], values: Memory, adjoint: Memory | None, retains: bool) -> None:
        self.leaves, self.values, self.adjoint, self.retains = leaves, values, adjoint, retains
        self.rebuilt: list[Rebuilt] = []
        self.staged: list[_Staged] = []
        self.written: Collection[Array] = ()

    def argument(self, value: WarpObject) -> tuple[Any, Any]:
        """Return an argument with its arrays in other memory, and its adjoint."""
        if look_up("warp._src.types:is_struct")(value):
            struct, gradients = value._cls(), value._cls()
            for name in value._cls.vars:
                field = getattr(value, name)
                inner, gradient = self.argument(field)
                setattr(struct, name, inner)
                is_array = look_up("warp._src.types:is_array")(field)
                setattr(gradients, name, gradient if is_array or gradient is not None else field)
            return struct, gradients
        leaf = next(self.leaves)
        if leaf.handle is not None:
            arrays = {name: self.array(next(self.leaves))[0] for name in leaf.handle.arrays}
            self.rebuilt.append(leaf.handle.rebuilt(arrays))
            return self.rebuilt[-1].id, None
        if leaf.array is None:
            return value, None
        found, gradient = self.array(leaf)
        if leaf.value is not value:  # the data of an indexed array
            indices = [None if i is None else self.array(next(self.leaves))[0] for i in value.indices]
            found = look_up("warp._src.types:indexedarray")(found, indices[: found.ndim])
        return found, gradient

    def array(self, leaf: Leaf) -> tuple[WarpArray, WarpArray | None]:
        """Return an array over the memory of the replay, and its gradient."""
        source: WarpArray = leaf.value
        if not source.ptr or leaf.array is None:
            return source, None
        gradient = None
        if self.adjoint is not None and leaf.array.requires_grad:
            gradient = self._array_in(source, leaf.array, self.adjoint, None)
        found = self._array_in(source, leaf.array, self.values, gradient)
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
            self.staged.append(_Staged(staging, array, source.device, written))
        return look_up("warp:array")(
            ptr=start + array.offset,
            dtype=source.dtype,
            shape=source.shape,
            strides=source.strides,
            device=source.device,
            grad=gradient,
        )

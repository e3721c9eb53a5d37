"""Launches of NVIDIA Warp's kernels as operations that Warp's own compiled code runs again on any memory."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

from tapedebug._dataclass import dataclass
from tapedebug._interception import not_intercepted
from tapedebug._source import Site
from tapedebug.contract import (
    Access,
    AccessSets,
    CallArguments,
    CustomGradients,
    Irreplayable,
    KernelOperations,
    KernelSource,
    Kind,
    NumberArguments,
    Place,
    Replay,
    Stack,
    Threads,
)
from tapedebug.operations import (
    ExactAdjoint,
    Memory,
    NarrowedStep,
    NarrowMemory,
    OperationReplay,
    OperationTape,
    ProgramReverse,
    PushesTangents,
    RunsInFloat64,
    Step,
)
from tapedebug.operations.adjoint_values import may_need_after
from tapedebug.watch.arguments import Leaf, WarpKernel, thawed
from tapedebug.watch.bound_launch import Binding, BoundLaunch
from tapedebug.watch.foreign_memory import ForeignMemory
from tapedebug.watch.handles import Handles
from tapedebug.watch.hooks import WarpObject, look_up
from tapedebug.watch.kernel_accesses import Path, Use
from tapedebug.watch.kernel_source import WarpKernelSource, is_reversible
from tapedebug.watch.memory import MemoryMap, WatchedArray
from tapedebug.watch.mirror import MirroredLaunch, MirrorError, mirror_kernel

T = TypeVar("T")


LaunchOptions = tuple[WarpObject, int, int | None]
"""The device of a launch, `max_blocks` and `block_dim`."""


class LaunchForm:
    """The facts that all launches of one kernel with arguments of the same kinds share.

    Args:
        leaves: The arguments with structs split into fields.
        uses: The use of each array.

    Attributes:
        params: The names of the arguments.
        paths: The number of the parameter and the path of each argument.
        arrays: The arguments that are arrays: the number, the name and the use of each.
    """

    def __init__(self, leaves: Sequence[Leaf], uses: Mapping[Path, Use]) -> None:
        self.uses = uses
        self.params = [leaf.name for leaf in leaves]
        self.paths = [(leaf.param, leaf.path) for leaf in leaves]
        self.arrays = [
            (number, leaf.name, uses.get(leaf.path, READ_ONLY))
            for number, leaf in enumerate(leaves)
            if leaf.array is not None
        ]

    def accesses(self, arrays: Sequence[WatchedArray | None]) -> list[Access]:
        """Return the accesses of a launch with these arrays, one for each argument, or None."""
        return [
            Access(
                number,
                name,
                array,
                use.reads,
                use.writes,
                use.atomic,
                needs_before=use.reads,
                needs_after=use.left or (use.reads and use.writes),
                active=array.requires_grad,
            )
            for number, name, use in self.arrays
            if (array := arrays[number]) is not None
        ]

    def written(self, arrays: Sequence[WatchedArray | None]) -> list[WatchedArray]:
        """Return those of the arrays that the launch writes."""
        return [
            array for number, _, use in self.arrays if use.writes and (array := arrays[number]) is not None
        ]

    def read(self, arrays: Sequence[WatchedArray | None]) -> list[WatchedArray]:
        """Return those of the arrays that the launch reads."""
        return [
            array for number, _, use in self.arrays if use.reads and (array := arrays[number]) is not None
        ]

    def gradients(
        self, arrays: Sequence[WatchedArray | None], memory: MemoryMap
    ) -> list[tuple[WatchedArray, Use]]:
        """Return the arrays whose gradients are among the arguments, each with the use of its gradient."""
        return [
            (found, use)
            for number, _, use in self.arrays
            if (array := arrays[number]) is not None and (found := memory.with_gradient_at(array.source))
        ]


class LaunchTemplate:
    """The facts that all launches of one kernel on the same arrays share.

    Args:
        kernel: The kernel.
        form: What it has in common with launches on other arrays.
        arrays: The array of each argument; None for other arguments.
        tape: The tape that records the launches.
        objects: The objects that kernels know by a number.
        memory: The memory of the program's arrays.

    Attributes:
        touched: The memory that the launches touch.
        gradients: The arrays whose gradients are among the arguments, each with the use of its gradient.
        suspects: The arguments that are arrays whose elements may lead to other memory.
    """

    __slots__ = (
        "_source",
        "accesses",
        "arrays",
        "form",
        "gradients",
        "has_adjoint",
        "name",
        "suspects",
        "touched",
    )

    def __init__(
        self,
        kernel: WarpKernel,
        form: LaunchForm,
        arrays: Sequence[WatchedArray | None],
        tape: OperationTape,
        objects: Handles,
        memory: MemoryMap,
    ) -> None:
        self.form, self.arrays = form, arrays
        self.gradients = form.gradients(arrays, memory)
        self.accesses = form.accesses(arrays)
        self.touched = tape.touched(self.accesses)
        self.name = str(kernel.key)
        self.has_adjoint = is_reversible(kernel)
        self.suspects = [
            array for array in arrays if array is not None and objects.may_be_in(array.source.dtype)
        ]
        self._source: WarpKernelSource | None = None

    def source_of(self, launch: WarpLaunch) -> WarpKernelSource:
        """Return the source of the kernel, as one of the launches uses it."""
        if self._source is None:
            self._source = WarpKernelSource(launch.kernel, launch.leaves, self.form.uses)
        return self._source


MIRRORED = frozenset(
    {
        CallArguments,
        CustomGradients,
        ExactAdjoint,
        KernelOperations,
        KernelSource,
        PushesTangents,
        RunsInFloat64,
        Threads,
    }
)
"""The capabilities that launches have if this engine translates their kernels."""
COUNTED = MIRRORED - {ExactAdjoint, PushesTangents, RunsInFloat64}
"""Those that count the arguments of a launch."""


class WarpLaunch(AccessSets):
    """A launch of a kernel, run again by Warp.

    If this engine can run it, too, its adjoint is the exact one, and it has a float64 form. Warp's own
    adjoint kernel is that of `native`. It runs where replays repeat the reverse pass of the program.

    Many are made while the program runs, so what is only needed later is computed later.

    Args:
        kernel: The kernel.
        dim: The launch dimensions.
        values: The arguments as they are now, see `frozen`.
        options: Options of the launch.
        template: The description that it shares with other launches.
        call_site: The place in the program.
        leaves: The arguments with structs split into fields; None if no argument is a struct, an indexed
            array or the number of an object.
        obstacle: The reason why it cannot be run again; empty if it can.

    Attributes:
        taped: Warp's tape has recorded it.
        given: The arguments with the structs of the program, which it may change; empty if there are none.
        site: The code and the instruction of the call, if they are known.
        as_reversed: The launch with what its structs held when the reverse pass began, if that had changed.
        mirror_obstacle: The reason why this engine cannot run it; empty if it can, or nobody has asked.
    """

    kind: Kind = "kernel"
    taped = True
    index = 0
    scope: int | None = None
    seconds: float | None = None
    backward_seconds: float | None = None
    mirror_obstacle = ""
    given: Sequence[object] = ()
    site: Site | None = None
    as_reversed: PresentStructs | None = None
    _mirror: MirroredLaunch | None = None
    _mirror_is_known = False
    _translation: MirroredLaunch | None = None
    _retained: Sequence[Access] = ()

    def __init__(
        self,
        kernel: WarpKernel,
        dim: tuple[int, ...],
        values: Sequence[object],
        options: LaunchOptions,
        template: LaunchTemplate,
        call_site: Place,
        leaves: Sequence[Leaf] | None = None,
        obstacle: str = "",
    ) -> None:
        self.kernel, self.dim, self._values, self.options = kernel, dim, values, options
        self.template, self.call_site, self.obstacle = template, call_site, obstacle
        self.accesses: Sequence[Access] = template.accesses
        if leaves is not None:
            self.leaves = leaves

    def __repr__(self) -> str:
        return f"<operation {self.index}: {self.name}>"

    @property
    def name(self) -> str:
        """The name of the kernel."""
        return self.template.name

    @property
    def code(self) -> Hashable:
        """The kernel."""
        found: Hashable = self.kernel
        return found

    @property
    def params(self) -> Sequence[str]:
        """The names of the arguments."""
        return self.template.form.params

    @property
    def has_adjoint(self) -> bool:
        """True if Warp makes an adjoint of the kernel."""
        return self.template.has_adjoint

    def param_name(self, param: int, /) -> str:
        """Return the name of an argument."""
        return self.params[param]

    @cached_property
    def values(self) -> Sequence[Any]:
        """The arguments, as Warp takes them."""
        return list(map(thawed, self._values))

    @cached_property
    def leaves(self) -> Sequence[Leaf]:
        """The arguments with structs split into fields."""
        described = zip(self.template.form.paths, self._values, self.template.arrays, strict=True)
        return [Leaf(param, path, value, array) for (param, path), value, array in described]

    @cached_property
    def args(self) -> Sequence[Any]:
        """The arguments: arrays of the contract, and values that are not arrays."""
        return [leaf.value if leaf.array is None else leaf.array for leaf in self.leaves]

    @property
    def native(self) -> NativeLaunch:
        """The launch as Warp runs it, forward and in reverse."""
        return NativeLaunch(self)

    @property
    def retaining(self) -> NativeLaunch:
        """The same, with arrays that keep their gradients if the program says so."""
        return NativeLaunch(self, retains=True)

    @property
    def mirrored(self) -> MirroredLaunch | None:
        """The launch as this engine runs it; None if it cannot."""
        if not self._mirror_is_known:
            self._mirror_is_known = True
            self._mirror = self._new_mirror()
        return self._mirror

    @property
    def tracked(self) -> MirroredLaunch | None:
        """The launch as this engine runs it, also if its results differ; None if its parameters do."""
        mirror = self.mirrored or self._translation
        same = mirror is not None and mirror.places == [leaf.place for leaf in self.leaves]
        return mirror if same else None

    def _new_mirror(self) -> MirroredLaunch | None:
        if self.obstacle or self.mirror_obstacle:
            return None
        arrays = {leaf.place: leaf.array for leaf in self.leaves if leaf.array is not None}
        try:
            mirror = MirroredLaunch(mirror_kernel(self.kernel, self.values), self.dim, self.values, arrays)
        except MirrorError as error:
            self.mirror_obstacle = error.reason
            return None
        read, differentiated = (
            {mirror.places[access.param]: access for access in accesses}
            for accesses in (mirror.accesses, mirror.differentiated)
        )
        pairs = [(own, self.leaves[own.param].place) for own in self.retained]
        self._retained = [_joined(own, read.get(place)) for own, place in pairs]
        self.accesses = [_needing(own, differentiated.get(place)) for own, place in pairs]
        return mirror

    @property
    def retained(self) -> Sequence[Access]:
        """The accesses with the values that the exact adjoint needs, and those that Warp's may read."""
        return self._retained or self.accesses

    def refuse_mirror(self, reason: str) -> None:
        """Let Warp alone run this launch from now on."""
        self.accesses = self.retained
        self._translation = self._mirror
        self.mirror_obstacle = self.mirror_obstacle or reason
        self._mirror, self._mirror_is_known = None, True

    def capability(self, kind: type[T], /) -> T | None:
        """Return the implementation of a capability protocol, or None."""
        if kind in MIRRORED and (mirror := self.mirrored) is not None:
            counted = kind not in COUNTED or mirror.places == [leaf.place for leaf in self.leaves]
            if counted and (found := mirror.capability(kind)) is not None:
                return found
        if kind is KernelSource:
            return cast("T", self.template.source_of(self))
        if kind is NumberArguments and self.site is not None and (mirror := self.mirrored) is not None:
            numbers = mirror.capability(NumberArguments)
            counted = mirror.places == [leaf.place for leaf in self.leaves]
            return cast("T", _Numbers(self, mirror, numbers)) if counted and numbers is not None else None
        if kind is ProgramReverse or (kind is Irreplayable and self.obstacle):
            return cast("T", self)
        return None

    def arrays_changed(self, changed: Callable[[WatchedArray], WatchedArray]) -> None:
        """Use other arrays of the contract in place of those of the program."""
        self.leaves = [
            leaf if leaf.array is None else leaf._replace(array=changed(leaf.array)) for leaf in self.leaves
        ]
        self._retained = [
            access._replace(array=own.array, active=own.active)
            for access, own in zip(self._retained, self.accesses, strict=False)
        ]
        self._forget_mirror()

    def with_arguments(self, values: Sequence[object], leaves: Sequence[Leaf]) -> WarpLaunch:
        """Return the same launch with other arguments, whose structs hold other arrays and numbers."""
        found = copy.copy(self)
        found.values, found.leaves = values, leaves
        found.args = [leaf.value if leaf.array is None else leaf.array for leaf in leaves]

        def moved(access: Access) -> Access:
            array = leaves[access.param].array
            return access if array is None else access._replace(array=array, active=array.requires_grad)

        found.accesses = list(map(moved, self.accesses))
        found._retained = list(map(moved, self._retained))
        found._forget_mirror()
        return found

    def _forget_mirror(self) -> None:
        self._translation = None
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
        """Reverse the launch as the program did, with the arrays that kept their gradients."""
        if not self.taped:
            return
        launch = self
        present = self.as_reversed
        if present is not None and present.foreign.is_complete:
            launch, foreign = present.launch, present.foreign
            values, adjoint = foreign.beside(values), foreign.adjoints_beside(adjoint)
        if step is self:
            launch.retaining.vjp(values, values, adjoint)
        elif may_need_after(launch):  # the exact adjoint starts from the values before, Warp's from these
            launch.narrowed(values).vjp(values, values, adjoint)
        else:
            own = step if launch is self else launch.capability(RunsInFloat64)
            (own or step).vjp(values, values, adjoint)

    def narrowed(self, values: Memory) -> NarrowedStep:
        """Return the launch as Warp runs it, on memory that holds float32 values as float64."""
        key = self, "narrowed"
        found = values.bound.get(key)
        if found is None:
            sizes: dict[Hashable, int] = {
                access.array.region: cast("Any", access.array.region).nbytes for access in self.accesses
            }
            found = values.bound[key] = NarrowedStep(self.retaining, NarrowMemory(sizes))
        return cast("NarrowedStep", found)

    def command(self, values: Memory, adjoint: Memory | None, *, retains: bool = False) -> BoundLaunch:
        """Return the launch bound to memory, which is done once for each memory."""
        key = self, adjoint, retains
        found = values.bound.get(key)
        if found is None:
            found = values.bound[key] = self._bind(values, adjoint, retains)
        return cast("BoundLaunch", found)

    def _bind(self, values: Memory, adjoint: Memory | None, retains: bool) -> BoundLaunch:
        binding = Binding(iter(self.leaves), values, adjoint, retains)
        binding.written = {access.array for access in self.accesses if access.writes}
        both = [binding.argument(value) for value in self.values]
        given = [value for value, _ in both]
        device, max_blocks, block_dim = self.options
        options: dict[str, Any] = {"device": device}
        if max_blocks:
            options["max_blocks"] = max_blocks
        if block_dim is not None:
            options["block_dim"] = block_dim
        if adjoint is not None:
            options |= {"adjoint": True, "adj_inputs": [gradient for _, gradient in both]}
        with not_intercepted():
            made = look_up("warp._src.context:launch")(
                self.kernel, self.dim, given, record_cmd=True, record_tape=False, **options
            )
        return BoundLaunch(made, binding, both)


@dataclass(frozen=True, slots=True)
class PresentStructs:
    """A launch with what its structs held when the reverse pass began.

    Attributes:
        launch: The launch with these arguments.
        changed: The parameters that differ from those of the program's launch.
        foreign: The memory of its arrays that the tape does not use.
    """

    launch: WarpLaunch
    changed: Sequence[int]
    foreign: ForeignMemory


class NativeLaunch:
    """A launch as Warp runs it.

    Args:
        launch: The launch.
        retains: Arrays keep their gradients if the program says so.

    Attributes:
        accesses: The use that it makes of each array.
    """

    def __init__(self, launch: WarpLaunch, *, retains: bool = False) -> None:
        self._launch, self._retains = launch, retains
        self.accesses = launch.accesses

    def forward(self, values: Memory) -> None:
        """Run the kernel on this memory."""
        self._run(values, None)

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        """Run Warp's adjoint kernel with the values in `before`."""
        self._run(before, adjoint)

    def _run(self, values: Memory, adjoint: Memory | None) -> None:
        retains = self._retains and adjoint is not None
        self._launch.command(values, adjoint, retains=retains).run()


class _Numbers:
    """The capability `contract.NumberArguments` of a launch that this engine can run.

    Args:
        launch: The launch, whose call site is known.
        mirror: The same, as this engine runs it.
        numbers: The capability of that.
    """

    def __init__(self, launch: WarpLaunch, mirror: MirroredLaunch, numbers: NumberArguments) -> None:
        self._launch, self._mirror, self._numbers = launch, mirror, numbers

    @property
    def stack(self) -> Stack:
        """The frame of the call."""
        assert self._launch.site is not None
        return ((*self._launch.site, 0),)

    @property
    def params(self) -> Sequence[int]:
        """The parameters that are floats, or vectors of floats."""
        return self._numbers.params

    def scale(self, replay: Replay, param: int, factor: float, /) -> None:
        """Multiply an argument by a factor in all further forward runs of a replay."""
        assert isinstance(replay, OperationReplay)
        if not replay.is_float64:
            replay.use(self._launch.index, self._mirror)
        self._numbers.scale(replay, param, factor)


def _joined(own: Access, mirrored: Access | None) -> Access:
    """Return an access with all that the adjoint of the mirror needs, too."""
    if mirrored is None:
        return own
    return own._replace(
        needs_before=own.needs_before or mirrored.needs_before,
        needs_after=own.needs_after or mirrored.needs_after,
    )


def _needing(own: Access, mirrored: Access | None) -> Access:
    """Return an access with just the values that derivatives of the mirror depend on."""
    if mirrored is None:
        return own
    return own._replace(needs_before=mirrored.needs_before, needs_after=mirrored.needs_after)


READ_ONLY = Use(reads=True)
"""The use of the arrays of a handle, and of the index arrays of an indexed array."""

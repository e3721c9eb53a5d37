"""Launches of NVIDIA Warp's kernels as operations that Warp's own compiled code runs again on any memory."""

from __future__ import annotations

import ast
import builtins
import contextlib
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import ModuleType
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from tapedebug.contract import (
    Access,
    Array,
    CallArguments,
    CustomGradients,
    Irreplayable,
    KernelOperations,
    KernelSource,
    Parameter,
    Place,
    SourceAccess,
    SourceText,
    Threads,
)
from tapedebug.operations import ExactAdjoint, HostOperation, Memory, ProgramReverse, RunsInFloat64, Step
from tapedebug.watch.device_staging import Staging
from tapedebug.watch.handles import Handle, Handles, Rebuilt
from tapedebug.watch.hooks import WarpObject, look_up, not_intercepted
from tapedebug.watch.kernel_accesses import ANYTHING, Definition, Path, Use, uses_of
from tapedebug.watch.memory import MemoryMap, NotWatchable, WarpArray, WatchedArray, is_on_host
from tapedebug.watch.mirror import MirroredLaunch, MirrorError, mirror_kernel

T = TypeVar("T")

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
                use = uses.get(leaf.path, READ_ONLY if len(leaf.path) > 1 else ANYTHING)
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


def is_reversible(kernel: WarpKernel) -> bool:
    """True if Warp makes an adjoint of a kernel."""
    enabled = kernel.options.get("enable_backward")
    if enabled is None:
        enabled = kernel.module.options.get("enable_backward")
    return enabled is not False


class WarpKernelSource:
    """The capability `contract.KernelSource` of a launch."""

    def __init__(self, kernel: WarpKernel, leaves: Sequence[Leaf], uses: Mapping[Path, Use]) -> None:
        self.functions: Sequence[SourceText] = ()
        self._kernel, self._leaves, self._uses = kernel, leaves, uses

    @property
    def kernel(self) -> Hashable:
        """The function of the kernel, which all its overloads share."""
        found: Hashable = self._kernel.func
        return found

    @property
    def text(self) -> SourceText:
        """The kernel itself."""
        definition = definition_of(self._kernel)
        if definition is None:
            return SourceText(str(self._kernel.key), "", 0, ())
        return SourceText(
            str(self._kernel.key),
            definition.file,
            definition.first_line,
            [line.rstrip("\n") for line in definition.lines],
        )

    @cached_property
    def parameters(self) -> Sequence[Parameter]:
        """The arguments, with structs split into fields."""
        return [
            Parameter(
                leaf.name,
                type(leaf.value).__name__ if leaf.array is None else leaf.array.dtype_name,
                leaf.array is not None,
            )
            for leaf in self._leaves
        ]

    @property
    def accesses(self) -> Sequence[SourceAccess]:
        """The places that access arrays, of those that the syntax tree shows."""
        return [
            SourceAccess(number, kind, place)
            for number, leaf in enumerate(self._leaves)
            if leaf.path in self._uses
            for kind, place in self._uses[leaf.path].places
        ]

    @property
    def needed(self) -> Mapping[int, Sequence[Place]]:
        """The reads of each array."""
        found: dict[int, list[Place]] = {}
        for access in self.accesses:
            if access.kind == "read":
                found.setdefault(access.param, []).append(access.place)
        return found

    @property
    def needed_key(self) -> Hashable:
        """Equal for all launches of a kernel."""
        return None

    @property
    def enable_backward(self) -> bool:
        """True if the kernel has an adjoint."""
        return is_reversible(self._kernel)

    def adjoint_text(self) -> None:
        """Return None: Warp's adjoints are C++."""


def definition_of(function: WarpObject) -> Definition | None:
    """Return the source of a kernel or function of Warp; None if there is none."""
    adj: WarpObject = getattr(function, "adj", None)
    tree = getattr(adj, "tree", None)
    if tree is None or not isinstance(tree.body[0], ast.FunctionDef):
        return None
    return Definition(
        tree.body[0], adj.filename, adj.fun_lineno, adj.source.splitlines(), _Names(function.func).resolve
    )


class _Names:
    """The objects that the names in a function stand for."""

    def __init__(self, function: WarpObject) -> None:
        self._globals = function.__globals__
        names = function.__code__.co_freevars
        self._closure = dict(zip(names, function.__closure__ or (), strict=True))

    def resolve(self, node: ast.expr) -> object:
        """Return the object of a name or attribute; None if it is unknown."""
        if isinstance(node, ast.Name):
            with contextlib.suppress(ValueError):
                if node.id in self._closure:
                    return self._closure[node.id].cell_contents
            found = self._globals.get(node.id)
            return _builtin(node.id) if found is None else found
        if isinstance(node, ast.Attribute):
            base = self.resolve(node.value)
            if base is None:
                return None
            if isinstance(base, ModuleType) and base.__name__ == "warp":
                return _builtin(node.attr) or getattr(base, node.attr, None)
            return getattr(base, node.attr, None)
        return None


def _builtin(name: str) -> object:
    """Return a built-in function or operator of Python or Warp; None if there is none."""
    return look_up("warp._src.context:builtin_functions").get(name) or getattr(builtins, name, None)


class WarpLibrary:
    """The `kernel_accesses.Library` of functions of Warp."""

    def function(self, found: object, /) -> list[Definition]:
        """Return the definitions of a function of the user."""
        function: Any = found
        if self.builtin(found) is not None or getattr(found, "native_snippet", None) is not None:
            return []
        several = list(getattr(function, "user_overloads", {}).values()) or [function]
        definitions = [definition_of(each) for each in several]
        return [] if None in definitions else [each for each in definitions if each is not None]

    def builtin(self, found: object, /) -> str | None:
        """Return the name of a built-in function of Warp."""
        function: Any = found
        if isinstance(found, look_up("warp._src.context:Function")) and function.is_builtin():
            return str(function.key)
        return "len" if found is len else None

    def is_plain(self, found: object, /) -> bool:
        """True for types and `range`: they use no array that they are called with."""
        return isinstance(found, type)


class KernelUses:
    """The uses of arrays by kernels, computed once for each kernel and number of axes."""

    def __init__(self) -> None:
        self._known: dict[Hashable, dict[Path, Use]] = {}
        self._library = WarpLibrary()

    def of(self, kernel: WarpKernel, leaves: Sequence[Leaf]) -> dict[Path, Use]:
        """Return the use of each array of a launch, by path."""
        ndims = {leaf.path: leaf.array.ndim for leaf in leaves if leaf.array is not None}
        key = kernel, tuple(ndims.items())
        found = self._known.get(key)
        if found is None:
            definition = definition_of(kernel)
            handles = {leaf.path for leaf in leaves if leaf.handle is not None}
            named = {
                path: ndim
                for path, ndim in ndims.items()
                if not path[-1].startswith("indices[") and path[:-1] not in handles
            }
            found = {} if definition is None else uses_of(definition, named, self._library)
            self._known[key] = found
        return found

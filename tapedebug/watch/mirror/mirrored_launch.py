"""Launches of Warp, run by this engine on any memory of their regions."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, Literal, TypeVar, cast

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import TapedebugError
from tapedebug._source import Site, Span
from tapedebug.compiler.kernel_queries import warp_divergences_of
from tapedebug.contract import Access, Array, NumberArguments, ReverseDivergence
from tapedebug.lang import types as t
from tapedebug.operations.memory import Memory
from tapedebug.operations.operation import ExactAdjoint, PushesTangents, RunsInFloat64
from tapedebug.runtime.capabilities import operation_capability
from tapedebug.runtime.launch.adjoint_launch import plan_for
from tapedebug.runtime.launch.launch import kernel_for, launch_dims, resolve
from tapedebug.runtime.launch.plan import CHECKED, Runner
from tapedebug.runtime.memory.array import array, make, new
from tapedebug.runtime.memory.buffer import Buffer
from tapedebug.runtime.memory.indexed import indexedarray
from tapedebug.runtime.replay.single_launch import SingleLaunch
from tapedebug.runtime.reverse.argument_table import ArgumentTable
from tapedebug.runtime.tape.record import Record, call_site
from tapedebug.watch.mirror import warp_types
from tapedebug.watch.mirror.capabilities import OF_RECORD, MirroredNumbers
from tapedebug.watch.mirror.errors import MirrorError
from tapedebug.watch.mirror.memory_space import MemorySpace
from tapedebug.watch.mirror.mirrored_kernel import MirroredKernel, places_of

T = TypeVar("T")

Place = tuple[int, str]
"""The number of a parameter, and the path of a field: `(0, "q")`; the path is empty for other parameters.

An indexed array has the place of its data, and those of its indices: `(0, "indices[0]")`.
"""

Bound = tuple[Runner, int, int, Any]
"""The function that runs a launch, its number of threads, the address of its arguments, and what to keep."""

_BUFFERS: weakref.WeakKeyDictionary[Any, Buffer] = weakref.WeakKeyDictionary()
"""The buffer that stands for each region: memory that is never touched, for addresses relative to it."""


class MirroredStep:
    """A launch on memory of one precision: an `operations.operation.Step`.

    Pointers into a memory are bound once and belong to it; then a run costs a few microseconds.

    Args:
        launch: The launch.
        f64: Float32 values are held, and computed with, in float64.
    """

    def __init__(self, launch: MirroredLaunch, f64: bool) -> None:
        self._launch, self._f64 = launch, f64

    def forward(self, values: Memory) -> None:
        """Run the kernel."""
        run, threads, address, _ = values.bound.get(self) or self.bound(values)
        run(0, threads, address)

    def bound(self, values: Memory) -> Bound:
        """Return the forward run that is bound to a memory."""
        found: Bound | None = values.bound.get(self)
        if found is None:
            found = values.bound[self] = self._bind_forward(values)
        return found

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        """Run the adjoint: consume the adjoints of what the launch overwrites, and add to all others."""
        key = self, id(after), id(adjoint)
        bound = before.bound.get(key)
        if bound is None:
            bound = before.bound[key] = self._bind_adjoint(before, after, adjoint)
        if bound[0] is not None:
            run, threads, address, _ = bound
            run(0, threads, address)

    def bound_tangents(self, values: Memory, tangents: Memory, detached: bool) -> Bound:
        """Return the forward run with tangents that is bound to two memories."""
        key = self, "tangents", id(tangents), detached
        found: Bound | None = values.bound.get(key)
        if found is None:
            found = values.bound[key] = self._bind_tangents(values, tangents, detached)
        return found

    def _bind_tangents(self, values: Memory, tangents: Memory, detached: bool) -> Bound:
        launch, record = self._launch, self._launch.record
        table = ArgumentTable([record], launch.space(values, values, tangents, self._f64))
        address, base = table.forward(record), table.base[record.index]
        for p, slot in record.plan.dotted(detached):
            table.words[base + slot] = table.space.adjoint(record.args[p])
        held = table, tangents  # its id is part of the key
        return record.plan.tangent_run(self._f64, detached), record.threads, address, held

    def _bind_forward(self, values: Memory) -> Bound:
        launch = self._launch
        space = launch.space(values, values, values, self._f64)
        table = ArgumentTable([launch.record], space)
        run = launch.record.plan.forward_run(self._f64)
        return run, launch.record.threads, table.forward(launch.record), table

    def _bind_adjoint(self, before: Memory, after: Memory, adjoint: Memory) -> tuple[Any, ...]:
        launch = self._launch
        table = ArgumentTable([launch.record], launch.space(before, after, adjoint, self._f64))
        steps = table.steps([launch.record])
        held = table, after, adjoint  # their ids are part of the key
        if not steps.records:
            return None, 0, 0, held
        return steps.runs[0], steps.threads[0], steps.addresses[0], held


class MirroredLaunch(MirroredStep):
    """One launch of a kernel of Warp; its `vjp` is an `ExactAdjoint`.

    Args:
        mirrored: The kernel.
        dim: The launch dimensions.
        args: The arguments as Warp got them: arrays, structs, numbers, vectors.
        arrays: The debugger's description of each array, by its place. Where it is missing, Warp was given
            None, and an array without elements is passed.
        site: The place of the call; by default that of the caller.

    Raises:
        MirrorError: The arguments cannot be passed to this engine.

    Attributes:
        record: The launch as this engine describes it; its arrays lie in memory that is never touched.
        accesses: The use that this launch makes of each array, with all values that the adjoint reads;
            `param` counts as in `places`.
        differentiated: The same, with the values that derivatives depend on.
        places: The place of each flat argument: structs are taken apart.
        in_float64: The same launch on memory that holds float32 values as float64; None if a replay cannot
            hold them so, as fields of the elements of an array.
    """

    def __init__(
        self,
        mirrored: MirroredKernel,
        dim: int | Sequence[int],
        args: Sequence[object],
        arrays: Mapping[Place, Array],
        site: Site | None = None,
    ) -> None:
        super().__init__(self, False)
        self.mirrored, self._arrays = mirrored, arrays
        self._regions: dict[Buffer, Hashable] = {}
        self._late: list[array] = []
        if len(args) != len(mirrored.kernel.signature):
            raise MirrorError(f"`{mirrored.key}` was launched with {len(args)} arguments")
        try:
            self.record = self._recorded(dim, args, arrays, site or call_site())
        except TapedebugError as error:
            raise MirrorError.because_of(error) from None
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            what = f"{type(error).__name__}: {error}"
            raise MirrorError(f"the arguments of `{mirrored.key}` cannot be passed ({what})") from error
        plan = self.record.plan
        self._late = [self.record.args[p] for p in plan.late]
        self.places = places_of(plan.kernel)
        self.accesses = self._accesses(arrays, self.record.replay)
        self.differentiated = self._accesses(arrays)
        self.in_float64 = None if self._narrow(arrays) else MirroredStep(self, True)

    def __repr__(self) -> str:
        return f"<mirror of a launch of {self.mirrored.key}, dim {self.record.dim}>"

    @property
    def is_flat(self) -> bool:
        """True if the record has one argument for each argument of the program, structs taken apart."""
        return len(set(self.places)) == len(self.places)

    @property
    def args(self) -> Sequence[object]:
        """One argument for each place: the debugger's arrays, and numbers as this engine has them."""
        return [self._arrays.get(place, a) for place, a in zip(self.places, self.record.args, strict=True)]

    def capability(self, kind: type[T], /) -> T | None:
        """Return the implementation of a capability protocol for this launch, or None."""
        if kind is RunsInFloat64:
            return cast("T", self.in_float64)
        if kind is ExactAdjoint:
            return cast("T", self)
        if kind is PushesTangents:  # replays with tangents are in float64
            has_tangent = self.in_float64 is not None and not self.record.plan.kernel.analysis.opaque
            return cast("T", self) if has_tangent else None
        if kind is NumberArguments:
            return cast("T", MirroredNumbers(self)) if self.is_flat else None
        return operation_capability(self.record, kind) if kind in OF_RECORD and self.is_flat else None

    def push(self, values: Memory, tangents: Memory, *, float64: bool, detached: bool) -> None:
        """Run the kernel with its tangent; see `PushesTangents`."""
        step = self.in_float64 if float64 else self
        assert step is not None
        run, threads, address, _ = step.bound_tangents(values, tangents, detached)
        run(0, threads, address)

    def divergences(self) -> Sequence[ReverseDivergence]:
        """Return the constructs of the kernel that Warp may reverse wrongly; else the kernel as a whole."""
        kernel = self.record.plan.kernel
        try:
            found: Sequence[ReverseDivergence] = warp_divergences_of(kernel, self.record.plan.active)
        except TapedebugError:
            found = ()
        return found or [_WholeKernel(kernel.origin.span(kernel.origin.tree))]

    def region_of(self, a: array) -> Hashable:
        """Return the region in which an array of the record lies; None for memory of this engine."""
        return self._regions.get(a.buffer)

    def space(self, before: Memory, after: Memory, adjoint: Memory, f64: bool) -> MemorySpace:
        """Return the address space of this launch in some memories."""
        return MemorySpace(self._regions, before, after, adjoint, self._late, f64)

    def _narrow(self, arrays: Mapping[Place, Array]) -> bool:
        """True if values lie in arrays of another type, which a replay does not hold as float64."""
        kernel = self.record.plan.kernel
        for param, place in zip(kernel.params, self.places, strict=True):
            if param.is_array and place in arrays and t.is_float(param.type.dtype):
                scalar = t.scalar_of(param.type.dtype).numpy
                if scalar != arrays[place].scalar_dtype:
                    return True
        return False

    def _recorded(
        self, dim: int | Sequence[int], args: Sequence[object], arrays: Mapping[Place, Array], site: Site
    ) -> Record:
        kernel = self.mirrored.kernel
        given = [
            self._argument(param.type, value, (number, ""), arrays)
            for number, (param, value) in enumerate(zip(kernel.signature, args, strict=True))
        ]
        kernel = kernel_for(kernel, dim, tuple(given))
        plan, flat = resolve(kernel, tuple(given))
        places = places_of(kernel)
        active = frozenset(p for p in plan.floats if places[p] in arrays and arrays[places[p]].requires_grad)
        plan = plan_for(kernel, flat, plan, active)
        plan.diagnostics |= CHECKED  # replays on other values keep indices inside arrays
        sizes, threads, slots = launch_dims(kernel, dim)
        record = Record(0, plan, flat, sizes, threads, plan.packed(slots, flat), site, None)
        SingleLaunch().before(record)
        return record

    def _argument(self, kind: object, value: object, place: Place, arrays: Mapping[Place, Array]) -> Any:
        """Return an argument of this engine for one of Warp's."""
        param, path = place
        wanted: Any = kind
        if t.is_struct(kind):
            made = wanted()
            for label, inner in wanted.fields.items():
                found = self._argument(inner, getattr(value, label), (param, _joined(path, label)), arrays)
                setattr(made, label, found)
            return made
        if isinstance(kind, t.IndexedArrayType):
            return self._indexed(kind, place, arrays)
        if isinstance(kind, t.ArrayType):
            array_of = arrays.get(place)
            if array_of is None:  # the kernel uses it in branches that are not taken, or not at all
                return None if t.is_struct(kind.dtype) else new((0,) * kind.ndim, kind.dtype)
            return self._array(kind.dtype, array_of)
        if isinstance(value, np.ndarray | tuple | list) and t.is_compound(kind):
            return wanted(*np.asarray(value).reshape(-1))
        return warp_types.value_of(value)

    def _indexed(
        self, kind: t.IndexedArrayType, place: Place, arrays: Mapping[Place, Array]
    ) -> indexedarray | None:
        param, path = place
        data = arrays.get(place)
        if data is None:
            return None
        tables = []
        for axis in range(kind.ndim):
            table = arrays.get((param, _joined(path, f"indices[{axis}]")))
            tables.append(None if table is None else self._array(t.int32, table))
        found: indexedarray = indexedarray(self._array(kind.dtype, data), tables)
        return found

    def _array(self, dtype: object, given: Array) -> array:
        """Return an array of this engine that lies in a region's buffer as an array lies in the region."""
        region: Any = given.region
        buffer = _BUFFERS.get(region)
        if buffer is None:
            buffer = _BUFFERS[region] = Buffer(np.empty(region.nbytes, np.uint8), known=False)
            buffer.undefined = True
        self._regions[buffer] = region
        return make(buffer, buffer.address + given.offset, dtype, given.shape, given.strides)

    def _accesses(self, arrays: Mapping[Place, Array], in_place: Collection[int] = ()) -> list[Access]:
        """Return the accesses; those of the fields of an array's elements are joined.

        Args:
            arrays: The debugger's description of each array.
            in_place: Parameters of which the adjoint starts from the values before the launch.
        """
        record, found = self.record, dict[Place, Access]()
        kernel = record.plan.kernel
        for own in record.accesses:
            place = self.places[own.param]
            given, old = arrays.get(place), found.get(place)
            if given is None:
                continue
            declared = kernel.signature[place[0]].name
            now = own._replace(
                name=_joined(declared, place[1]),
                array=given,
                needs_before=own.needs_before or own.param in in_place,
                active=given.requires_grad,
            )
            if old is not None:
                now = Access(
                    old.param, old.name, given, *(a or b for a, b in zip(old[3:], now[3:], strict=True))
                )
            found[place] = now
        return list(found.values())


@dataclass(frozen=True, slots=True)
class _WholeKernel:
    """A `contract.ReverseDivergence` that no construct is known to explain."""

    span: Span
    kind: Literal["adjoint"] = "adjoint"
    variables: tuple[str, ...] = ()
    needed: bool = True
    param: int | None = None


def _joined(path: str, label: str) -> str:
    return f"{path}.{label}" if path and label else path or label

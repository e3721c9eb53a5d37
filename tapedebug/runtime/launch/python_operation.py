"""Python operations: functions of NumPy arrays that tapes record, reverse and replay like launches."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import LaunchError
from tapedebug._float_types import is_float, is_short_float
from tapedebug.lang import types
from tapedebug.runtime.launch.plan import LaunchPlan, Runner, has_gradient
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.state import here

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tapedebug.contract import LibraryAdjoint
    from tapedebug.runtime.replay.shadow_space import ShadowSpace
    from tapedebug.runtime.reverse.argument_table import AddressSpace
    from tapedebug.runtime.tape.record import Record

Values = np.ndarray[Any, Any]
Group = Sequence[Values]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One array that a Python operation reads, writes, or both."""

    name: str


class Float32OnlyError(Exception):
    """Raised by functions of a Python operation that cannot compute in float64; the message is the reason."""


class PythonOperation:
    """Functions of NumPy arrays for values and adjoints, optionally also for tangents.

    Args:
        forward: Takes the values of the arrays that are read; returns those of the arrays that are written.
        backward: Takes the values of the reads and the adjoints of the writes, as two tuples; returns the
            adjoints of the reads, None for no gradient.
        jvp: Takes values and tangents of the reads, as two tuples; returns the tangents of the writes.
        name: Name of the operation in messages.
        reads: The arrays that are read.
        writes: The arrays that are written; they may be among those that are read.
        names: The names of `reads` and `writes`, in this order; by default those of the parameters of
            `forward`, and `writes[0]`, `writes[1]`, …
        caller: The function of the user's program that made the operation, for messages.
        library: The library that computes the adjoint; None if the user wrote `backward`.

    Attributes:
        args: The arrays, each once: those that are read, then those that are only written.
        params: Their names.
        sources: The numbers of the arrays that are read, in the order of `reads`.
        targets: The numbers of the arrays that are written, in the order of `writes`.
        narrow: The reason why float64 arguments are not computed in float64; empty if they are, None if that
            is not known yet.
    """

    def __init__(
        self,
        forward: Callable[..., Any],
        backward: Callable[..., Any],
        jvp: Callable[..., Any] | None,
        name: str,
        reads: Sequence[array],
        writes: Sequence[array],
        names: Sequence[str] | None = None,
        caller: str = "launch_python",
        library: LibraryAdjoint | None = None,
    ) -> None:
        self.forward, self.backward, self.jvp = forward, backward, jvp
        self.key, self.caller, self.library = name, caller, library
        self.args: tuple[array, ...] = tuple(dict.fromkeys([*reads, *writes]))
        number_of = {a: number for number, a in enumerate(self.args)}
        self.sources = [number_of[a] for a in reads]
        self.targets = [number_of[a] for a in writes]
        if names is None:
            names = [*_names(forward, len(reads)), *(f"writes[{number}]" for number in range(len(writes)))]
        places = {a: number for number, a in reversed([*enumerate((*reads, *writes))])}
        self.params = [Parameter(names[places[a]]) for a in self.args]
        self.narrow: str | None = None
        self._takes_float64 = True

    def on(self, args: Sequence[Any]) -> PythonOperation:
        """Return the same operation on other arrays of the same shapes and types."""
        made = copy.copy(self)
        made.args = tuple(args)
        return made

    # -- calls of the user's functions ------------------------------------------------------------------

    def run(self, given: Group, kinds: Sequence[np.dtype[Any]]) -> list[Values]:
        """Return the values of the writes for the values of the reads; `forward` gets copies.

        Args:
            given: The values of the reads; they are not changed.
            kinds: The dtypes of the memory that is written.

        Raises:
            LaunchError: `forward` changed an argument, or its result does not fit.
        """
        copies = [values.copy() for values in given]
        found = self._called("forward", (self.sources, copies))
        for number, (values, seen) in enumerate(zip(given, copies, strict=True)):
            p = self.sources[number]
            if p not in self.targets and not _same(values, seen):
                raise self._error(
                    f"forward changed its argument {self.params[p].name} (reads[{number}]) in place, "
                    "which is not among writes",
                    "let it copy the argument, or pass the array in writes too and return its new values",
                )
        results = self.fitting(self._listed(found, len(self.targets), "forward", "writes"))
        for p, values, kind in zip(self.targets, results, kinds, strict=True):
            if kind != self.args[p].scalar_dtype and not self.narrow:
                short = is_float(values.dtype) and values.dtype.itemsize < kind.itemsize
                self.narrow = f"forward returns {values.dtype}, given float64" if short else ""
        return results

    def fitting(self, found: Sequence[Values | None]) -> list[Values]:
        """Return the results of `forward` as arrays.

        Raises:
            LaunchError: One of them does not fit the array that it is written to.
        """
        return [self._fitting(v, p, "forward returned") for v, p in zip(found, self.targets, strict=True)]

    def measured(self) -> str:
        """Return the reason why float64 arguments are not computed in float64; empty if they are.

        If that is not known yet, `forward` runs once on the current values of its arrays.
        """
        if self.narrow is None:
            kinds = [_float64_type(a.scalar_dtype) for a in self.args]
            given = [a._numpy_view().astype(kind) for a, kind in zip(self.args, kinds, strict=True)]
            self.run([given[p] for p in self.sources], [kinds[p] for p in self.targets])
        return self.narrow or ""

    def pull(self, given: Group, adjoints: Group) -> list[Values | None]:
        """Return the adjoints of the reads, None for one without a gradient."""
        found = self._called("backward", (self.sources, given), (self.targets, adjoints))
        if found is None:
            return [None] * len(self.sources)
        several = self._listed(found, len(self.sources), "backward", "reads")
        return [
            None if v is None else self._fitting(v, p, "backward returned an adjoint of")
            for v, p in zip(several, self.sources, strict=True)
        ]

    def push(self, given: Group, tangents: Group) -> list[Values]:
        """Return the tangents of the writes; requires a `jvp`."""
        assert self.jvp is not None
        found = self._called("jvp", (self.sources, given), (self.sources, tangents))
        several = self._listed(found, len(self.targets), "jvp", "writes")
        return [
            self._fitting(v, p, "jvp returned a tangent of")
            for v, p in zip(several, self.targets, strict=True)
        ]

    def _called(self, which: str, *groups: tuple[Sequence[int], Group]) -> Any:
        """Call a user function; if it does not accept float64, with the dtypes of the arrays."""
        function: Callable[..., Any] = getattr(self, which)
        spread = which == "forward"

        def call(rounded: bool) -> Any:
            given = [
                tuple(self._rounded(p, v) if rounded else v for p, v in zip(params, values, strict=True))
                for params, values in groups
            ]
            with not_recording():
                return function(*given[0]) if spread else function(*given)

        wide = any(
            v.dtype != self.args[p].scalar_dtype for ps, vs in groups for p, v in zip(ps, vs, strict=True)
        )
        if self._takes_float64 or not wide:
            try:
                return call(rounded=False)
            except Exception as error:
                if not wide:
                    raise
                found = call(rounded=True)  # raises the same error if float64 is not the reason
                self._takes_float64 = False
                own = isinstance(error, Float32OnlyError)
                self.narrow = (
                    str(error) if own else f"{which} raises {type(error).__name__} if it is given float64"
                )
                return found
        return call(rounded=True)

    def _rounded(self, p: int, values: Values) -> Values:
        return values.astype(self.args[p].scalar_dtype)

    # -- what they return -------------------------------------------------------------------------------

    def _listed(self, found: Any, count: int, which: str, what: str) -> list[Any]:
        """Return the results as a list with one for each array."""
        if count == 1 and not isinstance(found, (tuple, list)):
            return [found]
        if not isinstance(found, (tuple, list)) or len(found) != count:
            many = isinstance(found, (tuple, list))
            returned = f"{len(found)} values" if many else f"one value ({type(found).__name__})"
            raise self._error(
                f"{which} returned {returned}, and {what} has {count} array{'s' * (count != 1)}",
                f"return a tuple of {count}, in the order of {what}",
            )
        return list(found)

    def _fitting(self, found: Any, p: int, what: str) -> Values:
        a = self.args[p]
        wanted = a.shape + a.element_shape
        name = self.params[p].name
        if found is None:
            raise self._error(f"{what} None for {name}", f"return a NumPy array of shape {wanted}")
        values = np.asarray(found)
        if values.shape != wanted:
            raise self._error(
                f"{what} shape {values.shape} for {name}, whose shape is {wanted}",
                f"return an array of shape {wanted}",
            )
        if not np.can_cast(values.dtype, a.scalar_dtype, "same_kind"):
            raise self._error(
                f"{what} {values.dtype} for {name}, which holds {a.scalar_dtype}",
                f"return values of {a.scalar_dtype}, for example with .astype",
            )
        return values

    def _error(self, message: str, hint: str) -> LaunchError:
        return LaunchError(f"{self.caller} of {self.key}: {message}", hint=hint)


@contextmanager
def not_recording() -> Iterator[None]:
    """Suspend recording: launches in the user's functions are part of the operation."""
    thread = here.thread
    tape, thread.tape = thread.tape, None
    try:
        yield
    finally:
        thread.tape = tape


def _float64_type(kind: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that a float64 replay uses for a dtype of the program."""
    return np.dtype(np.float64) if is_short_float(kind) else kind


def _same(one: Values, other: Values) -> bool:
    return bool(np.array_equal(one, other, equal_nan=is_float(one.dtype)))


def _names(function: Callable[..., Any], count: int) -> list[str]:
    """Return the names of a function's first parameters."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    return [*names, *(f"reads[{number}]" for number in range(len(names), count))]


class PythonPlan(LaunchPlan):
    """The plan of the record of one Python operation.

    Attributes:
        operation: The Python operation.
    """

    __slots__ = ("operation",)

    def __init__(self, operation: PythonOperation, active: frozenset[int] | None = None) -> None:
        args, writes = operation.args, frozenset(operation.targets)
        if active is None:
            active = frozenset(p for p, a in enumerate(args) if has_gradient(a))
        reads = frozenset(operation.sources)
        super().__init__(
            "python",
            operation.key,
            tuple(p.name for p in operation.params),
            reads=reads,
            writes=writes,
            covers=writes - reads,
            active=active,
            needed=reads,
        )
        self.operation = operation


def operation_of(record: Record) -> PythonOperation:
    """Return the operation of a record of kind `"python"`."""
    assert isinstance(record.plan, PythonPlan)
    return record.plan.operation


# ------------------------------------------------------------------------------------ in some memory


def forward_python(record: Record, view: Callable[[array], Values]) -> Runner:
    """Return the runner of a Python operation on the values that `view` returns."""
    operation = operation_of(record)

    def run(lo: int, hi: int, where: int) -> None:
        given = [view(record.args[p]) for p in operation.sources]
        into = [view(record.args[p]) for p in operation.targets]
        for dest, found in zip(into, operation.run(given, [dest.dtype for dest in into]), strict=True):
            dest[...] = found

    return run


def tangent_python(
    record: Record, space: ShadowSpace, lost: Callable[[Record], None], detached: bool
) -> Runner:
    """Return the runner of a Python operation with its tangents; without a `jvp` they are lost."""
    operation, values = operation_of(record), forward_python(record, space.value_view)

    def moves(a: array, p: int) -> bool:
        return types.is_float(a.dtype) and (not detached or p in record.active)

    def run(lo: int, hi: int, where: int) -> None:
        sources = [(p, record.args[p]) for p in operation.sources]
        given = [space.value_view(a).copy() for _, a in sources]
        tangents = [
            space.dot_view(a).copy() if moves(a, p) else np.zeros_like(values)
            for (p, a), values in zip(sources, given, strict=True)
        ]
        values(lo, hi, where)
        moving = any(tangent.any() for tangent in tangents)
        if moving and operation.jvp is None:
            lost(record)
        found = operation.push(given, tangents) if moving and operation.jvp is not None else None
        for number, p in enumerate(operation.targets):
            a = record.args[p]
            if types.is_float(a.dtype):
                space.dot_view(a)[...] = found[number] if found is not None and moves(a, p) else 0

    return run


def reverse_python(record: Record, space: AddressSpace) -> Runner:
    """Return the adjoint of a Python operation, on the values that it read and the adjoints in `space`."""
    operation, active = operation_of(record), record.active
    seen = [_read_values(record, space, p) for p in operation.sources]

    def run(lo: int, hi: int, where: int) -> None:
        given = [values().copy() for values in seen]
        arriving = []
        for p in operation.targets:
            a = record.args[p]
            arriving.append(
                space.adjoint_view(a).copy() if p in active else np.zeros_like(space.value_view(a))
            )
        found = operation.pull(given, arriving)
        for p in operation.targets:
            if p in active:
                space.adjoint_view(record.args[p])[...] = 0
        for p, adjoint in zip(operation.sources, found, strict=True):
            if p in active and adjoint is not None:
                space.adjoint_view(record.args[p])[...] += adjoint

    return run


def _read_values(record: Record, space: AddressSpace, p: int) -> Callable[[], Values]:
    """Return a function for the values that a Python operation read: a copy, or memory if still unchanged."""
    a, need = record.args[p], record.needs[p]
    saved = space.preserved(record, need) if need.copy is not None or need.clobber is not None else None
    if saved is None:
        return lambda: space.value_view(a)
    like = space.value_view(a)
    kept: Values = np.ndarray(like.shape, like.dtype, saved, space.offset(a, need.start), like.strides)
    return lambda: kept

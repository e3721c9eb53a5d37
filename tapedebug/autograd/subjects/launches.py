"""Launches of a tape as subjects of checks, each with the values it ran on."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import GradcheckError
from tapedebug._source import Span
from tapedebug.autograd.array_types import Checkpoint, Values
from tapedebug.autograd.subjects.pairs import Mask
from tapedebug.autograd.subjects.shadow_program import UNMATCHED
from tapedebug.autograd.subjects.subject import Subject, kernel_subject, operation_subject
from tapedebug.compiler.kernel import Kernel
from tapedebug.contract import (
    Irreplayable,
    LocalReplays,
    Operation,
    RecordedTape,
    Recording,
    Replay,
    is_array,
)
from tapedebug.lang.types import numpy_dtype, value_shape
from tapedebug.runtime.memory.array import array, make
from tapedebug.runtime.memory.buffer import ALIGNMENT, Buffer
from tapedebug.runtime.memory.convert import contiguous_strides
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tape import Tape

if TYPE_CHECKING:
    pass


Masks = Mapping[str | int, Sequence[tuple[str | int, str | int]]] | None
"""The pairs to check, by kernel key or by index of a launch; the index takes precedence."""


# ------------------------------------------------------------------ which ones


@dataclass(frozen=True)
class LaunchSelection:
    """The selection of a tape's launches to check, from the arguments of `gradcheck_tape`.

    Attributes:
        masks: Pairs, by kernel key or by launch.
        black: Kernels to leave out.
        white: The only kernels to check, if not empty.
        backwards: Begin with the last launch.
        skip: Number of launches to leave out at the beginning of that order.
        python: Check Python operations too.
        alone: Why no operation can be replayed alone; empty if they can be.
    """

    masks: Masks = None
    black: Sequence[str] | None = None
    white: Sequence[str] | None = None
    backwards: bool = False
    skip: int = 0
    python: bool = False
    alone: str = ""

    def checked(self, records: Sequence[Any]) -> LaunchSelection:
        """Return this selection if it is valid.

        Raises:
            GradcheckError: It names a kernel or launch that does not exist.
        """
        for name, given in (("blacklist_kernels", self.black), ("whitelist_kernels", self.white)):
            if isinstance(given, str):
                raise GradcheckError(
                    f"gradcheck_tape: {name} is a list of keys; got {given!r}", hint=f"write [{given!r}]"
                )
            for key in given or ():
                _require_key(records, name, key)
        if self.masks is not None and not isinstance(self.masks, Mapping):
            raise GradcheckError(
                "gradcheck_tape: input_output_masks is a dictionary from kernel keys (or indices of "
                f"launches) to lists of pairs; got {self.masks!r}",
                hint='write {"square": [("x", "y")]}',
            )
        for launch in self.masks or ():
            if isinstance(launch, int) and not isinstance(launch, bool):
                _require_launch(records, launch)
            else:
                _require_key(records, "input_output_masks", launch)
        if isinstance(self.skip, bool) or not isinstance(self.skip, int):
            raise GradcheckError(
                f"gradcheck_tape: skip_to_launch_index is a number of launches; got {self.skip!r}"
            )
        if not 0 <= self.skip <= max(0, len(records) - 1):
            raise GradcheckError(
                f"gradcheck_tape: skip_to_launch_index={self.skip}, and the tape has "
                f"{_counted(len(records), 'launch', 'launches')}: nothing would be left to check"
                if self.skip > 0
                else f"gradcheck_tape: skip_to_launch_index counts from 0; got {self.skip}",
                hint="give the place of the first launch to check, in the order in which they are checked",
            )
        return self

    def mask(self, operation: Operation) -> Mask:
        """Return the pairs to check of a launch; None for all."""
        masks = self.masks or {}
        return masks.get(operation.index, masks.get(operation.name))

    def split(self, records: Sequence[Any]) -> tuple[list[Any], list[str]]:
        """Return the records to check, in the order of the check, and the reasons why others are not."""
        ordered = list(reversed(records)) if self.backwards else list(records)
        left: dict[str, list[int]] = {}
        for record in ordered[: self.skip]:
            left.setdefault(f"skip_to_launch_index={self.skip}", []).append(record.index)
        chosen = []
        for record in ordered[self.skip :]:
            reason = self._exclusion(record)
            if reason is None:
                chosen.append(record)
            else:
                left.setdefault(reason, []).append(record.index)
        return chosen, [f"not checked: {spelled(indices)}: {reason}" for reason, indices in left.items()]

    def _exclusion(self, record: Operation) -> str | None:
        if record.kind != "kernel" and not (self.python and record.kind == "python"):
            return not_a_kernel(record)
        if self.alone:
            return self.alone
        if (unknown := record.capability(Irreplayable)) is not None:
            return unknown.reason()
        if record.name in (self.black or ()):
            return f"{record.name} is on the blacklist"
        if self.white and record.name not in self.white:
            return f"{record.name} is not on the whitelist"
        return None


def not_a_kernel(operation: Operation) -> str:
    """Return the reason why an operation cannot be checked as a single kernel launch, or None."""
    if operation.kind == "python":
        return "a Python operation, which gradcheck_tape(end_to_end=True) checks"
    if operation.kind == "func":
        return "a function that was recorded with record_func, not a kernel"
    return f"a {operation.kind}, not a kernel"


def _require_key(records: Sequence[Any], argument: str, key: object) -> None:
    known = list(dict.fromkeys(r.name for r in records if r.kind in {"kernel", "python"}))
    if key not in known:
        raise GradcheckError(
            f"gradcheck_tape: {argument} names the kernel {key!r}; "
            f"the kernels on the tape are {', '.join(known) or 'none'}",
            hint="use the key of a kernel that was launched",
        )


def _require_launch(records: Sequence[Any], index: int) -> None:
    if not 0 <= index < len(records) or records[index].kind != "kernel":
        what = (
            f"is a {records[index].kind}, not a kernel" if 0 <= index < len(records) else "is not on the tape"
        )
        raise GradcheckError(
            f"gradcheck_tape: input_output_masks names launch {index}, which {what}",
            hint="use the index of a kernel launch, as the summary shows them",
        )


def spelled(indices: Iterable[int]) -> str:
    """Return `launch 3` or `launches 0–5, 9`."""
    ordered = sorted(set(indices))
    runs: list[list[int]] = []
    for index in ordered:
        if runs and runs[-1][-1] == index - 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    parts: list[str] = []
    for run in runs:
        parts += [f"{run[0]}–{run[-1]}"] if len(run) > 2 else map(str, run)
    return f"launch{'es' * (len(ordered) > 1)} {', '.join(parts)}"


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


# ------------------------------------------------------------------ with their values


@dataclass(frozen=True)
class MemoryPlace:
    """The placeholder of an array argument: the number of its slot."""

    number: int


@dataclass(frozen=True)
class MemorySlot:
    """An array argument: its place in one of the copied blocks of memory."""

    memory: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    grad: bool


@dataclass(frozen=True, eq=False)
class LaunchCopy:
    """A copy of one launch and the values it ran on, independent of its tape: the input of a check.

    Attributes:
        kernel: The kernel.
        index: Index of the launch.
        dim: Its dimensions.
        args: Its arguments, one for each flat parameter; a `MemoryPlace` for each array.
        slots: The arrays. Arrays that share memory share it here too.
        memory: The copied memory, as bytes.
        mask: The pairs to check; None for all.
        called: Where the launch was called.
    """

    kernel: Kernel
    index: int
    dim: tuple[int, ...]
    args: tuple[Any, ...]
    slots: tuple[MemorySlot, ...]
    memory: tuple[Values, ...]
    mask: Mask = None
    called: Span | None = None

    @classmethod
    def of(cls, record: Record, values: Mapping[Any, Values], mask: Mask = None) -> LaunchCopy:
        """Return the copy of a record with the values of its arrays."""
        arrays = list(dict.fromkeys(a for a in record.args if isinstance(a, array)))
        ranges: dict[Any, tuple[int, int]] = {}
        for a in arrays:
            low, high = ranges.get(a.region, (a.start, a.stop))
            ranges[a.region] = min(low, a.start), max(high, a.stop)
        numbers = {buffer: number for number, buffer in enumerate(ranges)}
        starts = {buffer: low // ALIGNMENT * ALIGNMENT for buffer, (low, _) in ranges.items()}
        memory = tuple(np.zeros(high - starts[buffer], np.uint8) for buffer, (_, high) in ranges.items())
        active = {id(record.args[p]) for p in record.active}
        slots = []
        for a in arrays:
            offset = a.offset - starts[a.region]
            slot = MemorySlot(numbers[a.region], offset, a.shape, a.strides, a.dtype, id(a) in active)
            slots.append(slot)
            _view(memory[slot.memory], slot)[...] = values[a]
        places = {id(a): MemoryPlace(number) for number, a in enumerate(arrays)}
        args = tuple(places.get(id(value), value) for value in record.args)
        return cls(
            record.kernel, record.index, tuple(record.dim), args, tuple(slots), memory,
            _named_arrays(mask, record), record.call_site,
        )  # fmt: skip

    @property
    def name(self) -> str:
        """The kernel's key."""
        return self.kernel.key

    def named_arguments(self) -> list[tuple[str, object]]:
        """Return the arguments with the names of their parameters."""
        names = (param.name for param in self.kernel.params)
        return list(zip(names, self.arguments(), strict=True))

    def subject(self, *, adjoint: bool = True) -> Subject:
        """Return the launch as a subject; arrays it reads are inputs, arrays it writes are outputs.

        Args:
            adjoint: True if its adjoint will be run.

        Raises:
            GradcheckError: The mask names something that does not exist.
        """
        return kernel_subject(
            self.kernel, self.dim, self.arguments(), [], self.mask,
            adjoint=adjoint, launch=self.index, called=self.called,
        )  # fmt: skip

    def arguments(self) -> list[Any]:
        """Return the arguments, with arrays in the copied memory."""
        buffers = [Buffer(data, known=False) for data in self.memory]
        arrays = []
        for slot in self.slots:
            buffer = buffers[slot.memory]
            a = make(buffer, buffer.address + slot.offset, slot.dtype, slot.shape, slot.strides)
            a.requires_grad = slot.grad
            arrays.append(a)
        return [arrays[value.number] if isinstance(value, MemoryPlace) else value for value in self.args]


@dataclass(frozen=True, eq=False)
class OperationCopy:
    """One operation of another engine's tape with the values it ran on: the input of a check.

    Attributes:
        tape: The tape.
        operation: The operation.
        values: The values of its arrays before it ran.
        mask: The pairs to check; None for all.
    """

    tape: RecordedTape
    operation: Operation
    values: Mapping[Any, Values]
    mask: Mask = None

    @property
    def index(self) -> int:
        """The index of the operation."""
        return self.operation.index

    @property
    def name(self) -> str:
        """The name of the operation."""
        return self.operation.name

    def named_arguments(self) -> list[tuple[str, object]]:
        """Return the arguments with the names of their parameters."""
        return [(self.operation.param_name(p), value) for p, value in enumerate(self.operation.args)]

    def subject(self, *, adjoint: bool = True) -> Subject:
        """Return the operation as a subject."""
        return operation_subject(self.tape, self.operation, self.values, self.mask, adjoint=adjoint)


def copy_of(
    tape: RecordedTape, operation: Operation, values: Mapping[Any, Values], mask: Mask = None
) -> LaunchCopy | OperationCopy:
    """Return a launch with the values it ran on."""
    if isinstance(operation, Record):
        return LaunchCopy.of(operation, values, mask)
    return OperationCopy(tape, operation, values, mask)


def why_not_alone(tape: RecordedTape) -> str:
    """Return the reason why single operations of a tape cannot be checked; empty if they can be."""
    if isinstance(tape, Tape) or tape.capability(LocalReplays) is not None:
        return ""
    return f"{tape.engine.name} cannot replay an operation alone"


def _named_arrays(mask: Mask, record: Record) -> Mask:
    """Return a mask with arrays replaced by their parameter names, since the launch has copies of them.

    Raises:
        GradcheckError: An array is not an argument of the launch.
    """

    def named(key: object) -> Any:
        if isinstance(key, tuple) and key and is_array(key[0]):
            return (named(key[0]), *key[1:])
        if not is_array(key):
            return key
        for p, value in enumerate(record.args):
            if value is key:
                return record.param_name(p)
        raise GradcheckError(
            f"launch {record.index} ({record.kernel.key}): the input-output mask names an array "
            f"(shape={key.shape}) that is no argument of it",
            hint="name parameters, or give each launch a mask of its own, by its index",
        )

    pair = (tuple, list)
    return (
        None
        if mask is None
        else [tuple(map(named, entry)) if isinstance(entry, pair) else entry for entry in mask]
    )


def _view(memory: Values, slot: MemorySlot) -> Values:
    """Return the elements of a slot as a view of its memory, components last."""
    scalar, inner = numpy_dtype(slot.dtype), value_shape(slot.dtype)
    strides = slot.strides + contiguous_strides(inner, scalar.itemsize)
    return np.ndarray(slot.shape + inner, scalar, memory, slot.offset, strides)


def recording_of(tape: RecordedTape) -> Recording:
    """Return a snapshot of the recording so far; the tape itself if its engine has no snapshots."""
    return tape.capability(Recording) or _TapeItself(tape)


@dataclass(frozen=True)
class _TapeItself:
    """The operations of a tape of an engine without the capability `Recording`."""

    tape: RecordedTape

    @property
    def operations(self) -> Sequence[Operation]:
        return self.tape.operations

    def new_replay(self, *, float64: bool = False) -> Replay:
        return self.tape.new_replay(float64=float64)

    def weak(self) -> Callable[[], Recording | None]:
        known = weakref.ref(self.tape)

        def alive() -> Recording | None:
            tape = known()
            return None if tape is None else _TapeItself(tape)

        return alive


def launch_values(
    tape: RecordedTape | Recording,
    wanted: Sequence[Any],
    checkpoint: Checkpoint | None = None,
    notes: list[str] | None = None,
) -> Iterator[tuple[Any, dict[Any, Values]]]:
    """Replay a tape, and yield each record of `wanted` with the values of its arrays before it ran.

    If the last launches come first, the tape is replayed in parts, so that only the values of a few launches
    are in memory. If the final values of a replay differ from those of the arrays, `notes` gets a note.
    """
    if not wanted:
        return
    backwards = wanted[0].index > wanted[-1].index
    size = math.isqrt(len(wanted)) + 1 if backwards else len(wanted)
    for start in range(0, len(wanted), size):
        part = sorted(wanted[start : start + size], key=lambda record: record.index)
        shadow = tape.new_replay()
        shadow.forward_only = True
        found = _walk(shadow, part, checkpoint)
        yield from reversed(list(found)) if backwards else found
        if notes is not None and start == 0 and not shadow.forward(shadow.position).matches_live():
            notes.append(UNMATCHED)


def _walk(
    shadow: Replay, records: Sequence[Any], checkpoint: Checkpoint | None
) -> Iterator[tuple[Any, dict[Any, Values]]]:
    for record in records:
        shadow.forward(shadow.position, record.index)
        shadow.inject()  # values written from outside the tape in between
        if checkpoint is not None:
            checkpoint()
        yield record, {a: shadow.values(a) for a in record.args if is_array(a)}

"""Arrays that elements of struct arrays hold, as arguments of launches: one array for all of a field.

If they are no views of one allocation, that array is a copy (`runtime.memory.held_arrays`): `gathering`
fills it before the launch, and copies it back after a launch that writes to it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from tapedebug._errors import ArrayError, LaunchError
from tapedebug.lang import types
from tapedebug.runtime.memory import struct_fields
from tapedebug.runtime.memory.array import array, new
from tapedebug.runtime.memory.held_arrays import Common, common, may_hold, overlapping, unrecorded
from tapedebug.runtime.memory.transfer import copy
from tapedebug.runtime.state import state


class gathering:
    """The context of a launch whose arguments contain arrays whose elements hold arrays.

    It gathers these, and copies back what the launch has written.

    Args:
        record_tape: False leaves the copies off the active tape.
        adjoint: Refuse copies: the adjoint of a kernel runs alone, on the memory of its arguments.
    """

    __slots__ = ("adjoint", "known", "record_tape", "written")

    def __init__(self, *, record_tape: bool = False, adjoint: bool = False) -> None:
        self.record_tape, self.adjoint = record_tape, adjoint
        self.known: dict[tuple[Any, ...], tuple[array, Common]] = {}
        """The gathered arrays, by array of structs and field."""
        self.written: list[Common] = []
        """The copies that the launch writes to."""

    def __enter__(self) -> None:
        _here.launch = self

    def __exit__(self, *error: object) -> None:
        _here.launch = None
        if error[0] is None and not self.adjoint:
            for held in self.written:
                _transfer([(one.source, one.copy) for one in held.segments], recorded=self.record_tape)


class _Here(threading.local):
    """The launch that is being prepared in this thread."""

    launch: gathering | None = None


_here = _Here()


def holding(args: Sequence[Any]) -> bool:
    """True if arguments contain arrays whose elements hold arrays, and nothing gathers these yet."""
    if _here.launch is not None:
        return False
    for value in args:
        kind = value.__class__
        if kind in _PLAIN or getattr(value, "dtype", None) in _PLAIN:
            continue
        declared: Any = kind if issubclass(kind, types.Struct) else getattr(value, "kernel_type", None)
        if declared is not None and may_hold(declared):
            return True
        if declared is not None:
            _PLAIN.add(kind if declared is kind else declared.dtype)
    return False


_PLAIN: set[Any] = {int, float, bool}
"""Structs and element types that are known to contain no such arrays: the question costs launches time."""


def parts(kernel: Any, value: array, name: str, place: int) -> list[array]:
    """Return the flat arguments of an array of structs whose elements hold arrays.

    Args:
        kernel: The kernel.
        value: The array of structs.
        name: Its name, for messages.
        place: The number of its first flat parameter.
    """
    found: list[array] = []
    for leaf, view in zip(value.dtype.leaves(), struct_fields.leaves(value), strict=True):
        if leaf.held is None:
            found.append(view)
            continue
        at = place + len(found)
        label = ".".join((name, *leaf.path))
        one = _common(kernel, value, leaf, label, at)
        if may_hold(leaf.held):
            found += parts(kernel, one.data, label, at)
        elif types.is_struct(leaf.held.dtype):
            found += struct_fields.leaves(one.data)
        else:
            found.append(one.data)
        found.append(one.places)
    return found


def _common(kernel: Any, value: array, leaf: Any, name: str, at: int) -> Common:
    """Return the arrays of a field, gathered if the kernel uses them."""
    last = at + _count(leaf.held)
    used = range(at, last)
    analysis = kernel.analysis
    if not any(analysis.used(p) for p in (*used, last)):
        empty = new((0,) * value.ndim, types.vector(1 + 2 * leaf.held.ndim, types.int64))
        return Common(new((0,), leaf.held.dtype), empty, (), name)
    gathered = _here.launch
    key = (id(value.buffer), value.ptr, value.shape, value.strides, leaf.offset, at)
    if gathered is not None and key in gathered.known:
        return gathered.known[key][1]
    try:
        one = common(value, leaf, name)
    except ArrayError as error:
        raise LaunchError(f"launch of {kernel.key}: {error.message}", hint=error.hint) from None
    if one.segments:
        if gathered is not None and gathered.adjoint:
            raise LaunchError(
                f"launch of {kernel.key} with adjoint=True: the arrays in the elements of `{name}` are no "
                "parts of one allocation",
                hint="make them views of one array (`whole[a:b]`), or use a tape",
            )
        recorded = gathered is not None and gathered.record_tape
        _transfer([(part.copy, part.source) for part in one.segments], recorded=recorded)
        if recorded and state.tape is not None:
            for part in one.segments:
                state.tape.name_array(part.source, part.name)
    if gathered is not None:
        gathered.known[key] = (value, one)
        if one.segments and not analysis.writes.isdisjoint(used):
            gathered.written.append(one)
    return one


def _count(kind: Any) -> int:
    """Return the number of flat parameters that the memory of held arrays has."""
    if not types.is_struct(kind.dtype):
        return 1
    return sum(1 if leaf.held is None else _count(leaf.held) + 1 for leaf in kind.dtype.leaves())


def _transfer(pairs: list[tuple[array, array]], *, recorded: bool) -> None:
    """Copy the second array of each pair to the first."""
    if recorded:
        for into, of in pairs:
            copy(into, of)
        return
    with unrecorded():
        for into, of in pairs:
            copy(into, of)


def refuse_overlaps(kernel: Any, args: Sequence[Any]) -> None:
    """Refuse a launch that would read or write an array and a copy of it.

    Raises:
        LaunchError: An argument shares memory with an array that elements hold, which the launch gets as a
            copy, and the kernel writes to one of the two.
    """
    gathered = _here.launch
    if gathered is None:
        return
    copied = [one for _, one in gathered.known.values() if one.segments]
    writes = kernel.analysis.writes
    named = [(param.name, a, param.index in writes) for param, a in zip(kernel.params, args, strict=True)]
    arguments = [(name, a, written) for name, a, written in named if isinstance(a, array)]
    for one in copied:
        written = any(one is other for other in gathered.written)
        others = [(name, a) for name, a, changed in arguments if changed or written]
        others += [
            (other.name, source)
            for other in copied
            if other is not one and (written or any(other is w for w in gathered.written))
            for source, *_ in other.segments
        ]
        for source, *_ in one.segments:
            met = overlapping(source, (a for _, a in others))
            if met is not None:
                name = next(name for name, a in others if a is met)
                raise LaunchError(
                    f"launch of {kernel.key}: an array in the elements of `{one.name}` shares memory with "
                    f"`{name}`, and the kernel writes to one of them; the launch works on a copy of the "
                    "arrays in elements, because they are no parts of one allocation",
                    hint="make all these arrays views of one array (`whole[a:b]`), or pass this one once",
                )

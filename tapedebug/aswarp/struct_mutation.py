"""Structs that changed between their launch and the reverse pass, in which Warp reads them again."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapedebug._errors import LaunchError
from tapedebug.aswarp.warp_programs import notes_of
from tapedebug.compiler.flatten import held_params
from tapedebug.runtime.launch.argument_flattening import flattened
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.record import Record


def note_changed_structs(records: Sequence[Record]) -> None:
    """Note the present flat arguments of each record whose structs have changed since its launch."""
    for record in records:
        notes = notes_of(record)
        if notes is None:
            continue
        notes.now = None
        if not notes.given:
            continue
        with contextlib.suppress(LaunchError):  # if it could not be launched any more
            now = flattened(record.kernel, notes.given)
            if changed_in(record, now):
                notes.now = now


def changed_in(record: Record, now: tuple[Any, ...]) -> list[int]:
    """Return the parameters of a record that differ in other flat arguments.

    Those of arrays in elements of arrays are left out: each launch may get a copy of these.
    """
    held = held_params(record.kernel.signature)
    pairs = enumerate(zip(record.args, now, strict=True))
    return [p for p, (a, b) in pairs if p not in held and not _same(a, b)]


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if not isinstance(a, array):
        return bool(np.array_equal(a, b))
    if not isinstance(b, array):
        return True  # a NumPy array, which the launch has wrapped
    alike = a.buffer is b.buffer and a.ptr == b.ptr and a.shape == b.shape and a.strides == b.strides
    return alike or a.size == b.size == 0  # an empty array in place of None

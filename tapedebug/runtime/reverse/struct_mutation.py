"""Structs that changed between their launch and the reverse pass, in which Warp reads them again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapedebug._errors import LaunchError
from tapedebug.runtime.launch.argument_flattening import flattened
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.record import Record


def changed_structs(records: Sequence[Record]) -> dict[int, tuple[Any, ...]]:
    """Return, for each record whose structs have changed since, the present flat arguments."""
    found = {}
    for record in records:
        if not record.given:
            continue
        try:
            now = flattened(record.kernel, record.given)
        except LaunchError:  # it could not be launched any more
            continue
        if changed_in(record, now):
            found[record.index] = now
    return found


def changed_in(record: Record, now: tuple[Any, ...]) -> list[int]:
    """Return the parameters of a record that differ in other flat arguments."""
    return [p for p, (a, b) in enumerate(zip(record.args, now, strict=True)) if not _same(a, b)]


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if not isinstance(a, array):
        return bool(np.array_equal(a, b))
    if not isinstance(b, array):
        return True  # a NumPy array, which the launch has wrapped
    alike = a.buffer is b.buffer and a.ptr == b.ptr and a.shape == b.shape and a.strides == b.strides
    return alike or a.size == b.size == 0  # an empty array in place of None

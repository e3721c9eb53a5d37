"""Structs that changed between their launch and the reverse pass, which Warp reads again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapedebug._errors import LaunchError
from tapedebug.runtime.launch.argument_flattening import flattened
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.record import Record


def changed_structs(records: Sequence[Record]) -> dict[int, tuple[Any, ...]]:
    """For each record whose structs have other fields now than they had: the flat arguments of now."""
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
    """The parameters of a record that are something else in other flat arguments."""
    return [p for p, (a, b) in enumerate(zip(record.args, now, strict=True)) if not _same(a, b)]


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if not isinstance(a, array):
        return bool(np.array_equal(a, b))
    if not isinstance(b, array):
        return True  # NumPy's, which the launch has wrapped
    alike = a.buffer is b.buffer and a.ptr == b.ptr and a.shape == b.shape and a.strides == b.strides
    return alike or a.size == b.size == 0  # in place of None

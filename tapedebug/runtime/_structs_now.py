"""Structs that were changed between their launch and the reverse pass, which looks at them again in Warp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapedebug._errors import LaunchError
from tapedebug.runtime._flatten import flattened
from tapedebug.runtime.array import array
from tapedebug.runtime.record import Record


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
        if not all(_same(a, b) for a, b in zip(record.args, now, strict=True)):
            found[record.index] = now
    return found


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    if isinstance(a, array) or isinstance(b, array):
        return False
    return bool(np.array_equal(a, b))

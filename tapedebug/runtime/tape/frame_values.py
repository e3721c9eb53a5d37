"""The functions on the stack at a read of values, with the numbers that they held.

A diagnosis recomputes what a program computed from the values, a mean for instance. It needs the divisor and
not the frame, which would keep everything alive: numbers and sizes are copied, arrays are referred to weakly.
"""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import Any

import numpy as np

from tapedebug._source import BETWEEN
from tapedebug.contract.frames import FrameValues, Length

DEPTH = 2
"""The number of functions that are inspected: the one that reads, and its caller."""

NAMES = 200
"""The largest number of names that are looked up in a function."""

_PASSED_OVER = BETWEEN | {"numpy"}


def frame_values(depth: int) -> tuple[FrameValues, ...]:
    """Return the user's running functions, innermost first."""
    frame: FrameType | None = sys._getframe(depth)
    found: list[FrameValues] = []
    while frame is not None and len(found) < DEPTH:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in _PASSED_OVER:
            found.append(FrameValues(frame.f_code, frame.f_lasti, _values(frame)))
        frame = frame.f_back
    return tuple(found)


def _values(frame: FrameType) -> dict[str, Any]:
    code = frame.f_code
    found: dict[str, Any] = {}
    names = code.co_names[:NAMES]
    for name in names:
        if name in frame.f_globals:
            _keep(found, name, frame.f_globals[name])
    if code.co_varnames or code.co_freevars:
        own = frame.f_locals
        for name in (*code.co_varnames[:NAMES], *code.co_cellvars, *code.co_freevars):
            if name in own:
                found.pop(name, None)
                _keep(found, name, own[name])
        if code.co_argcount and code.co_varnames[0] in own:
            owner = code.co_varnames[0]
            fields = getattr(own[owner], "__dict__", None) or {}
            for name in names if isinstance(fields, dict) else ():
                if name in fields:
                    _keep(found, f"{owner}.{name}", fields[name])
    return found


def _keep(found: dict[str, Any], name: str, value: Any) -> None:
    kind = value.__class__
    if kind is int or kind is float or isinstance(value, np.number):
        found[name] = value
    elif kind is list or kind is tuple:
        found[name] = Length(len(value))
    elif isinstance(value, np.ndarray) or hasattr(
        kind, "_numpy_view"
    ):  # not the value: modules make up attributes
        found[name] = weakref.ref(value)

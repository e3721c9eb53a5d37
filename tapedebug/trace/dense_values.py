"""The complete values that a trace holds, by array and version."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug.trace.model import ContentKind, Trace


def find_content(
    trace: Trace, kind: ContentKind, array: int | str, version: int | None
) -> np.ndarray[Any, Any]:
    """Return the content that a trace holds of a version, by default of the last one that it holds.

    Raises:
        KeyError: There is no such array, or the trace does not hold it; the message lists what it holds.
    """
    number = trace.array(array).id if isinstance(array, str) else array
    own = [item for item in trace.contents if item.array == number and item.kind == kind]
    own.sort(key=lambda item: item.version)
    for item in reversed(own):
        if version in (None, item.version) and item.member in trace.data:
            return trace.data[item.member]
    what = "values" if kind == "value" else "adjoints"
    label = trace.arrays[number].label if 0 <= number < len(trace.arrays) else f"array {number}"
    wanted = "" if version is None else f"version {version} of "
    if own and not trace.data:
        there = "this copy of the trace came without arrays, as JSON does"
    elif own:
        there = f"it has version {', '.join(str(item.version) for item in own)}"
    else:
        there = 'make it with tape.trace(values="arrays")'
    raise KeyError(f"the trace does not hold the {what} of {wanted}{label}: {there}")

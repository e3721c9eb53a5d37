"""The answer to ``{"type": "values"}``: the values of a version of an array, or its adjoint.

``array`` and ``version`` identify it, ``of`` is ``"value"`` or ``"adjoint"``; ``start`` and ``count`` select
elements in C order if there are too many for one answer. The answer's data has

- ``dtype``, ``shape``, ``element``: those of the array; `element` is the shape of a vector or matrix;
- ``sent``: the dtype of the buffers ``values`` and ``before``, little-endian; ``start`` and ``count``;
- ``summary``: over all elements, as in traces; ``first``: the indices of the first NaN and Inf;
- ``change`` (of values): the number of elements that differ from version ``of``, and the largest change with
  its index;
- ``overview``: ``rows``, ``columns`` and ``series`` of the buffer of that name, if only a window is sent: all
  lowest finite values of these cells, then the highest, then the numbers of non-finite ones, in float64;
- ``buffers``: the names of the buffers, in order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._errors import TapedebugError
from tapedebug._float_types import is_bfloat16, is_float
from tapedebug.panel.values_overview import overview_of
from tapedebug.trace.json_codec import encode
from tapedebug.trace.recording import record_with_arrays
from tapedebug.trace.summaries import summarise
from tapedebug.trace.version_values import VersionValues

if TYPE_CHECKING:
    from tapedebug.panel.panel_source import PanelSource
    from tapedebug.panel.queries import Answer
    from tapedebug.trace.model import ArrayInfo, ContentKind, Trace
    from tapedebug.trace.version_values import VersionValues

Values = np.ndarray[Any, Any]

MOST = 4096
"""Largest number of scalars in one answer."""


def respond(subject: PanelSource, question: Mapping[str, Any]) -> Answer:
    """Return the values of a version that a query requests.

    Raises:
        TapedebugError: There is no such version, or no values of it; the message contains the reason.
    """
    from tapedebug.panel.queries import Answer

    info, version, kind = _asked(subject.source, question)
    values = _find(subject, info, version, kind)
    before = _before(subject, info, version) if kind == "value" else None
    count = math.prod(info.shape)
    window = _window(question, count, math.prod(values.shape[len(info.shape) :]))
    names, buffers = ["values"], [_packed(values, info, window)]
    if before is not None:
        names.append("before")
        buffers.append(_packed(before, info, window))
    data = {
        **{"array": info.id, "version": version, "of": kind, "dtype": values.dtype.name},
        **{"shape": info.shape, "element": list(values.shape[len(info.shape) :])},
        **{"sent": _sent(values.dtype).str, "start": window[0], "count": window[1], "buffers": names},
        "summary": encode(summarise(values)),
        "first": {"nan": _first(np.isnan, values), "inf": _first(np.isinf, values)},
        "change": None if before is None else encode(_change(before, values, info, version)),
        "overview": None,
    }
    if window[1] < count:
        picture = overview_of(values, len(info.shape))
        data["overview"] = dict(zip(("rows", "columns", "series"), picture.shape[1:], strict=True))
        names.append("overview")
        buffers.append(picture.tobytes())
    return Answer(data, buffers)


def _asked(trace: Trace, question: Mapping[str, Any]) -> tuple[ArrayInfo, int, ContentKind]:
    number, version, kind = question.get("array"), question.get("version"), question.get("of", "value")
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < len(trace.arrays):
        raise TapedebugError(f"The tape has no array {number!r}.")
    if isinstance(version, bool) or not isinstance(version, int):
        raise TapedebugError(f"A version is a number, not {version!r}.")
    if kind not in ("value", "adjoint"):
        raise TapedebugError(f'Of a version there are "value" and "adjoint", not {kind!r}.')
    return trace.arrays[number], version, kind


def _find(subject: PanelSource, info: ArrayInfo, version: int, kind: ContentKind) -> Values:
    trace = subject.source
    method = trace.values if kind == "value" else trace.adjoints
    try:
        return method(info.id, version)
    except KeyError:
        if subject.tape is None:
            what = "values" if kind == "value" else "adjoint"
            raise TapedebugError(
                f"The trace does not hold the {what} of {info.label} v{version}, and its tape is not in this "
                'kernel. tape.trace(values="arrays") keeps them.'
            ) from None
    return _version_values(subject).values(info.id, version, kind)


def _version_values(subject: PanelSource) -> VersionValues:
    assert subject.tape is not None
    subject.require_unchanged()
    found: VersionValues | None = subject.memo.get("moments")
    if found is None:
        found = subject.memo["moments"] = VersionValues(record_with_arrays(subject.tape))
    return found


def _before(subject: PanelSource, info: ArrayInfo, version: int) -> Values | None:
    """Return the values of the previous version, if they are available."""
    try:
        return _find(subject, info, version - 1, "value") if version > 0 else None
    except TapedebugError:
        return None


def _window(question: Mapping[str, Any], count: int, components: int) -> tuple[int, int]:
    most = max(1, MOST // max(1, components))
    start, wanted = (_whole(question.get(key), default) for key, default in (("start", 0), ("count", most)))
    start = min(start, max(0, count - 1))
    return start, min(wanted, most, count - start)


def _whole(value: object, default: int) -> int:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise TapedebugError(f"start and count are whole numbers from 0, not {value!r}.")
    return value


def _sent(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the buffers: float32 for floats of 16 bits, bytes for booleans, for browsers."""
    if is_bfloat16(dtype):
        return np.dtype("<f4")
    other = {"f2": "<f4", "b1": "|u1"}.get(dtype.str[1:])
    return dtype.newbyteorder("<") if other is None else np.dtype(other)


def _packed(values: Values, info: ArrayInfo, window: tuple[int, int]) -> bytes:
    start, count = window
    elements = values.reshape(math.prod(info.shape), -1)[start : start + count]
    return elements.astype(_sent(values.dtype)).tobytes()


def _first(test: Callable[[Values], Values], values: Values) -> list[int] | None:
    """Return the index of the first value that passes a test, including its component."""
    if not is_float(values.dtype) or not values.size:
        return None
    found = test(values)
    return [int(i) for i in np.unravel_index(int(found.argmax()), values.shape)] if found.any() else None


def _change(before: Values, after: Values, info: ArrayInfo, version: int) -> dict[str, Any]:
    differs = before != after
    if is_float(after.dtype):
        differs &= ~(np.isnan(before) & np.isnan(after))
    elements = differs.reshape(math.prod(info.shape), -1).any(axis=1)
    largest, at = _largest(before, after, differs)
    return {
        **{"of": version - 1, "changed": int(elements.sum()), "total": int(elements.size)},
        **{"largest": largest, "at": at},
        "before": None if at is None else _scalar(before, at),
        "after": None if at is None else _scalar(after, at),
    }


def _largest(before: Values, after: Values, differs: Values) -> tuple[float | None, list[int] | None]:
    """Return the largest finite difference and its index; else None and the first index that differs."""
    if not differs.any():
        return None, None
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.abs(after.astype(np.float64) - before.astype(np.float64))
    size[~np.isfinite(size)] = -1.0
    place = int(size.argmax())
    if not differs.flat[place]:
        place = int(differs.argmax())
    amount = float(size.flat[place])
    at = [int(i) for i in np.unravel_index(place, after.shape)]
    return (amount if amount >= 0 else None), at


def _scalar(values: Values, at: Sequence[int]) -> Any:
    return values[tuple(at)].item()

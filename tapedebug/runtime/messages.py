"""Messages about overwrites, and source locations in the user's program."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapedebug._errors import OverwriteError, TapedebugWarning
from tapedebug._source import Span, display_file
from tapedebug.lang import types
from tapedebug.runtime.tape.record import Record, site_span

if TYPE_CHECKING:
    from tapedebug.runtime.memory.buffer import Buffer
    from tapedebug.runtime.tape.buffer_versions import SavedValue, UntrackedWrite


def need_span(record: Record, param: int) -> Span:
    """Return the place of the read whose value an adjoint needs: in the kernel, or of the call."""
    spans = record.info.need_spans.get(param, ()) if record.info is not None else ()
    return spans[0] if spans else record.call_site


def write_span(record: Record, param: int) -> Span:
    """Return the place of a write through `param`: in the kernel, or of the call."""
    if record.kernel is not None:
        for access in record.kernel.analysis.accesses:
            if access.param == param and access.kind in {"write", "atomic"}:
                span: Span = access.span
                return span
    return record.call_site


def declaration(kernel: Any, param: Any) -> Span:
    """Return the place where a parameter is declared; without a parameter, that of the kernel."""
    origin = kernel.origin
    declared = origin.tree.args
    span: Span = origin.span(
        origin.tree if param is None else [*declared.posonlyargs, *declared.args][param.declared]
    )
    return span


def _place(span: Span) -> str:
    return f"{display_file(span.file)}:{span.line}"


def _launched(record: Record) -> str:
    return f"launch {record.index} ({record.name}, called at {_place(record.call_site)})"


def _array(record: Record, param: int) -> str:
    a = record.args[param]
    return f"{record.param_name(param)!r} (shape {a.shape}, {types.type_name(a.dtype)})"


def overwrite(records: Sequence[Record], need: SavedValue, record: Record, param: int) -> OverwriteError:
    """Return the error of a launch that would overwrite a needed value."""
    reader, read_param = records[need.reader], need.param
    if reader is record:
        message = (
            f"{_launched(record)} would overwrite values of {_array(record, read_param)} "
            f"that its own adjoint needs (read at line {need_span(reader, read_param).line})"
        )
        hint = "write to another array than the one that is read"
    else:
        message = (
            f"{_launched(record)} would overwrite, through {_array(record, param)}, "
            f"values that the adjoint of {_launched(reader)} needs of {_array(reader, read_param)}"
        )
        hint = "give the launch its own output array, or use on_overwrite='preserve'"
    return OverwriteError(message, span=write_span(record, param), hint=hint)


def _writer_param(record: Record, buffer: Buffer) -> int:
    return next((p for p in record.plan.written if record.args[p].buffer is buffer), 0)


def overwrite_key(
    records: Sequence[Record], need: SavedValue, by: Record | UntrackedWrite
) -> tuple[Any, ...]:
    """Return the identity of an overwrite for the user: the line that reads, and the line that overwrites."""
    reader = records[need.reader].plan
    writer = (by.plan.kernel or by.plan.kind) if isinstance(by, Record) else by.site
    return (reader.kernel or reader.kind, need.param, writer)


def overwrite_warning(
    records: Sequence[Record], need: SavedValue, buffer: Buffer, by: Record | UntrackedWrite, mode: str
) -> str:
    """Return the text of an OverwriteWarning."""
    reader, param = records[need.reader], need.param
    span = need_span(reader, param)
    if isinstance(by, Record):
        written = _writer_param(by, buffer)
        place = _place(write_span(by, written))
        who = f"{_launched(by)}, writing {_array(by, written)} at {place},"
    else:
        where = f" at {_place(site_span(by.site))}" if by.site is not None else ""
        who = f"{by.how} outside the tape{where}"
    outcome = (
        "the gradient will use the new values, and be wrong where they differ (the old are kept as evidence)"
        if mode == "warn"
        else "the old values are kept for the reverse pass"
    )
    return (
        f"{who} overwrites values of {_array(reader, param)} that the adjoint of {_launched(reader)} "
        f"needs (read at {_place(span)}): {outcome}"
    )


def user_stacklevel() -> int:
    """Return the `stacklevel` with which a warning points at the first frame outside this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("tapedebug"):
        frame, level = frame.f_back, level + 1
    return level


def warn_of_no_slope(made: Any) -> None:
    """Warn that an array with `requires_grad` has integer values, which have no derivatives."""
    warnings.warn(
        f"an array of {types.type_name(made.dtype)} with requires_grad=True: its gradient stays 0, because "
        "only floats have derivatives\n  = hint: create it with dtype=float, or leave out requires_grad",
        TapedebugWarning,
        stacklevel=user_stacklevel(),
    )

"""Kernels as a trace shows them: source, parameters, accesses, the generated adjoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapedebug._source import Span, display_file
from tapedebug.trace.model import Access, KernelInfo, ParamInfo

if TYPE_CHECKING:
    from tapedebug.runtime.record import Record


def kernel_info(number: int, item: Record) -> KernelInfo:
    """Return what a trace says of the kernel of a record; `number` is its id."""
    from tapedebug.lang import types

    kernel, origin = item.kernel, item.kernel.origin
    return KernelInfo(
        id=number,
        name=kernel.key,
        file=display_file(origin.file),
        line=origin.first_line,
        lines=list(origin.lines),
        params=[
            ParamInfo(
                name=param.name,
                type=_type_text(param.type),
                array=isinstance(param.type, types.ArrayType),
            )
            for param in kernel.params
        ],
        accesses=[
            Access(
                param=access.param,
                kind=access.kind,
                line=access.span.line,
                column=access.span.column,
                end_column=access.span.end_column,
            )
            for access in kernel.analysis.accesses
        ],
        adjoint=_adjoint_text(item),
        enable_backward=kernel.enable_backward,
    )


def _type_text(annotation: Any) -> str:
    from tapedebug.lang import types

    if isinstance(annotation, types.ArrayType):
        inner = types.type_name(annotation.dtype)
        return (
            f"array(dtype={inner})"
            if annotation.ndim == 1
            else f"array(dtype={inner}, ndim={annotation.ndim})"
        )
    return types.type_name(annotation)


def _adjoint_text(item: Record) -> str | None:
    if item.info is None:
        return None
    text: str = item.kernel.source("adjoint")
    return text


def mark_needed(info: KernelInfo, need_spans: dict[int, tuple[Span, ...]]) -> None:
    """Mark the reads whose values an adjoint uses."""
    # `x[i] * x[i]` loads once, and one of them is in the spans: what reads alike is needed alike.
    places = {
        (param, span.line, span.text[span.column : span.end_column])
        for param, spans in need_spans.items()
        for span in spans
    }
    for access in info.accesses:
        row = access.line - info.line
        text = info.lines[row][access.column : access.end_column] if 0 <= row < len(info.lines) else ""
        if access.kind == "read" and (access.param, access.line, text) in places:
            access.needed = True

"""Kernels as a trace shows them: source, parameters, accesses, the generated adjoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tapedebug._source import Span, display_file
from tapedebug.trace.model import Access, FunctionInfo, KernelInfo, ParamInfo

if TYPE_CHECKING:
    from tapedebug._source import Origin
    from tapedebug.compiler.effects import AccessRecord
    from tapedebug.runtime.tape.record import Record
    from tapedebug.trace.model import AccessKind


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
        accesses=[_access(access, origin) for access in kernel.analysis.accesses],
        adjoint=_adjoint_text(item),
        enable_backward=kernel.enable_backward,
        functions=[
            FunctionInfo(
                name=function.name,
                file=display_file(function.origin.file),
                line=function.origin.first_line,
                lines=list(function.origin.lines),
            )
            for function in kernel.functions
        ],
    )


def _access(access: AccessRecord, origin: Origin) -> Access:
    span = access.span
    own = span.file == origin.file and 0 <= span.line - origin.first_line < len(origin.lines)
    return Access(
        param=access.param,
        kind=cast("AccessKind", access.kind),
        line=span.line,
        column=span.column,
        end_column=span.end_column,
        file="" if own else display_file(span.file),
        function="" if own else span.function,
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
        (param, display_file(span.file), span.line, span.text[span.column : span.end_column])
        for param, spans in need_spans.items()
        for span in spans
    }
    for access in info.accesses:
        file = access.file or info.file
        text = (info.text_at(file, access.line) or "")[access.column : access.end_column]
        if access.kind == "read" and (access.param, file, access.line, text) in places:
            access.needed = True

"""Kernels as a trace shows them: source, parameters, accesses, the generated adjoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tapedebug._source import display_file
from tapedebug.contract import KernelSource, Place, SourceAccess, SourceText
from tapedebug.trace.model import Access, FunctionInfo, KernelInfo, ParamInfo, deferred


def kernel_info(number: int, source: KernelSource) -> KernelInfo:
    """Return the part of a trace that describes the kernel of an operation; `number` is its id."""
    text = source.text
    return KernelInfo(
        id=number,
        name=text.name,
        file=display_file(text.file),
        line=text.first_line,
        lines=list(text.lines),
        params=[ParamInfo(name=p.name, type=p.type, array=p.is_array) for p in source.parameters],
        accesses=[_access(access, text) for access in source.accesses],
        adjoint=deferred(source.adjoint_text),
        enable_backward=source.enable_backward,
        functions=[
            FunctionInfo(
                name=function.name,
                file=display_file(function.file),
                line=function.first_line,
                lines=list(function.lines),
            )
            for function in source.functions
        ],
    )


def _access(access: SourceAccess, kernel: SourceText) -> Access:
    place = access.place
    own = place.file == kernel.file and 0 <= place.line - kernel.first_line < len(kernel.lines)
    return Access(
        param=access.param,
        kind=access.kind,
        line=place.line,
        column=place.column,
        end_column=place.end_column,
        file="" if own else display_file(place.file),
        function="" if own else place.function,
    )


def mark_needed(info: KernelInfo, needed: Mapping[int, Sequence[Place]]) -> None:
    """Mark the reads whose values an adjoint uses."""
    # `x[i] * x[i]` loads once, and only one of its places is listed: mark all reads with the same text.
    places = set()
    for param, own in needed.items():
        for place in own:
            file = display_file(place.file)
            text = (info.text_at(file, place.line) or "")[place.column : place.end_column]
            places.add((param, file, place.line, text))
    for access in info.accesses:
        file = access.file or info.file
        text = (info.text_at(file, access.line) or "")[access.column : access.end_column]
        if access.kind == "read" and (access.param, file, access.line, text) in places:
            access.needed = True

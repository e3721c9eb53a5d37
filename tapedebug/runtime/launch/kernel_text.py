"""The source of a recorded launch (`KernelSource`), and the arguments of any record (`CallArguments`)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

from tapedebug._source import Origin, Span
from tapedebug.compiler.ir import ops_of
from tapedebug.contract import (
    CallArguments,
    KernelOperations,
    Parameter,
    SourceAccess,
    SourceOperation,
    SourceText,
)
from tapedebug.lang import types
from tapedebug.runtime.capabilities import OPERATION
from tapedebug.runtime.launch.plan import LaunchPlan
from tapedebug.runtime.tape.record import Record


class KernelText:
    """The source of the kernel that the records of a plan launched."""

    __slots__ = ("_info", "_kernel")

    def __init__(self, plan: LaunchPlan) -> None:
        self._kernel: Any = plan.kernel
        self._info = plan.info

    @property
    def kernel(self) -> Hashable:
        """The identity of the kernel."""
        return id(self._kernel)

    @property
    def text(self) -> SourceText:
        """The source of the kernel function."""
        return _text(self._kernel.key, self._kernel.origin)

    @property
    def functions(self) -> Sequence[SourceText]:
        """The functions that the kernel calls, directly or indirectly."""
        return [_text(function.name, function.origin) for function in self._kernel.functions]

    @property
    def parameters(self) -> Sequence[Parameter]:
        """The flat parameters: one for each field of a struct."""
        return [
            Parameter(param.name, _type_text(param.type), isinstance(param.type, types.ArrayType))
            for param in self._kernel.params
        ]

    @property
    def accesses(self) -> Sequence[SourceAccess]:
        """The source spans that access arrays."""
        found = self._kernel.analysis.accesses
        return [SourceAccess(access.param, access.kind, access.span) for access in found]

    @property
    def needed(self) -> Mapping[int, Sequence[Span]]:
        """For each parameter, the reads whose values the adjoint uses."""
        return {} if self._info is None else self._info.need_spans

    @property
    def needed_key(self) -> Hashable:
        """The identity of the adjoint."""
        return id(self._info)

    @property
    def enable_backward(self) -> bool:
        """True if the kernel has an adjoint."""
        return bool(self._kernel.enable_backward)

    def adjoint_text(self) -> str | None:
        """Return the Python source of the adjoint; None if no argument has a gradient."""
        return None if self._info is None else str(self._kernel.source("adjoint"))


class RecordArguments:
    """The arguments of a record as they appear in the source of its call."""

    __slots__ = ("_record",)

    def __init__(self, record: Record) -> None:
        self._record = record

    def written_as(self, param: int, /) -> tuple[int, str]:
        """Return the position of an argument, and the suffix of its name: `.q` for a field of a struct."""
        kernel = self._record.kernel
        if kernel is None:
            return param, getattr(self._record.args[param], "part", "")
        found = kernel.params[param]
        return found.declared, found.name[len(kernel.signature[found.declared].name) :]


def _text(name: str, origin: Origin) -> SourceText:
    return SourceText(name, origin.file, origin.first_line, origin.lines)


def _type_text(annotation: Any) -> str:
    if not isinstance(annotation, types.ArrayType):
        return types.type_name(annotation)
    inner = types.type_name(annotation.dtype)
    axes = "" if annotation.ndim == 1 else f", ndim={annotation.ndim}"
    return f"array(dtype={inner}{axes})"


OPERATION[CallArguments] = RecordArguments


class _Operations:
    """The capability `contract.KernelOperations` of a launch."""

    __slots__ = ("_kernel",)

    def __init__(self, kernel: Any) -> None:
        self._kernel = kernel

    def operations(self) -> Iterator[SourceOperation]:
        """Return the operations of the kernel's IR, with their source spans."""
        return (SourceOperation(op.kind, op.span) for op in ops_of(self._kernel._lowered.function.body))


OPERATION[KernelOperations] = lambda record: None if record.kernel is None else _Operations(record.kernel)

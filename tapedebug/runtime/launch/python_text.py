"""The source of a Python operation: `KernelSource` and `HandWrittenAdjoint` of the contract."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from types import CodeType
from typing import Any, Literal

from tapedebug._source import Span
from tapedebug.contract import (
    HandWrittenAdjoint,
    KernelSource,
    LibraryAdjoint,
    Parameter,
    SourceAccess,
    SourceText,
)
from tapedebug.runtime.capabilities import OPERATION
from tapedebug.runtime.launch.kernel_text import KernelText
from tapedebug.runtime.launch.python_operation import operation_of
from tapedebug.runtime.tape.record import Record


class PythonText:
    """The source of the `forward` of a Python operation.

    Reads are located at the parameter's name in the first line, writes at the last `return`.
    """

    __slots__ = ("_adjoint", "_record", "text")

    def __init__(self, record: Record, text: SourceText) -> None:
        self._record = record
        self.text = text
        operation = operation_of(record)
        self._adjoint = None if operation.library is not None else source_text(operation.backward)

    @property
    def kernel(self) -> Hashable:
        """The location of the source, and the names of the parameters."""
        return self.text.name, self.text.file, self.text.first_line, tuple(p.name for p in self.parameters)

    @property
    def functions(self) -> Sequence[SourceText]:
        """An empty list: the called functions are not known."""
        return []

    @property
    def parameters(self) -> Sequence[Parameter]:
        """The arrays of the operation."""
        return [
            Parameter(access.name, f"array(dtype={access.array.dtype_name})", True)
            for access in self._record.accesses
        ]

    @property
    def accesses(self) -> Sequence[SourceAccess]:
        """The source spans that read and write arrays."""
        last = [row for row, line in enumerate(self.text.lines) if re.match(r"\s*return\b", line)]
        found = []
        for access in self._record.accesses:
            if access.reads:
                found.append(self._access(access.param, "read", 0, access.name))
            if access.writes:
                found.append(self._access(access.param, "write", last[-1] if last else 0, "return"))
        return found

    def _access(
        self, param: int, kind: Literal["read", "write", "atomic"], row: int, word: str
    ) -> SourceAccess:
        """Return an access at a word of a line, or at the whole line if the word does not occur."""
        line = self.text.lines[row]
        at = re.search(rf"\b{re.escape(word)}\b", line)
        start, end = at.span() if at else (len(line) - len(line.lstrip()), len(line))
        number = self.text.first_line + row
        return SourceAccess(
            param, kind, Span(self.text.file, number, start, number, end, self.text.name, line)
        )

    @property
    def needed(self) -> Mapping[int, Sequence[Span]]:
        """For each parameter that is read, the span of its name: `backward` receives its values."""
        found: dict[int, Sequence[Any]] = {}
        for access in self.accesses:
            if access.kind == "read":
                found[access.param] = [access.place]
        return found

    @property
    def needed_key(self) -> Hashable:
        """A constant: it is equal for all operations with this source."""
        return "read"

    @property
    def enable_backward(self) -> bool:
        """True always: a Python operation has a `backward`."""
        return True

    def adjoint_text(self) -> str | None:
        """Return the source of `backward`; None if it is not available."""
        return None if self._adjoint is None else "\n".join(self._adjoint.lines)


class Backward:
    """The `backward` of a Python operation."""

    __slots__ = ("text",)

    def __init__(self, record: Record) -> None:
        self.text = source_text(operation_of(record).backward)


def source_text(function: Callable[..., Any]) -> SourceText | None:
    """Return the source of a user function; None for a built-in one, or one typed at a prompt."""
    inner: Any = inspect.unwrap(function)
    call: Any = vars(type(inner)).get("__call__")
    for found in (getattr(inner, "__func__", inner), call):
        if isinstance(code := getattr(found, "__code__", None), CodeType):
            try:
                lines, first = inspect.getsourcelines(code)
            except OSError:
                return None
            text = tuple(line.rstrip("\n") for line in lines)
            return SourceText(code.co_name, code.co_filename, first, text)
    return None


def _source_of(record: Record) -> KernelSource | None:
    """Return the source of a launch or a Python operation."""
    plan = record.plan
    if plan.kind != "python":
        if plan.source is None and plan.kernel is not None:
            plan.source = KernelText(plan)
        return plan.source
    operation = operation_of(record)
    text = source_text(operation.forward)
    if text is None:
        return None
    return PythonText(record, SourceText(operation.key, text.file, text.first_line, text.lines))


OPERATION[KernelSource] = _source_of


def _hand_written(record: Record) -> HandWrittenAdjoint | None:
    """Return the `backward` of a Python operation that the user wrote."""
    return Backward(record) if record.kind == "python" and operation_of(record).library is None else None


OPERATION[HandWrittenAdjoint] = _hand_written
OPERATION[LibraryAdjoint] = lambda record: operation_of(record).library if record.kind == "python" else None

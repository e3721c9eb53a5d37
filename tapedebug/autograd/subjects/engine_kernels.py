"""The compiled kernels behind the operations of a tape of this project's own engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapedebug.runtime.tape.record import Record

if TYPE_CHECKING:
    from tapedebug.contract import Operation


def kernel_of(operation: Operation) -> Any:
    """Return the kernel of an operation; None for copies, functions, and operations of other engines."""
    return operation.kernel if isinstance(operation, Record) else None


def adjoint_of(operation: Operation) -> Any:
    """Return the compiler's information on the adjoint of a kernel's launch, or None."""
    return operation.info if isinstance(operation, Record) else None

"""Notes on functions whose adjoints use finite differences, and on differences of less than float64."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tapedebug.autograd.subjects.engine_kernels import kernel_of
from tapedebug.compiler.passes.custom import by_differences

if TYPE_CHECKING:
    from tapedebug.compiler.kernel import Kernel
    from tapedebug.contract import Operation

BY_DIFFERENCES = "derivative by finite differences"
IN_LARGE_STEPS = "is compared with differences of larger steps, which have larger error bars"
IN_FLOAT32 = f"computes in float32: it {IN_LARGE_STEPS}"


def is_of_differences(note: str) -> bool:
    """True if a note is one of these."""
    return BY_DIFFERENCES in note or IN_LARGE_STEPS in note


def differences_on(operations: Iterable[Operation]) -> list[str]:
    """Return notes on the functions called by kernels whose derivatives are finite differences."""
    kernels = {id(k): k for o in operations if o.active and (k := kernel_of(o)) is not None}
    return list(dict.fromkeys(note for kernel in kernels.values() for note in differences_in(kernel)))


def differences_in(kernel: Kernel) -> list[str]:
    """Return notes on the functions called by a kernel whose derivatives are finite differences."""
    notes = kernel._analysis_cache
    if notes.fingerprint is not None and all(function.numba is None for function in kernel.functions):
        return []
    found: dict[str, None] = {}
    for version in by_differences(kernel._lowered.custom.body):
        narrow = ", of results that it rounds to float32" if version.narrows else ""
        found[f"numba function {version.name}: {BY_DIFFERENCES}{narrow}"] = None
    return list(found)

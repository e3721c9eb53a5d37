"""Substitution of the arrays of recorded operations."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, cast

from tapedebug.contract import Array
from tapedebug.operations import ExecutableOperation, HostOperation, Region
from tapedebug.watch.memory import WatchedArray


def with_arrays(operation: ExecutableOperation, changed: Callable[[WatchedArray], WatchedArray]) -> Any:
    """Return an operation with other arrays of the contract in place of its own."""
    found: Any = copy.copy(operation)
    found.args = [changed(arg) if isinstance(arg, WatchedArray) else arg for arg in operation.args]
    found.accesses = [
        access._replace(array=array, active=access.active or array.requires_grad)
        for access in operation.accesses
        for array in [changed(cast("WatchedArray", access.array))]
    ]
    if isinstance(operation, HostOperation):
        found.capabilities = {
            kind: found if each is operation else each for kind, each in operation.capabilities.items()
        }
    found.arrays_changed(changed)
    return found


def arrays_by_region(operations: Sequence[ExecutableOperation]) -> dict[Region, dict[Array, None]]:
    """Return the arrays that operations access, by the memory that they share."""
    found: dict[Region, dict[Array, None]] = {}
    for operation in operations:
        for access in operation.accesses:
            found.setdefault(cast("Region", access.array.region), {})[access.array] = None
    return found

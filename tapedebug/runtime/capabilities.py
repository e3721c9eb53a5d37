"""Capabilities of this engine's tapes and records beyond the debugger's contract, by protocol.

A module that implements one registers it: `TAPE[Float64] = TapeInFloat64`. The factory receives the tape or
record, and returns the implementation, or None if that tape or record lacks it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")

TAPE: dict[type, Callable[[Any], Any]] = {}
"""By capability protocol, the factory of its implementation for a tape."""

OPERATION: dict[type, Callable[[Any], Any]] = {}
"""By capability protocol, the factory of its implementation for a record."""


LOADERS: list[Callable[[], object]] = []
"""Functions that import further modules which register capabilities, of rooms that this one does not know."""


def tape_capability(tape: Any, kind: type[T]) -> T | None:
    """Return the implementation of a capability for a tape, or None."""
    make = _provided(TAPE).get(kind)
    return None if make is None else cast("T | None", make(tape))


def operation_capability(record: Any, kind: type[T]) -> T | None:
    """Return the implementation of a capability for a record, or None."""
    _load()
    make = OPERATION.get(kind)
    return None if make is None else cast("T | None", make(record))


def _provided(table: dict[type, Callable[[Any], Any]]) -> dict[type, Callable[[Any], Any]]:
    """Return a table with all its entries, loaded at first use: recording needs none of the modules."""
    _load()
    return table


@cache
def _load() -> None:
    """Import the modules that register capabilities, once: an import statement in each call is slow."""
    from tapedebug.runtime import capability_providers as capability_providers

    for load in LOADERS:
        load()

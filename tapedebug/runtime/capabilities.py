"""Capabilities of this engine's tapes and records that go beyond the debugger's contract, by protocol.

A module that implements one registers it: `TAPE[Float64] = TapeInFloat64`. The implementation is made from
the tape or record, or is None where that one lacks it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")

TAPE: dict[type, Callable[[Any], Any]] = {}
"""For each capability protocol, what makes its implementation for a tape."""

OPERATION: dict[type, Callable[[Any], Any]] = {}
"""For each capability protocol, what makes its implementation for a record."""


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
    """Return a table of which every entry is made: recording itself needs none of the modules."""
    _load()
    return table


@cache
def _load() -> None:
    """Import the modules that register capabilities, once: an import statement costs too much per launch."""
    from tapedebug.runtime import capability_providers as capability_providers

"""Capabilities: the memory that a tape and its adjoints use for copies of values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol

from tapedebug.contract.program import Place, RecordedTape


class Retention(Protocol):
    """The copies that a tape keeps of overwritten values."""

    @property
    def mode(self) -> Literal["preserve", "warn", "error", "ignore"]:
        """The treatment of an overwrite of values that an adjoint needs."""

    @property
    def preserved_bytes(self) -> int:
        """The bytes of copies for adjoints."""

    @property
    def livein_bytes(self) -> int:
        """The bytes of copies for replays only."""

    def recomputed(self) -> Iterable[tuple[int, int]]:
        """Return the operations and parameters whose copies were released, to be recomputed."""


def overwrite_mode(tape: RecordedTape) -> str:
    """Return the treatment of overwrites; for a tape without `Retention`, the equivalent mode."""
    retention = tape.capability(Retention)
    if retention is not None:
        return retention.mode
    return "preserve" if tape.preserves_values else "ignore"


class StoredLoop(Protocol):
    """A loop of which an adjoint keeps values."""

    @property
    def span(self) -> Place:
        """Its place in the source."""

    @property
    def iterations(self) -> int:
        """The number of iterations."""

    @property
    def values(self) -> int:
        """The number of values that are kept of each iteration."""

    @property
    def bytes(self) -> int:
        """The memory that takes, while one thread is reversed."""


class StoredLoops(Protocol):
    """The memory that adjoints use for the values of loops."""

    def loops(self) -> Mapping[int, Sequence[StoredLoop]]:
        """Return the loops of known length for which values are kept, by operation."""

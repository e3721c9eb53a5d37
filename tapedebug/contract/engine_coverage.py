"""Capability: the way in which an engine runs operations again, and what it leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol


class EngineCoverage(Protocol):
    """The ways in which the operations of a tape are run again, for an engine that has more than one."""

    def counts(self) -> Mapping[str, int]:
        """Return the number of operations by way, such as `{"mirrored": 14, "native": 2}`, the best first."""

    def notes(self) -> Sequence[str]:
        """Return a sentence for each way that leaves something out, with what that is."""

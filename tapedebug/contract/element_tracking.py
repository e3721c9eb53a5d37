"""Capabilities: the accesses of the threads of a launch, element by element."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol

from tapedebug.contract.program import Array


class ElementTracking(Protocol):
    """Launches that can be run again with every access of their threads tracked, element by element."""

    def arrays_in(self, region: Hashable, /) -> Sequence[Array]:
        """Return the ranges of a region that the tape uses, as arrays."""

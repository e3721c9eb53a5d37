"""What a tape remembers besides its records: named groups of them, and calls of `backward`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tapedebug.runtime._lent import Lent, values_of
from tapedebug.runtime._seeds import Held, Seeds
from tapedebug.runtime.array import array


@dataclass
class Scope:
    """A named group of records: `first … last` inclusive; `last` is None while it is open."""

    name: str
    parent: int | None
    first: int
    last: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass
class BackwardCall:
    """One call of `Tape.backward`.

    Attributes:
        loss: The loss, or None.
        records: How many records the tape had.
        seconds: How long the reverse pass took.
        reran: How many launches it ran again to keep to the tape's `memory_budget`.
        peak_bytes: Memory that it needed, counted: gradients, preserved values, copies that in-place launches
            are reversed in, packed arguments, seeds; of a long pass also the gradients as they were, to be
            put back if it is interrupted.
    """

    loss: array | None
    _seeds: Held = field(repr=False)
    records: int
    seconds: float = 0.0
    reran: int = 0
    peak_bytes: int = 0

    @property
    def seeds(self) -> Seeds:
        """Copies of the incoming gradients, as they were; a tape keeps those of its last call only."""
        return {a: values_of(seed).copy() for a, seed in self._seeds.items()}

    def give_up(self) -> Held:
        """Forget the seeds; returns those whose memory can be used again."""
        seeds, self._seeds = self._seeds, {}
        return {a: seed for a, seed in seeds.items() if not isinstance(seed, Lent)}

"""Named scopes of records, and the calls of `backward` on a tape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from tapedebug import contract
from tapedebug._dataclass import dataclass
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.reverse.borrowed_seed import BorrowedSeed, values_of
from tapedebug.runtime.reverse.seeds import SeedMap, Seeds


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
        records: The number of records that the tape had.
        seconds: The duration of the reverse pass.
        reran: The number of launches that it ran again to keep to the tape's `memory_budget`.
        peak_bytes: Memory that it needed, counted: gradients, preserved values, copies that in-place launches
            are reversed in, packed arguments, seeds; of a long pass also copies of the gradients, to restore
            them if it is interrupted.
        unseeded: It was given no seed, and the gradients that may hold one had not been written.
        stale: Arrays whose gradients held what an earlier pass, of another tape, had left there.
    """

    loss: array | None
    _seeds: SeedMap = field(repr=False)
    records: int
    seconds: float = 0.0
    reran: int = 0
    peak_bytes: int = 0
    unseeded: bool = False
    stale: Sequence[array] = ()
    _preset: Seeds = field(default_factory=dict, repr=False)
    _objective: array | None = field(default=None, repr=False)

    @property
    def off_tape(self) -> Sequence[array]:
        """Empty: `Tape.backward` refuses arrays that no record uses."""
        return ()

    @property
    def operation_count(self) -> int:
        """The number of records that the tape had."""
        return self.records

    @property
    def seeds_used(self) -> SeedMap:
        """The seeds, those that were given and those that the pass found in gradients."""
        # Given seeds come last: where arrays overlap, they replace the zeros of the others.
        return {**self._preset, **self._seeds} if self._preset else self._seeds

    @property
    def seeds(self) -> contract.Seeds:
        """Copies of all seeds: of the loss, of `grads`, and of gradients that already held values.

        A tape keeps the seeds of its last call only.
        """
        return {a: values_of(seed).copy() for a, seed in self.seeds_used.items()}

    @property
    def preset(self) -> list[array]:
        """The arrays whose gradients held a seed when the pass began."""
        return list(self._preset)

    @property
    def objective(self) -> array | None:
        """The array of one float that the pass began from, with the seed 1 of a loss; else None."""
        if not self._preset and self.loss is not None and self.loss in self._seeds:
            return self.loss if len(self._seeds) == 1 else None
        if not (self._preset or self._seeds):
            return self._objective
        seeds = self.seeds_used
        if len(seeds) > 1:
            return None
        ((a, seed),) = seeds.items()
        if isinstance(seed, BorrowedSeed):  # large
            return None
        return a if seed.size == 1 and seed.item() == 1 else None

    def give_up(self) -> SeedMap:
        """Forget the seeds; return those whose memory can be reused."""
        self._objective = self.objective
        seeds, self._seeds, self._preset = self._seeds, {}, {}
        return {a: seed for a, seed in seeds.items() if not isinstance(seed, BorrowedSeed)}

"""Retention of the tapes that a program records until they are diagnosed; a few of a long training loop."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import field
from types import TracebackType

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._tape_observers import observers
from tapedebug.contract import Array, RecordedTape

WAITING = 32
"""Number of tapes that may wait for their `backward`."""
KINDS = 8
"""Number of kinds of tapes (with the same launches) that are distinguished; all others form one more kind."""
OUTBREAKS = 3
"""Number of times that gradients turn non-finite after which no more such tapes are kept."""


@dataclass(slots=True, eq=False)
class RetainedTape:
    """A tape of the program, its position `number` in recording order (0: not yet), and why it is kept."""

    tape: RecordedTape
    number: int = 0
    finite: bool = True
    why: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Alike:
    """Tapes with the same launches, as a training loop records them: the first two and the last two."""

    first: list[RetainedTape] = field(default_factory=list)
    last: deque[RetainedTape] = field(default_factory=lambda: deque(maxlen=2))
    count: int = 0


class TapeRetention:
    """Context that observes all tapes of a program and keeps enough of them to diagnose all.

    A training loop of ten thousand steps must not hold ten thousand tapes. Of tapes with the same launches
    the first two and the last two are kept: errors between consecutive tapes show in a pair. Tapes whose
    gradients become non-finite after finite ones are kept, too, with their neighbours.

    Attributes:
        count: The number of recorded tapes.
        bad: The number of tapes with non-finite gradients.
    """

    def __init__(self) -> None:
        self.count = 0
        self.bad = 0
        self._open: list[RetainedTape] = []
        self._kinds: dict[Hashable, _Alike] = {}
        self._outbreaks: list[RetainedTape] = []
        self._left = OUTBREAKS
        self._starts = False
        self._previous: RetainedTape | None = None

    def __enter__(self) -> TapeRetention:
        observers.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        observers.remove(self)

    # -- called by engines --------------------------------------------------------------------------

    def tape_created(self, tape: RecordedTape) -> None:
        """Keep a new tape."""
        self._settle()
        self._open.append(RetainedTape(tape))

    def tape_exited(self, tape: RecordedTape) -> None:
        """Number a tape in the order of the program when one of its blocks ends."""
        item = self._item(tape)
        if item is None:
            item = RetainedTape(tape)
            self._open.append(item)
        if not item.number and tape.operations:
            self._number(item)

    def backward_done(self, tape: RecordedTape, *_: object) -> None:
        """Test whether the gradients are finite."""
        item = self._item(tape)
        if item is not None and item.finite:
            item.finite = _all_finite(tape)

    def tape_reset(self, tape: RecordedTape) -> None:
        """Keep the content of a tape that is about to be reset and reused."""
        item = self._item(tape)
        if item is None or not tape.operations:
            return
        item.tape = copy.copy(tape)
        if item in self._open:
            self._open.remove(item)
            self._file(item)

    # -- retained tapes ----------------------------------------------------------------------------------

    @property
    def tapes(self) -> list[RetainedTape]:
        """Return the retained tapes in the order of recording, without those that have no launch."""
        self._settle(everything=True)
        return sorted(set(self._retained()), key=lambda item: item.number)

    def runs(self) -> list[list[RetainedTape]]:
        """Return the retained tapes as runs of consecutively recorded ones."""
        runs: list[list[RetainedTape]] = []
        for item in self.tapes:
            if not runs or runs[-1][-1].number + 1 != item.number:
                runs.append([])
            runs[-1].append(item)
        return runs

    def coverage(self) -> list[str]:
        """Return sentences with the number of recorded tapes, and which of them are examined and why."""
        kept = self.tapes
        if not self.count:
            return ["no tape was recorded: nothing to check"]
        if len(kept) == self.count:
            return []
        by_reason: dict[str, list[int]] = {}
        for item in kept:
            by_reason.setdefault(", ".join(dict.fromkeys(item.why)), []).append(item.number)
        which = "; ".join(f"{_listed(numbers)} ({why})" for why, numbers in by_reason.items())
        many = f"{self.count} tapes were recorded; diagnosed: {which}"
        if len(self._kinds) > KINDS:
            many += f". They have more than {KINDS} different sequences of launches"
        if self.bad:
            many += f". The gradients of {self.bad} were not finite"
        return [many]

    def _retained(self) -> Iterator[RetainedTape]:
        for kind in self._kinds.values():
            yield from kind.first
            yield from kind.last
        yield from self._outbreaks

    # -- implementation ---------------------------------------------------------------------------------

    def _item(self, tape: RecordedTape) -> RetainedTape | None:
        """Return the entry of a tape that is still in use."""
        for item in (*reversed(self._open), *self._retained()):
            if item.tape is tape:
                return item
        return None

    def _number(self, item: RetainedTape) -> None:
        self.count += 1
        item.number = self.count

    def _settle(self, *, everything: bool = False) -> None:
        """File tapes that are complete. A tape that is being recorded, or may be again, stays open."""
        waiting: list[RetainedTape] = []
        for position, item in enumerate(self._open):
            late = len(self._open) - position > WAITING  # an evaluation loop never calls backward
            if everything or late or item.tape.reverse_passes:
                self._file(item)
            else:
                waiting.append(item)
        self._open = waiting

    def _file(self, item: RetainedTape) -> None:
        key = _key(item.tape)
        if not key:
            return
        if not item.number:
            self._number(item)
        if key not in self._kinds and len(self._kinds) >= KINDS:
            key = ("others",)
        kind = self._kinds.setdefault(key, _Alike())
        kind.count += 1
        if len(kind.first) < 2:
            kind.first.append(item)
            item.why.append("the first two with their launches")
        if len(kind.last) == 2:
            kind.last[0].why.remove("the last two")
        kind.last.append(item)
        item.why.append("the last two")
        self._watch(item)

    def _watch(self, item: RetainedTape) -> None:
        """Keep a tape whose gradients become non-finite after finite ones, and its neighbours."""
        before, self._previous = self._previous, item
        after, self._starts = self._starts, False
        self.bad += not item.finite
        if after:
            self._outbreaks.append(item)
            item.why.append(_BESIDE if item.finite else "not finite")
        if item.finite or (before is not None and not before.finite):
            return
        if self._left == 0:
            return
        self._left -= 1
        self._starts = True
        if before is not None:
            before.why.append(_BESIDE)
            self._outbreaks.append(before)
        item.why.append("the first that is not finite" if self.bad == 1 else "not finite again")
        self._outbreaks.append(item)


_BESIDE = "beside one that is not finite"


def _key(tape: RecordedTape) -> tuple[Hashable, ...]:
    """Return a key that tapes of the same launches share; empty for a tape without launches."""
    return tuple((operation.kind, operation.name, operation.dim) for operation in tape.operations)


def _all_finite(tape: RecordedTape) -> bool:
    """True if the gradients of arrays that the tape never writes are finite: parameters, which are few."""
    accesses = [access for operation in tape.operations for access in operation.accesses]
    written = {id(access.array.region) for access in accesses if access.writes}
    inputs: dict[Array, None] = {a.array: None for a in accesses if id(a.array.region) not in written}
    gradients = (array.current_gradient() for array in inputs)
    return all(gradient is None or bool(np.isfinite(gradient).all()) for gradient in gradients)


def _listed(numbers: list[int]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)

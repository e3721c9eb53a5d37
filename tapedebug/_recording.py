"""Keeps the tapes that a program records, until they can be diagnosed."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug import runtime

if TYPE_CHECKING:
    from tapedebug.diagnose import Diagnosis
    from tapedebug.runtime import Tape


WAITING = 32
"""How many tapes may wait for their `backward`."""


@dataclass(slots=True, eq=False)
class Recorded:
    """One tape: the `number`th of the program. `diagnosis` is set early where the program reset the tape."""

    number: int
    tape: Tape
    diagnosis: Diagnosis | None = None
    finite: bool = True


@dataclass(slots=True)
class _Alike:
    """Tapes of the same launches, as a training loop makes them: first, last, and one that went bad."""

    first: Recorded
    last: Recorded | None = None
    bad: Recorded | None = None
    count: int = 1


class Recorder:
    """A context in which every tape is seen; of tapes with the same launches the first and the last are kept.

    A training loop of ten thousand steps must not hold ten thousand tapes. The first tape with gradients
    that are not finite is kept too. `dropped` counts the others.
    """

    def __init__(self) -> None:
        self._open: list[Recorded] = []
        self._groups: dict[Hashable, _Alike] = {}
        self._count = 0

    def __enter__(self) -> Recorder:
        runtime.observers.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        runtime.observers.remove(self)

    def tape_created(self, tape: Tape) -> None:
        """Keep a new tape (called by the runtime)."""
        self._settle()
        self._count += 1
        self._open.append(Recorded(self._count, tape))

    def backward_done(self, tape: Tape, *_: Any) -> None:
        """Look whether the gradients are finite (called by the runtime)."""
        for item in self._open:
            if item.tape is tape and item.finite:
                item.finite = _all_finite(tape)

    def tape_reset(self, tape: Tape) -> None:
        """Diagnose a tape before its records are gone, if none like it was seen (called by the runtime)."""
        for item in [item for item in self._open if item.tape is tape]:
            self._open.remove(item)
            key = _key(tape)
            group = self._groups.get(key)
            if key and (group is None or (group.bad is None and not item.finite)):
                from tapedebug.diagnose import diagnose

                item.diagnosis = diagnose(tape)
                self._file(item)
            elif group is not None:
                group.count += 1
            self._count += 1
            self._open.append(Recorded(self._count, tape))

    @property
    def tapes(self) -> list[Recorded]:
        """The tapes that were kept, in the order of recording; those without any launch are left out."""
        self._settle(everything=True)
        kept: list[Recorded] = []
        for group in self._groups.values():
            for item in (group.first, group.bad, group.last):
                if item is not None and item not in kept:
                    kept.append(item)
        return sorted(kept, key=lambda item: item.number)

    @property
    def dropped(self) -> int:
        """How many tapes were let go because the first and the last with the same launches are kept."""
        total = sum(group.count for group in self._groups.values())
        return total - len(self.tapes)

    def _settle(self, *, everything: bool = False) -> None:
        """File tapes that will not grow any more. One that is being recorded, or may be again, stays open."""
        waiting: list[Recorded] = []
        for position, item in enumerate(self._open):
            late = len(self._open) - position > WAITING  # an evaluation loop never calls backward
            if everything or late or item.tape.backward_calls:
                self._file(item)
            else:
                waiting.append(item)
        self._open = waiting

    def _file(self, item: Recorded) -> None:
        key = _key(item.tape)
        if not key:
            return
        group = self._groups.get(key)
        if group is None:
            self._groups[key] = _Alike(first=item, bad=None if item.finite else item)
            return
        group.count += 1
        group.last = item
        if not item.finite and group.bad is None:
            group.bad = item


def _key(tape: Tape) -> tuple[Hashable, ...]:
    """What tapes of the same launches have in common; empty for a tape without any."""
    return tuple((record.kind, record.name, record.dim) for record in tape.records)


def _all_finite(tape: Tape) -> bool:
    """Whether the gradients of what the tape never writes are finite: its parameters, which are few."""
    written = {id(record.args[p].buffer) for record in tape.records for p in record.plan.written}
    gradients = (gradient for a, gradient in tape.gradients.items() if id(a.buffer) not in written)
    return all(bool(np.isfinite(gradient._look()).all()) for gradient in gradients)

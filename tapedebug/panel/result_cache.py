"""The cache of checked entries for the panel: the newest results, up to a limit."""

from __future__ import annotations

import threading
import weakref
from itertools import count
from typing import TYPE_CHECKING, Any

from tapedebug._dataclass import dataclass
from tapedebug.panel.panel_source import PanelSource
from tapedebug.trace.recording import recording_of

if TYPE_CHECKING:
    from tapedebug.autograd.results.pair_result import PairResult
    from tapedebug.contract import RecordedTape

MOST_BYTES = 1 << 27
"""Size limit of the cache for all tapes together, in bytes."""

Pair = tuple[int | None, Any, Any]


@dataclass
class _Of:
    """The cached results of one tape, valid until it records more."""

    recording: str
    launches: int
    found: dict[Pair, tuple[int, int, PairResult]]


class ResultCache:
    """Results of checks by tape and pair, shared by all panels of a tape."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self.most_bytes = most_bytes
        self._by_tape: weakref.WeakKeyDictionary[RecordedTape, _Of] = weakref.WeakKeyDictionary()
        self._stamps = count()
        self._lock = threading.Lock()

    def keep(self, subject: PanelSource, result: PairResult) -> None:
        """Store a result with its entries; drop the oldest results beyond the size limit."""
        tape = subject.tape
        if tape is None:
            return
        pair = _pair(subject, result.launch, result.input.removesuffix(" (in place)"), result.output)
        with self._lock:
            known = self._by_tape.get(tape)
            if known is None or not _fits(known, tape):
                known = _Of(recording_of(tape), len(tape.operations), {})
                self._by_tape[tape] = known
            known.found[pair] = (next(self._stamps), _bytes(result), result)
            self._forget()

    def find(self, subject: PanelSource, launch: int | None, source: str, target: str) -> PairResult | None:
        """Return the result of a pair, or None if it is not stored."""
        tape = subject.tape
        if tape is None:
            return None
        with self._lock:
            known = self._by_tape.get(tape)
            if known is None or not _fits(known, tape):
                return None
            found = known.found.get(_pair(subject, launch, source, target))
            return None if found is None else found[2]

    def _forget(self) -> None:
        everything = [
            (stamp, size, pair, known.found)
            for known in self._by_tape.values()
            for pair, (stamp, size, _) in known.found.items()
        ]
        total = sum(size for _, size, _, _ in everything)
        for _, size, pair, found in sorted(everything, key=lambda entry: entry[0])[:-1]:
            if total <= self.most_bytes:
                return
            del found[pair]
            total -= size


result_cache = ResultCache()


def _fits(known: _Of, tape: RecordedTape) -> bool:
    return known.recording == recording_of(tape) and known.launches == len(tape.operations)


def _pair(subject: PanelSource, launch: int | None, source: str, target: str) -> Pair:
    """Return the key of a pair: array ids for the whole tape, as panels may label an array differently."""
    if launch is not None:
        return launch, source, target
    numbers = {info.label: info.id for info in reversed(subject.source.arrays)}
    return None, numbers.get(source, source), numbers.get(target, target)


def _bytes(result: PairResult) -> int:
    arrays = []
    if result.compared is not None:
        c = result.compared
        arrays += [c.rows, c.columns, c.ad, c.fd, c.bar]
    if result.gradient is not None:
        g = result.gradient
        arrays += [g.consumed, g.reference, g.fd, g.bar]
    return 2_000 + sum(a.nbytes for a in arrays)

"""Words about an engine other than tapedebug's own: its title, and how it runs launches again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tapedebug.contract import EngineCoverage, RecordedTape

OWN_ENGINE = "tapedebug"
"""The engine that has all capabilities of traces and whose version is part of the environment anyway."""


def engine_title(tape: RecordedTape) -> str:
    """Return the name, version and device of the engine of a tape; empty for tapedebug's own."""
    engine = tape.engine
    return "" if engine.name == OWN_ENGINE else f"{engine.name} {engine.version}, {engine.device}"


def engine_notes(tape: RecordedTape) -> list[str]:
    """Return sentences on how the launches of a tape run again, and what that leaves out."""
    coverage = tape.capability(EngineCoverage)
    if coverage is None or not tape.operations:
        return []
    return [f"{tape.engine.name} ran the launches: {replay_counts([tape])}", *coverage.notes()]


def replay_counts(tapes: Iterable[RecordedTape]) -> str:
    """Return the number of operations by the way in which they run again: `14 mirrored, 2 native`."""
    counts: Counter[str] = Counter()
    for tape in tapes:
        coverage = tape.capability(EngineCoverage)
        counts.update({} if coverage is None else dict(coverage.counts()))
    return ", ".join(f"{count:,} {way}" for way, count in counts.items() if count)

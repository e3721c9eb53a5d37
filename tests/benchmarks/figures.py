"""Measurements as data: in a file, to compare two commits, and in the documentation."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.benchmarks.engines import OURS
from tests.benchmarks.timing import Timed, columns, duration, summary

SCHEMA = 1
NOISE = 1.1
"""Two commits differ where minima and medians differ by more than this."""


@dataclass(frozen=True)
class Figure:
    """Seconds of one thing on one engine; `longest` is the mean of the longest, 0 in older files."""

    case: str
    part: str
    size: str
    engine: str
    min: float
    median: float
    max: float
    count: int
    largest: bool = False
    longest: float = 0.0

    @property
    def what(self) -> tuple[str, str, str]:
        """A measured part."""
        return self.case, self.part, self.size


Found = dict[str, Figure]
"""By engine."""


@dataclass
class Figures:
    """All of a run.

    Attributes:
        machine: Cores, processor, versions.
        load: At the start and at the end.
        figures: In the order in which they were measured.
        rounds: How often everything was measured, at least.
        most_rounds: How often at most, until minima are settled; 0 in older files, of `rounds` exactly.
        notes: What else is to be said, by case: what an engine computes wrongly.
        bits: By case and size, of which parts our results depend on the number of threads or on the run.
    """

    machine: dict[str, Any]
    load: list[str] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    rounds: int = 0
    most_rounds: int = 0
    notes: dict[str, str] = field(default_factory=dict)
    bits: dict[str, str] = field(default_factory=dict)

    def add(self, thing: Timed) -> None:
        """Keep what was timed."""
        for engine, seconds in thing.seconds.items():
            figure = Figure(
                thing.case, thing.part, thing.size, engine, **summary(seconds), largest=thing.largest
            )
            self.figures.append(figure)
        if thing.bits is not None:
            self.bits[f"{thing.case}, {thing.size}"] = thing.bits
        self.notes |= {f"{thing.case} on {engine}": note for engine, note in thing.notes.items()}

    def grouped(self) -> dict[tuple[str, str, str], Found]:
        """Return the figures by part, then by engine."""
        found: dict[tuple[str, str, str], Found] = {}
        for figure in self.figures:
            found.setdefault(figure.what, {})[figure.engine] = figure
        return found

    def largest(self, case: str, part: str) -> Found:
        """Return the figures of the largest size, by engine; empty if it was not measured."""
        return {f.engine: f for f in self.figures if f.largest and (f.case, f.part) == (case, part)}

    def save(self, path: Path) -> None:
        """Write a file, a line for each figure, with four digits."""
        data = asdict(self)
        for figure in data["figures"]:
            figure |= {name: float(f"{figure[name]:.4g}") for name in ("min", "median", "max", "longest")}
        lines = ",\n".join("  " + json.dumps(figure, ensure_ascii=False) for figure in data.pop("figures"))
        head = json.dumps({"schema": SCHEMA, **data}, ensure_ascii=False, indent=1)[:-2]
        path.write_text(f'{head},\n "figures": [\n{lines}\n ]\n}}\n', encoding="utf-8")

    @classmethod
    def load_from(cls, path: Path) -> Figures:
        """Read such a file.

        Raises:
            ValueError: It is of another schema.
        """
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.pop("schema") != SCHEMA:
            raise ValueError(f"{path}: not a file of schema {SCHEMA}")
        figures = [Figure(**figure) for figure in data.pop("figures")]
        return cls(**data, figures=figures)


def compared(before: Figures, after: Figures) -> list[str]:
    """Two runs, as from two commits: what became faster or slower, beside how far the machine drifted.

    The other engines are the same in both runs: by as much as they did the same thing slower, or all they did
    where nobody else does it, the machine was slower.
    """
    pairs = list(_pairs(before, after))
    peers = [(a, b.min / a.min) for a, b in pairs if not a.engine.startswith(OURS)]
    overall = _mean([ratio for _, ratio in peers]) or 1.0
    rows = [("", "before", "after", "minima", "medians", "others", "")]
    for a, b in pairs:
        if a.engine.startswith(OURS):
            drift = _mean([ratio for peer, ratio in peers if peer.what == a.what]) or overall
            low, middle = b.min / a.min, b.median / a.median
            message = "slower" if min(low, middle) > NOISE * max(drift, 1.0) else ""
            message = "faster" if max(low, middle) * NOISE < min(drift, 1.0) else message
            name = f"{a.case} {a.part}, {a.size}" + ("" if a.engine == OURS else f" ({a.engine})")
            cells = (duration(a.min), duration(b.min), f"{low:.2f}", f"{middle:.2f}", f"{drift:.2f}", message)
            rows.append((name, *cells))
    return [columns(rows), f"other engines, which are the same: ×{overall:.2f} in the mean"]


def _mean(ratios: list[float]) -> float | None:
    """Geometric."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None


def _pairs(before: Figures, after: Figures) -> Iterator[tuple[Figure, Figure]]:
    later = {(*figure.what, figure.engine): figure for figure in after.figures}
    for figure in before.figures:
        key = (*figure.what, figure.engine)
        if key in later:
            yield figure, later[key]

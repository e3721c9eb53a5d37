"""Goals of the suite, and whether a run meets them.

A goal is missed where the ratio of minima misses it and that of medians does, too: one alone is the machine's
noise. Goals of kernels hold at the largest size, except that on one thread no size may be slower than Warp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tests.benchmarks import busy, jacobians, launching
from tests.benchmarks.cases import CASES
from tests.benchmarks.engines import ALONE, NUMBA, OURS, WARP
from tests.benchmarks.figures import Figure, Figures

FASTER_THAN_WARP = {
    ("sine", "forward"): 25.0, ("springs", "forward"): 3.0, ("bodies", "forward"): 12.0,
    ("heat", "forward"): 12.0, ("sum", "forward"): 1.9,
    ("sine", "backward"): 20.0, ("springs", "backward"): 4.0, ("bodies", "backward"): 8.0,
    ("heat", "backward"): 40.0, ("sum", "backward"): 10.0,
    ("launching", launching.TAPED): 4.0, ("launching", launching.AGAIN): 200.0,
}  # fmt: skip
"""Warp's time over ours, at least; of tiny launches, too, as seconds of one machine say little of another."""
STEP = 1.0
"""Warp's time over ours of a step of a training loop, at least, of any length."""
BY_HAND = 1.15
"""Our time over that of Numba written by hand; of the adjoint alone, as nothing there is on a tape."""
ALONE_MOST = 1.05
"""Our time on one thread over Warp's."""
JACOBIANS = {jacobians.SPARSE: 500.0, jacobians.DENSE: 20.0, jacobians.CHECK: 100.0}
"""Warp's time over ours at 4,096 scalars, at least."""
PROCESSES = {
    ("cold", "1 kernel"): 0.6, ("warm", "1 kernel"): 1.0, ("cold", "20 kernels"): 1.0,
}  # fmt: skip
"""Our time over Warp's, of a whole process."""
BUSY = 20.0
"""The longest launches beside busy processes over the median of idle ones."""
KEPT = {launching.BESIDE: launching.RECORDED, launching.KEPT: launching.AGAIN}
"""Parts with a tape that is kept alive over the same arrays, and the same without it."""
KEPT_MOST = 2.0
"""The time of the one over that of the other."""
LOOPS = 1.5
"""The longest launches over the longest of a loop that takes as long: what the scheduler does to both."""


@dataclass(frozen=True)
class Outcome:
    """A goal and what was measured.

    Attributes:
        what: The goal in words.
        found: Ratios of minima and of medians.
        bound: What they should reach, or not exceed.
        least: Whether `bound` is the least or the most.
        shown: How numbers are written.
    """

    what: str
    found: tuple[float, float]
    bound: float
    least: bool
    shown: Callable[[float], str] = "{:.2f}".format

    @property
    def holds(self) -> bool:
        """True if one of the ratios reaches the bound."""
        return max(self.found) >= self.bound if self.least else min(self.found) <= self.bound

    def row(self) -> tuple[str, ...]:
        """For a table."""
        low, middle = self.found
        return (
            self.what,
            self.shown(low),
            self.shown(middle),
            f"{'≥' if self.least else '≤'} {self.shown(self.bound)}",
            "holds" if self.holds else "MISSED",
        )


def ratios(above: Figure, below: Figure) -> tuple[float, float]:
    """Return the ratio of minima and that of medians."""
    return above.min / below.min, above.median / below.median


def outcomes(figures: Figures) -> list[Outcome]:
    """All goals that something was measured for."""
    return [
        *_beside_warp(figures), *_by_hand(figures), *_processes(figures),
        *_kept(figures), *_beside_others(figures), *_bits(figures), *_alone(figures),
    ]  # fmt: skip


def rows(found: list[Outcome]) -> list[tuple[str, ...]]:
    """For a table: of the many about one thread only the worst, and what is missed."""
    many = [outcome for outcome in found if outcome.bound == ALONE_MOST]
    worst = max(many, key=lambda outcome: min(outcome.found), default=None)
    shown = [o.row() for o in found if o not in many or o is worst or not o.holds]
    if many:
        held = sum(outcome.holds for outcome in many)
        shown.append(
            ("on one thread no slower than Warp by more than 5 %", "", "", "", f"{held} of {len(many)}")
        )
    return shown


def _beside_warp(figures: Figures) -> Iterator[Outcome]:
    for (case, part), bound in FASTER_THAN_WARP.items():
        found = figures.largest(case, part)
        if OURS in found and WARP in found:
            yield Outcome(f"{case} {part}: Warp ÷ ours", ratios(found[WARP], found[OURS]), bound, True)
    for (case, part, size), found in figures.grouped().items():
        if part == launching.STEP and OURS in found and WARP in found:
            yield Outcome(f"{part}, {size}: Warp ÷ ours", ratios(found[WARP], found[OURS]), STEP, True)
        if part in JACOBIANS and WARP in found and found[OURS].largest:
            what = f"{case} {part}, {size}: Warp ÷ ours"
            yield Outcome(what, ratios(found[WARP], found[OURS]), JACOBIANS[part], True)


def _by_hand(figures: Figures) -> Iterator[Outcome]:
    for case in dict.fromkeys(["double", *(case for case, _ in FASTER_THAN_WARP)]):
        for part in ("forward", "adjoint"):
            found = figures.largest(case, part)
            hand = best_by_hand(found.values())
            if OURS in found and hand is not None:
                what = f"{case} {part}: ours ÷ {hand.engine}"
                yield Outcome(what, ratios(found[OURS], hand), BY_HAND, False)


def best_by_hand(found: Iterable[Figure]) -> Figure | None:
    """The fastest way in Numba."""
    hands = [figure for figure in found if figure.engine.startswith(NUMBA)]
    return min(hands, key=lambda figure: figure.min, default=None)


def _processes(figures: Figures) -> Iterator[Outcome]:
    for (case, part, size), found in figures.grouped().items():
        bound = PROCESSES.get((part.partition(",")[0], size))
        if case == "process" and ":" not in part and bound is not None and OURS in found and WARP in found:
            what = f"process, {part}, {size}: ours ÷ Warp"
            yield Outcome(what, ratios(found[OURS], found[WARP]), bound, False)


def _kept(figures: Figures) -> Iterator[Outcome]:
    for part, without in KEPT.items():
        beside, alone = (figures.largest("launching", each) for each in (part, without))
        if OURS in beside and OURS in alone:
            what = f"launching {part} ÷ {without}"
            yield Outcome(what, ratios(beside[OURS], alone[OURS]), KEPT_MOST, False)


def _beside_others(figures: Figures) -> Iterator[Outcome]:
    for what, size, idle, found in busy.pairs(figures):
        alone, loop = idle[OURS].median, found[busy.LOOP].longest
        if loop:  # older files have only the worst
            bound = max(BUSY, LOOPS * loop / alone)
            message = f"{what} {busy.BUSY}, {size}: longest ÷ idle (or {LOOPS:g} × a Python loop)"
            yield Outcome(message, (found[OURS].longest / alone,) * 2, bound, False, "{:,.0f}".format)


def _bits(figures: Figures) -> Iterator[Outcome]:
    if figures.bits:
        differ = [f" ({what}: {parts})" for what, parts in figures.bits.items() if parts]
        message = f"results that depend on the number of threads or on the run{''.join(differ)}"
        yield Outcome(message, (len(differ), len(differ)), 0, False, "{:.0f}".format)


def _alone(figures: Figures) -> Iterator[Outcome]:
    for (case, part, size), found in figures.grouped().items():
        ours = found.get(ALONE) or found.get(OURS)
        if case in (*CASES, "net") and ours is not None and WARP in found:
            what = f"{case} {part}, {size}: {ours.engine} ÷ Warp"
            yield Outcome(what, ratios(ours, found[WARP]), ALONE_MOST, False)

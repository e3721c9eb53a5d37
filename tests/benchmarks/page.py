"""The tables of `docs/performance.md`, written from the figures of the last full run.

python -m tests.benchmarks.page   # from the figures that are kept, without measuring
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from tests.benchmarks import busy, goals
from tests.benchmarks.bound import ADJOINT, BACKWARD, FORWARD, TANGENT
from tests.benchmarks.cases import CASES
from tests.benchmarks.engines import ALONE, JAX, OURS, ROOT, WARP
from tests.benchmarks.figures import Figure, Figures, Found
from tests.benchmarks.goals import best_by_hand
from tests.benchmarks.timing import duration

PAGE = ROOT / "docs" / "performance.md"
KEPT = Path(__file__).with_name("last.json")
BEGIN = "<!-- benchmarks: begin (`make bench` writes what follows) -->"
END = "<!-- benchmarks: end -->"
TARGETS = {"programs": "bench-programs", "diagnoses": "bench-diagnoses", "limits": "bench-limits"}
"""Further parts of the page, and the commands of `make` that write them."""
NET = "(ix) the net, 40 steps"


def block(figures: Figures) -> str:
    """All tables, without the markers."""
    machine = figures.machine
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    further = f", or up to {figures.most_rounds} until no minimum falls any more" * bool(figures.most_rounds)
    message = (
        f"{machine['cores']} cores ({machine['processor']}), Python {machine['python']}, {versions}; fastest "
        f"of {figures.rounds} rounds{further}, engines in turns; load {figures.load[0]} at the start and "
        f"{figures.load[-1]} at the end (1, 5, 15 minutes)."
    )
    parts = [message, *tables(figures)]
    return "\n\n".join(parts)


LAUNCHING = """\
Launches of one thread each. A step of a loop records a tape of its own, runs it back and zeroes the \
gradients; all else is said per launch. The reverse pass of the long tape comes first where no tape was \
like it, then where the last one was, then again for the same tape:"""
PROCESSES = """\
Whole processes, from the start of Python to its end, with an empty cache (cold) and a filled one \
(warm). *Its launches* are the first launch of each kernel, and the reverse pass:"""
JACOBIANS = """\
Jacobians, gradchecks and diagnoses (Warp's Jacobians are dense, and its `gradcheck` fails both \
kernels, which are right):"""
BUSY = """\
Launches while four processes spin beside them. A Python loop that takes as long as the launch shows \
what the scheduler does to both, in turns; *longest* is the mean of the twenty longest calls:"""
GOALS = """\
What the suite must show, with ratios of minima and of medians (a goal is missed where both miss \
it):"""
REVERSE = """\
Backward: the reverse pass of a recorded tape from given seeds. *Adjoint* is the \
adjoint alone, `launch(…, adjoint=True)`, between arrays of the caller's, which stay: \
so does the function by hand:"""


def tables(figures: Figures) -> Iterator[str]:
    """One after the other, each with a line about it."""
    yield from _of_kernels(figures)
    both = ("tapedebug", "Warp", "Warp ÷ ours")
    yield LAUNCHING
    yield markdown(("launches", *both), _beside_warp(figures, "launching"))
    yield PROCESSES
    yield markdown(("process", *both), _beside_warp(figures, "process"))
    yield JACOBIANS
    checks = ("tridiagonal", "five-point", "net")
    rows = [row for case in checks for row in _beside_warp(figures, case, name=True)]
    yield markdown(("", *both), rows)
    yield BUSY
    times = ("median", "longest", "worst")
    head = (
        "launch",
        "engine",
        "alone, median",
        *(f"{who}, {t}" for who in ("busy", "the loop") for t in times),
    )
    yield markdown(head, _beside_others(figures))
    yield GOALS
    yield markdown(("goal", "minima", "medians", "bound", ""), goals.rows(goals.outcomes(figures)))


def _of_kernels(figures: Figures) -> Iterator[str]:
    yield "Forward, at the largest size:"
    head = ("", "size", "tapedebug", "one thread", "Warp", "Numba by hand", "JAX", "Warp ÷ ours")
    rows = []
    for name, title in titles().items():
        found = figures.largest(name, FORWARD)
        rows.append((title, *_row(found, found)))
    yield markdown((*head, "ours ÷ Numba"), rows)
    yield REVERSE
    head = ("", "size", "tapedebug", "one thread", "adjoint", "Warp", "adjoint", "Numba by hand", "JAX")
    reverse = [(title, *_backward(figures, name)) for name, title in titles().items()]
    yield markdown((*head, "Warp ÷ ours", "adjoint ÷ Numba"), reverse)
    for name, note in figures.notes.items():
        if name.partition(" ")[0] in CASES:
            yield f"Wrong, and timed all the same: {name}: {note} (against the adjoint by hand)."
    yield "Forward mode: values and tangents in one sweep, ours on a copy of the arrays:"
    rows = []
    for name, case in CASES.items():
        found = figures.largest(name, TANGENT)
        rows.append((case.title, *(_cell(found, engine) for engine in (OURS, JAX))))
    yield markdown(("", "tapedebug", "JAX"), rows)
    yield "The smaller sizes, forward and the reverse of a tape:"
    head = ("", "size", "tapedebug", "Warp", "Numba by hand", "tapedebug", "Warp", "Numba by hand")
    yield markdown(head, list(_smaller(figures)))


def titles() -> dict[str, str]:
    """Names of the kernels and the net in tables."""
    return {**{name: case.title for name, case in CASES.items()}, "net": NET}


def _row(found: Found, by_hand: Found) -> tuple[str, ...]:
    """Size, ours, on one thread, Warp, by hand, JAX, and the two ratios."""
    hand = best_by_hand(by_hand.values())
    return (
        next(iter(found.values())).size if found else "",
        *(_cell(found, engine) for engine in (OURS, ALONE, WARP)),
        _hand(hand),
        _cell(found, JAX),
        _ratio(found.get(WARP), found.get(OURS)),
        _ratio(by_hand.get(OURS), hand),
    )


def _backward(figures: Figures, name: str) -> tuple[str, ...]:
    taped, alone = (figures.largest(name, part) for part in (BACKWARD, ADJOINT))
    size, ours, one, warp, hand, jax, beside_warp, beside_hand = _row(taped, alone or taped)
    return (
        size, ours, one, _cell(alone, OURS), warp, _cell(alone, WARP), hand, jax, beside_warp, beside_hand
    )  # fmt: skip


def _smaller(figures: Figures) -> Iterator[tuple[str, ...]]:
    grouped = figures.grouped()
    for (case, part, size), found in grouped.items():
        if case in titles() and part == FORWARD and not next(iter(found.values())).largest:
            cells = []
            for one in (found, grouped.get((case, BACKWARD, size), {})):
                hand = best_by_hand(one.values())
                cells += [_cell(one, OURS), _cell(one, WARP), _hand(hand)]
            yield titles()[case], size, *cells


def _beside_warp(figures: Figures, wanted: str, *, name: bool = False) -> list[tuple[str, ...]]:
    rows = []
    for (case, part, size), found in figures.grouped().items():
        if case == wanted and part not in (FORWARD, BACKWARD):
            what = f"{case} {part}, {size}" if name else f"{part}, {size}"
            ratio = _ratio(found.get(WARP), found.get(OURS))
            rows.append((what, _cell(found, OURS), _cell(found, WARP), ratio))
    return rows


def _beside_others(figures: Figures) -> Iterator[tuple[str, ...]]:
    for what, size, idle, found in busy.pairs(figures):
        loop = found[busy.LOOP]
        for engine in [engine for engine in (OURS, ALONE) if engine in found]:
            alone, beside = idle[engine], found[engine]
            seconds = [alone.median]
            for each in (beside, loop):
                seconds += [each.median, each.longest, each.max]
            yield f"{what}, {size}", engine, *(duration(each) if each else "" for each in seconds)


def _cell(found: Found, engine: str) -> str:
    return duration(found[engine].min) if engine in found else ""


def _hand(hand: Figure | None) -> str:
    return f"{duration(hand.min)} ({hand.engine.partition(', ')[2]})" if hand else ""


def _ratio(above: Figure | None, below: Figure | None) -> str:
    return f"{above.min / below.min:.2f}" if above and below else ""


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def markers(name: str) -> tuple[str, str]:
    """Return the lines before and after a part of the page, a key of `TARGETS`."""
    return f"<!-- {name}: begin (`make {TARGETS[name]}` writes what follows) -->", f"<!-- {name}: end -->"


def replaced(page: str, text: str, around: tuple[str, str] = (BEGIN, END)) -> str:
    """The page with another text between two markers.

    Raises:
        ValueError: It does not have both markers, once each and in this order.
    """
    first, last = around
    before, begin, rest = page.partition(first)
    _, end, after = rest.partition(last)
    if not begin or not end or first in rest or last in after:
        raise ValueError(f"{PAGE.name} must have the lines {first} and {last}, once each, in this order")
    return f"{before}{first}\n\n{text}\n\n{last}{after}"


def write(figures: Figures) -> None:
    """Keep the figures, and put their tables on the page."""
    figures.save(KEPT)
    text = block(Figures.load_from(KEPT))  # rounded as they are kept
    PAGE.write_text(replaced(PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    write(Figures.load_from(KEPT))

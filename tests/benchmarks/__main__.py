"""The benchmark suite: `make bench`, or `python -m tests.benchmarks --help`.

Everything is checked to be equal on all engines before it is timed; then engines take turns, in an order that
alternates from round to round, so that a busy machine disturbs all alike. On a shared one, minima are the
fairest.

    python -m tests.benchmarks --only heat sum --sizes large --rounds 5 --json after.json
    python -m tests.benchmarks compare before.json after.json
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.benchmarks import busy, page
from tests.benchmarks.engines import ALONE, JAX, OURS, PEERS, WARP
from tests.benchmarks.figures import Figure, Figures, Found, compared
from tests.benchmarks.goals import best_by_hand, outcomes, ratios, rows
from tests.benchmarks.suite import NAMES, SIZES, Options, measure
from tests.benchmarks.timing import columns, duration, load, machine, most_rounds


def table(figures: Figures) -> str:
    """All figures, for a terminal: minimum and median."""
    head = ("", OURS, "one thread", "warp", "numba", "", "jax", "warp/ours", "ours/numba")
    shown = [head]
    for (case, part, size), found in figures.grouped().items():
        if case != "busy":
            shown.append((f"{case} {part}, {size}", *row(found)))
    return columns(shown) + beside_others(figures)


def beside_others(figures: Figures) -> str:
    """Launches beside busy processes; nothing where that was not measured."""
    shown = [("", "alone, median", "busy: median, longest, worst", "a Python loop")]

    def three(figure: Figure) -> str:
        return " ".join(map(duration, (figure.median, figure.longest, figure.max)))

    for what, size, idle, found in busy.pairs(figures):
        for engine in found.keys() & {OURS, ALONE}:
            name = f"{what}, {size}, {engine}"
            cells = duration(idle[engine].median), three(found[engine]), three(found[busy.LOOP])
            shown.append((name, *cells))
    return "\n\n" + columns(shown) if len(shown) > 1 else ""


def row(found: Found) -> tuple[str, ...]:
    """Minimum and median of the engines, and ratios of both."""
    hand = best_by_hand(found.values())
    ours, warp = found.get(OURS), found.get(WARP)

    def of(figure: Figure | None) -> str:
        return f"{duration(figure.min)} {duration(figure.median)}" if figure else ""

    def over(above: Figure | None, below: Figure | None) -> str:
        return " ".join(f"{ratio:.2f}" for ratio in ratios(above, below)) if above and below else ""

    return (
        of(ours), of(found.get(ALONE)), of(warp), of(hand), hand.engine.partition(", ")[2] if hand else "",
        of(found.get(JAX)), over(warp, ours), over(ours, hand),
    )  # fmt: skip


def message(figures: Figures) -> str:
    """The machine, in a few lines."""
    versions = ", ".join(f"{name} {version}" for name, version in figures.machine["versions"].items())
    return (
        f"{figures.machine['cores']} cores ({figures.machine['processor']}), "
        f"Python {figures.machine['python']}\n{versions}\n"
        f"load at the start {figures.load[0]}; at the end {figures.load[-1]}"
    )


def parsed(arguments: list[str] | None) -> argparse.Namespace:
    """The options of a run."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES, metavar="NAME",
                        help=f"some of: {', '.join(NAMES)}")  # fmt: skip
    parser.add_argument("--sizes", nargs="+", choices=SIZES, default=list(SIZES))
    parser.add_argument(
        "--rounds", type=int, default=7, help="at least; more until no minimum falls any more"
    )
    parser.add_argument("--threads", type=int, help="config.num_threads of ours (default: its own)")
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=PEERS, help="who else is measured")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    parser.add_argument("--write", action="store_true", help="write tables of the documentation (full runs)")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
    return parser.parse_args(arguments)


def complete(options: argparse.Namespace) -> bool:
    """True if everything was measured; otherwise print what was not."""
    everything = (set(NAMES), set(SIZES), set(PEERS), None)
    measured = (set(options.only), set(options.sizes), set(options.peers), options.threads)
    if measured != everything:
        print("the documentation is as it was: a part of the suite does not write it")
    return measured == everything


def main(arguments: list[str] | None = None) -> int:
    """Measure and print, or compare two runs."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["compare"]:
        before, after = (Figures.load_from(Path(name)) for name in arguments[1:])
        print(*compared(before, after), sep="\n")
        return 0
    options = parsed(arguments)
    figures = Figures(machine(), [load()], rounds=options.rounds, most_rounds=most_rounds(options.rounds))

    def say(line: str) -> None:
        if sys.stderr.isatty():
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    sizes = sorted(SIZES.index(size) for size in options.sizes)
    measure(figures, Options(options.only, sizes, options.rounds, options.threads, options.peers, say))
    say("")
    figures.load.append(load())
    if options.write and complete(options):
        page.write(figures)
    if options.json:
        figures.save(options.json)
    print(message(figures), table(figures), sep="\n")
    for name, note in figures.notes.items():
        print(f"{name} is wrong: {note}")
    found = outcomes(figures)
    if found:
        print(columns([("goal", "of minima", "of medians", "bound", ""), *rows(found)]))
    missed = [outcome for outcome in found if not outcome.holds]
    print(f"{len(found) - len(missed)} of {len(found)} goals hold")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())

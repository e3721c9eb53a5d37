"""The kernels of the suite: checked to be equal on all engines, then timed in turns."""

from __future__ import annotations

import dataclasses
import gc
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import bound, launching, nets
from tests.benchmarks.bound import ADJOINT, BACKWARD, FORWARD, TANGENT, ByHand, Launched, Ours
from tests.benchmarks.cases import CASES, Case, Setup
from tests.benchmarks.engines import ALONE, OURS, ROOT, WARP, installed, module_on, quiet_warp
from tests.benchmarks.figures import Figures
from tests.benchmarks.timing import Run, Timed, in_turns

SIZES = ("small", "middle", "large")
NAMES = (*CASES, "net", "launching")
"""All that is measured."""


class Engines:
    """The texts on ours and on Warp, where that is installed.

    Args:
        folder: For the text that Warp compiles.
        warp: Whether Warp takes part.
    """

    def __init__(self, folder: Path, *, warp: bool = True) -> None:
        engines = [OURS]
        if warp and installed(WARP):
            quiet_warp()
            engines.append(WARP)
        texts = {"kernels": Path(__file__).with_name("kernels.py"), "net": ROOT / "notebooks" / "net.py"}
        made = {name: {e: module_on(e, path, folder) for e in engines} for name, path in texts.items()}
        self.kernels, self.net = made["kernels"], made["net"]

    def bound(self, setup: Setup) -> dict[str, Launched]:
        """The launch on each of them."""
        found: dict[str, Launched] = {}
        for engine, module in self.kernels.items():
            holder = module if hasattr(module, setup.kernel) else self.net[engine]
            kernel = getattr(holder, setup.kernel)
            found[engine] = (Ours if engine == OURS else Launched)(module.wp, kernel, setup)
        return found


def check(
    name: str, case: Case, launched: dict[str, Launched], hands: dict[str, dict[str, ByHand]]
) -> dict[str, str]:
    """Stop if engines do not agree; returns what is known to be wrong, by engine."""
    reference = {part: next(iter(ways.values())).results() for part, ways in hands.items()}
    notes = {}
    for part, ways in hands.items():
        for engine, way in ways.items():
            bound.compare(f"{name} {part}, {engine}", way.results(), reference[part], case.tolerance)
    for engine, launch in launched.items():
        for part in (FORWARD, BACKWARD, ADJOINT):
            found = launch.outputs() if part == FORWARD else launch.pulled(part)
            wanted = reference[FORWARD if part == FORWARD else BACKWARD]
            try:
                bound.compare(f"{name} {part}, {engine}", found, wanted, case.tolerance)
            except bound.Different as error:
                if engine != WARP or part not in case.wrong:
                    raise
                notes[engine] = str(error)
    ours = launched[OURS]
    assert isinstance(ours, Ours)
    forward, back, size = bound.dot_products(ours.setup, ours.pushed(), reference[BACKWARD])
    if abs(forward - back) > case.tolerance * size * 10:
        raise bound.Different(f"{name} tangent: {forward} forward, {back} backward, of terms of size {size}")
    return notes


def timed(name: str, number: int, engines: Engines, threads: int | None) -> Iterator[Timed]:
    """A case at one size: first checked, then what is to be timed of it."""
    case = CASES[name]
    setup = case.make(case.sizes[number])
    launched = engines.bound(setup)
    runs = {engine: launch.runs() for engine, launch in launched.items()}
    hands = bound.by_hands(setup)
    notes = check(name, case, launched, hands)
    chosen, alone = bound.number_of_threads(threads), bound.number_of_threads(1)
    for part in (FORWARD, BACKWARD, ADJOINT, TANGENT):
        ours: Run = dataclasses.replace(runs[OURS][part], enter=chosen)
        found = {OURS: ours}
        if bound.has_threads() and part != TANGENT:
            found[ALONE] = dataclasses.replace(ours, enter=alone)
        if part in runs.get(WARP, {}):
            found[WARP] = runs[WARP][part]
        ways = hands.get(BACKWARD if part == ADJOINT else part, {})
        found |= {engine: way.run() for engine, way in ways.items()}
        size = case.says(case.sizes[number])
        yield Timed(name, part, size, found, number == len(case.sizes) - 1, notes)


@dataclasses.dataclass
class Options:
    """What is measured, and how often.

    Attributes:
        only: Names of what is measured.
        sizes: Numbers of the sizes.
        rounds: How often.
        threads: `config.num_threads` of ours; None is its own choice.
        say: Told what is being done.
    """

    only: Sequence[str]
    sizes: Sequence[int]
    rounds: int
    threads: int | None = None
    say: Callable[[str], Any] = lambda _: None


def measure(figures: Figures, options: Options) -> None:
    """Measure one case at one size after the other, so that memory holds only one."""
    with tempfile.TemporaryDirectory() as folder:
        engines = Engines(Path(folder))
        for name in options.only:
            for number in options.sizes:
                things: list[Timed] = []
                with bound.named(f"{name}, {SIZES[number]}"):
                    things += parts(name, number, engines, options)
                    in_turns(things, options.rounds, options.say)
                figures.add(things)
                for thing in things:
                    figures.notes |= {f"{name} on {engine}": note for engine, note in thing.notes.items()}
                things.clear()
                gc.collect()


def parts(name: str, number: int, engines: Engines, options: Options) -> Iterator[Timed]:
    """What is to be timed of one case at one size; what has only one size is at the last."""
    if name in CASES:
        yield from timed(name, number, engines, options.threads)
    elif name == "net":
        yield from nets.timed(engines.net, nets.SIDES[number])
    elif number == options.sizes[-1]:
        yield from launching.timed(engines.kernels)

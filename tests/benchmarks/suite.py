"""The kernels of the suite: checked to be equal on all engines, then timed in turns."""

from __future__ import annotations

import dataclasses
import gc
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.benchmarks import bound, busy, jacobians, launching, nets, processes
from tests.benchmarks.bound import ADJOINT, BACKWARD, FORWARD, TANGENT, ByHand, Launched, Ours
from tests.benchmarks.cases import CASES, Case, Setup
from tests.benchmarks.engines import (
    ALONE,
    JAX,
    NUMBA,
    OURS,
    PEERS,
    ROOT,
    WARP,
    installed,
    module_on,
    quiet_warp,
)
from tests.benchmarks.figures import Figures
from tests.benchmarks.timing import Timed

SIZES = ("small", "middle", "large")
NAMES = (*CASES, "net", "launching", "processes", "busy", "jacobians")
"""All that is measured."""


class Engines:
    """Ours and those of the others that are wanted and installed; the texts on ours and on Warp.

    Args:
        folder: For the text that Warp compiles.
        peers: Who else is wanted.
    """

    def __init__(self, folder: Path, peers: Collection[str] = PEERS) -> None:
        engines = [OURS]
        self.peers = {peer for peer in peers if installed(peer)}
        if WARP in self.peers:
            quiet_warp()
            engines.append(WARP)
        here = Path(__file__).parent
        texts = {name: here / f"{name}.py" for name in ("kernels", "stencils")}
        texts["net"] = ROOT / "notebooks" / "net.py"
        made = {name: {e: module_on(e, path, folder) for e in engines} for name, path in texts.items()}
        self.kernels, self.stencils, self.net = made.values()

    def bound(self, setup: Setup) -> dict[str, Launched]:
        """The launch on each of them."""
        found: dict[str, Launched] = {}
        for engine, module in self.kernels.items():
            holder = module if hasattr(module, setup.kernel) else self.net[engine]
            kernel = getattr(holder, setup.kernel)
            found[engine] = (Ours if engine == OURS else Launched)(module.wp, kernel, setup)
        return found

    def in_jax(self, setup: Setup) -> Any:
        """The launch in JAX; None where that takes no part."""
        if JAX not in self.peers:
            return None
        from tests.benchmarks.in_jax import InJax

        return InJax(setup)


def check(
    name: str, case: Case, launched: dict[str, Launched], hands: dict[str, dict[str, ByHand]], in_jax: Any
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
    for part in (FORWARD, BACKWARD) if in_jax else ():
        bound.compare(f"{name} {part}, jax", in_jax.results(part), reference[part], case.tolerance)
    ours = launched[OURS]
    assert isinstance(ours, Ours)
    forward, back, size = bound.dot_products(ours.setup, ours.pushed(), reference[BACKWARD])
    if abs(forward - back) > case.tolerance * size * 10:
        raise bound.Different(f"{name} tangent: {forward} forward, {back} backward, of terms of size {size}")
    return notes


def same_bits(launched: Ours, threads: int | None) -> str:
    """Return how results depend on the number of threads, or differ from run to run; "" if they do not."""
    found: dict[str, set[bytes]] = {}
    for count in (threads, threads, 1, 1):
        bound.number_of_threads(count)()
        for part in (FORWARD, BACKWARD, ADJOINT):
            results = launched.outputs() if part == FORWARD else launched.pulled(part)
            found.setdefault(part, set()).add(b"".join(values.tobytes() for values in results.values()))
    return ", ".join(part for part, seen in found.items() if len(seen) > 1)


def timed(name: str, number: int, engines: Engines, threads: int | None) -> Iterator[Timed]:
    """A case at one size: first checked, then one part after the other, to be timed before the next."""
    case = CASES[name]
    setup = case.make(case.sizes[number])
    launched = engines.bound(setup)
    hands = bound.by_hands(setup)
    in_jax = engines.in_jax(setup)
    notes = check(name, case, launched, hands, in_jax)
    ours = launched[OURS]
    assert isinstance(ours, Ours)
    bits = same_bits(ours, threads)
    chosen, alone = bound.number_of_threads(threads), bound.number_of_threads(1)
    for part in (FORWARD, BACKWARD, ADJOINT, TANGENT):
        found = {e: run for e, launch in launched.items() if (run := launch.run(part)) is not None}
        found[OURS] = dataclasses.replace(found[OURS], enter=chosen)
        if part != TANGENT:
            found[ALONE] = dataclasses.replace(found[OURS], enter=alone)
        ways = hands.get(BACKWARD if part == ADJOINT else part, {})
        if NUMBA in engines.peers:
            found |= {engine: way.run() for engine, way in ways.items()}
        if in_jax:
            found[JAX] = in_jax.run(part)
        size = case.says(case.sizes[number])
        yield Timed(name, part, size, found, number == len(case.sizes) - 1, notes, bits)


@dataclasses.dataclass
class Options:
    """Settings of a measurement, and how often it is repeated.

    Attributes:
        only: Names of what is measured.
        sizes: Numbers of the sizes.
        rounds: How often.
        threads: `config.num_threads` of ours; None is its own choice.
        peers: Who else is measured.
        say: Told what is being done.
    """

    only: Sequence[str]
    sizes: Sequence[int]
    rounds: int
    threads: int | None = None
    peers: Collection[str] = PEERS
    say: Callable[[str], Any] = lambda _: None


def measure(figures: Figures, options: Options) -> None:
    """Measure one case at one size after the other, so that memory holds only one."""
    with tempfile.TemporaryDirectory() as folder:
        engines = Engines(Path(folder), options.peers)
        for name in options.only:
            for number in options.sizes:
                with bound.named(f"{name}, {SIZES[number]}"):
                    for thing in parts(name, number, engines, options):
                        options.say(f"{thing.case} {thing.part}, {thing.size}")
                        thing.in_turns(options.rounds)
                        figures.add(thing)
                gc.collect()


def parts(name: str, number: int, engines: Engines, options: Options) -> Iterator[Timed]:
    """Return the parts of one case to time at one size; parts with one size are timed at the last."""
    if name in CASES:
        yield from timed(name, number, engines, options.threads)
    elif name == "net":
        yield from nets.timed(engines.net, nets.SIDES[number], options.threads)
    elif name == "jacobians":
        yield from jacobians.timed(engines.stencils, jacobians.SIZES[number])
    elif number == options.sizes[-1]:
        if name == "launching":
            yield from launching.timed(engines.kernels)
        elif name == "processes":
            yield from processes.timed(max(2, options.rounds // 2), options.say)
        elif name == "busy":
            yield from busy.measured(engines, options.threads, say=options.say)

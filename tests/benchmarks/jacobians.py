"""Jacobians and gradchecks of stencils, ours against warp-lang: same process, same values, interleaved.

    make bench
    python -m tests.benchmarks.jacobians --sizes 1024 4096 --rounds 5

Both engines run the same text, `stencils.py`, with only its import exchanged; before anything is timed, their
Jacobians are compared. Warp's are dense, so that it takes no part from 65,536 on: a matrix would have 16 GB.
A round runs every case once on each engine, and the engine that begins alternates. On a shared machine minima
are the fairest: a goal is missed where both the ratio of medians and that of minima miss it.
"""

import argparse
import contextlib
import io
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tests.benchmarks.engines import OURS, WARP, module_on, quiet_warp
from tests.benchmarks.timing import columns, duration, load

STENCILS = Path(__file__).with_name("stencils.py")
LARGEST = 4096
"""What Warp's dense Jacobians are timed up to."""
GOALS = {"sparse": 500.0, "dense": 20.0, "gradcheck": 100.0}
"""How many times faster than Warp's, at 4,096 scalars."""


@dataclass
class Case:
    """One thing to time, on Warp too where it can."""

    name: str
    run: dict[str, Callable[[], object]]
    goal: float = 0.0
    repeat: int = 1  # runs of ours in a round, each timed; more where one takes a millisecond
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def time_once(self, engine: str) -> None:
        """Run a round on `engine`, where it can."""
        if engine not in self.run:
            return
        for _ in range(self.repeat if engine == OURS else 1):
            start = time.perf_counter()
            self.run[engine]()
            self.seconds.setdefault(engine, []).append(time.perf_counter() - start)

    def ratios(self) -> list[float]:
        """How many times faster ours is: by medians, by minima."""
        if WARP not in self.seconds:
            return []
        ways: tuple[Callable[[list[float]], float], ...] = (statistics.median, min)
        return [of(self.seconds[WARP]) / of(self.seconds[OURS]) for of in ways]

    def missed(self) -> bool:
        """Whether its goal is missed, by medians and by minima."""
        return max(self.ratios(), default=float("inf")) < self.goal

    def row(self) -> tuple[str, ...]:
        """Name, median and minimum of each engine, ratios, goal."""
        times = [self.seconds.get(engine, []) for engine in (OURS, WARP)]
        shown = [f"{duration(statistics.median(s))} {duration(min(s))}" if s else "-" for s in times]
        ratios = [f"{ratio:.0f}x" for ratio in self.ratios()] or ["-", "-"]
        return self.name, *shown, *ratios, f"{self.goal:.0f}x" if self.goal else ""


@dataclass
class Stencil:
    """A kernel on one engine, with its arrays."""

    wp: Any
    kernel: Any
    dim: Any
    inputs: list[Any]
    outputs: list[Any]

    def jacobian(self, **options: Any) -> Any:
        """By the adjoint."""
        found = self.wp.autograd.jacobian(
            self.kernel, dim=self.dim, inputs=self.inputs, outputs=self.outputs, **options
        )
        return found[0, 0]

    def gradcheck(self) -> Any:
        """Whether its gradients are right."""
        return self.wp.autograd.gradcheck(
            self.kernel, dim=self.dim, inputs=self.inputs, outputs=self.outputs,
            raise_exception=False, show_summary=False,
        )  # fmt: skip

    def gradcheck_tape(self, launches: int) -> Any:
        """The same of launches one after the other."""
        arrays = [self.inputs[0], *(self.wp.zeros_like(self.outputs[0]) for _ in range(launches))]
        for a in arrays:
            a.requires_grad = True
        tape = self.wp.Tape()
        with tape:
            for before, after in itertools.pairwise(arrays):
                self.wp.launch(self.kernel, dim=self.dim, inputs=[before], outputs=[after])
        return self.wp.autograd.gradcheck_tape(tape, raise_exception=False, show_summary=False)


def stencils(module: ModuleType, size: int) -> dict[str, Stencil]:
    """Both kernels at `size` scalars."""
    wp, side = module.wp, round(size**0.5)
    values = np.random.default_rng(7).uniform(0.0, 10.0, size=size).astype(np.float32)

    def array(shape: Any, content: np.ndarray) -> Any:
        return wp.array(content.reshape(shape), dtype=wp.float32, requires_grad=True)

    found = {}
    for name, kernel, shape in (
        ("tridiagonal", module.tridiagonal, (size,)),
        ("five-point", module.five_point, (side, side)),
    ):
        inputs, outputs = [array(shape, values)], [array(shape, np.zeros_like(values))]
        found[name] = Stencil(wp, kernel, shape, inputs, outputs)
    return found


def cases(modules: dict[str, ModuleType], size: int) -> list[Case]:
    """All that is timed at one size."""
    from tapedebug.autograd.sparse.pattern import forget

    ours, theirs = (stencils(modules[engine], size) for engine in (OURS, WARP))
    goal = {name: value if size == LARGEST else 0.0 for name, value in GOALS.items()}
    found = []
    for name, mine in ours.items():
        other = theirs[name]
        dense = {WARP: other.jacobian} if size <= LARGEST else {}

        def anew(mine: Stencil = mine) -> Any:
            forget(mine.kernel)
            return mine.jacobian(sparse=True)

        def sparse(mine: Stencil = mine) -> Any:
            return mine.jacobian(sparse=True)

        if dense:
            compare(
                f"{name} at {size}", sparse().toarray(), mine.jacobian().numpy(), other.jacobian().numpy()
            )
        title = f"{name} {size:,}"
        found.append(Case(f"{title}: jacobian, sparse", {OURS: sparse, **dense}, goal["sparse"], 20))
        found.append(Case(f"{title}: the same, traced and coloured anew", {OURS: anew, **dense}, repeat=5))
        if dense:
            found.append(Case(f"{title}: jacobian, dense", {OURS: mine.jacobian, **dense}, goal["dense"]))
        check = {WARP: other.gradcheck} if size <= LARGEST else {}
        found.append(Case(f"{title}: gradcheck", {OURS: mine.gradcheck, **check}, goal["gradcheck"]))
    if size == 1024:
        both = {OURS: ours["tridiagonal"], WARP: theirs["tridiagonal"]}
        runs = {
            engine: (lambda stencil=stencil: stencil.gradcheck_tape(10)) for engine, stencil in both.items()
        }
        found.append(Case("tridiagonal 1,024: gradcheck_tape of 10 launches", runs))
    return found


def compare(what: str, *jacobians: np.ndarray) -> None:
    """Stop if they differ: a fast wrong answer is no answer."""
    for one in jacobians[1:]:
        worst = float(np.abs(one - jacobians[0]).max() / np.abs(one).max())
        if not worst < 1e-5:
            raise SystemExit(f"{what}: Jacobians differ by {worst:.1e} of the largest entry")


def verdicts(modules: dict[str, ModuleType]) -> list[str]:
    """What both say of right kernels; ours must be right."""
    lines = []
    for name in ("tridiagonal", "five-point"):
        mine, other = (stencils(modules[engine], 1024)[name] for engine in (OURS, WARP))
        with contextlib.redirect_stdout(io.StringIO()):
            theirs = bool(other.gradcheck())
        ours = mine.gradcheck()
        if ours.verdict != "AGREE":
            raise SystemExit(f"gradcheck of {name} at 1,024: {ours.verdict}, and it is right")
        said = "passes" if theirs else "FAILS (a false failure)"
        lines.append(f"gradcheck of {name} at 1,024, which is right: Warp {said}; tapedebug {ours.verdict}")
    return lines


def main(arguments: list[str] | None = None) -> int:
    """Time, print the table; exit status 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1024, 4096, 65536])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)

    import warp
    import warp.autograd

    import tapedebug

    quiet_warp()
    todo: list[Case] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        modules = {engine: module_on(engine, STENCILS, Path(folder)) for engine in (OURS, WARP)}
        said = verdicts(modules)
        for size in options.sizes:
            todo += cases(modules, size)
        for number in range(options.rounds + 1):
            for case in todo:
                for engine in (OURS, WARP) if number % 2 else (WARP, OURS):
                    case.time_once(engine)
                    if not number:
                        case.seconds.clear()  # the first round compiles
    versions = f"tapedebug {tapedebug.__version__}, warp-lang {warp.__version__}"
    print(f"{versions}, {os.cpu_count()} cores, load {load()}")
    head = ("", "tapedebug median, min", "warp median, min", "medians", "minima", "goal")
    print(columns([head, *(case.row() for case in todo)]))
    print(*said, sep="\n")
    missed = [case.name for case in todo if case.missed()]
    print("missed: " + "; ".join(missed) if missed else "all goals are met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

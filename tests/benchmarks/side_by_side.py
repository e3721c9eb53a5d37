"""The net's kernels and a taped launch, ours against warp-lang: same process, same arrays, interleaved.

    make bench                                    # 10⁶ points
    python -m tests.benchmarks.side_by_side --side 300 --rounds 5

Both engines run the same text, `notebooks/net.py`, with only its import exchanged. Before anything is timed,
outputs and gradients of the two are compared. A round times every case once on each engine, and the engine
that begins alternates, so that a busy machine disturbs both alike; on a shared one, minima are the fairest.
"""

import argparse
import importlib.util
import os
import platform
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

ROOT = Path(__file__).resolve().parents[2]
OURS, THEIRS = "tapedebug", "warp"


@dataclass
class Case:
    """One thing to time on both engines."""

    name: str
    run: dict[str, Callable[[], None]]
    before: dict[str, Callable[[], None]]
    per: int = 1  # operations in one run
    repeat: int = 1  # runs in one measurement; more where one takes microseconds
    seconds: dict[str, list[float]] = field(default_factory=lambda: {OURS: [], THEIRS: []})

    def time_once(self, engine: str) -> None:
        """Run once on `engine` and keep the seconds of one operation."""
        self.before[engine]()
        run = self.run[engine]
        start = time.perf_counter()
        for _ in range(self.repeat):
            run()
        self.seconds[engine].append((time.perf_counter() - start) / (self.per * self.repeat))

    def row(self) -> tuple[str, ...]:
        """Name, median and minimum of each engine, ratio of medians, ratio of minima."""
        med = {e: statistics.median(s) for e, s in self.seconds.items()}
        low = {e: min(s) for e, s in self.seconds.items()}
        return (
            self.name,
            f"{duration(med[OURS])} {duration(low[OURS])}",
            f"{duration(med[THEIRS])} {duration(low[THEIRS])}",
            f"{self.ratio(statistics.median):.2f}",
            f"{self.ratio():.2f}",
        )

    def ratio(self, of: Callable[[list[float]], float] = min) -> float:
        """Our time over Warp's, of the fastest rounds or of the medians."""
        return of(self.seconds[OURS]) / of(self.seconds[THEIRS])

    def slower(self) -> bool:
        """Whether both ratios say so; one alone is the machine's noise."""
        return self.ratio() > 1 and self.ratio(statistics.median) > 1


def duration(seconds: float) -> str:
    """`seconds` as text of 8 characters."""
    return f"{seconds * 1e3:5.2f} ms" if seconds >= 1e-4 else f"{seconds * 1e6:5.2f} µs"


def net_on(engine: str, folder: Path) -> ModuleType:
    """`notebooks/net.py` as a module that imports `engine` under the name `wp`."""
    text = (ROOT / "notebooks" / "net.py").read_text(encoding="utf-8")
    path = folder / f"net_on_{engine}.py"
    path.write_text(text.replace("import tapedebug as wp", f"import {engine} as wp"), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@dataclass
class Launch:
    """One kernel with its arguments, on one engine."""

    wp: Any
    kernel: Any
    dim: int
    inputs: list[Any]
    outputs: list[Any]
    reset: Any  # array to zero before a launch that accumulates, or None

    def forward(self) -> None:
        """Launch, off the tape."""
        self.wp.launch(self.kernel, dim=self.dim, inputs=self.inputs, outputs=self.outputs)

    def before(self) -> None:
        """Put back what the launch accumulates into."""
        if self.reset is not None:
            self.reset.zero_()


def launches(net: ModuleType, side: int) -> dict[str, Launch]:
    """Every kernel of the net at side² points, on arrays that are the same for both engines."""
    wp, points = net.wp, side * side
    fabric = net.make_net(side)
    random = np.random.default_rng(7)
    moved = fabric.x.numpy() + random.normal(scale=0.01, size=(points, 3))
    velocity = random.normal(size=(points, 3))

    def vectors(values: np.ndarray) -> Any:
        return wp.array(values.astype(np.float32), dtype=wp.vec3, requires_grad=True)

    def empty() -> Any:
        return vectors(np.zeros((points, 3)))

    x, v, force, gathered = vectors(moved), vectors(velocity), empty(), empty()
    x_next, v_next, thrown = empty(), empty(), empty()
    toss = vectors(np.array([[3.0, 4.0, 0.0]]))
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    weight = net.GRAVITY * net.MASS
    diagonal = net.SPACING * 2.0**0.5
    return {
        "launch_net": Launch(wp, net.launch_net, points, [toss, fabric.grip], [thrown], None),
        "spring_forces": Launch(
            wp,
            net.spring_forces,
            points,
            [x, v, gathered, side, net.SPACING, net.STIFFNESS, net.DRAG, weight],
            [],
            None,
        ),
        "shear_forces": Launch(
            wp,
            net.shear_forces,
            len(fabric.first),
            [x, fabric.first, fabric.second, force, diagonal, net.STIFFNESS / 2],
            [],
            force,
        ),
        "integrate": Launch(
            wp, net.integrate, points, [x, v, gathered, net.DT, 1.0 / net.MASS], [x_next, v_next], None
        ),
        "target_loss": Launch(wp, net.target_loss, 1, [x, side, net.TARGET], [loss], loss),
    }


WRITES = {
    "launch_net": [2],
    "spring_forces": [2],
    "shear_forces": [3],
    "integrate": [5, 6],
    "target_loss": [3],
}


class Taped:
    """A launch on a tape, and its backward pass from seeds that are the same for both engines."""

    def __init__(self, launch: Launch, writes: list[int]) -> None:
        self.launch = launch
        arguments = [*launch.inputs, *launch.outputs]
        random = np.random.default_rng(11)
        wp = launch.wp
        self.grads = {}
        for index in writes:
            out = arguments[index]
            seed = random.normal(size=out.numpy().shape).astype(np.float32)
            self.grads[out] = wp.array(seed, dtype=out.dtype)
        launch.before()
        self.tape = wp.Tape()
        with self.tape:
            launch.forward()
        self.inputs = [a for a in arguments if getattr(a, "requires_grad", False) and a not in self.grads]

    def backward(self) -> None:
        """One reverse pass."""
        self.tape.backward(grads=self.grads)

    def gradients(self) -> list[np.ndarray]:
        """Gradients of the inputs, from zero."""
        self.tape.zero()
        self.backward()
        found = [a.grad.numpy().copy() for a in self.inputs]
        self.tape.zero()
        return found


def taped_launch_case(nets: dict[str, ModuleType], count: int = 500) -> Case:
    """The cost of putting one launch on a tape: a kernel of one thread, `count` times."""
    run = {}
    for engine, net in nets.items():
        launch = launches(net, 4)["target_loss"]

        def record(launch: Launch = launch) -> None:
            with launch.wp.Tape():
                for _ in range(count):
                    launch.forward()

        run[engine] = record
    return Case("taped launch", run, dict.fromkeys(nets, lambda: None), per=count)


def cases(nets: dict[str, ModuleType], side: int) -> list[Case]:
    """All cases, checked for equal results on the way."""
    found = []
    both = {engine: launches(net, side) for engine, net in nets.items()}
    for kernel, writes in WRITES.items():
        pair = {engine: own[kernel] for engine, own in both.items()}
        taped = {engine: Taped(launch, writes) for engine, launch in pair.items()}
        outputs = {engine: [a.numpy() for a in tape.grads] for engine, tape in taped.items()}
        compare(f"{kernel} forward", outputs)
        compare(f"{kernel} backward", {engine: tape.gradients() for engine, tape in taped.items()})
        befores = {engine: launch.before for engine, launch in pair.items()}
        nothing = dict.fromkeys(pair, lambda: None)
        forward = {e: p.forward for e, p in pair.items()}
        backward = {e: t.backward for e, t in taped.items()}
        repeat = 20 if pair[OURS].dim == 1 else 1
        found.append(Case(f"{kernel} forward", forward, befores, repeat=repeat))
        found.append(Case(f"{kernel} backward", backward, nothing, repeat=repeat))
    return [*found, taped_launch_case(nets)]


def compare(what: str, results: dict[str, list[np.ndarray]]) -> None:
    """Stop if the engines do not agree: a fast wrong answer is no answer."""
    for ours, theirs in zip(results[OURS], results[THEIRS], strict=True):
        scale = max(float(np.abs(theirs).max()), 1e-30)
        worst = float(np.abs(ours.astype(np.float64) - theirs).max()) / scale
        # a sum over 10⁶ threads in another order differs by more than one rounding
        if not worst < 2e-4:
            raise SystemExit(f"{what}: tapedebug and warp differ by {worst:.1e} of the largest value")


def machine(rounds: int, side: int) -> str:
    """The machine and its load, and what runs on it."""
    import warp

    import tapedebug

    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    return (
        f"tapedebug {tapedebug.__version__}, warp-lang {warp.__version__}, NumPy {np.__version__}, "
        f"Python {platform.python_version()}\n{os.cpu_count()} cores ({platform.machine()}), load {load}; "
        f"{side * side} points, {rounds} rounds"
    )


def main(arguments: list[str] | None = None) -> int:
    """Time, print the table; with `--check`, exit status 1 if any case is slower than Warp."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--side", type=int, default=1000, help="points along one edge (default: 1000)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check", action="store_true", help="exit with 1 if a case is slower than Warp")
    options = parser.parse_args(arguments)

    import warp

    warp.config.log_level = warp.LOG_WARNING
    with tempfile.TemporaryDirectory() as folder:
        nets = {engine: net_on(engine, Path(folder)) for engine in (OURS, THEIRS)}
        todo = cases(nets, options.side)
        for number in range(options.rounds + 1):
            for case in todo:
                for engine in (OURS, THEIRS) if number % 2 else (THEIRS, OURS):
                    case.time_once(engine)
        for case in todo:  # the first round warms caches and branch predictors
            for seconds in case.seconds.values():
                del seconds[0]
    print(machine(options.rounds, options.side))
    head = ("", "tapedebug median, min", "warp median, min", "ratio of medians", "of minima")
    rows = [head, *(case.row() for case in todo)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
    for row in rows:
        print(
            "  ".join(
                cell.ljust(w) if k == 0 else cell.rjust(w)
                for k, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
        )
    slower = [case for case in todo if case.slower()]
    if slower:
        print("slower than Warp: " + ", ".join(f"{case.name} ({case.ratio():.2f})" for case in slower))
    else:
        print(f"no slower than Warp on any of the {len(todo)}")
    return 1 if slower and options.check else 0


if __name__ == "__main__":
    sys.exit(main())

"""The cost of recording: time beside the same launches untracked, memory a launch, traces of long tapes.

    make bench
    python -m tests.benchmarks.recording --points 100000 --rounds 20

A round runs every variant once, one after the other, so that a busy machine disturbs all alike; on a shared
one, minima are the fairest. Ratios are to the same launches on a tape that tracks nothing
(`on_overwrite="ignore"`) and without any tape.
"""

import argparse
import gc
import importlib.util
import statistics
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import tapedebug as wp

ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 2048
"""The most that a launch may take on a tape that keeps no values."""


@wp.kernel
def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float)):
    """Few kernels are cheaper: recording weighs most here."""
    i = wp.tid()
    out[i] = a * x[i] + y[i]


@wp.kernel
def times(x: wp.array(dtype=float), y: wp.array(dtype=float), out: wp.array(dtype=float)):
    """Its adjoint needs both operands."""
    i = wp.tid()
    out[i] = x[i] * y[i]


@dataclass
class Case:
    """The same launches, run in several ways."""

    name: str
    variants: dict[str, Callable[[], float]]
    launches: int
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def run(self, rounds: int) -> "Case":
        """Time every variant once a round."""
        for name in self.variants:
            self.seconds[name] = []
        for _ in range(rounds):
            for name, run in self.variants.items():
                self.seconds[name].append(run())
        return self

    def ratio(self, name: str, to: str, of: Callable[[list[float]], float] = min) -> float:
        """The time of one variant over that of another."""
        return of(self.seconds[name]) / of(self.seconds[to])

    def lines(self) -> list[str]:
        """Return the measurements as text."""
        lines = [f"{self.name}, {self.launches} launches"]
        names = list(self.variants)
        for place, name in enumerate(names):
            low, middle = (of(self.seconds[name]) / self.launches * 1e6 for of in (min, statistics.median))
            ratios = [
                f"×{self.ratio(name, to):.2f} (median ×{self.ratio(name, to, statistics.median):.2f}) of {to}"
                for to in names[:place]
            ]
            lines.append(
                f"  {name:<12}{low:9.2f} µs a launch, median {middle:9.2f}   {'; '.join(ratios)}".rstrip()
            )
        return lines


def timed(run: Callable[[], Any]) -> float:
    """Seconds that `run` takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def recorded(run: Callable[[], Any], mode: str) -> wp.Tape:
    """A tape of what `run` launches."""
    tape = wp.Tape(on_overwrite=mode)
    with tape:
        run()
    return tape


def on_tape(run: Callable[[], Any], mode: str) -> Callable[[], float]:
    """Return the seconds that `run` takes on a tape, from the beginning of the block to its end."""
    return lambda: timed(lambda: recorded(run, mode))


def ways(run: Callable[[], Any]) -> dict[str, Callable[[], float]]:
    """Without a tape, on one that tracks nothing, on one that knows the versions."""
    return {
        "no tape": lambda: timed(run),
        "untracked": on_tape(run, "ignore"),
        "preserve": on_tape(run, "preserve"),
    }


def vectors(values: np.ndarray) -> Any:
    """A vec3 array with a gradient."""
    return wp.array(values.astype(np.float32), dtype=wp.vec3, requires_grad=True)


def floats(points: int) -> Any:
    """A float array with a gradient."""
    return wp.array(np.linspace(0.5, 1.5, points, dtype=np.float32), dtype=float, requires_grad=True)


def versions_of_saxpy(points: int, launches: int) -> Case:
    """Nothing is ever kept: saxpy is linear."""
    x, y, out = floats(points), floats(points), floats(points)

    def run() -> None:
        for _ in range(launches):
            wp.launch(saxpy, dim=points, inputs=[2.0, x, y], outputs=[out])

    run()
    return Case(f"saxpy of {points:,} floats, nothing to keep", ways(run), launches)


def copies_of_products(points: int, launches: int) -> Case:
    """The worst case: each launch overwrites what the adjoint of the one before needs."""
    x, y, out = floats(points), wp.ones(points, dtype=float, requires_grad=True), floats(points)

    def run() -> None:
        for _ in range(launches // 2):
            wp.launch(times, dim=points, inputs=[x, y], outputs=[out])
            wp.launch(times, dim=points, inputs=[out, y], outputs=[x])

    run()
    return Case(f"products of {points:,} floats, all copied", ways(run), launches)


def the_net() -> ModuleType:
    """`notebooks/net.py` as a module."""
    spec = importlib.util.spec_from_file_location("net", ROOT / "notebooks" / "net.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def steps_of_the_net(points: int, steps: int, *, swapping: bool) -> Case:
    """Time steps of the net, with an array for each step or with two that swap places."""
    net = the_net()
    side = round(points**0.5)
    fabric = net.make_net(side)
    start = fabric.x.numpy()
    count = 2 if swapping else steps + 1
    xs, vs = ([vectors(start * scale) for _ in range(count)] for scale in (1.0, 0.0))
    force = vectors(start * 0.0)
    weight = net.GRAVITY * net.MASS

    def run() -> None:
        for step in range(steps):
            x, v = xs[step % count], vs[step % count]
            x_next, v_next = xs[(step + 1) % count], vs[(step + 1) % count]
            wp.launch(
                net.spring_forces,
                dim=side * side,
                inputs=[x, v, force, side, net.SPACING, net.STIFFNESS, net.DRAG, weight],
            )
            wp.launch(
                net.integrate,
                dim=side * side,
                inputs=[x, v, force, net.DT, 1.0 / net.MASS],
                outputs=[x_next, v_next],
            )

    run()
    kind = "two arrays that swap, copied" if swapping else "an array a step, nothing to keep"
    return Case(f"net of {side * side:,} points, {kind}", ways(run), 2 * steps)


def summaries(points: int, launches: int) -> Case:
    """A trace with the values and adjoints of all versions, beside the passes that it replays."""
    x = wp.ones(points, dtype=float, requires_grad=True)
    between = [floats(points) for _ in range(launches)]

    def run() -> None:
        for before, after in zip([x, *between], between, strict=False):
            wp.launch(times, dim=points, inputs=[before, x], outputs=[after])

    tape = recorded(run, "preserve")
    seed = {between[-1]: wp.ones(points, dtype=float)}
    tape.backward(grads=seed)
    return Case(
        f"values of {2 * launches} versions of {points:,} floats",
        {
            "both passes": lambda: timed(run) + timed(lambda: tape.backward(grads=seed)),
            "summaries": lambda: timed(lambda: tape.trace(values=True)),
            "arrays": lambda: timed(lambda: tape.trace(values="arrays", max_bytes=1 << 32)),
        },
        launches,
    )


# ------------------------------------------------------------------------------------ long tapes


def long_tape(launches: int, kind: str) -> wp.Tape:
    """`launches` of two kernels on arrays of 8: in a loop, in disorder, or with an array each."""
    chance = np.random.default_rng(1)
    arrays = [floats(8) for _ in range(8)]
    tape = wp.Tape()
    with tape:
        for number in range(launches):
            one, two, to = (arrays[k] for k in chance.integers(0, 8, 3))
            if kind == "loop":
                one, two, to = arrays[number % 2], arrays[2], arrays[(number + 1) % 2]
            elif kind == "chain":
                one, two, to = arrays[0], arrays[1], floats(8)
                arrays[0] = to
            if number % 2:
                wp.launch(times, dim=8, inputs=[one, two], outputs=[to])
            else:
                wp.launch(saxpy, dim=8, inputs=[2.0, one, two], outputs=[to])
    return tape


def bytes_a_launch(launches: int, *, keeping: bool = False) -> float:
    """Memory of a tape, without that of its arrays; `keeping`: a copy of 32 bytes for each second launch."""
    arrays = [floats(8) for _ in range(3)]

    def run() -> None:
        for number in range(launches):
            inputs = [arrays[number % 2], arrays[2]]
            if keeping:
                wp.launch(times, dim=8, inputs=inputs, outputs=[arrays[(number + 1) % 2]])
            else:
                wp.launch(saxpy, dim=8, inputs=[2.0, *inputs], outputs=[arrays[(number + 1) % 2]])

    recorded(run, "preserve")
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tape = recorded(run, "preserve")
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
        return (after - before - tape.preserved_bytes - tape.livein_bytes) / len(tape.records)
    finally:
        tracemalloc.stop()


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    return int(fields[1]) * 4096


def resident_bytes_a_launch(launches: int) -> float:
    """The same as the system sees it, arrays included."""
    gc.collect()
    before = resident_bytes()
    tape = long_tape(launches, "loop")
    return (resident_bytes() - before) / len(tape.records)


def seconds_of_traces(launches: int, kind: str) -> tuple[float, float, float]:
    """Return the times of a trace, its diagram and its file."""
    tape = long_tape(launches, kind)
    trace = tape.trace()
    return timed(tape.trace), timed(tape.visualize), timed(trace.to_json)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--points", type=int, default=100_000, help="elements of the arrays")
    parser.add_argument("--rounds", type=int, default=20, help="how often everything is timed")
    parser.add_argument("--launches", type=int, default=200, help="on each tape of small kernels")
    parser.add_argument(
        "--long", type=int, default=[10_000, 100_000], nargs="*", help="launches of long tapes"
    )
    options = parser.parse_args(arguments)
    points, rounds, launches = options.points, options.rounds, options.launches
    print("Recording, beside the same launches without a tape and on one that tracks nothing:")
    for case in (
        versions_of_saxpy(points, launches),
        steps_of_the_net(points, launches // 20, swapping=False),
        steps_of_the_net(points, launches // 20, swapping=True),
        copies_of_products(points, launches // 4),
        summaries(points, launches // 10),
    ):
        print("\n".join(case.run(rounds).lines()))
    for count in options.long[:1]:
        print(
            f"Memory of {count:,} launches: {bytes_a_launch(count):,.0f} bytes each, "
            f"{bytes_a_launch(count, keeping=True):,.0f} where values are kept (without the values), "
            f"{resident_bytes_a_launch(count):,.0f} of the process; wanted: less than {MOST_BYTES:,}"
        )
    for count in options.long:
        for kind in ("loop", "disorder", "chain"):
            trace, diagram, data = seconds_of_traces(count, kind)
            print(
                f"{count:,} launches ({kind}): trace {trace:.2f} s, trace and diagram {diagram:.2f} s, "
                f"as JSON data {data:.2f} s"
            )


if __name__ == "__main__":
    main()

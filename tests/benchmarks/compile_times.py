"""Time of the first launch and the first reverse pass of a kernel, beside warp-lang.

    make bench
    python -m tests.benchmarks.compile_times --rounds 5 --lines 1 40 200

Each figure is from a process of its own: *cold* with an empty cache, in which nothing was compiled before;
*cached* with the cache of such a process, after another kernel ran, so that compilers and linkers are loaded.
Kernels are straight-line code and branches on vec3. Warp compiles both directions at once, when the kernel is
first launched; ours each when it is needed, so the sums are what compares.
"""

import argparse
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.engines import OURS, WARP
from tests.benchmarks.processes import Clocks, run
from tests.benchmarks.timing import columns, load

CACHED_MS = 5.0
"""The most that a kernel from the cache may cost, forward or backward."""

STEP = """
    d{k} = x - v * s
    l{k} = wp.length(d{k}) + 1.0
    n{k} = d{k} / l{k}
    f{k} = n{k} * wp.dot(v, n{k}) + wp.cross(x, v) * 0.01
    if l{k} > 2.0:
        v = v - f{k} * 0.1
    else:
        v = v + f{k} * wp.sin(l{k})
    x = x + v * s
    x = wp.vec3(x[0], wp.max(x[1], 0.0), x[2])"""
ARRAYS = ", ".join(f"{name}: wp.array(dtype=wp.vec3)" for name in "abc")
PROGRAM = """import json
import sys
import time

import {engine} as wp
import numpy as np

if "{engine}" == "warp":
    wp.config.quiet = True
    wp.init()


@wp.kernel
def other(a: wp.array(dtype=wp.vec3), b: wp.array(dtype=wp.vec3), c: wp.array(dtype=wp.vec3), s: float):
    i = wp.tid()
    c[i] = a[i] - b[i] * s


@wp.kernel{other_module}
def kernel({arrays}, s: float):
    i = wp.tid()
{body}


def now():
    return time.perf_counter(), time.process_time()


def times(kernel):
    values = np.linspace(0.1, 1.0, 300, dtype=np.float32).reshape(100, 3)
    a, b = (wp.array(values, dtype=wp.vec3, requires_grad=True) for _ in range(2))
    c = wp.zeros(100, dtype=wp.vec3, requires_grad=True)
    seed = wp.ones(100, dtype=wp.vec3)
    tape = wp.Tape()
    clocks = [now()]
    with tape:
        wp.launch(kernel, dim=100, inputs=[a, b, c, 0.1])
    clocks.append(now())
    tape.backward(grads={{c: seed}})
    clocks.append(now())
    forward, backward = ([b - a for a, b in zip(*pair)] for pair in (clocks[:2], clocks[1:]))
    return forward, backward, float(np.abs(a.grad.numpy()).sum())


if "warm" in sys.argv:
    times(other)
print(json.dumps(times(kernel)))
"""


def body(lines: int) -> str:
    """A kernel's body of this many lines."""
    if lines == 1:
        return "    c[i] = a[i] * s + b[i]"
    steps = "".join(STEP.format(k=k) for k in range(lines // 10 + 1)).strip("\n").splitlines()
    return "\n".join(["    x = a[i]", "    v = b[i]", *steps[: _whole(steps, lines - 3)], "    c[i] = x"])


def _whole(steps: list[str], count: int) -> int:
    """No more than `count` lines, not ending inside a branch."""
    while steps[count - 1].startswith("        ") or steps[count - 1].rstrip().endswith(":"):
        count -= 1
    return count


@dataclass
class Times:
    """Times of one kernel on one engine: (forward, backward) cold and cached, and whole processes."""

    cold: list[tuple[Clocks, Clocks]] = field(default_factory=list)
    cached: list[tuple[Clocks, Clocks]] = field(default_factory=list)
    process: list[Clocks] = field(default_factory=list)

    def of(self, kind: str, part: str) -> list[Clocks]:
        """All figures of a kind: "forward", "backward" or "both"."""
        if kind == "process":
            return self.process
        pairs: list[tuple[Clocks, Clocks]] = getattr(self, kind)
        sums = [Clocks(f.wall + b.wall, f.used + b.used) for f, b in pairs]
        return {"forward": [f for f, _ in pairs], "backward": [b for _, b in pairs], "both": sums}[part]


def start(path: Path, cache: Path, *words: str) -> tuple[Clocks, Clocks, float, Clocks]:
    """Forward, backward, a checksum of the gradient, and the whole process."""
    (forward, backward, checksum), whole = run(path, cache, *words)
    return Clocks(*forward), Clocks(*backward), checksum, whole


def measure(lines: int, rounds: int) -> dict[str, Times]:
    """One kernel on both engines; they must agree on its gradient."""
    found = {OURS: Times(), WARP: Times()}
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        for engine in found:
            apart = '(module="unique")' if engine == WARP else ""  # else both kernels are compiled at once
            text = PROGRAM.format(engine=engine, arrays=ARRAYS, body=body(lines), other_module=apart)
            paths[engine] = Path(folder) / f"on_{engine}.py"
            paths[engine].write_text(text, encoding="utf-8")
        for number in range(rounds):
            sums = {}
            for engine in (OURS, WARP) if number % 2 else (WARP, OURS):
                cache = Path(folder) / f"{engine}{number}"
                forward, backward, sums[engine], _ = start(paths[engine], cache)
                found[engine].cold.append((forward, backward))
                start(paths[engine], cache, "warm")
                forward, backward, _, _ = start(paths[engine], cache, "warm")
                found[engine].cached.append((forward, backward))
                found[engine].process.append(start(paths[engine], cache)[3])
            if abs(sums[OURS] - sums[WARP]) > 1e-3 * abs(sums[WARP]):
                raise SystemExit(f"{lines} lines: the engines differ, {sums}")
    return found


def rows(lines: int, found: dict[str, Times]) -> list[tuple[str, ...]]:
    """Lines of the table."""
    parts = [(kind, part) for kind in ("cold", "cached") for part in ("forward", "backward", "both")]
    table = [
        row(f"{lines} lines, {kind}, {part}", *(found[engine].of(kind, part) for engine in (OURS, WARP)))
        for kind, part in parts
    ]
    name = f"{lines} lines, whole process, cached"
    return [*table, row(name, found[OURS].process, found[WARP].process)]


def row(name: str, ours: list[Clocks], theirs: list[Clocks]) -> tuple[str, ...]:
    """Milliseconds of both: median and minimum, and least processor time; ratios of the three."""
    figures = [
        (
            statistics.median(wall for wall, _ in clocks),
            min(wall for wall, _ in clocks),
            min(used for _, used in clocks),
        )
        for clocks in (ours, theirs)
    ]
    cells = [" ".join(f"{figure * 1e3:7.1f}" for figure in each) for each in figures]
    ratios = [f"{a / b:.2f}" if b > 1e-3 else "-" for a, b in zip(*figures, strict=True)]
    return (name, *cells, *ratios)


def too_slow(lines: int, found: dict[str, Times]) -> list[str]:
    """Return the missed goals in processor time: cold at most Warp's, cached below `CACHED_MS`."""

    def least(engine: str, kind: str, part: str) -> float:
        return min(used for _, used in found[engine].of(kind, part))

    missed = []
    if least(OURS, "cold", "both") > least(WARP, "cold", "both"):
        missed.append(f"{lines} lines cold")
    missed += [
        f"{lines} lines cached {part}"
        for part in ("forward", "backward")
        if least(OURS, "cached", part) * 1e3 > CACHED_MS
    ]
    return missed


def main(arguments: list[str] | None = None) -> int:
    """Time, print the table; with `--check`, exit status 1 if a figure is not reached."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lines", type=int, nargs="+", default=[1, 40, 200])
    parser.add_argument("--check", action="store_true", help="exit with 1 if a figure is not reached")
    options = parser.parse_args(arguments)
    ms = "median, min, CPU (ms)"
    table = [("first launch", f"tapedebug {ms}", f"warp {ms}", "of medians", "of minima", "of CPU")]
    missed = []
    for lines in options.lines:
        found = measure(lines, options.rounds)
        table += rows(lines, found)
        missed += too_slow(lines, found)
    print(columns(table))
    reached = "missed: " + ", ".join(missed) if missed else "all reached"
    print(f"{options.rounds} rounds, load {load()}; {reached}")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())

"""Compile times of a kernel against its length, for each kind of program made of it, beside warp-lang.

    python -m tests.benchmarks.compile_growth --lines 50 200 800 --warp 50 200
    python -m tests.benchmarks.compile_growth --loops 25 100 400 --warp 25 100

Each figure is processor time in a process of its own with an empty cache. The kernels are those of
`compile_times`: vec3 arithmetic, with a branch every ten lines; or, with `--loops`, one loop after the other,
with three statements on vec3 in each. Warp compiles both directions at once. The last column is the exponent
p of times that grow as lines ** p, between the two longest kernels measured.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.compile_times import ARRAYS, PROGRAM, body, start
from tests.benchmarks.engines import WARP
from tests.benchmarks.processes import run
from tests.benchmarks.timing import columns, duration, load

TARGETS = {
    "forward": "forward()",
    "adjoint": "adjoint(ALL)",
    "float64 tangent": "tangent(ALL, f64=True)",
    "float64 adjoint": "adjoint(ALL, f64=True)",
    "forward in lanes": "forward(lanes=True)",
    "adjoint in lanes": "adjoint(ALL, lanes=True)",
    "float64 tangent in lanes": "tangent(ALL, f64=True, lanes=True)",
    "float64 adjoint in lanes": "adjoint(ALL, f64=True, lanes=True)",
}
"""The programs that are compiled from a kernel, and the call of the kernel that compiles each."""
LOOP = """
    for _ in range({trips}):
        l{k} = wp.length(v) + 1.0
        v = v - wp.cross(x, v) * (s / l{k})
        x = x + v * s
    x = wp.vec3(x[0], wp.max(x[1], 0.0), x[2])"""
SCRIPT = """import json
import time

import tapedebug as wp
import tapedebug.compiler.llvm.machine


@wp.kernel
def kernel({arrays}, s: float):
    i = wp.tid()
{body}


ALL = frozenset(range(3))
clocks = [time.process_time()]
kernel.analysis
clocks.append(time.process_time())
kernel.{call}
clocks.append(time.process_time())
print(json.dumps([b - a for a, b in zip(clocks, clocks[1:])]))
"""


def loops(count: int) -> str:
    """Return the body of a kernel with so many loops, each of which runs as often as an array is long."""
    steps = (LOOP.format(k=k, trips=f"{'abc'[k % 3]}.shape[0]") for k in range(count))
    return "".join(["    x = a[i]\n    v = b[i]", *steps, "\n    c[i] = x"])


def ours(size: int, write: Callable[[int], str], target: str, folder: Path) -> tuple[float, float]:
    """Return seconds of lowering a kernel with a body of some size, and of compiling one program from it."""
    path = folder / "kernel.py"
    path.write_text(SCRIPT.format(arrays=ARRAYS, body=write(size), call=TARGETS[target]), encoding="utf-8")
    (lowering, compiling), _ = run(path, folder / f"{size}-{target.replace(' ', '-')}")
    return lowering, compiling


def warps(size: int, write: Callable[[int], str], folder: Path) -> float:
    """Return the seconds of Warp's first launch and reverse pass, for which it compiles both directions."""
    path = folder / "on_warp.py"
    apart = '(module="unique")'
    text = PROGRAM.format(engine=WARP, arrays=ARRAYS, body=write(size), other_module=apart)
    path.write_text(text, encoding="utf-8")
    forward, backward, _, _ = start(path, folder / f"warp-{size}")
    return forward.used + backward.used


def exponent(seconds: dict[int, float]) -> str:
    """Return the exponent of growth between the two greatest of some lengths, given the seconds of each."""
    if len(seconds) < 2:
        return ""
    short, long = sorted(seconds)[-2:]
    return f"{math.log(seconds[long] / seconds[short]) / math.log(long / short):.2f}"


def main(arguments: list[str] | None = None) -> None:
    """Print the table: a line for each program, a column for each length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    sizes = parser.add_mutually_exclusive_group()
    sizes.add_argument("--lines", type=int, nargs="+", default=[50, 200, 800, 2000, 5000])
    sizes.add_argument("--loops", type=int, nargs="+", help="kernels of so many loops instead")
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--warp", type=int, nargs="*", default=[50, 200, 800], help="lengths for Warp")
    options = parser.parse_args(arguments)
    unit, measured, write = (
        ("loops", options.loops, loops) if options.loops else ("lines", options.lines, body)
    )
    table: dict[str, dict[int, float]] = {
        name: {} for name in ("lowering", *options.targets, "Warp, both directions")
    }
    with tempfile.TemporaryDirectory() as name:
        for size in measured:
            lowerings = []
            for target in options.targets:
                lowering, table[target][size] = ours(size, write, target, Path(name))
                lowerings.append(lowering)
            table["lowering"][size] = min(lowerings)
            if size in options.warp:
                table["Warp, both directions"][size] = warps(size, write, Path(name))
            done = (f"{key} {duration(of[size])}" for key, of in table.items() if size in of)
            print(f"{size} {unit}: {', '.join(done)}", flush=True)
    cells = (
        (key, *(duration(of[size]) if size in of else "" for size in measured), exponent(of))
        for key, of in table.items()
    )
    print(columns([(unit, *map(str, measured), "exponent"), *cells]))
    print(f"load {load()}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(error.stderr)

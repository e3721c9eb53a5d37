"""Compile times of a kernel against its length, for each kind of program made of it, beside warp-lang.

    python -m tests.benchmarks.compile_growth --lines 50 200 800 --warp 50 200

Each figure is processor time in a process of its own with an empty cache. The kernels are those of
`compile_times`: vec3 arithmetic, with a branch every ten lines. Warp compiles both directions at once. The
last column is the exponent p of times that grow as lines ** p, between the two longest kernels measured.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
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


def ours(lines: int, target: str, folder: Path) -> tuple[float, float]:
    """Return seconds of lowering a kernel of so many lines, and of compiling one program from it."""
    path = folder / "kernel.py"
    path.write_text(SCRIPT.format(arrays=ARRAYS, body=body(lines), call=TARGETS[target]), encoding="utf-8")
    (lowering, compiling), _ = run(path, folder / f"{lines}-{target.replace(' ', '-')}")
    return lowering, compiling


def warps(lines: int, folder: Path) -> float:
    """Return the seconds of Warp's first launch and reverse pass, for which it compiles both directions."""
    path = folder / "on_warp.py"
    apart = '(module="unique")'
    text = PROGRAM.format(engine=WARP, arrays=ARRAYS, body=body(lines), other_module=apart)
    path.write_text(text, encoding="utf-8")
    forward, backward, _, _ = start(path, folder / f"warp-{lines}")
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
    parser.add_argument("--lines", type=int, nargs="+", default=[50, 200, 800, 2000, 5000])
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--warp", type=int, nargs="*", default=[50, 200, 800], help="lengths for Warp")
    options = parser.parse_args(arguments)
    table: dict[str, dict[int, float]] = {
        name: {} for name in ("lowering", *options.targets, "Warp, both directions")
    }
    with tempfile.TemporaryDirectory() as name:
        for lines in options.lines:
            lowerings = []
            for target in options.targets:
                lowering, table[target][lines] = ours(lines, target, Path(name))
                lowerings.append(lowering)
            table["lowering"][lines] = min(lowerings)
            if lines in options.warp:
                table["Warp, both directions"][lines] = warps(lines, Path(name))
            done = (f"{key} {duration(of[lines])}" for key, of in table.items() if lines in of)
            print(f"{lines} lines: {', '.join(done)}", flush=True)
    cells = (
        (key, *(duration(of[lines]) if lines in of else "" for lines in options.lines), exponent(of))
        for key, of in table.items()
    )
    print(columns([("lines", *map(str, options.lines), "exponent"), *cells]))
    print(f"load {load()}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(error.stderr)

"""Compile times of a kernel against its length, for each kind of program made of it, beside warp-lang.

    python -m tests.benchmarks.compile_growth --lines 50 200 800 --warp 50 200

Each figure is processor time in a process of its own with an empty cache. The kernels are those of
`compile_times`: vec3 arithmetic, with a branch every ten lines. Warp compiles both directions at once.
"""

from __future__ import annotations

import argparse
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


def main(arguments: list[str] | None = None) -> None:
    """Print the table: a line for each program, a column for each length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lines", type=int, nargs="+", default=[50, 100, 200, 400, 800, 2000])
    parser.add_argument("--targets", nargs="+", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--warp", type=int, nargs="*", default=[50, 100, 200, 400], help="lengths for Warp")
    options = parser.parse_args(arguments)
    table: dict[str, list[str]] = {
        name: [] for name in ("lowering", *options.targets, "Warp, both directions")
    }
    with tempfile.TemporaryDirectory() as name:
        for lines in options.lines:
            lowerings = []
            for target in options.targets:
                lowering, compiling = ours(lines, target, Path(name))
                lowerings.append(lowering)
                table[target].append(duration(compiling))
            table["lowering"].append(duration(min(lowerings)))
            warp = duration(warps(lines, Path(name))) if lines in options.warp else ""
            table["Warp, both directions"].append(warp)
            print(
                f"{lines} lines: {', '.join(f'{key} {cells[-1]}' for key, cells in table.items())}",
                flush=True,
            )
    print(columns([("lines", *map(str, options.lines)), *((key, *cells) for key, cells in table.items())]))
    print(f"load {load()}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(error.stderr)

"""Compile times of programs of the kind that people wait for, beside warp-lang: a step with its reverse pass.

    python -m tests.benchmarks.compile_programs --rounds 3

Each figure is processor time in a process of its own with an empty cache. The programs are a step of the
material point method in three kernels (`mpm`), and the right-hand side of the BSSN equations in one
(`relativity`). The first lines tell what it takes to compile one thing from each kernel, the last ones what
the first launches and the first reverse pass take, in which both engines compile all that they need. The
gradients of the engines must agree.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.benchmarks import relativity
from tests.benchmarks.compile_growth import TARGETS
from tests.benchmarks.engines import OURS, WARP, installed
from tests.benchmarks.processes import run
from tests.benchmarks.timing import columns, duration, load

PROGRAMS = {
    "MPM": (Path(__file__).parent / "mpm.py").read_text(encoding="utf-8"),
    "BSSN": relativity.text(),
}
"""The texts of modules with `KERNELS`, `RESULTS`, `arrays` and `launch`."""
COMPILING = """import json
import time

import tapedebug.compiler.llvm.machine
from program import KERNELS
from tapedebug.compiler.effects import differentiable

lowering = compiling = 0.0
for kernel in KERNELS:
    clocks = [time.process_time()]
    ALL = differentiable(kernel.params)
    kernel.analysis
    clocks.append(time.process_time())
    kernel.{call}
    clocks.append(time.process_time())
    lowering += clocks[1] - clocks[0]
    compiling += clocks[2] - clocks[1]
print(json.dumps([lowering, compiling]))
"""
STEP = """import json
import time

import numpy as np
import {engine} as wp

if "{engine}" == "warp":
    wp.config.quiet = True
    wp.init()
import program

arrays = program.arrays()
seeds = {{}}
for name in program.RESULTS:
    values = arrays[name].numpy()
    weights = np.cos(np.arange(values.size)).reshape(values.shape).astype(values.dtype)
    seeds[arrays[name]] = wp.array(weights, dtype=arrays[name].dtype)
tape = wp.Tape()
clocks = [time.process_time()]
with tape:
    program.launch(arrays)
clocks.append(time.process_time())
tape.backward(grads=seeds)
clocks.append(time.process_time())
checksums = [float(np.abs(array.grad.numpy()).sum()) for array in arrays.values()]
print(json.dumps([clocks[1] - clocks[0], clocks[2] - clocks[1], checksums]))
"""


def write(folder: Path, text: str, script: str, engine: str = OURS) -> Path:
    """Write a program for an engine, and a script that imports it; return the script's path."""
    folder.mkdir()
    module = text.replace("import tapedebug as wp", f"import {engine} as wp")
    (folder / "program.py").write_text(module, encoding="utf-8")
    path = folder / "script.py"
    path.write_text(script, encoding="utf-8")
    return path


def compiled(folder: Path, text: str, target: str) -> tuple[float, float]:
    """Return the seconds of lowering the kernels of a program, and of compiling one target of each."""
    path = write(folder, text, COMPILING.format(call=TARGETS[target]))
    (lowering, compiling), _ = run(path, folder / "cache")
    return lowering, compiling


def step(folder: Path, text: str, engine: str) -> tuple[float, float, list[float]]:
    """Return the seconds of the first launch and of the first reverse pass, and sums of the gradients."""
    path = write(folder, text, STEP.format(engine=engine), engine)
    (forward, backward, checksums), _ = run(path, folder / "cache")
    return forward, backward, checksums


def measure(text: str, targets: list[str], engines: list[str], folder: Path) -> dict[str, float]:
    """Return the seconds of one round by row of the table.

    Raises:
        ValueError: The gradients of the engines differ.
    """
    rows: dict[str, float] = {}
    lowerings = []
    for number, target in enumerate(targets):
        lowering, rows[target] = compiled(folder / str(number), text, target)
        lowerings.append(lowering)
    if lowerings:
        rows = {"lowering": min(lowerings), **rows}
    sums = {}
    for engine in engines:
        forward, backward, sums[engine] = step(folder / engine, text, engine)
        rows[f"step, {engine}"] = forward + backward
    for ours, *others in zip(*sums.values(), strict=True):
        if any(abs(ours - other) > 1e-3 * abs(ours) for other in others):
            raise ValueError(f"the engines differ: {sums}")
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Print the table: a line for each thing that is compiled, a column for each program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", nargs="+", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--targets", nargs="*", choices=TARGETS, default=list(TARGETS))
    parser.add_argument("--engines", nargs="+", choices=(OURS, WARP), default=[OURS, WARP])
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args(arguments)
    engines = [engine for engine in options.engines if installed(engine)]
    found: dict[str, dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as name:
        for number in range(options.rounds):
            turns = engines[:: -1 if number % 2 else 1]
            for program in options.programs:
                folder = Path(name) / f"{program}-{number}"
                folder.mkdir()
                for row, seconds in measure(PROGRAMS[program], options.targets, turns, folder).items():
                    found.setdefault(row, {}).setdefault(program, []).append(seconds)
    medians = {
        row: {program: statistics.median(each) for program, each in of.items()} for row, of in found.items()
    }
    table = [
        (row, *(duration(of[program]) for program in options.programs)) for row, of in sorted_rows(medians)
    ]
    if len(engines) == 2:
        ours, theirs = (medians[f"step, {engine}"] for engine in (OURS, WARP))
        ratios = (f"{ours[program] / theirs[program]:.2f}" for program in options.programs)
        table.append(("ratio", *ratios))
    print(columns([("median", *options.programs), *table]))
    print(f"{options.rounds} rounds, load {load()}")


def sorted_rows(medians: dict[str, dict[str, float]]) -> list[tuple[str, dict[str, float]]]:
    """Return the rows in the order of the table, in which ours comes before Warp's."""
    order = ["lowering", *TARGETS, f"step, {OURS}", f"step, {WARP}"]
    return sorted(medians.items(), key=lambda row: order.index(row[0]))


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(error.stderr)

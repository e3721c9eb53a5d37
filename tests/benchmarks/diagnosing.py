"""The cost of diagnosing a tape, beside that of the tape: processor time and memory, for many sizes.

    python -m tests.benchmarks.diagnosing
    python -m tests.benchmarks.diagnosing --launches 100 --elements 100000 --steps
    python -m tests.benchmarks.diagnosing --limits --write

Each tape is recorded and diagnosed in a process of its own, after a small one of the same kernels has
compiled everything. Time is processor time, which other processes on the machine disturb least. Memory is the
largest resident size beyond that before the tape: first up to the end of `backward`, then up to the end of
`diagnose`, with the tape itself. A diagnosis that would take more than `--memory` is left out, and the table
says so.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

import tapedebug as wp
from tapedebug.diagnose import diagnose
from tests.benchmarks import page
from tests.benchmarks.timing import load

LAUNCHES = (10, 100, 1_000, 10_000)
ELEMENTS = (100, 100_000, 10_000_000)
LIMITS = (1.0, 3.0, 20.0)
"""The time limits of `--limits`, in seconds."""
LIMITED = ((10, 100), (1_000, 100), (10_000, 100), (10, 100_000), (100, 100_000), (10, 1_000_000))
"""The tapes of `--limits`: launches and elements."""
OVER, OVER_SECONDS = 0.2, 0.5
"""By how much a diagnosis may exceed its limit: a share of it, or seconds, whichever is more."""
PEAK_RATIO = 3.0
"""The goal for the memory of a diagnosis, in times that of its tape."""


@wp.kernel
def swing(x: wp.array(dtype=float), v: wp.array(dtype=float), k: wp.array(dtype=float), dt: float):
    """A damped pendulum a thread, one semi-implicit Euler step, in place."""
    i = wp.tid()
    v[i] = v[i] - (k[i] * wp.sin(x[i]) + 0.1 * v[i] * v[i] * v[i]) * dt
    x[i] = x[i] + v[i] * dt


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()] * x[wp.tid()])


def record(elements: int, launches: int) -> tuple[wp.Tape, Any]:
    """Return the tape of a simulation in place, which preserves two arrays for each launch, and its loss."""
    x0 = wp.array(np.linspace(-1.0, 2.0, elements), dtype=float, requires_grad=True)
    k = wp.array(np.linspace(0.5, 1.5, elements), dtype=float, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        x, v = wp.clone(x0), wp.zeros(elements, dtype=float, requires_grad=True)
        for _ in range(launches - 2):
            wp.launch(swing, elements, inputs=[x, v, k, 0.01])
        wp.launch(total, elements, inputs=[x, loss])
    return tape, loss


def resident(key: str = "VmRSS") -> float:
    """Return the resident memory of this process in MB; with `VmHWM`, the largest since `forget_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(key):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"no {key} on this system")


def forget_peak() -> None:
    """Begin a new measurement of the largest resident size."""
    Path("/proc/self/clear_refs").write_text("5")


def measured(elements: int, launches: int, max_seconds: float | None) -> dict[str, Any]:
    """Return the measurements of one tape, in this process."""
    tape, loss = record(min(elements, 1000), 4)
    tape.backward(loss)
    diagnose(tape)
    del tape, loss
    forget_peak()
    before, began = resident(), process_time()
    tape, loss = record(elements, launches)
    tape.backward(loss)
    own, memory = process_time() - began, resident("VmHWM") - before
    forget_peak()
    started, began = perf_counter(), process_time()
    found = diagnose(tape, max_seconds=max_seconds, progress=False)
    seconds, wall = process_time() - began, perf_counter() - started
    return {
        "launches": launches,
        "elements": elements,
        "tape_seconds": own,
        "tape_memory": memory,
        "seconds": seconds,
        "wall": wall,
        "memory": resident("VmHWM") - before,
        "max_seconds": max_seconds,
        "verdict": found.verdict,
        "findings": [finding.rule for finding in found.findings],
        "coverage": [found.coverage.summary, *found.coverage.notes],
        "timings": [[t.step, t.estimate, t.seconds, t.completed] for t in found.timings],
    }


def in_process(elements: int, launches: int, max_seconds: float | None) -> dict[str, Any]:
    """Return the measurements of one tape, in a new process."""
    command = [sys.executable, "-m", "tests.benchmarks.diagnosing", "--one", str(elements), str(launches)]
    command += [] if max_seconds is None else ["--max-seconds", str(max_seconds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def tape_bytes(elements: int, launches: int) -> float:
    """Return the estimated memory of a tape in MB: preserved arrays, arrays and gradients."""
    return 4 * elements * (2 * launches + 10) / 1e6 + 0.004 * launches


def line(found: dict[str, Any]) -> str:
    """Return the row of one tape."""
    return (
        f"{found['launches']:>7,} {found['elements']:>11,} {found['tape_seconds']:>10.3f} "
        f"{found['seconds']:>10.2f} {found['seconds'] / found['tape_seconds']:>7.1f} "
        f"{found['tape_memory']:>9.0f} {found['memory']:>9.0f} "
        f"{found['memory'] / max(1.0, found['tape_memory']):>6.1f}  {found['verdict']}"
    )


def limited(found: dict[str, Any]) -> str:
    """Return the row of a diagnosis with a time limit: what it took, and what it left out."""
    left = [note for note in found["coverage"] if "time was up" in note or " would take about " in note]
    return (
        f"{'':9}limit {found['max_seconds']:g} s: took {found['wall']:.2f} s, "
        f"{'; '.join(left) if left else 'nothing left out'}"
    )


def is_kept(found: dict[str, Any]) -> bool:
    """True if a diagnosis with a time limit ended in time."""
    limit = float(found["max_seconds"])
    return bool(found["wall"] <= limit + max(OVER * limit, OVER_SECONDS))


def of_limits(runs: list[dict[str, Any]]) -> str:
    """Return a table of diagnoses with time limits: time, verdict, and the steps that ended early."""
    rows = []
    for found in runs:
        done = sum(completed for *_, completed in found["timings"])
        left = [step for step, _, _, completed in found["timings"] if not completed]
        rows.append(
            (
                f"{found['launches']:,} × {found['elements']:,}",
                f"{found['max_seconds']:g} s",
                f"{found['wall']:.2f} s",
                "kept" if is_kept(found) else "EXCEEDED",
                found["verdict"],
                f"{done} of {len(found['timings'])}",
                ", ".join(left) or "nothing",
            )
        )
    head = (
        "launches × elements",
        "limit",
        "took",
        "",
        "verdict",
        "completed, of the steps that began",
        "not completed",
    )
    return page.markdown(head, rows)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--launches", type=int, nargs="+", default=LAUNCHES)
    parser.add_argument("--elements", type=int, nargs="+", default=ELEMENTS)
    parser.add_argument("--memory", type=float, default=8_000.0, help="MB that a diagnosis may take")
    parser.add_argument("--steps", action="store_true", help="also print the slowest steps, with estimates")
    parser.add_argument("--max-seconds", type=float, nargs="+", default=(None,), help="time limits, in turn")
    parser.add_argument("--json", type=Path, help="also write all measurements to this file")
    parser.add_argument("--limits", action="store_true", help="six tapes, each with three time limits")
    parser.add_argument("--write", action="store_true", help="write the table of --limits to the page")
    parser.add_argument("--one", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        print(json.dumps(measured(*options.one, *options.max_seconds)))
        return
    if options.limits:
        began = load()
        runs = [in_process(size, launches, limit) for launches, size in LIMITED for limit in LIMITS]
        message = f"Elapsed time, one run each; load {began} at the start and {load()} at the end."
        print(of_limits(runs), message, sep="\n\n")
        if options.write:
            text = page.PAGE.read_text(encoding="utf-8")
            text = page.replaced(text, f"{message}\n\n{of_limits(runs)}", page.markers("limits"))
            page.PAGE.write_text(text, encoding="utf-8")
        return
    print("launches    elements   tape (s)  diagnosis   ratio tape (MB)  with diag.  ratio")
    every = []
    for elements in options.elements:
        for launches in options.launches:
            expected = PEAK_RATIO * tape_bytes(elements, launches)
            if expected > options.memory:
                print(f"{launches:>7,} {elements:>11,} left out: about {expected / 1000:,.0f} GB", flush=True)
                continue
            runs = [in_process(elements, launches, limit) for limit in options.max_seconds]
            every += runs
            found = runs[0]
            print(line(found), flush=True)
            for run in runs:
                if run["max_seconds"] is not None:
                    print(limited(run), flush=True)
            for step, estimate, seconds, done in sorted(found["timings"], key=lambda t: -t[2])[:12]:
                if options.steps and seconds > 0.01 * found["seconds"]:
                    known = "" if estimate is None else f"{estimate:.2f}"
                    print(f"{'':10}{step:<34}{known:>10}{seconds:>10.2f}{'' if done else ' not completed'}")
    if options.json is not None:
        options.json.write_text(json.dumps(every, indent=1))


if __name__ == "__main__":
    main()

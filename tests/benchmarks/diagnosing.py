"""The cost of diagnosing a tape, beside that of the tape: processor time and memory, for many sizes.

    python -m tests.benchmarks.diagnosing
    python -m tests.benchmarks.diagnosing --launches 100 --elements 100000 --steps
    python -m tests.benchmarks.diagnosing --write
    python -m tests.benchmarks.diagnosing --limits --write

Each tape is recorded and diagnosed in a process of its own, after a small one of the same kernels has
compiled everything. Time is processor time, which other processes on the machine disturb least. Memory is
measured in a second process: all that Python and NumPy allocate, at most up to the end of `backward`, then at
most up to the end of `diagnose`, with the tape itself. The resident size of the first process would tell less
of small tapes, which use memory that the compilation has freed. A diagnosis that would take more than
`--memory` is left out, and the table says so.
"""

from __future__ import annotations

import argparse
import gc
import json
import re
import statistics
import subprocess
import sys
import tracemalloc
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

import tapedebug as wp
from tapedebug.diagnose import diagnose
from tapedebug.trace import Trace
from tests.benchmarks import page
from tests.benchmarks.timing import duration, load

LAUNCHES = (10, 100, 1_000, 10_000)
ELEMENTS = (100, 100_000, 1_000_000, 10_000_000)
ROUNDS, BRIEF = 3, 5.0
"""Each diagnosis is measured up to `ROUNDS` times, until it has taken `BRIEF` seconds altogether."""
LIMITS = (1.0, 3.0, 20.0)
"""The time limits of `--limits`, in seconds."""
LIMITED = ((10, 100), (1_000, 100), (10_000, 100), (10, 100_000), (100, 100_000), (10, 1_000_000))
"""The tapes of `--limits`: launches and elements."""
OVER, OVER_SECONDS = 0.2, 0.5
"""By how much a diagnosis may exceed its limit: a share of it, or seconds, whichever is more."""
TIME_RATIO, LONG = 30.0, 1.0
"""The goal for the time of a diagnosis, in times that of a tape of more than `LONG` seconds."""
SHORT, SOON = 0.1, 1.0
"""The goal for the elapsed time until the verdict, of tapes of at most `SHORT` seconds."""
PEAK_RATIO = 3.0
"""The goal for the memory of a diagnosis, in times that of its tape."""
FREQUENT = 1_200
"""Launches after which a kernel has all functions that are generated when it is launched again and again."""
LEAST_TAPE = (3, 2)
"""The launches and elements of a tape of one step: its diagnosis tells what any of them takes."""


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


def prepare(elements: int) -> None:
    """Compile everything, with a small tape, after another one as of a kernel that is launched often."""
    record(1, FREQUENT)
    tape, loss = record(min(elements, 1000), 12)
    tape.backward(loss)
    diagnose(tape, progress=False)


def allocated(elements: int, launches: int) -> dict[str, Any]:
    """Return the largest memory of one tape and of its diagnosis with the tape, in MB, and the verdict."""
    prepare(elements)
    gc.collect()  # Python uses freed tuples again, which would not count
    tracemalloc.start()
    try:
        tape, loss = record(elements, launches)
        tape.backward(loss)
        _, own = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        found = diagnose(tape, progress=False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return {"tape_memory": own / 1e6, "memory": peak / 1e6, "verdict": found.verdict}


def measured(elements: int, launches: int, max_seconds: float | None) -> dict[str, Any]:
    """Return the measurements of one tape, in this process."""
    prepare(elements)
    began = process_time()
    tape, loss = record(elements, launches)
    tape.backward(loss)
    own = process_time() - began
    verdicts: list[float] = []

    def look(trace: Trace) -> None:
        """Note the time of a verdict."""
        if trace.verdict != "NOT CHECKED":
            verdicts.append(perf_counter() - started)

    started, began = perf_counter(), process_time()
    found = diagnose(tape, max_seconds=max_seconds, progress=False, so_far=look)
    seconds, wall = process_time() - began, perf_counter() - started
    return {
        "launches": launches,
        "elements": elements,
        "tape_seconds": own,
        "seconds": seconds,
        "wall": wall,
        "verdict_after": verdicts[0] if verdicts else wall,
        "max_seconds": max_seconds,
        "verdict": found.verdict,
        "findings": [finding.rule for finding in found.findings],
        "rules": list(found.rules),
        "coverage": [found.coverage.summary, *found.coverage.notes],
        "timings": [[t.step, t.estimate, t.seconds, t.completed] for t in found.timings],
    }


def in_process(
    elements: int, launches: int, max_seconds: float | None = None, *, memory: bool = False
) -> dict[str, Any]:
    """Return the measurements of one tape in a new process: of time, or with `memory` of memory."""
    command = [sys.executable, "-m", "tests.benchmarks.diagnosing", "--one", str(elements), str(launches)]
    command += ["--allocations"] if memory else []
    command += [] if max_seconds is None else ["--max-seconds", str(max_seconds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def tape_bytes(elements: int, launches: int) -> float:
    """Return the estimated memory of a tape in MB: preserved arrays, arrays and gradients."""
    return 4 * elements * (2 * launches + 10) / 1e6 + 0.004 * launches


def of_tape(elements: int, launches: int) -> dict[str, Any]:
    """Return time and memory of one tape, each from new processes; of several rounds the median ratio."""
    rounds: list[dict[str, Any]] = []
    while len(rounds) < ROUNDS and sum(found["seconds"] for found in rounds) < BRIEF:
        rounds.append(in_process(elements, launches))
    middle = statistics.median_low([found["seconds"] / found["tape_seconds"] for found in rounds])
    found = next(found for found in rounds if found["seconds"] / found["tape_seconds"] == middle)
    return found | in_process(elements, launches, memory=True)


def size_of(found: dict[str, Any]) -> str:
    """Return the launches and elements of a tape."""
    return f"{found['launches']:,} × {found['elements']:,}"


def line(found: dict[str, Any]) -> str:
    """Return the row of one tape."""
    return (
        f"{found['launches']:>7,} {found['elements']:>11,} {found['tape_seconds']:>10.3f} "
        f"{found['seconds']:>10.2f} {found['seconds'] / found['tape_seconds']:>7.1f} "
        f"{found['tape_memory']:>9.2f} {found['memory']:>9.2f} "
        f"{found['memory'] / found['tape_memory']:>6.1f}  {found['verdict']} "
        f"after {found['verdict_after']:.2f} s"
    )


def of_tapes(tapes: list[dict[str, Any]], least: float) -> str:
    """Return a table of time and memory.

    Args:
        tapes: The measurements of each tape; those of a tape that was left out only have its size.
        least: The memory that any diagnosis takes, in MB.
    """
    rows = []
    for found in tapes:
        size = size_of(found)
        if "seconds" not in found:
            rows.append(
                (size, "", "", "", f"about {found['tape_memory']:,.0f} MB", "", "", "", "not measured", "")
            )
            continue
        own, memory = found["tape_memory"], found["memory"]
        rows.append(
            (
                size,
                duration(found["tape_seconds"]),
                duration(found["seconds"]),
                f"{found['seconds'] / found['tape_seconds']:.1f}",
                f"{own:,.2f} MB" if own < 10 else f"{own:,.0f} MB",
                f"{memory:,.2f} MB" if memory < 10 else f"{memory:,.0f} MB",
                f"{memory / own:.2f}",
                f"{(memory - least) / own:.2f}",
                found["verdict"],
                duration(found["verdict_after"]),
            )
        )
    head = ("launches × elements", "tape", "diagnosis", "÷", "tape", "with its diagnosis", "÷")
    return page.markdown((*head, f"less {least:.2f} MB", "verdict", "after"), rows)


def limited(found: dict[str, Any]) -> str:
    """Return the row of a diagnosis with a time limit: what it took, and what it left out."""
    left = [note for note in found["coverage"] if "time was up" in note or " would take about " in note]
    return (
        f"{'':9}limit {found['max_seconds']:g} s: took {found['wall']:.2f} s, "
        f"{'; '.join(left) if left else 'nothing left out'}"
    )


LEFT_OUT = {
    r"0 of .* launches checked end to end: time was up": "the verdict",
    r"each gradient was compared in (\d+ directions?) only": r"of the directions of each gradient all but \1",
    r"(.*) was displaced in (\d+ directions?) only": r"of the directions of \1 all but \2",
    r"not compared, as time was up: (.*)": r"the gradients of \1",
    r"no dot-product test": "the dot-product test",
    r"values and adjoints were not summarised": "summaries of values",
    r"not looked for, as time was up: (.*)": r"\1",
}
"""Sentences of a coverage about what there was no time for, and how the table names it."""


def left_out(found: dict[str, Any]) -> list[str]:
    """Return what a diagnosis with a time limit left out; nothing of a verdict that was found by sampling."""
    parts = []
    for note in found["coverage"]:
        for pattern, words in LEFT_OUT.items():
            match = re.match(pattern, note)
            if match is not None:
                name = match.expand(words)
                rules = name.split(", ") if words == r"\1" else []
                parts.append(f"all {len(rules)} rules" if rules and not found["rules"] else name)
    return parts


def is_kept(found: dict[str, Any]) -> bool:
    """True if a diagnosis with a time limit ended in time."""
    limit = float(found["max_seconds"])
    return bool(found["wall"] <= limit + max(OVER * limit, OVER_SECONDS))


def of_limits(runs: list[dict[str, Any]]) -> str:
    """Return a table of diagnoses with time limits: time, verdict, and what was left out."""
    rows = [
        (
            size_of(found),
            f"{found['max_seconds']:g} s",
            f"{found['wall']:.2f} s",
            "kept" if is_kept(found) else "EXCEEDED",
            found["verdict"],
            f"{len(found['rules'])}",
            "; ".join(left_out(found)) or "nothing",
        )
        for found in runs
    ]
    head = ("launches × elements", "limit", "took", "", "verdict", "rules completed", "left out")
    return page.markdown(head, rows)


def of_goals(tapes: list[dict[str, Any]], least: float) -> str:
    """Return a table of the goals, for the arguments of `of_tapes`."""
    known = [found for found in tapes if "seconds" in found]
    long = [found for found in known if found["tape_seconds"] > LONG]
    time = {size_of(found): found["seconds"] / found["tape_seconds"] for found in long}
    memory = {size_of(found): (found["memory"] - least) / found["tape_memory"] for found in known}
    short = [found for found in known if found["tape_seconds"] <= SHORT]
    verdict = {size_of(found): found["verdict_after"] for found in short}
    rows = []
    for name, bound, ratios in (
        (f"time of the diagnosis ÷ the tape's, tapes of more than {LONG:g} s", TIME_RATIO, time),
        (f"memory with the diagnosis, less {least:.2f} MB ÷ the tape's", PEAK_RATIO, memory),
        (f"seconds until the verdict, tapes of at most {SHORT:g} s", SOON, verdict),
    ):
        size, worst = max(ratios.items(), key=lambda item: item[1], default=("", 0.0))
        if size:
            missed = "holds" if worst <= bound else "MISSED"
            rows.append((f"{name}: worst ({size})", f"{worst:.2f}", f"≤ {bound:g}", missed))
    return page.markdown(("goal", "measured", "bound", ""), rows)


def write(part: str, text: str) -> None:
    """Write a part of the page."""
    whole = page.PAGE.read_text(encoding="utf-8")
    page.PAGE.write_text(page.replaced(whole, text, page.markers(part)), encoding="utf-8")


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
    parser.add_argument("--write", action="store_true", help="write the table to the page")
    parser.add_argument("--allocations", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--one", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one is not None:
        one = allocated(*options.one) if options.allocations else measured(*options.one, *options.max_seconds)
        print(json.dumps(one))
        return
    if options.limits:
        began = load()
        runs = [in_process(size, launches, limit) for launches, size in LIMITED for limit in LIMITS]
        message = f"Elapsed time, one run each; load {began} at the start and {load()} at the end."
        print(of_limits(runs), message, sep="\n\n")
        if options.write:
            write("limits", f"{message}\n\n{of_limits(runs)}")
        return
    began = load()
    print("launches    elements   tape (s)  diagnosis   ratio tape (MB)  with diag.  ratio")
    every = []
    for elements in options.elements:
        for launches in options.launches:
            expected = tape_bytes(elements, launches)
            if PEAK_RATIO * expected > options.memory:
                every.append({"launches": launches, "elements": elements, "tape_memory": expected})
                print(f"{launches:>7,} {elements:>11,} left out: about {expected / 1000:,.0f} GB", flush=True)
                continue
            found = of_tape(elements, launches)
            every.append(found)
            print(line(found), flush=True)
            for limit in options.max_seconds:
                if limit is not None:
                    print(limited(in_process(elements, launches, limit)), flush=True)
            for step, estimate, seconds, done in sorted(found["timings"], key=lambda t: -t[2])[:12]:
                if options.steps and seconds > 0.01 * found["seconds"]:
                    known = "" if estimate is None else f"{estimate:.2f}"
                    print(f"{'':10}{step:<34}{known:>10}{seconds:>10.2f}{'' if done else ' not completed'}")
    if options.json is not None:
        options.json.write_text(json.dumps(every, indent=1))
    if options.write:
        launches, elements = LEAST_TAPE
        found = in_process(elements, launches, memory=True)
        least = found["memory"] - found["tape_memory"]
        message = (
            f"Processor time, the median ratio of up to {ROUNDS} runs, and elapsed time until the verdict; "
            f"load {began} at the start, {load()} at the end."
        )
        write("diagnoses", "\n\n".join((message, of_tapes(every, least), of_goals(every, least))))


if __name__ == "__main__":
    main()

"""Run targets of make in turn; at the end print the time of each, its processor time and its largest process.

Each argument is a step; the next one begins when all of it has ended. A step has lanes, joined by `+`,
which run side by side; a lane has targets, joined by `,`, each of which begins when the one before has
ended. Browsers wait much of the time, for kernels and pages: a lane beside them keeps the processors busy
with what computes. The output of the last lane is shown as it comes, that of the others when a target ends.
The earlier a lane is named, the sooner it gets a processor: `scripts/steps.py setup
browser-tests+python-lint,python-tests`.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import IO

NICE = 3
"""Priority that each lane yields to the one named before it."""


def start(target: str, nice: int, output: IO[str] | None) -> subprocess.Popen[str]:
    """Start a target of make.

    Args:
        target: Its name.
        nice: The priority that it yields.
        output: The file for its output; None to show it as it comes.
    """
    command = ["nice", "-n", str(nice), os.environ.get("MAKE", "make"), "--no-print-directory", target]
    return subprocess.Popen(command, stdout=output, stderr=output and subprocess.STDOUT, text=True)


def row(name: str, seconds: float, usage: resource.struct_rusage) -> str:
    """Return the line about a target that has ended."""
    minutes, rest = divmod(int(seconds), 60)
    megabytes = usage.ru_maxrss >> (20 if sys.platform == "darwin" else 10)
    cpu = int(usage.ru_utime + usage.ru_stime)
    return f"  {name:<16} {minutes:3} min {rest:02} s, {cpu:4} CPU s, largest process {megabytes} MB"


@dataclass
class Running:
    """A target that runs: its lane, its process, when it began, and its output if that is shown later."""

    target: str
    lane: int
    process: subprocess.Popen[str]
    begun: float
    output: IO[str] | None


def begin(target: str, lane: int, *, at_once: bool) -> Running:
    """Start a target; show its output at once or when it has ended."""
    output = None if at_once else TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
    return Running(target, lane, start(target, NICE * lane, output), time.monotonic(), output)


def run_step(lanes: list[list[str]]) -> tuple[list[str], dict[str, int]]:
    """Run lanes side by side; return a line about each target, and the exit status of those that failed."""
    waiting = [list(lane) for lane in lanes]
    last = len(lanes) - 1
    running = [begin(lane.pop(0), number, at_once=number == last) for number, lane in enumerate(waiting)]
    rows, failed = [], {}
    while running:
        pid, code, usage = os.wait4(-1, 0)  # the largest of the process and all that it waited for
        ended = next(one for one in running if one.process.pid == pid)
        running.remove(ended)
        ended.process.returncode = status = os.waitstatus_to_exitcode(code)
        rows.append(row(ended.target, time.monotonic() - ended.begun, usage))
        if ended.output is not None:
            with ended.output as output:
                output.seek(0)
                ending = "" if status == 0 else f", which failed with status {status}"
                # in one piece: another target writes to the same place meanwhile
                sys.stdout.write(f"==== output of {ended.target}{ending}\n{output.read()}\n")
                sys.stdout.flush()
        if status != 0:
            failed[ended.target] = status
        elif waiting[ended.lane]:
            running.append(begin(waiting[ended.lane].pop(0), ended.lane, at_once=ended.lane == last))
    return rows, failed


def main(steps: list[str]) -> int:
    """Run the steps until one fails; return its exit status."""
    rows: list[str] = []
    failed: dict[str, int] = {}
    for number, step in enumerate(steps, 1):
        lanes = [lane.split(",") for lane in step.split("+")]
        shown = " beside ".join(", ".join(lane) for lane in lanes)
        print(f"==== step {number} of {len(steps)}: {shown}", flush=True)
        more, failed = run_step(lanes)
        rows += more
        if failed:
            break
    print("==== time and memory of each target", *rows, sep="\n")
    for name in failed:
        print(f"==== {name} failed")
    return abs(next(iter(failed.values()), 0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

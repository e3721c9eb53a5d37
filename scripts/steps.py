"""Run targets of make in turn; at the end print the time of each, its processor time and its largest process.

Targets joined by `+` are one step and run side by side. Browsers run alone: beside pytest, which keeps both
processors busy, JupyterLab takes longer to answer than its tests wait.
The output of the last of them is shown as it comes, that of each other one when it ends. The earlier a target
is named, the sooner it gets a processor: `scripts/steps.py setup lint+browser-tests+python-tests`.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from tempfile import TemporaryFile
from typing import IO

NICE = 3
"""Priority that each target yields to those named before it."""


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


def run_step(targets: list[str]) -> tuple[list[str], dict[str, int]]:
    """Run targets side by side; return a line about each, and the exit status of those that failed."""
    begun = time.monotonic()
    outputs = {target: TemporaryFile("w+", encoding="utf-8", errors="replace") for target in targets[:-1]}  # noqa: SIM115
    started = {
        start(target, NICE * number, outputs.get(target)): target for number, target in enumerate(targets)
    }
    processes = {process.pid: process for process in started}
    rows, failed = [], {}
    while processes:
        pid, code, usage = os.wait4(-1, 0)  # the largest of the process and all that it waited for
        process = processes.pop(pid)
        name = started[process]
        process.returncode = status = os.waitstatus_to_exitcode(code)
        rows.append(row(name, time.monotonic() - begun, usage))
        if status != 0:
            failed[name] = status
        if name in outputs:
            with outputs[name] as output:
                output.seek(0)
                ending = "" if status == 0 else f", which failed with status {status}"
                # in one piece: another target writes to the same place meanwhile
                sys.stdout.write(f"==== output of {name}{ending}\n{output.read()}\n")
                sys.stdout.flush()
    return rows, failed


def main(steps: list[str]) -> int:
    """Run the steps until one fails; return its exit status."""
    rows: list[str] = []
    failed: dict[str, int] = {}
    for number, step in enumerate(steps, 1):
        print(f"==== step {number} of {len(steps)}: {step.replace('+', ', ')}", flush=True)
        more, failed = run_step(step.split("+"))
        rows += more
        if failed:
            break
    print("==== time and memory of each target", *rows, sep="\n")
    for name in failed:
        print(f"==== {name} failed")
    return abs(next(iter(failed.values()), 0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

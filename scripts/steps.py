"""Run targets of make in turn; at the end print the time of each and the memory of its largest process.

Targets joined by `+` are one step, and run side by side: `scripts/steps.py setup lint+js-tests python-tests`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time


def main(targets: list[str]) -> int:
    """Run the targets until one fails; return its exit status."""
    make = os.environ.get("MAKE", "make")
    rows, status, number = [], 0, 0
    for number, target in enumerate(targets, 1):
        print(f"==== step {number} of {len(targets)}: {target}", flush=True)
        begun = time.monotonic()
        together = target.split("+")
        spread = [f"-j{len(together)}"] if len(together) > 1 else []
        process = subprocess.Popen([make, "--no-print-directory", *together, *spread])
        _, code, usage = os.wait4(process.pid, 0)  # the largest of the process and all that it waited for
        process.returncode = status = os.waitstatus_to_exitcode(code)
        minutes, seconds = divmod(int(time.monotonic() - begun), 60)
        megabytes = usage.ru_maxrss >> (20 if sys.platform == "darwin" else 10)
        rows.append(f"  {target:<30} {minutes:3} min {seconds:02} s, largest process {megabytes} MB")
        if status != 0:
            break
    print("==== time and memory of each step", *rows, sep="\n")
    if status != 0:
        print(f"==== step {number} of {len(targets)}, {targets[number - 1]}, failed")
    return abs(status)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Whole processes: from the start of Python to its end, with an empty cache and with a filled one.

A program defines one kernel or twenty (vec3 arithmetic and a branch, none like the other), launches each
once, and in the second kind runs all their adjoints. Warp compiles both directions at once, ours each when it
is needed.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks.engines import OURS, ROOT, WARP, installed
from tests.benchmarks.timing import Timed

COUNTS = (1, 20)
KERNEL = """
@wp.kernel
def kernel_{k}(a: wp.array(dtype=wp.vec3), b: wp.array(dtype=wp.vec3), c: wp.array(dtype=wp.vec3), s: float):
    i = wp.tid()
    d = a[i] - b[i] * s
    l = wp.length(d) + {k}.5
    n = d / l
    f = n * wp.dot(b[i], n) + wp.cross(a[i], b[i]) * 0.01
    if l > {k}.75:
        f = f * {factor}
    else:
        f = f + n * wp.sin(l)
    c[i] = a[i] + f * s
"""
PROGRAM = """import json
import sys
import time

started = time.perf_counter()
import {engine} as wp
import numpy as np

if "{engine}" == "warp":
    wp.config.log_level = wp.LOG_ERROR
imported = time.perf_counter()
{kernels}

KERNELS = [{names}]
values = np.linspace(0.1, 1.0, 300, dtype=np.float32).reshape(100, 3)
a, b = (wp.array(values * k, dtype=wp.vec3, requires_grad=True) for k in (1.0, 2.0))
outputs = [wp.zeros(100, dtype=wp.vec3, requires_grad=True) for _ in KERNELS]
seed = wp.ones(100, dtype=wp.vec3)
tape = wp.Tape()
ready = time.perf_counter()
with tape:
    for kernel, c in zip(KERNELS, outputs):
        wp.launch(kernel, dim=100, inputs=[a, b, c, 0.1])
launched = time.perf_counter()
checksum = sum(float(np.abs(c.numpy()).sum()) for c in outputs)
if "backward" in sys.argv:
    tape.backward(grads=dict.fromkeys(outputs, seed))
    checksum += float(np.abs(a.grad.numpy()).sum())
print(json.dumps([imported - started, launched - ready, time.perf_counter() - launched, checksum]))
"""


class Clocks(NamedTuple):
    """Seconds that passed, and seconds of processor time."""

    wall: float
    used: float


def run(path: Path, cache: Path, *words: str) -> tuple[Any, Clocks]:
    """Run a program of its own; what it printed last as JSON, and what the process took."""
    done, clocks = clocked([sys.executable, str(path), *words], cache)
    done.check_returncode()
    return json.loads(done.stdout.strip().splitlines()[-1]), clocks


def clocked(
    command: list[str], cache: Path, folder: Path | None = None, timeout: float | None = None
) -> tuple[subprocess.CompletedProcess[str], Clocks]:
    """Run a command with its own caches of kernels; return its output, and what the process took.

    Raises:
        subprocess.TimeoutExpired: The command took more than `timeout` seconds.
    """
    own = {
        "TAPEDEBUG_CACHE_DIR": str(cache),
        "WARP_CACHE_PATH": str(cache),
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "",  # without bytecode, imports take longer than most programs
    }
    begin = _clocks()
    done = subprocess.run(
        command,
        env=os.environ | own,
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
    )
    end = _clocks()
    return done, Clocks(end.wall - begin.wall, end.used - begin.used)


def _clocks() -> Clocks:
    """Now, and the processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return Clocks(time.perf_counter(), used.ru_utime + used.ru_stime)


def program(engine: str, count: int) -> str:
    """The text of a program with so many kernels."""
    kernels = "\n".join(KERNEL.format(k=k, factor=round(0.1 + 0.03 * k, 2)) for k in range(count))
    names = ", ".join(f"kernel_{k}" for k in range(count))
    return PROGRAM.format(engine=engine, kernels=kernels, names=names)


def timed(rounds: int, say: Callable[[str], Any] = lambda _: None) -> Iterator[Timed]:
    """Return the times of processes with each number of kernels; see `measured`."""
    for count in COUNTS:
        yield from measured(count, rounds, say)


def measured(count: int, rounds: int, say: Callable[[str], Any] = lambda _: None) -> Iterator[Timed]:
    """Processes with so many kernels, cold and warm, forward and with adjoints; of each also the launches.

    Raises:
        ValueError: The engines differ.
    """
    engines = [engine for engine in (OURS, WARP) if installed(engine)]
    size = f"{count} kernel{'s' if count > 1 else ''}"
    found: dict[str, Timed] = {}

    def note(part: str, engine: str, seconds: float) -> None:
        thing = found.setdefault(part, Timed("process", part, size, {}, True))
        thing.seconds.setdefault(engine, []).append(seconds)

    with tempfile.TemporaryDirectory() as folder:
        paths = {engine: Path(folder) / f"on_{engine}.py" for engine in engines}
        for engine, path in paths.items():
            path.write_text(program(engine, count), encoding="utf-8")
        for number in range(rounds):
            for kind, words in (("forward", []), ("forward and adjoint", ["backward"])):
                say(f"processes with {size}, {kind}, round {number + 1} of {rounds}")
                sums = set()
                for engine in engines[:: 1 if number % 2 else -1]:
                    cache = Path(folder) / f"{engine}_{number}_{kind.replace(' ', '_')}"
                    for state in ("cold", "warm"):
                        (_, launches, after, checksum), clocks = run(paths[engine], cache, *words)
                        sums.add(checksum)
                        note(f"{state}, {kind}", engine, clocks.wall)
                        note(f"{state}, {kind}: processor time", engine, clocks.used)
                        first = launches + (after if words else 0.0)
                        note(f"{state}, {kind}: its launches", engine, first)
                if max(sums) - min(sums) > 1e-3 * min(sums):
                    raise ValueError(f"processes with {size}: the engines differ, {sorted(sums)}")
    yield from found.values()

"""Modules that a process loads before its first launch, and those not needed if kernels are cached."""

from __future__ import annotations

import json
from pathlib import Path

from tests.processes import PLAIN, run_python

SCRIPT = """
import linecache
import sys
import numpy as np

def modules():
    return sorted(sys.modules)

before = modules()
import tapedebug as wp
imported = modules()

name = "<kernel of the test>"
source = '''
@wp.kernel
def kernel(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = wp.sin(x[i]) * x[i]
'''
linecache.cache[name] = len(source), None, source.splitlines(keepends=True), name
exec(compile(source, name, "exec"))

x = wp.array([3.0], dtype=float, requires_grad=True)
y = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(kernel, dim=1, inputs=[x], outputs=[y])
tape.backward(grads={y: wp.ones(1, dtype=float)})
import json
print(json.dumps([before, imported, modules(), float(x.grad.numpy()[0])]))
"""

COMPILER = {f"tapedebug.compiler.{name}" for name in ("pipeline", "lower", "emit", "passes", "llvm")}
"""Modules that only a process that compiles needs: more than half of the package's import time."""

COSTLY = {"difflib", "importlib.metadata", "subprocess", "tempfile"}
"""Modules of the standard library that take milliseconds to load and are needed only where something is
compiled or goes wrong."""


def modules_of(cache: Path) -> tuple[set[str], set[str]]:
    """Return the modules that the import of the package loads, and all that the process has at its end."""
    done = run_python(SCRIPT, cache=cache)
    assert done.returncode == 0, done.stderr
    before, imported, all_of_them, gradient = json.loads(done.stdout)
    assert abs(gradient - (3.0 * -0.9899925 + 0.1411200)) < 1e-5
    return set(imported) - set(before), set(all_of_them)


def code_in(cache: Path) -> dict[str, int]:
    """The machine code and notes that are kept, and when they were made."""
    return {path.name: path.stat().st_mtime_ns for path in cache.iterdir() if path.suffix != ".sign"}


def test_a_process_that_finds_its_machine_code_loads_no_compiler(tmp_path: Path) -> None:
    imported, first = modules_of(tmp_path)
    assert not imported & COMPILER
    assert first >= COMPILER, "an empty cache must compile: otherwise the rest of this test shows nothing"
    kept = code_in(tmp_path)
    imported, second = modules_of(tmp_path)
    assert not second & COMPILER
    if PLAIN:
        assert not {name.partition(".")[0] for name in second} & {"llvmlite", "platformdirs"}
        assert not second & COSTLY
    assert code_in(tmp_path) == kept


def test_import_loads_little_of_the_standard_library(tmp_path: Path) -> None:
    imported, all_of_them = modules_of(tmp_path)
    assert not imported & COSTLY
    assert "tempfile" in all_of_them, "with LLVM, which a cold process loads: the test sees what is loaded"

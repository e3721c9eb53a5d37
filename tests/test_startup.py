"""Modules that a process loads before its first launch, and those not needed if kernels are cached."""

from __future__ import annotations

import json
import platform
from pathlib import Path

from tapedebug._environment import environment
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
import platform
print(json.dumps([before, imported, modules(), float(x.grad.numpy()[0])]))
"""

DIAGNOSED = """
import json
import platform
import sys
import numpy as np
import tapedebug as wp

@wp.func
def spring(x: float, k: float):
    return -k * x

@wp.kernel
def total(x: wp.array(dtype=float), k: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, spring(x[i], k[i]) * x[i])

x = wp.array(np.linspace(0.0, 1.0, 8), dtype=float, requires_grad=True)
k = wp.ones(8, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    for _ in range(20):
        wp.launch(total, dim=8, inputs=[x, k], outputs=[loss])
tape.backward(loss)
found = wp.diagnose(tape, as_warp=True)
print(json.dumps([found.verdict, sorted(sys.modules)]))
"""
"""A program whose tape is diagnosed, for Warp as well."""

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


def test_a_diagnosis_that_finds_its_analyses_lowers_no_kernel(tmp_path: Path) -> None:
    loaded = []
    script = tmp_path / "script.py"
    script.write_text(DIAGNOSED, encoding="utf-8")
    for _ in range(2):
        done = run_python(f"import runpy\nrunpy.run_path({str(script)!r})", cache=tmp_path / "cache")
        assert done.returncode == 0, done.stderr
        verdict, modules = json.loads(done.stdout)
        assert verdict == "AGREE"
        loaded.append("tapedebug.compiler.lower" in modules)
        # Only a wrong gradient needs these checks of single launches, and `gradcheck`.
        assert "tapedebug.autograd.tapes.end_to_end" in modules
        assert not {"tapedebug.autograd.subjects.launches", "tapedebug.autograd.results.html"} & {*modules}
        # 6 MB and 50 ms, which `np.unique` and `np.median` would add; tapes of many sums are sampled.
        assert "numpy.ma" not in modules
    assert loaded == [True, False]
    assert not {"difflib", "importlib.metadata", "statistics", "subprocess"} & {*modules}


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


def test_the_platform_is_named_as_the_standard_library_does() -> None:
    assert environment()["platform"] == platform.platform(terse=True)

"""Lines that users write out many times, and loops that are unrolled: they compile in reasonable time."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tapedebug.compiler.llvm.vectorizer_limits import is_searchable

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 60
"""Time limit of a program; without the limits of this compiler it would take years."""

SHAPES = {
    "a logistic map": ("s = p[0]", "s = s - c*s*s", "s", 20),
    "squares": ("s = p[0]", "s = s*s + c", "s", 200),
    "quotients": ("s = p[0]", "s = s / (c + s*s)", "s", 100),
    "halves": ("s = wp.float16(p[0])", "s = s - s*s", "float(s)", 40),
    "whole numbers": ("s = int(p[0])", "s = s - (s // 3)*s", "float(s)", 60),
    "clamped": ("s = p[0]", "s = wp.min(wp.max(s, c), wp.max(s*s, s + c))", "s", 20),
    "nested where": ("s = p[0]", "s = wp.where(s > c, wp.min(s*s, c), wp.max(s, wp.min(c, s*2.0)))", "s", 20),
    "branches": ("s = p[0]", "if s > c:\n        s = s*s - c\n    else:\n        s = s + c*s", "s", 40),
    "vectors": (
        "v = wp.vec3(p[0], c, p[1])",
        "v = v + wp.cross(v, wp.vec3(c, 1.0, 2.0))*wp.dot(v, v)",
        "v[0]",
        10,
    ),
    "an unrolled loop": ("s = p[0]", "for _ in range(16):\n        s = s - c*s*s", "s", 1),
    "a loop that LLVM unrolls": ("s = p[0]", "for _ in range(50):\n        s = s - c*s*s", "s", 1),
    "a loop to its last iteration": (
        "s = p[0]",
        "for k in range(int(p[1])):\n        s = float(k)\n" + "        s = s - c*s*s\n" * 20,
        "s",
        1,
    ),
}
PROGRAM = """
import numpy as np
import tapedebug as wp

wp.config.compiler = {compiler!r}


@wp.kernel
def repeated(p: wp.array(dtype=float), x: wp.array(dtype=float), y: wp.array(dtype=float), c: float):
    i = wp.tid()
    {first}
    {lines}
    y[i] = x[i] * {value}


p = wp.array([0.5, 3.0], dtype=float, requires_grad=True)
x = wp.full(5, 1.0, dtype=float, requires_grad=True)
y = wp.zeros(5, dtype=float, requires_grad=True)
with wp.Tape() as tape:
    wp.launch(repeated, dim=5, inputs=[p, x, y, 0.01])
tape.backward(grads={{y: wp.ones(5, dtype=float)}})
repeated.tangent(frozenset({{0, 1, 2}}))
np.testing.assert_array_equal(x.grad.numpy(), y.numpy())
"""


def run(names: Iterable[str], folder: Path, compiler: str) -> None:
    """Compile and run programs one after the other in one process, which says the name of each."""
    for name in names:
        first, line, value, times = SHAPES[name]
        lines = "\n    ".join([line] * times)
        program = PROGRAM.format(compiler=compiler, first=first, lines=lines, value=value)
        (folder / f"{name}.py").write_text(program)
    code = (
        "import runpy, sys\nfor path in sys.argv[1:]:\n    print(path, flush=True)\n    runpy.run_path(path)"
    )
    environment = os.environ | {"TAPEDEBUG_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    paths = [str(folder / f"{name}.py") for name in names]
    subprocess.run(
        [sys.executable, "-c", code, *paths], env=environment, check=True, timeout=SECONDS * len(paths)
    )


def test_a_chain_from_an_element_of_all_threads(tmp_path: Path):
    run(SHAPES, tmp_path, "llvm")


def test_a_chain_with_numba(tmp_path: Path):
    run(["a logistic map"], tmp_path, "numba")


LOOP = "def entry(lo, hi, args):\n    p = ptr_f32(args, 4)\n    c = args[5]\n    for t in range(lo, hi):\n"


def loop_of(*lines: str) -> str:
    return LOOP + "".join(f"        {line}\n" for line in lines)


def chain(times: int, line: str = "s_{next} = s_{now} - c * s_{now} * s_{now}") -> list[str]:
    return [line.format(now=k, next=k + 1) for k in range(times)]


@pytest.mark.parametrize(
    ("lines", "searchable"),
    [
        (["s_0 = p[0]", *chain(7)], True),
        (["s_0 = p[0]", *chain(12)], False),
        (["s_0 = p[0]", *chain(60, "s_{next} = sin(s_{now})")], True),
        # Elements of a thread's own differ between iterations, and so does all that is made of them.
        (["s_0 = p[t]", *chain(40)], True),
        (["s_0 = p[0] + p[t]", *chain(40)], True),
        # What has nothing of the loop in it was moved out of it.
        (["s_0 = c", *chain(40)], True),
        # A number of a loop inside is the same for all threads.
        (["for k in range(3):", "    s_0 = p[k]", *(f"    {line}" for line in chain(12))], False),
        (["for k in range(p[0]):", "    s_0 = f32(k)", *(f"    {line}" for line in chain(12))], False),
        (["s = p[0]", "for k in range(20):", "    s = s - c * s * s"], False),
        (["s = p[0]", "for k in range(2000):", "    s = s - c * s * s"], True),
        (["s = p[t]", "for k in range(20):", "    s = s - c * s * s"], True),
        # An element that is the same in a loop inside only.
        (["for k in range(c):", "    s_0 = p[t]", *(f"    {line}" for line in chain(12))], False),
        (["s = p[0]", *["if s > c:", "    s = s * s"] * 12], False),
        (["s = p[0]", *["if p[t] > c:", "    s = s * s"] * 12], True),
    ],
)
def test_what_the_vectoriser_searches(lines: list[str], searchable: bool):
    assert is_searchable(ast.parse(loop_of(*lines))) is searchable

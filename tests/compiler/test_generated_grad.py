"""`grad` of random functions against their differences, and its adjoint against its differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.compiler.generator import HEADER, STRUCT, Generator
from tests.compiler.harness import check_gradient, run, twin
from tests.compiler.test_generated import load
from tests.sweeps import cases

THREADS = 5
KERNEL = """@wp.kernel
def program(
    s: wp.array(dtype=float), x: wp.array(dtype=float), v: wp.array(dtype=wp.vec3),
    out: wp.array(dtype=float), by: wp.array(dtype=float), n: int,
):
    i = wp.tid()
"""
GIVEN = {
    "f": "s[i] * {0}",
    "v": "v[i] * s[i]",
    "i": "i",
    "m": "wp.outer(v[i], v[i]) * s[i]",
    "h": "wp.quat(v[i].x, v[i].y, v[i].z, 1.0) * s[i]",
    "d": "wp.float64(s[i])",
}
SLOPE = {
    "f": "d{1} * {0}",
    "v": "wp.dot(d{1}, v[i])",
    "i": "float(d{1})",
    "m": "wp.ddot(d{1}, wp.outer(v[i], v[i]))",
    "h": "wp.dot(d{1}, wp.quat(v[i].x, v[i].y, v[i].z, 1.0))",
    "d": "float(d{1})",
}
TOTAL = {
    "f": "r",
    "v": "r.x + r.y + r.z",
    "fv": "r + t.x + t.y + t.z",
    "m": "wp.ddot(r, wp.mat33(1.0))",
    "h": "r.x + r.y + r.z + r.w",
    "d": "float(r)",
}


def source(seed: int) -> str:
    """A random function, and a kernel of it and of its derivative by `s`, with which all inputs scale."""
    generator = Generator(seed, 9)
    fitting: list[tuple[str, str, str]] = []
    while not fitting:
        generator.function()
        fitting = [
            f for f in generator.functions if f[2] in TOTAL and set(f[1]) & set("fvmhd") and "s" not in f[1]
        ]
    name, kinds, result = fitting[0]
    numbers = [(kind, 0.5 + 0.25 * k, k) for k, kind in enumerate(kinds) if kind != "F"]
    given = [GIVEN[kind].format(factor) for kind, factor, _ in numbers] + (["x", "n"] if "F" in kinds else [])
    names = [f"d{k}" for *_, k in numbers] + (["_", "_"] if "F" in kinds else [])
    lines = [
        f"{'r, t' if result == 'fv' else 'r'} = {name}({', '.join(given)})",
        f"out[i] = {TOTAL[result]}",
        f"{', '.join(names)} = wp.grad({name})({', '.join(given)})",
        f"by[i] = {' + '.join(SLOPE[kind].format(factor, k) for kind, factor, k in numbers)}",
    ]
    return (
        HEADER
        + STRUCT
        + "\n".join(generator.lines)
        + "\n"
        + KERNEL
        + "".join(f"    {line}\n" for line in lines)
    )


def arguments(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    s, x = rng.uniform(-1.5, 1.5, (2, THREADS)).astype(np.float32)
    v = rng.uniform(-1.5, 1.5, (THREADS, 3)).astype(np.float32)
    return [s, x, v, np.zeros(THREADS, np.float32), np.zeros(THREADS, np.float32), THREADS]


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(cases(full=60, sample=20)))
def test_gradient_of_a_random_function(seed: int) -> None:
    kernel = load(source(seed))

    def out(step: float) -> np.ndarray:
        args = twin(arguments(seed))
        args[0] += step
        run(kernel, THREADS, args, f64=True, interpreted=True)
        return args[3]

    slopes = [(out(h) - out(-h)) / (2 * h) for h in (1e-5, 5e-6)]
    args = twin(arguments(seed))
    run(kernel, THREADS, args, f64=True, interpreted=True)
    smooth = np.abs(slopes[0] - slopes[1]) <= 1e-6 * np.maximum(1, np.abs(slopes[1]))
    assert smooth.sum() >= THREADS - 1  # else there is a jump or a kink
    np.testing.assert_allclose(args[4][smooth], slopes[1][smooth], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("seed", range(0, 60, 10))
def test_second_derivatives_of_a_random_function(seed: int) -> None:
    check_gradient(load(source(seed)), THREADS, arguments(seed), tolerance=1e-5)

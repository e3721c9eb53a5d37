"""The same programs under Warp, where it is right: slices, indices, versions, static expressions."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

PROGRAM = """
import enum
import math
from typing import Any

import {package} as wp

SHIFT = wp.constant(2)
WEIGHTS = wp.constant(wp.vec3(0.5, -1.0, 2.0))


class Side(enum.IntEnum):
    LEFT = 0
    RIGHT = 2


@wp.func
def size(a: float):
    return wp.abs(a) * 2.0


@wp.func
def size(a: wp.vec2):
    return wp.length(a)


@wp.func
def power(a: Any, n: float = 2.0):
    return wp.pow(a, type(a)(n))


@wp.func
def scaled(a: Any, s: float = 2.0):
    return a * s


@wp.func
def row_sum(row: wp.array(dtype=float)):
    s = float(0.0)
    for k in range(row.shape[0]):
        s += row[k] * row[-1]
    return s


@wp.func
def both(a: float, b: float):
    return a * b, a + b


def make(factor: float, count: int):
    @wp.kernel(module="unique")
    def made(x: wp.array(dtype=float), m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        s = float(0.0)
        for k in range(wp.static(count)):
            s += wp.static(float(k) * factor) * x[k] * m[i, k]
        y[i] = s * factor

    return made


@wp.kernel(module="unique")
def from_the_end(x: wp.array(dtype=float), m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[-1 - i] * m[-1, i - 2] + m[i - 1][-2]


@wp.kernel(module="unique")
def slices(x: wp.array(dtype=float), m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    part = x[1:-1:2]
    back = x[::-1]
    column = m[:, i]
    block = m[1:, 1:3]
    y[i] = part[i] * back[0] + column[1] * block[0, 1] * float(part.shape[0]) + float(block.shape[0])
    y[i] += row_sum(m[i]) + row_sum(x[i:6])


@wp.kernel(module="unique")
def components(x: wp.array(dtype=float), m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    v = wp.vec4(x[0], x[1], x[i], m[i, 0])
    w = v[1:3]
    q = wp.mat33(x[0], x[1], x[2], x[3], x[4], x[5], m[i, 1], m[i, 2], m[i, 3])
    c = q[0:2, 1]
    r = q[-1]
    b = q[1:, :2]
    y[i] = wp.dot(w, c) * v[-1] + r[0] * b[0, 1] + v[SHIFT] * WEIGHTS[i] + float(Side.RIGHT)


@wp.kernel(module="unique")
def chosen(x: wp.array(dtype=float), m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    a = x[i] if x[i] > 0.6 and m[i, 0] > 0.5 else x[i] * x[i]
    if 0.3 < x[i + 1] < 0.9 or not m[i, 1] > 0.7:
        a = a * m[i, 1]
    p, s = both(a, b=x[5])
    y[i] = p * s + size(a) + size(wp.vec2(a, s)) + power(x[i]) + scaled(wp.vec2(a, s), 3.0)[1] + math.pi


@wp.kernel(module="unique")
def one_of_two(x: wp.array(dtype=float), m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    a = x
    if i > 0:
        a = m[i]
    b = m[0] if x[i] > 0.6 else a
    y[i] = a[1] * a[2] + b[i] * b[3] + float(a.shape[0])


@wp.kernel(module="unique")
def by_keyword(x: wp.array(dtype=float), m: wp.array2d(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    a = wp.lerp(a=x[i], b=m[i, 0], t=0.25) + wp.clamp(x[i], low=0.2, high=0.8)
    y[i] = wp.atan2(y=a, x=2.0) * math.sin(x[i]) + wp.where(x[i] > 0.5, value_if_false=a, value_if_true=1.0)
    for k in range(3):
        y[i] += x[k] * float(k)
    y[i] += float(k)


@wp.kernel(module="unique")
def generic(x: wp.array(dtype=Any), m: wp.array2d(dtype=Any), y: wp.array(dtype=Any)):
    i = wp.tid()
    y[i] = power(x[i], 3.0) * x.dtype(2.0) + m[i, 1] * type(m[i, 1])(0.5)


kernels = {{
    "from_the_end": from_the_end,
    "slices": slices,
    "components": components,
    "chosen": chosen,
    "one_of_two": one_of_two,
    "by_keyword": by_keyword,
    "generic": generic,
    "made_2_3": make(2.0, 3),
    "made_5_4": make(5.0, 4),
}}
"""
NAMES = [
    "from_the_end",
    "slices",
    "components",
    "chosen",
    "one_of_two",
    "by_keyword",
    "generic",
    "made_2_3",
    "made_5_4",
]


def loaded(package: str, folder: Path) -> Any:
    path = folder / f"beside_{package}.py"
    path.write_text(PROGRAM.format(package=package), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    pytest.importorskip("warp", reason="warp-lang is not installed")
    folder = tmp_path_factory.mktemp("beside")
    return loaded("tapedebug", folder), loaded("warp", folder)


def result(module: Any, name: str) -> tuple[np.ndarray, ...]:
    w = module.wp
    rng = np.random.default_rng(5)
    options = {"dtype": float, "device": "cpu", "requires_grad": True}
    x, m = (w.array(rng.uniform(0.2, 1.1, s).astype(np.float32), **options) for s in (8, (3, 4)))
    y = w.zeros(3, **options)
    with w.Tape() as tape:
        w.launch(module.kernels[name], dim=3, inputs=[x, m], outputs=[y], device="cpu")
    tape.backward(grads={y: w.array([1.0, -2.0, 0.5], dtype=float, device="cpu")})
    return y.numpy(), x.grad.numpy(), m.grad.numpy()


@pytest.mark.peer
@pytest.mark.parametrize("name", NAMES)
def test_programs_mean_what_they_mean_in_warp(programs: tuple[Any, Any], name: str) -> None:
    ours, theirs = (result(module, name) for module in programs)
    for one, two in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, two, rtol=2e-5, atol=1e-6)

"""Results of operations where mathematics leaves a choice (zeros, ties, NaN, bounds), beside warp-lang.

Values are those of warp-lang 1.19, whose programs run here unchanged. So are derivatives, but where ours are
more useful or simply right; each such place is listed in `OURS`.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler.harness import run

OPERATIONS = {
    "mod": "x % y",
    "floordiv": "x // y",
    "div": "x / y",
    "min": "wp.min(x, y)",
    "max": "wp.max(x, y)",
    "abs": "wp.abs(x)",
    "sign": "wp.sign(x) * x",
    "round": "wp.round(x) + x",
    "rint": "wp.rint(x) + x",
    "trunc": "wp.trunc(x) + x",
    "cast": "float(int(x))",
    "sqrt": "wp.sqrt(x)",
    "pow": "x ** y",
    "atan2": "wp.atan2(x, y)",
    "clamp": "wp.clamp(x, -1.0, 1.0)",
    "length": "wp.length(wp.vec2(x, y))",
    "normalize": "wp.normalize(wp.vec2(x, y))[0]",
    "asin": "wp.asin(x)",
    "acos": "wp.acos(x)",
    "log": "wp.log(x)",
    "cbrt": "wp.cbrt(x)",
    "where": "wp.where(x > 0.0, x * x, y)",
}
NAN = float("nan")
POINTS = [
    (-7.0, 3.0), (7.0, -3.0), (0.0, 0.0), (0.0, 2.0), (0.0, -1.0), (1.5, 1.5), (-2.0, 2.0), (-2.5, 2.0),
    (1.0, 0.0), (-1.0, 1.0), (1.5, 0.5), (2.5, 2.0), (NAN, 1.0), (1.0, NAN),
]  # fmt: skip
INTEGERS = ("x % y", "x // y", "x / y", "wp.sign(x)", "wp.abs(x)", "wp.min(x, y)", "wp.clamp(x, -y, y)")
INTEGER_POINTS = [(-7, 3), (7, -3), (-7, -3), (7, 3), (0, 5), (-8, 2), (6, -4)]


KERNEL = """
@wp.kernel
def k_{name}({arrays}):
    i = wp.tid()
    x = a[i]
    y = b[i]
    o[i] = {code}
"""


def source(library: str) -> str:
    """One kernel an operation, for either library."""
    text = [f"import {library} as wp\n"]
    for kind, operations in (("float", OPERATIONS), ("int", dict(enumerate(INTEGERS)))):
        for name, code in operations.items():
            arrays = ", ".join(f"{p}: wp.array(dtype={kind})" for p in "abo")
            text.append(KERNEL.format(name=name, arrays=arrays, code=code))
    return "\n".join(text)


def module(library: str, folder: Path) -> Any:
    path = folder / f"conventions_{library}.py"
    path.write_text(source(library), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return module("tapedebug", tmp_path_factory.mktemp("ours"))


def measured(kernel: Any, points: list[tuple[float, float]]) -> np.ndarray:
    """Value, derivative by x and derivative by y, a row each."""
    a, b = np.array(points, np.float32).T.copy()
    n = len(a)
    value, da, db = np.zeros((3, n), np.float32)
    run(kernel, n, [a, b, value])
    run(kernel, n, [a, b, value.copy()], adjoints=[da, db, np.ones(n, np.float32)])
    return np.stack([value, da, db])


CHOICES = [
    # operation, x, y, value, derivative by x, derivative by y
    ("length", 0.0, 0.0, 0.0, 0.0, 0.0),
    ("normalize", 0.0, 0.0, 0.0, 0.0, 0.0),
    ("abs", 0.0, 0.0, 0.0, 0.0, 0.0),
    ("sqrt", 0.0, 0.0, 0.0, np.inf, 0.0),
    ("min", 1.5, 1.5, 1.5, 0.0, 1.0),
    ("max", 1.5, 1.5, 1.5, 0.0, 1.0),
    ("min", NAN, 1.0, 1.0, 0.0, 1.0),
    ("min", 1.0, NAN, 1.0, 1.0, 0.0),
    ("max", NAN, 1.0, 1.0, 0.0, 1.0),
    ("max", 1.0, NAN, 1.0, 1.0, 0.0),
    ("clamp", 1.0, 0.0, 1.0, 1.0, 0.0),
    ("clamp", -1.0, 0.0, -1.0, 1.0, 0.0),
    ("clamp", 1.5, 0.0, 1.0, 0.0, 0.0),
    ("clamp", NAN, 0.0, -1.0, 0.0, 0.0),
    ("mod", -7.0, 3.0, -1.0, 1.0, 2.0),
    ("mod", 7.0, -3.0, 1.0, 1.0, 2.0),
    ("floordiv", -7.0, 3.0, -3.0, 0.0, 0.0),
    ("floordiv", 7.0, -3.0, -3.0, 0.0, 0.0),
    ("div", 1.0, 0.0, np.inf, np.inf, -np.inf),
    ("sign", 0.0, 0.0, 0.0, 1.0, 0.0),
    ("round", -2.5, 0.0, -5.5, 1.0, 0.0),
    ("rint", -2.5, 0.0, -4.5, 1.0, 0.0),
    ("trunc", -2.5, 0.0, -4.5, 1.0, 0.0),
    ("asin", 1.0, 0.0, np.pi / 2, 0.0, 0.0),
    ("asin", -2.0, 0.0, -np.pi / 2, 0.0, 0.0),
    ("acos", -1.0, 0.0, np.pi, 0.0, 0.0),
    ("acos", 1.5, 0.0, 0.0, 0.0, 0.0),
    ("acos", NAN, 0.0, NAN, NAN, 0.0),
    ("atan2", 0.0, 0.0, 0.0, 0.0, 0.0),
    ("pow", 0.0, 0.0, 1.0, 0.0, 0.0),
    ("pow", 0.0, 2.0, 0.0, 0.0, 0.0),
    ("pow", -2.0, 2.0, 4.0, -4.0, NAN),
    ("where", 0.0, 3.0, 3.0, 0.0, 1.0),
    ("where", -1.0, NAN, NAN, 0.0, 1.0),
]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda c: f"{c[0]}({c[1]:g},{c[2]:g})")
def test_choice(ours, choice):
    name, x, y, *expected = choice
    found = measured(getattr(ours, f"k_{name}"), [(x, y)])[:, 0]
    np.testing.assert_allclose(found, np.float32(expected), rtol=1e-6)


def test_casts_out_of_range_give_the_nearest_integer(ours):
    points = [(3e9, 0.0), (-3e9, 0.0), (np.inf, 0.0), (-np.inf, 0.0), (NAN, 0.0), (-2.9, 0.0)]
    a, b = np.array(points, np.float32).T.copy()
    out = np.zeros(len(points), np.float32)
    run(ours.k_cast, len(points), [a, b, out])
    assert out.tolist() == [2.0**31, -(2.0**31), 2.0**31, -(2.0**31), 0.0, -2.0]


def test_an_infinite_adjoint_does_not_reach_the_operand_that_was_not_selected(ours):
    """`where` selects adjoints; a multiplication by 0 would make NaN of them."""
    a, b, value, da, db = (np.full(1, v, np.float32) for v in (-1.0, 2.0, 0.0, 0.0, 0.0))
    run(ours.k_where, 1, [a, b, value], adjoints=[da, db, np.full(1, np.inf, np.float32)])
    assert (da[0], db[0]) == (0.0, np.inf)


# Beside warp-lang ------------------------------------------------------------------------------------------

OURS = {
    "mod": "the derivative by the divisor is -trunc(x / y); there it is 0",
    "abs": "the derivative at 0 is 0, between the slopes; there it is 1",
    "pow": "x ** 0 has derivative 0, and at 0 the derivative by the exponent is 0, not NaN",
    "clamp": "the derivative at the upper bound is 1, as at the lower; there it is 0",
    "length": "a NaN stays NaN in the reverse pass",
    "normalize": "a NaN stays NaN in the reverse pass",
    "atan2": "a NaN stays NaN in the reverse pass",
}
NAN_KEPT = {"asin", "acos"}
"""Functions of NaN that are NaN here and a number in warp-lang."""


@pytest.fixture(scope="module")
def peer(tmp_path_factory):
    wp = pytest.importorskip("warp", reason="warp-lang is not installed")
    wp.config.quiet = True
    wp.config.kernel_cache_dir = str(tmp_path_factory.mktemp("warp-cache"))
    return wp, module("warp", tmp_path_factory.mktemp("peer"))


@pytest.mark.peer
@pytest.mark.parametrize("name", OPERATIONS)
def test_operation_is_that_of_warp(ours, peer, name):
    wp, theirs = peer
    points = [p for p in POINTS if not (name in NAN_KEPT | {"cast"} and np.isnan(p[0]))]
    with wp.ScopedDevice("cpu"):
        a, b = (wp.array(c, dtype=float, requires_grad=True) for c in np.array(points, np.float32).T.copy())
        out = wp.zeros(len(points), dtype=float, requires_grad=True)
        tape = wp.Tape()
        with tape:
            wp.launch(getattr(theirs, f"k_{name}"), len(points), [a, b], [out])
        tape.backward(grads={out: wp.array(np.ones(len(points), np.float32))})
        expected = np.stack([out.numpy(), a.grad.numpy(), b.grad.numpy()])
    found = measured(getattr(ours, f"k_{name}"), points)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    same = np.isclose(found[1:], expected[1:], rtol=1e-5, equal_nan=True).all()
    assert same == (name not in OURS), found - expected


@pytest.mark.peer
def test_integer_operations_are_those_of_warp(ours, peer):
    wp, theirs = peer
    a, b = np.array(INTEGER_POINTS, np.int32).T.copy()
    for place, code in enumerate(INTEGERS):
        found, expected = np.zeros((2, len(a)), np.int32)
        run(getattr(ours, f"k_{place}"), len(a), [a, b, found])
        with wp.ScopedDevice("cpu"):
            target = wp.array(expected, dtype=int)
            wp.launch(getattr(theirs, f"k_{place}"), len(a), [wp.array(a), wp.array(b)], [target])
            assert found.tolist() == target.numpy().tolist(), code

"""Every operation of the rule table, on every float type: values against NumPy, adjoints against differences.

The operations of one group are the rows of one kernel, so that few kernels are compiled; each has a test.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import math
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapedebug.lang import builtins
from tapedebug.lang import types as t
from tapedebug.lang.rules import COMPOSITES, RULES
from tests.compiler.harness import run, twin
from tests.lang import cases
from tests.lang.cases import Case

SAMPLES = 6
FOLDER = tempfile.TemporaryDirectory(prefix="tapedebug-rules-")
NUMBERS = itertools.count()
HEADER = """
import tapedebug as wp
scalar = wp.{scalar}
vec1 = wp.types.vector(1, scalar)
vec = wp.types.vector({length}, scalar)

@wp.kernel
def rows(
    s: wp.array3d(dtype=scalar),
    v: wp.array3d(dtype=vec),
    out_s: wp.array2d(dtype=scalar),
    out_v: wp.array2d(dtype=vec),
):
    i = wp.tid()
"""


@dataclass(frozen=True)
class Group:
    """Operations on one scalar type, with vectors of one length."""

    scalar: type[t.Scalar]
    length: int
    table: str

    @property
    def cases(self) -> list[Case]:
        if self.table == "rules":
            return cases.RULES
        return [c for c in cases.COMPOSITES if self.length == 3 or c.name != "cross"]

    def __str__(self) -> str:
        return f"{self.table}-{t.type_name(t.vector(self.length, self.scalar))}"


GROUPS = [
    Group(t.float32, 3, "rules"),
    Group(t.float64, 3, "rules"),
    Group(t.float32, 2, "composites"),
    Group(t.float32, 3, "composites"),
    Group(t.float64, 3, "composites"),
]
ALL = [
    pytest.param(g, row, id=f"{g}-{c.name}-{c.kinds or 's'}") for g in GROUPS for row, c in enumerate(g.cases)
]


def load(source: str) -> Any:
    """A module of a file of its own, so that kernels have source."""
    path = Path(FOLDER.name) / f"rules_{next(NUMBERS)}.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@functools.cache
def kernel(group: Group) -> Any:
    lines = [HEADER.format(scalar=group.scalar.__name__, length=group.length)]
    for row, case in enumerate(group.cases):
        names = [f"{kind}[{row}, {place}, i]" for place, kind in enumerate(case.operands)]
        # Literals are float32; the language never mixes types silently.
        code = re.sub(r"(\d+\.\d+)", r"scalar(\1)", case.spelling).format(*names)
        lines.append(f"    out_{case.result}[{row}, i] = {code}\n")
    return load("".join(lines)).rows


@functools.cache
def operands(group: Group) -> tuple[np.ndarray, np.ndarray]:
    """Inputs as float32 can hold them: scalars (row, place, i), vectors (row, place, i, component)."""
    rng = np.random.default_rng(3)
    rows = len(group.cases)
    s = np.zeros((rows, 3, SAMPLES))
    v = np.zeros((rows, 3, SAMPLES, group.length))
    for row, case in enumerate(group.cases):
        for place, (kind, (low, high)) in enumerate(zip(case.operands, case.domains, strict=True)):
            array = s if kind == "s" else v
            array[row, place] = rng.uniform(low, high, array[row, place].shape)
        if case.name in RULES and not RULES[case.name].differentiable:
            s[row, :, 0] = s[row, 0, 0]  # a tie, which comparisons must tell from its neighbours
    return s.astype(np.float32).astype(float), v.astype(np.float32).astype(float)


def inputs(group: Group, row: int) -> list[np.ndarray]:
    s, v = operands(group)
    return [(s if kind == "s" else v)[row, place] for place, kind in enumerate(group.cases[row].operands)]


def arguments(group: Group, dtype: Any) -> list[np.ndarray]:
    s, v = (a.astype(dtype) for a in operands(group))
    rows = len(group.cases)
    return [s, v, np.zeros((rows, SAMPLES), dtype), np.zeros((rows, SAMPLES, group.length), dtype)]


@functools.cache
def values(group: Group, f64: bool) -> tuple[np.ndarray, np.ndarray]:
    args = arguments(group, group.scalar.numpy)
    args = twin(args) if f64 else args
    run(kernel(group), SAMPLES, args, f64=f64)
    return args[2], args[3]


@functools.cache
def seeds(group: Group) -> list[np.ndarray]:
    rng = np.random.default_rng(5)
    return [rng.normal(size=a.shape) for a in arguments(group, float)[2:]]


@functools.cache
def adjoints(group: Group, f64: bool) -> list[np.ndarray]:
    args = arguments(group, group.scalar.numpy)
    args = twin(args) if f64 else args
    dtype = args[0].dtype
    found = [np.zeros_like(args[0]), np.zeros_like(args[1]), *(s.astype(dtype) for s in seeds(group))]
    run(kernel(group), SAMPLES, args, f64=f64, adjoints=found)
    return found[:2]


def expected_adjoint(group: Group, row: int, place: int) -> np.ndarray:
    """Central differences of the NumPy value, contracted with the seed."""
    case, given = group.cases[row], inputs(group, row)
    seed = seeds(group)["sv".index(case.result)][row]
    h = 1e-6

    def product(moved: np.ndarray) -> np.ndarray:
        terms = np.asarray(case.value(*given[:place], moved, *given[place + 1 :]), float) * seed
        return terms if case.result == "s" else terms.sum(-1)

    if case.operands[place] == "s":
        return (product(given[place] + h) - product(given[place] - h)) / (2 * h)
    columns = []
    for component in range(group.length):
        step = np.zeros(group.length)
        step[component] = h
        columns.append((product(given[place] + step) - product(given[place] - step)) / (2 * h))
    return np.stack(columns, -1)


@pytest.mark.parametrize(("group", "row"), ALL)
def test_value_is_numpys(group: Group, row: int) -> None:
    case = group.cases[row]
    expected = np.asarray(case.value(*inputs(group, row)), float)
    which = "sv".index(case.result)
    tolerance = 2e-6 if group.scalar is t.float32 else 1e-13
    np.testing.assert_allclose(values(group, False)[which][row], expected, rtol=tolerance, atol=tolerance)
    exact = 2e-7 if case.name == "to_f32" else 1e-13
    np.testing.assert_allclose(values(group, True)[which][row], expected, rtol=exact, atol=exact)


@pytest.mark.parametrize(("group", "row"), ALL)
def test_adjoint_is_the_difference_quotient(group: Group, row: int) -> None:
    case = group.cases[row]
    flat = case.name in RULES and not RULES[case.name].differentiable and case.name != "sign0"
    for place, kind in enumerate(case.operands):
        which = "sv".index(kind)
        if flat:
            assert not adjoints(group, False)[which][row, place].any()
            continue
        expected = expected_adjoint(group, row, place)
        single = group.scalar is t.float32 or case.name == "to_f32"
        for f64, tolerance in ((True, 2e-8), (False, 2e-5 if single else 2e-8)):
            found = adjoints(group, f64)[which][row, place]
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_every_entry_of_the_table_is_checked() -> None:
    assert {c.name for c in cases.RULES} | cases.INTEGER_ONLY == set(RULES)
    assert {c.name for c in cases.COMPOSITES} == set(COMPOSITES)


def test_every_entry_that_users_call_is_a_builtin() -> None:
    called = {c.name for c in cases.RULES + cases.COMPOSITES if f"wp.{c.name}(" in c.spelling}
    operators = {"floordiv", "mod", "pow"}  # functions with an operator of their own
    assert called | operators | set(builtins.SPECIAL) == set(builtins.BUILTINS)


# Integers --------------------------------------------------------------------------------------------------

INTEGER_ROWS = {
    "x + y": lambda x, y: x + y,
    "x - y": lambda x, y: x - y,
    "x * y": lambda x, y: x * y,
    "-x": lambda x, y: -x,
    "x / y": lambda x, y: 0 if y == 0 else int(math.copysign(abs(x) // abs(y), x * y)) if x else 0,
    "x // y": lambda x, y: 0 if y == 0 else x // y,
    "x % y": lambda x, y: 0 if y == 0 else int(math.fmod(x, y)),
    "wp.abs(x)": lambda x, y: abs(x),
    "wp.sign(x)": lambda x, y: -1 if x < 0 else 1,
    "wp.min(x, y)": lambda x, y: min(x, y),
    "wp.max(x, y)": lambda x, y: max(x, y),
    "wp.clamp(x, y, y + one)": lambda x, y: min(max(x, y), y + 1),
    "wp.where(x < y, x, y)": lambda x, y: min(x, y),
    "integer(x == y)": lambda x, y: int(x == y),
    "integer(wp.bool(x))": lambda x, y: int(x != 0),
    "x & y": lambda x, y: x & y,
    "x | y": lambda x, y: x | y,
    "x ^ y": lambda x, y: x ^ y,
    "~x": lambda x, y: ~x,
    "x << (y & integer(3))": lambda x, y: x << (y & 3),
    "x >> (y & integer(3))": lambda x, y: x >> (y & 3),
    "integer((x > y) & (y > one) | (x > one) ^ (y < one))": lambda x, y: int(
        (x > y) & (y > 1) | (x > 1) ^ (y < 1)
    ),
    "count(x, y)": lambda x, y: len(range(x, y, 3)),
}
INTEGER_KERNEL = """
import tapedebug as wp
integer = wp.{scalar}
one = integer(1)

@wp.func
def count(x: integer, y: integer):
    n = integer(0)
    for k in range(x, y, integer(3)):
        n += one
    return n

@wp.kernel
def rows(a: wp.array(dtype=integer), b: wp.array(dtype=integer), out: wp.array2d(dtype=integer)):
    i = wp.tid()
    x = a[i]
    y = b[i]
"""


@pytest.mark.parametrize("scalar", t.INTEGERS, ids=t.type_name)
def test_integers_are_those_of_c(scalar: type[t.Scalar]) -> None:
    text = INTEGER_KERNEL.format(scalar=scalar.__name__)
    text += "".join(f"    out[{row}, i] = {code}\n" for row, code in enumerate(INTEGER_ROWS))
    pairs = [(x, y) for x in (-8, -7, -1, 0, 1, 7, 8) for y in (-3, -1, 0, 1, 2, 3, 7)]
    a, b = (np.array(column, scalar.numpy) for column in zip(*pairs, strict=True))
    out = np.zeros((len(INTEGER_ROWS), len(pairs)), scalar.numpy)
    run(load(text).rows, len(pairs), [a, b, out])
    for row, (code, function) in enumerate(INTEGER_ROWS.items()):
        assert out[row].tolist() == [function(x, y) for x, y in pairs], code


def test_integer_arithmetic_wraps_in_its_own_width() -> None:
    text = (
        INTEGER_KERNEL.format(scalar="int32")
        + "    out[0, i] = x + y\n    out[1, i] = x * y\n    out[2, i] = x / y\n"
    )
    least = np.iinfo(np.int32).min
    a, b = np.array([2**31 - 1, 2**20, least], np.int32), np.array([1, 2**12, -1], np.int32)
    out = np.zeros((3, 3), np.int32)
    run(load(text).rows, 3, [a, b, out])
    assert out.tolist() == [
        [least, 2**20 + 2**12, 2**31 - 1],
        [2**31 - 1, 0, least],
        [2**31 - 1, 2**8, least],  # -least overflows; the quotient by -1 does so quietly
    ]

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
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tapedebug.lang import builtins
from tapedebug.lang import types as t
from tapedebug.lang.rules import COMPOSITES, DRAWS, RULES, Composite, Quantity, Rule
from tapedebug.lang.rules._quantities import require
from tapedebug.lang.rules.table import numbers
from tests import sweeps
from tests.compiler.harness import run, twin
from tests.lang import cases
from tests.lang.cases import Case
from tests.lang.cases.integers import INTEGER_HEADER, INTEGER_ROWS, wrapped
from tests.lang.probe import families

SAMPLES = 6
FOLDER = tempfile.TemporaryDirectory(prefix="tapedebug-rules-")
NUMBERS = itertools.count()
FLOATS = [s for s in t.FLOATS if s is not t.bfloat16 or importlib.util.find_spec("ml_dtypes")]
"""The float types that NumPy has here."""
HEADER = """
import tapedebug as wp
scalar = wp.{scalar}
vec1 = wp.types.vector(1, scalar)
"""


@dataclass(frozen=True)
class Group:
    """Operations on one scalar type, with vectors of one length."""

    scalar: type[t.Scalar]
    length: int
    table: str

    @property
    def cases(self) -> list[Case]:
        return [c for c in cases.TABLES[self.table] if self.length in c.lengths]

    @property
    def kinds(self) -> list[str]:
        """The kinds of values that the operations use, in the order of the kernel's arrays."""
        used = {kind for case in self.cases for kind in case.operands + case.result}
        return [kind for kind in cases.KINDS if kind in used]

    def shape(self, kind: str) -> tuple[int, ...]:
        """The shape of one value of a kind."""
        return cases.KINDS[kind][1](self.length)

    def __str__(self) -> str:
        return f"{self.table}-{t.type_name(t.vector(self.length, self.scalar))}"


def scalars_of(table: str) -> list[type[t.Scalar]]:
    """The float types that the operations of a table take."""
    return [scalar for scalar in FLOATS if table != "noise" or t.bits_of(scalar) > 16]


GROUPS = [
    *(Group(scalar, 3, table) for table in cases.TABLES for scalar in scalars_of(table)),
    *(Group(scalar, 2, "decompositions") for scalar in FLOATS),
    *(Group(t.float32, 2, table) for table in ("norms", "matrices")),
    Group(t.float64, 4, "matrices"),
    *(Group(scalar, length, "noise") for scalar, length in ((t.float32, 2), (t.float64, 2), (t.float32, 4))),
]
VALUES = {t.float16: 4e-3, t.bfloat16: 3e-2, t.float32: 2e-6, t.float64: 1e-13}
"""Relative tolerance of values; halves are rounded after every operation."""
ADJOINTS = {t.float16: 2e-2, t.bfloat16: 0.15, t.float32: 2e-5, t.float64: 0.0}
ALL = [
    pytest.param(g, row, id=f"{g}-{c.name}-{c.kinds or 's'}") for g in GROUPS for row, c in enumerate(g.cases)
]


def optimized() -> set[Group]:
    """Return one group of each table: the others are compiled without LLVM's optimization.

    A group is one kernel, so that no test runs what another compiled in the other way. Of short vectors, as
    code of decompositions is long (`tests/autograd/test_repeated_singular_values.py` optimizes 3 × 3).
    """
    chosen = set()
    for table in cases.TABLES:
        groups = [g for g in GROUPS if g.table == table and t.bits_of(g.scalar) > 16]
        least = min(g.length for g in groups)
        groups = [g for g in groups if g.length == least]
        chosen.add(groups[zlib.crc32(table.encode()) % len(groups)])
    return chosen


OPTIMIZED = optimized()
SEMANTIC = [
    pytest.param(*c.values, id=c.id, marks=() if c.values[0] in OPTIMIZED else pytest.mark.unoptimized)
    for c in ALL
]


def in_one_precision(listed: list[Any]) -> list[Any]:
    """Return the cases of each table and length in one of its precisions; all of them in a full sweep."""
    if sweeps.FULL:
        return listed
    scalars: dict[tuple[str, int], list[type[t.Scalar]]] = {}
    for case in listed:
        group = case.values[0]
        known = scalars.setdefault((group.table, group.length), [])
        if group.scalar not in known:
            known.append(group.scalar)
    chosen = {key: known[zlib.crc32(repr(key).encode()) % len(known)] for key, known in scalars.items()}
    return [c for c in listed if chosen[c.values[0].table, c.values[0].length] is c.values[0].scalar]


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
    lines = [HEADER.format(scalar=group.scalar.__name__), cases.HEADERS.get(group.table, "")]
    lines += [f"kind_{kind} = {cases.KINDS[kind][0].format(n=group.length)}\n" for kind in group.kinds]
    arrays = [f"{kind}: wp.array3d(dtype=kind_{kind})" for kind in group.kinds]
    arrays += [f"out_{kind}: wp.array2d(dtype=kind_{kind})" for kind in group.kinds]
    lines.append(f"@wp.kernel\ndef rows({', '.join(arrays)}):\n    i = wp.tid()\n")
    for row, case in enumerate(group.cases):
        names = [f"{kind}[{row}, {place}, i]" for place, kind in enumerate(case.operands)]
        # Literals are float32; the language never mixes types silently.
        code = re.sub(r"(\d+\.\d+)", r"scalar(\1)", case.spelling).format(*names, n=group.length)
        lines.append(f"    out_{case.result}[{row}, i] = {code}\n")
    return load("".join(lines)).rows


@functools.cache
def operands(group: Group) -> dict[str, np.ndarray]:
    """Inputs as float32 (or a half) can hold them, by kind: (row, place, i) and the shape of a value."""
    rng = np.random.default_rng(3)
    rows = len(group.cases)
    found = {kind: np.zeros((rows, 3, SAMPLES, *group.shape(kind))) for kind in group.kinds}
    for row, case in enumerate(group.cases):
        for place, (kind, (low, high)) in enumerate(zip(case.operands, case.domains, strict=True)):
            array = found[kind]
            array[row, place] = rng.uniform(low, high, array[row, place].shape)
        if flat(case):
            for array in found.values():
                array[row, :, 0] = array[row, 0, 0]  # a tie, which comparisons must tell from its neighbours
    narrow = group.scalar.numpy if t.bits_of(group.scalar) == 16 else np.float32
    return {kind: array.astype(narrow).astype(float) for kind, array in found.items()}


def flat(case: Case) -> bool:
    """True if the operation passes no derivative on."""
    table = RULES if case in cases.TABLES["rules"] else COMPOSITES
    return not table[case.name].differentiable


def inputs(group: Group, row: int) -> list[np.ndarray]:
    given = operands(group)
    return [given[kind][row, place] for place, kind in enumerate(group.cases[row].operands)]


def arguments(group: Group, dtype: Any) -> list[np.ndarray]:
    """The kernel's arrays: inputs and outputs, by kind."""
    given = [array.astype(dtype) for array in operands(group).values()]
    return given + [np.zeros((len(group.cases), SAMPLES, *group.shape(kind)), dtype) for kind in group.kinds]


@functools.cache
def values(group: Group, f64: bool) -> dict[str, np.ndarray]:
    args = arguments(group, group.scalar.numpy)
    args = twin(args) if f64 else args
    run(kernel(group), SAMPLES, args, f64=f64)
    return dict(zip(group.kinds, args[len(group.kinds) :], strict=True))


@functools.cache
def seeds(group: Group) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    outputs = arguments(group, float)[len(group.kinds) :]
    return {kind: rng.normal(size=a.shape) for kind, a in zip(group.kinds, outputs, strict=True)}


@functools.cache
def adjoints(group: Group, f64: bool) -> dict[str, np.ndarray]:
    args = arguments(group, group.scalar.numpy)
    args = twin(args) if f64 else args
    dtype = args[0].dtype
    found = [np.zeros_like(a) for a in args[: len(group.kinds)]]
    run(
        kernel(group),
        SAMPLES,
        args,
        f64=f64,
        adjoints=found + [s.astype(dtype) for s in seeds(group).values()],
    )
    return dict(zip(group.kinds, found, strict=True))


def expected_adjoint(group: Group, row: int, place: int) -> np.ndarray:
    """Central differences of the NumPy value by Richardson's extrapolation, contracted with the seed."""
    case, given = group.cases[row], inputs(group, row)
    seed = seeds(group)[case.result][row]

    def product(moved: np.ndarray) -> np.ndarray:
        terms = np.asarray(case.value(*given[:place], moved, *given[place + 1 :]), float) * seed
        return terms.reshape(SAMPLES, -1).sum(-1)

    shape = group.shape(case.operands[place])
    found = np.zeros((SAMPLES, *shape))
    for component in np.ndindex(*shape):
        step = np.zeros(shape)
        step[component] = 1.0
        coarse, fine = (
            (product(given[place] + h * step) - product(given[place] - h * step)) / (2 * h)
            for h in (4e-4, 2e-4)
        )
        found[(slice(None), *component)] = (4 * fine - coarse) / 3
    return found


@pytest.mark.parametrize(("group", "row"), SEMANTIC)
def test_value_is_numpys(group: Group, row: int) -> None:
    case = group.cases[row]
    expected = np.asarray(case.value(*inputs(group, row)), float)
    tolerance = max(VALUES[group.scalar], {"to_f16": 1e-3, "to_bf16": 8e-3}.get(case.name, 0.0))
    scale = max(1.0, float(np.abs(expected).max())) if tolerance > 1e-4 else 1.0
    np.testing.assert_allclose(
        values(group, False)[case.result][row], expected, rtol=tolerance, atol=tolerance * scale
    )
    exact = 2e-7 if case.name in cases.ROUNDED else 1e-13
    np.testing.assert_allclose(values(group, True)[case.result][row], expected, rtol=exact, atol=exact)


@pytest.mark.parametrize(("group", "row"), SEMANTIC)
def test_adjoint_is_the_difference_quotient(group: Group, row: int) -> None:
    case = group.cases[row]
    passes_none = flat(case) and case.name != "sign0"
    for place, kind in enumerate(case.operands):
        if passes_none:
            assert not adjoints(group, False)[kind][row, place].any()
            continue
        expected = expected_adjoint(group, row, place)
        exact = 2e-7 if case.name in cases.ROUNDED else 2e-8
        rough = {"to_f16": 2e-2, "to_bf16": 0.15, "to_f32": 2e-5}.get(case.name, exact)
        for f64, tolerance in ((True, exact), (False, max(rough, ADJOINTS[group.scalar]))):
            found = adjoints(group, f64)[kind][row, place]
            scale = max(1.0, float(np.abs(expected).max())) if tolerance > 1e-3 else 1.0
            np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)


@functools.cache
def tangents(group: Group) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """A random direction, and the tangent of the outputs along it; in float64."""
    rng = np.random.default_rng(8)
    args = twin(arguments(group, group.scalar.numpy))
    count = len(group.kinds)
    direction = [rng.normal(size=a.shape) for a in args[:count]]
    dots = [d.copy() for d in direction] + [np.zeros(a.shape) for a in args[count:]]
    run(kernel(group), SAMPLES, args, f64=True, tangents=dots)
    return (
        dict(zip(group.kinds, direction, strict=True)),
        dict(zip(group.kinds, dots[count:], strict=True)),
    )


@pytest.mark.parametrize(("group", "row"), in_one_precision(SEMANTIC))
def test_tangent_is_the_adjoint_transposed(group: Group, row: int) -> None:
    case = group.cases[row]
    direction, dots = tangents(group)
    forward = (seeds(group)[case.result][row] * dots[case.result][row]).reshape(SAMPLES, -1).sum(-1)
    backward = np.zeros(SAMPLES)
    for place, kind in enumerate(case.operands):
        terms = adjoints(group, True)[kind][row, place] * direction[kind][row, place]
        backward += terms.reshape(SAMPLES, -1).sum(-1)
    np.testing.assert_allclose(forward, backward, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_interpreted_text_gives_the_same(group: Group) -> None:
    args = arguments(group, group.scalar.numpy)
    run(kernel(group), SAMPLES, args, interpreted=True)
    tolerance = VALUES[group.scalar]
    for kind, found in zip(group.kinds, args[len(group.kinds) :], strict=True):
        np.testing.assert_allclose(found, values(group, False)[kind], rtol=tolerance, atol=tolerance)


def left_out() -> set[tuple[str, str]]:
    """Return the operations that no case covers."""
    return demanded() - checked()


def demanded() -> set[tuple[str, str]]:
    """Every entry of the table with each kind of float operands that it takes."""
    rules = {(name, "s" * RULES[name].arity) for name in set(RULES) - cases.INTEGER_ONLY - cases.INTERNAL}
    return rules | {(name, kinds) for name in COMPOSITES for kinds in families(name, t.float32)}


def checked() -> set[tuple[str, str]]:
    """Return the operations that the cases cover."""
    return {(c.name, c.families) for table in cases.TABLES.values() for c in table}


def test_every_entry_of_the_table_is_checked(capsys: pytest.CaptureFixture[str]) -> None:
    assert sorted(left_out()) == []
    pairs = {(c.name, c.families, g.scalar) for g in GROUPS for c in g.cases}
    every = {
        (c.name, c.families, scalar)
        for table, listed in cases.TABLES.items()
        for scalar in scalars_of(table)
        for c in listed
    }
    assert every <= pairs
    with capsys.disabled():
        entries = len({name for name, _, _ in pairs})
        print(f" [{entries} operations, {len(pairs)} pairs of operands and scalar type, {len(ALL)} cases] ")


def test_the_checker_demands_a_case_of_a_new_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    before = demanded()
    twice = Rule("twice", "Twice.", numbers, "2 * {0}", (lambda x, r: 2.0,))
    monkeypatch.setitem(RULES, "twice", twice)
    halves = Composite("halves", "Halves.", lambda x: halved(x), 1, 1)
    monkeypatch.setitem(COMPOSITES, "halves", halves)
    assert demanded() - before == {("twice", "s"), ("halves", "v"), ("halves", "q")}
    assert {("twice", "s"), ("halves", "v"), ("halves", "q")} <= left_out()


def halved(x: Quantity) -> Quantity:
    require(t.Vector, x, also=t.Quaternion)
    return Quantity(x.type, tuple(part * 0.5 for part in x.parts))


def test_every_entry_that_users_call_is_a_builtin() -> None:
    every = [case for table in cases.TABLES.values() for case in table]
    texts = [c.spelling for c in every] + list(cases.HEADERS.values())
    called = {c.name for c in every if any(f"wp.{c.name}(" in text for text in texts)}
    operators = {"floordiv", "pow", *builtins.BOTH}  # functions with an operator of their own
    assert called | operators | {"mod"} | set(DRAWS) | set(builtins.SPECIAL) == set(builtins.BUILTINS)


# Integers --------------------------------------------------------------------------------------------------

INTEGER_KERNEL = f"""
import tapedebug as wp
{INTEGER_HEADER}
@wp.kernel
def rows(a: wp.array(dtype=integer), b: wp.array(dtype=integer), out: wp.array2d(dtype=integer)):
    i = wp.tid()
    x = a[i]
    y = b[i]
"""


@pytest.mark.parametrize("interpreted", [False, True], ids=["compiled", "interpreted"])
@pytest.mark.parametrize("scalar", t.INTEGERS, ids=t.type_name)
def test_integers_are_those_of_c(scalar: type[t.Scalar], interpreted: bool) -> None:
    text = INTEGER_KERNEL.format(scalar=scalar.__name__)
    text += "".join(f"    out[{row}, i] = {code}\n" for row, code in enumerate(INTEGER_ROWS))
    limits = np.iinfo(scalar.numpy)
    signed = scalar in t.SIGNED
    xs = (-8, -7, -1, 0, 1, 7, 8, 100) if signed else (0, 1, 7, 8, 200, int(limits.max))
    ys = (-3, -1, 0, 1, 2, 3, 7, limits.bits - 1, limits.bits) if signed else (0, 1, 2, 3, 7, limits.bits)
    pairs = [(x, y) for x in xs for y in ys]
    a, b = (np.array(column, scalar.numpy) for column in zip(*pairs, strict=True))
    out = np.zeros((len(INTEGER_ROWS), len(pairs)), scalar.numpy)
    run(load(text).rows, len(pairs), [a, b, out], interpreted=interpreted)
    for row, (code, function) in enumerate(INTEGER_ROWS.items()):
        if code == "count(x, y)" and limits.max in a:
            continue  # a loop over the whole of a type
        assert out[row].tolist() == [wrapped(function(x, y), scalar) for x, y in pairs], code


CONVERSIONS = """
import tapedebug as wp

@wp.kernel
def convert(x: wp.array(dtype=wp.{source}), y: wp.array(dtype=wp.{target})):
    i = wp.tid()
    y[i] = wp.{target}(x[i])
"""


@pytest.mark.parametrize("target", t.INTEGERS, ids=t.type_name)
@pytest.mark.parametrize(
    "source", [t.int8, t.uint8, t.int64, t.uint64, t.float32, t.float64], ids=t.type_name
)
def test_conversions_wrap_integers_and_hold_floats_in_range(
    source: type[t.Scalar], target: type[t.Scalar]
) -> None:
    limits = np.iinfo(target.numpy)
    if source in t.FLOATS:
        numbers: list[float] = [-1e30, -2.9, -0.5, 0.0, 2.9, 100.0, 1e30, np.inf, -np.inf, np.nan]
        expected = [0 if np.isnan(n) else math.trunc(min(max(n, limits.min), limits.max)) for n in numbers]
    else:
        own = np.iinfo(source.numpy)
        numbers = [own.min, own.min + 1, 0, 1, 100, own.max]
        expected = [wrapped(int(n), target) for n in numbers]
    convert = load(CONVERSIONS.format(source=source.__name__, target=target.__name__)).convert
    for interpreted in (False, True):
        x, y = np.array(numbers, source.numpy), np.zeros(len(numbers), target.numpy)
        run(convert, len(numbers), [x, y], interpreted=interpreted)
        assert y.tolist() == expected


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

"""Random chains of every operation: values against NumPy, adjoints and tangents against its differences.

`python -m tests.compiler.fuzz --operations` tries many more.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tapedebug.compiler.ir import walk
from tapedebug.lang import types as t
from tapedebug.lang.rules import COMPOSITES, DRAWS, RULES
from tests.compiler import generator_operations
from tests.compiler.generator_operations import EVERY, SCALARS, THREADS, Program, scalars_of
from tests.compiler.harness import run, twin
from tests.compiler.second_order import Second
from tests.compiler.test_generated import IllConditioned, load
from tests.lang.cases import INTERNAL
from tests.lang.cases.integers import INTEGER_HEADER, INTEGER_ROWS
from tests.sweeps import cases

SEEDS = len(EVERY)
BITS = "reads memory as another type: test_views.py"
STATE = "a part of the random numbers and noise that the programs call"
UNKNOWN = {
    **dict.fromkeys(DRAWS, "has no value in NumPy: test_random.py compares streams, bounds and slopes"),
    **dict.fromkeys(INTERNAL, "no program names it: test_decompositions.py"),
    **dict.fromkeys(("rand_pcg", "direction_f32", "direction_f64", "single"), STATE),
    **dict.fromkeys(("centred_f32", "centred_f64"), STATE),
    **{name: BITS for name in RULES if name.endswith("_of_bits")},
    "from_end": "an index from the end of an array: test_views.py",
}
"""Operations that no random program has, each with the reason."""


class Chain:
    """A program of operations, its arguments, and random seeds and directions of its floats."""

    def __init__(self, seed: int, size: int = 8) -> None:
        self.program = Program(seed, size)
        self.kernel = load(self.program.text)
        rng = np.random.default_rng(seed)
        self.args = self.program.arguments(rng)
        self.inputs = len(self.program.inputs)
        wide = twin(self.args)
        self.active = [i for i, a in enumerate(wide) if a.dtype == np.float64]
        self.outputs = [i for i in self.active if i >= self.inputs]
        self.seeds = {i: rng.normal(size=wide[i].shape) for i in self.outputs}
        self.direction = {i: rng.normal(size=wide[i].shape) for i in range(self.inputs)}
        self.exact = 1e-9 if not self.program.used & {"to_f32"} else 1e-4

    def difference(self) -> float:
        """The derivative of NumPy's results along the direction."""

        def objective(step: float) -> float:
            given = [twin(self.args)[i] + step * d for i, d in self.direction.items()]
            found = self.program.reference(given)
            return float(sum((found[i - self.inputs] * self.seeds[i]).sum() for i in self.outputs))

        large, small = ((objective(h) - objective(-h)) / (2 * h) for h in (1e-5, 5e-6))
        if not np.isfinite([large, small]).all() or abs(large) > 1e5:
            raise IllConditioned
        if abs(large - small) > 1e-6 * max(1.0, abs(small)):
            raise IllConditioned
        return small

    def adjoints(self, **how: Any) -> dict[int, np.ndarray]:
        wide = twin(self.args)
        found = {i: self.seeds[i].copy() if i in self.seeds else np.zeros_like(wide[i]) for i in self.active}
        given = [found.get(p.index) for p in self.kernel.params if p.is_array]
        run(self.kernel, THREADS, wide, f64=True, adjoints=given, **how)
        return found

    def tangent(self, **how: Any) -> float:
        wide = twin(self.args)
        dots = {i: self.direction.get(i, np.zeros_like(wide[i])).copy() for i in self.active}
        given = [dots.get(p.index) for p in self.kernel.params if p.is_array]
        run(self.kernel, THREADS, wide, f64=True, tangents=given, **how)
        return float(sum((dots[i] * self.seeds[i]).sum() for i in self.outputs))

    def check(self, **how: Any) -> None:
        """Compare values, the gradient and the tangent with NumPy's."""
        expected = self.program.reference(twin(self.args))
        found = twin(self.args)
        run(self.kernel, THREADS, found, f64=True, **how)
        for kind, one, two in zip(self.program.outputs, found[self.inputs :], expected, strict=True):
            np.testing.assert_allclose(
                one.astype(float), two.astype(float), rtol=self.exact, atol=self.exact, err_msg=kind
            )
        difference = self.difference()
        gradient = self.adjoints(**how)
        exact = float(sum((gradient[i] * d).sum() for i, d in self.direction.items()))
        rounding = max(1e-5, self.exact)
        assert abs(exact - difference) <= rounding * max(1.0, abs(difference)), (exact, difference)
        forward = self.tangent(**how)
        assert abs(forward - exact) <= 1e-9 * max(1.0, abs(exact)), (forward, exact)

    def compiled(self) -> None:
        """Compare machine code with the interpreted text: in float64, and values in the program's type."""
        self.check()
        plain, fast = self.adjoints(interpreted=True), self.adjoints()
        for i in self.active:
            np.testing.assert_allclose(fast[i], plain[i], rtol=1e-9, atol=1e-9)
        for lanes in (False, True):
            one, two = ([a.copy() for a in self.args] for _ in range(2))
            run(self.kernel, THREADS, one, lanes=lanes)
            run(self.kernel, THREADS, two, interpreted=True)
            bits = t.bits_of(self.program.scalar)
            # the vectors' own functions differ in the last places, and chains may multiply that by 1e5
            near = 0.1 if bits == 16 else 1e-2 if bits == 32 else 1e-10
            for fine, text in zip(one, two, strict=True):
                wanted = text.astype(float)
                np.testing.assert_allclose(fine.astype(float), wanted, near, near, equal_nan=True)

    def second(self) -> None:
        """Compare second derivatives with differences of the gradient."""
        with np.errstate(all="ignore"):
            Second(self.kernel, THREADS, self.args, active=self.active, interpreted=True).check(1e-5)


@pytest.mark.unoptimized
@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(0, SEEDS, cases(full=1, sample=9)))
def test_interpreted_operations(seed: int) -> None:
    try:
        Chain(seed).check(interpreted=True)
    except IllConditioned:
        pytest.skip("ill-conditioned")


@functools.cache
def used() -> set[str]:
    """Return the operations of the programs of all first seeds, of which each begins with another one."""
    return set().union(*(Program(seed, 3).used for seed in range(SEEDS)))


@functools.cache
def of_integers() -> set[str]:
    """Return the rules of the spellings on integers."""
    listed = "".join(f"    out[{n}] = {row}\n" for n, row in enumerate(INTEGER_ROWS))
    text = (
        f"import tapedebug as wp\n{INTEGER_HEADER.format(scalar='int32')}\n@wp.kernel\n"
        f"def program(x: integer, y: integer, out: wp.array(dtype=integer)):\n{listed}"
    )
    kernel = load(text)
    return {node.kind for node in walk(kernel._lowered.function.body) if hasattr(node, "kind")}


def test_every_operation_is_in_a_random_program_or_says_why_not() -> None:
    every = {*RULES, *COMPOSITES, *DRAWS}
    known = used() | of_integers()
    assert sorted(every - known - set(UNKNOWN)) == []
    assert sorted(set(UNKNOWN) & used()) == []
    assert set(UNKNOWN) <= every


def test_every_scalar_type_is_in_a_random_program() -> None:
    assert {Program(seed, 1).scalar for seed in range(SEEDS)} == set(SCALARS)
    assert {Program(seed, 1).integer for seed in range(SEEDS)} == set(t.INTEGERS)


@pytest.mark.parametrize("count", range(SEEDS - 3, SEEDS + 1))
def test_every_operation_gets_every_scalar_type(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator_operations, "EVERY", EVERY[:count])
    for place in (0, 1, count - 1):
        programs = [Program(place + turn * count, 1) for turn in range(8)]
        assert {program.scalar for program in programs} == set(scalars_of(EVERY[place][0]))
        assert {program.integer for program in programs} == set(t.INTEGERS)

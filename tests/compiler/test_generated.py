"""Random programs: values against plain Python, adjoints and tangents against its differences.

`python -m tests.compiler.fuzz` tries many more.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.compiler.generator import COLUMNS, program
from tests.compiler.generator_custom import with_own_functions
from tests.compiler.harness import run, twin
from tests.compiler.reference import reference
from tests.compiler.second_order import Second
from tests.sweeps import cases

THREADS = 4
FOLDER = tempfile.TemporaryDirectory(prefix="tapedebug-generated-")
NUMBERS = itertools.count()
FOUND = Path(__file__).parent / "found"
READ_ONLY, WRITE_ONLY = ("x", "q"), ("acc", "vacc", "out")


class IllConditioned(Exception):
    """Differences at two steps disagree, or values are huge: nothing can be said about the derivative."""


def load(source: str) -> Any:
    """The kernel of a program, from a file of its own."""
    path = Path(FOLDER.name) / f"program_{os.getpid()}_{next(NUMBERS)}.py"  # forks share the folder
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.program


def arguments(rng: np.random.Generator, n: int = THREADS, *, runs: bool = False) -> list[Any]:
    """For so many threads, in the order of `generator.PARAMETERS`; float arrays in float64.

    With `runs` indices mostly follow each other, as lists of neighbours do.
    """

    def floats(*shape: int) -> np.ndarray:
        return rng.uniform(-1.5, 1.5, shape).astype(np.float32).astype(float)

    idx = rng.integers(0, n, n).astype(np.int32)
    z = rng.integers(0, n, n).astype(np.int32)
    if runs:
        idx, z = ((np.arange(n) + start) % n for start in (idx[0], z[0]))
        idx[n // 3 : n // 2] = idx[n // 3 : n // 2][::-1]
        idx, z = idx.astype(np.int32), z.astype(np.int32)
    arrays = [floats(n), floats(n, 3), idx, floats(n, COLUMNS), floats(n), floats(n, 3), z]
    arrays += [floats(COLUMNS), floats(COLUMNS, 3), np.zeros(1, np.int32), floats(n + 1)]
    arrays += [floats(n, 3, 3), floats(n, 4), floats(n), floats(COLUMNS)]
    bodies = [floats(n, 3), floats(n), floats(n, 4), rng.integers(0, n, n).astype(np.int32)]
    return [*arrays, n, 0.625, *bodies]


MODES = ("crossing", "custom")


class Trial:
    """One program, its arguments, a random seed of its outputs and a random direction of its inputs.

    Args:
        source: The program.
        seed: For the arguments.
        crossing: Whether threads read and write what others wrote.
        custom: Whether functions with gradients of their own stand in for operations.
    """

    def __init__(self, source: str, seed: int, *, crossing: bool = False, custom: bool = False) -> None:
        self.source = source
        self.kernel = load(with_own_functions(self.source) if custom else self.source)
        self.reference = reference(self.source)
        self.rng = np.random.default_rng(seed)
        self.args = arguments(self.rng)
        names = {p.index: p.name for p in self.kernel.params}
        floats = [i for i, a in enumerate(self.args) if isinstance(a, np.ndarray) and a.dtype == float]
        # Gradients of what is only read, or only written, may be missing: those of the others stay.
        optional = READ_ONLY + (WRITE_ONLY[1:] if crossing else WRITE_ONLY)
        self.active = [i for i in floats if names[i] not in optional or self.rng.random() < 0.7]
        self.seeds = {i: self.rng.normal(size=self.args[i].shape) for i in self.active}
        self.direction = {i: self.rng.normal(size=self.args[i].shape) for i in self.active}

    @classmethod
    def of(cls, seed: int, size: int = 7, *, crossing: bool = False, custom: bool = False) -> Trial:
        """A random program."""
        return cls(program(seed, size, crossing=crossing), seed, crossing=crossing, custom=custom)

    def second(self) -> None:
        """Check its second derivatives."""
        with np.errstate(all="ignore"):
            Second(self.kernel, THREADS, self.args, active=self.active, interpreted=True).check(1e-5)

    def moved(self, step: float) -> list[Any]:
        args = twin(self.args)
        for i in self.active:
            args[i] += step * self.direction[i]
        return args

    def objective(self, step: float) -> float:
        args = self.moved(step)
        with np.errstate(all="ignore"):
            self.reference(THREADS, args)
        return float(sum((args[i] * self.seeds[i]).sum() for i in self.active))

    def difference(self) -> float:
        """The derivative along the direction, by Richardson extrapolation where two steps agree."""
        large, small = ((self.objective(h) - self.objective(-h)) / (2 * h) for h in (1e-5, 5e-6))
        if not np.isfinite([large, small]).all() or abs(large) > 1e5:
            raise IllConditioned
        if abs(large - small) > 1e-6 * max(1.0, abs(small)):
            raise IllConditioned
        return small

    def adjoints(self, args: list[Any], **how: Any) -> dict[int, np.ndarray]:
        """The gradient; checks that nothing but adjoints and what is replayed was written."""
        found = {i: s.copy() for i, s in self.seeds.items()}
        info = self.kernel.adjoint_info(frozenset(self.active))
        before = twin(args)
        given = [found.get(p.index) for p in self.kernel.params if p.is_array]
        run(self.kernel, THREADS, args, f64=True, adjoints=given, **how)
        for param in self.kernel.params:
            if param.is_array and param.index not in info.replay:
                np.testing.assert_array_equal(args[param.index], before[param.index])
        return found

    def tangent(self, **how: Any) -> float:
        """The derivative of the seeded outputs along the direction; values are those of the kernel."""
        moved = {i: d.copy() for i, d in self.direction.items()}
        given = [moved.get(p.index) for p in self.kernel.params if p.is_array]
        values, plain = twin(self.args), twin(self.args)
        run(self.kernel, THREADS, values, f64=True, tangents=given, **how)
        run(self.kernel, THREADS, plain, f64=True, **how)
        for one, two in zip(values, plain, strict=True):
            np.testing.assert_array_equal(one, two)
        return float(sum((moved[i] * self.seeds[i]).sum() for i in self.active))

    def without_needless(self) -> list[Any]:
        """The arguments, with garbage in every array whose values the adjoint says that it does not need."""
        needs = self.kernel.adjoint_info(frozenset(self.active)).needs
        args = twin(self.args)
        for param in self.kernel.params:
            if param.is_array and param.index not in needs:
                args[param.index][...] = -99 if args[param.index].dtype == np.int32 else np.nan
        return args

    def check(self, **how: Any) -> None:
        expected, found = self.moved(0.0), self.moved(0.0)
        with np.errstate(all="ignore"):
            self.reference(THREADS, expected)
        if any(np.abs(a).max() > 1e6 for a in expected if isinstance(a, np.ndarray) and a.dtype == float):
            raise IllConditioned
        run(self.kernel, THREADS, found, f64=True, **how)
        for param in self.kernel.params:
            if param.is_array:
                one, two = found[param.index], expected[param.index]
                np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9, err_msg=param.name)
        difference = self.difference()
        gradient = self.adjoints(self.without_needless(), **how)
        exact = float(sum((gradient[i] * self.direction[i]).sum() for i in self.active))
        assert abs(exact - difference) <= 1e-5 * max(1.0, abs(difference)), (exact, difference)
        forward = self.tangent(**how)
        assert abs(forward - exact) <= 1e-9 * max(1.0, abs(exact)), (forward, exact)
        if how.get("interpreted"):
            return
        plain = self.adjoints(twin(self.args), interpreted=True)
        for i in self.active:
            np.testing.assert_allclose(gradient[i], plain[i], rtol=1e-9, atol=1e-9)


@functools.cache
def trial(seed: int) -> Trial:
    return Trial.of(seed, 9)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(cases(full=120, sample=30)))
def test_interpreted_program(seed: int) -> None:
    try:
        trial(seed).check(interpreted=True)
    except IllConditioned:
        pytest.skip("ill-conditioned")


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(300, 300 + cases(full=60, sample=15)))
def test_threads_that_see_what_others_wrote(seed: int) -> None:
    try:
        Trial.of(seed, 9, crossing=True).check(interpreted=True)
    except IllConditioned:
        pytest.skip("ill-conditioned")


@pytest.mark.sweep
@pytest.mark.parametrize("crossing", [False, True])
@pytest.mark.parametrize("seed", range(400, 400 + cases(full=30, sample=12)))
def test_functions_with_gradients_of_their_own(seed: int, crossing: bool) -> None:
    try:
        Trial.of(seed, 9, crossing=crossing, custom=True).check(interpreted=True)
    except IllConditioned:
        pytest.skip("ill-conditioned")


@pytest.mark.sweep
@pytest.mark.parametrize("custom", [False, True])
@pytest.mark.parametrize("crossing", [False, True])
@pytest.mark.parametrize("seed", range(500, 500 + cases(full=10, sample=6)))
def test_second_derivatives(seed: int, crossing: bool, custom: bool) -> None:
    Trial.of(seed, 9, crossing=crossing, custom=custom).second()


def test_programs_have_functions_with_gradients_of_their_own() -> None:
    sources = [with_own_functions(program(seed, 9)).partition("@wp.kernel")[2] for seed in range(400, 430)]
    for name in ("own_sin", "own_clamp", "own_abs", "own_element", "own_cell"):
        assert sum(name in source for source in sources) > 3, name


CONSTRUCTS = {
    "in place": r"w\[i, \d\] [*/]= ",
    "component of an element": r"p\[i\]\.\w \+?= ",
    "component of a variable": r"\n +v\d+\.\w \*?= ",
    "loop that is not unrolled": r"in range\(n",
    "while": r"while ",
    "break": r"\n +break",
    "continue": r"\n +continue",
    "return": r"\n +return\n",
    "element of a matrix": r"g\[i\]\[\d, \d\]",
    "quaternion": r"wp\.quat_rotate",
    "inverse": r"wp\.inverse",
    "float64": r"wp\.float64\(",
    "struct": r"bodies\[i\] = s\d",
    "field": r"bodies\[i\]\.mass [*+]?= ",
    "index from memory": r"x\[idx\[i\]\]",
    "sum": r"atomic_add\(vacc",
    "extreme": r"atomic_(max|min)\(top",
    "own function": r"g0\(",
    "counter": r"atomic_add\(counter",
}


def test_programs_have_everything() -> None:
    kernels = [program(seed, 12).partition("@wp.kernel")[2] for seed in range(300)]
    for name, pattern in CONSTRUCTS.items():
        assert sum(re.search(pattern, kernel) is not None for kernel in kernels) >= 3, name


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(200, 200 + cases(full=8, sample=5)))
def test_compiled_program(seed: int) -> None:
    try:
        trial(seed).check()
    except IllConditioned:
        pytest.skip("ill-conditioned")


@pytest.mark.parametrize("path", sorted(FOUND.glob("*.txt")), ids=lambda p: p.stem)
def test_programs_that_once_failed(path: Path) -> None:
    """`make fuzz` keeps here what it finds: a first line that says how, then the program."""
    first, _, source = path.read_text(encoding="utf-8").partition("\n")
    words = first.removeprefix("#").split()
    found = Trial(source, int(words[1]), **{mode: mode in words for mode in MODES})
    found.check(interpreted=True)
    found.second()

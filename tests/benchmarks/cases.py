"""The cases of the suite: what each kernel gets, at which sizes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]


@dataclass
class Setup:
    """A launch of one kernel, as NumPy has it.

    Attributes:
        kernel: Its name.
        dim: Its threads.
        arguments: In its order: float32 arrays (those named in `vectors` with their components last),
            numbers, and tuples for vectors.
        writes: The array that it writes.
        vectors: Names of the arrays and numbers that are vectors.
        seed: The adjoint of what it writes.
        tangents: Of the arrays that it reads.
        adds: Whether it adds to what it writes, which must be zero before.
    """

    kernel: str
    dim: int | tuple[int, int]
    arguments: dict[str, Any]
    writes: str
    vectors: frozenset[str] = frozenset()
    adds: bool = False
    seed: Floats = field(init=False)
    tangents: dict[str, Floats] = field(init=False)

    def __post_init__(self) -> None:
        random = np.random.default_rng(11)
        self.seed = _normal(random, self.arguments[self.writes].shape)
        self.tangents = {name: _normal(random, self.arguments[name].shape) for name in self.reads}

    @property
    def arrays(self) -> list[str]:
        """Names of the arrays, in the kernel's order."""
        return [name for name, value in self.arguments.items() if isinstance(value, np.ndarray)]

    @property
    def reads(self) -> list[str]:
        """Return the arrays that it reads."""
        return [name for name in self.arrays if name != self.writes]


@dataclass(frozen=True)
class Case:
    """One kernel at several sizes.

    Attributes:
        title: What tables call it.
        make: The launch at a size.
        sizes: Small, middle, large.
        tiny: The size of tests.
        says: A size in words.
        tolerance: By how much engines may differ, as a part of the largest value: sums are added in another
            order.
        wrong: What Warp computes wrongly, on purpose not compared: it is timed nevertheless.
    """

    title: str
    make: Callable[[int], Setup]
    sizes: tuple[int, int, int]
    tiny: int
    says: Callable[[int], str]
    tolerance: float = 1e-5
    wrong: frozenset[str] = frozenset()


def _normal(random: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    return random.standard_normal(shape, np.float32)


def _random() -> np.random.Generator:
    return np.random.default_rng(7)


def double(n: int) -> Setup:
    """`y = 2 x`."""
    return Setup("double", n, {"x": _normal(_random(), (n,)), "y": np.zeros(n, np.float32)}, "y")


def sine(n: int) -> Setup:
    """`y = sin(x) x + a`."""
    x = np.linspace(-6.0, 6.0, n, dtype=np.float32)
    return Setup("sine", n, {"x": x, "a": 0.5, "y": np.zeros(n, np.float32)}, "y")


def springs(side: int) -> Setup:
    """The springs of the net of `notebooks/net.py`, moved a little."""
    random, n = _random(), side * side
    row, col = np.divmod(np.arange(n), side)
    x = np.stack([0.1 * col, 0.1 * row, np.zeros(n)], axis=1) + 0.01 * random.standard_normal((n, 3))
    arguments = {
        "x": x.astype(np.float32), "v": _normal(random, (n, 3)), "force": np.zeros((n, 3), np.float32),
        "side": side, "rest": 0.1, "stiffness": 20.0, "drag": 0.05, "weight": (0.0, -0.981, 0.0),
    }  # fmt: skip
    return Setup("spring_forces", n, arguments, "force", frozenset({"x", "v", "force", "weight"}))


def bodies(n: int) -> Setup:
    """Softened gravity of all pairs."""
    arguments = {"x": _normal(_random(), (n, 3)), "n": n, "force": np.zeros((n, 3), np.float32)}
    return Setup("bodies", n, arguments, "force", frozenset({"x", "force"}))


def heat(side: int) -> Setup:
    """A step of the heat equation."""
    u, out = _normal(_random(), (side, side)), np.zeros((side, side), np.float32)
    return Setup("heat", (side, side), {"u": u, "k": 0.2, "out": out}, "out")


def total(n: int) -> Setup:
    """A sum."""
    arguments = {"x": _normal(_random(), (n,)), "s": np.zeros(1, np.float32)}
    return Setup("total", n, arguments, "s", adds=True)


def deposit(n: int) -> Setup:
    """Particles in disorder on a grid with about 16 in a cell."""
    random = _random()
    side = max(4, round((n / 16) ** 0.5))
    p = random.uniform(0.0, side - 1.001, (n, 2)).astype(np.float32)
    mass = random.uniform(0.5, 1.5, n).astype(np.float32)
    arguments = {"p": p, "mass": mass, "grid": np.zeros((side, side), np.float32)}
    return Setup("deposit", n, arguments, "grid", frozenset({"p"}), adds=True)


def matvec(n: int) -> Setup:
    """A square matrix times a vector."""
    random = _random()
    arguments = {
        "matrix": _normal(random, (n, n)), "x": _normal(random, (n,)), "y": np.zeros(n, np.float32)
    }  # fmt: skip
    return Setup("matvec", n, arguments, "y")


def product(length: int) -> Setup:
    """1,000 threads (fewer in tests), each a product of `length` factors near 1."""
    random = _random()
    n = min(1000, length)
    a = (random.standard_normal(length) / length**0.5).astype(np.float32)
    arguments = {"x": _normal(random, (n,)), "a": a, "y": np.zeros(n, np.float32)}
    return Setup("product", n, arguments, "y")


def _count(what: str) -> Callable[[int], str]:
    return lambda n: f"{n:,} {what}"


def _square(what: str) -> Callable[[int], str]:
    return lambda n: f"{n:,} × {n:,} {what}".strip()


CASES: dict[str, Case] = {
    "double": Case(
        "`y = 2 x`, bound by memory", double, (10_000, 400_000, 16_000_000), 257, _count("floats")
    ),
    "sine": Case(
        "(i) `y = sin(x) x + a`", sine, (10_000, 400_000, 4_000_000), 257, _count("floats"), 2e-6
    ),
    "springs": Case("(ii) springs of a net", springs, (32, 256, 1000), 9, _square("points")),
    "bodies": Case("(iii) bodies, all pairs", bodies, (256, 1024, 4096), 37, _count("bodies"), 1e-4),
    "heat": Case("(iv) heat, five points", heat, (64, 512, 2048), 11, _square("cells")),
    "sum": Case("(v) sum by `atomic_add`", total, (10_000, 400_000, 10_000_000), 257, _count("floats"), 2e-3),
    "deposit": Case(
        "(vi) particles to a grid", deposit, (10_000, 100_000, 1_000_000), 301, _count("particles"), 1e-4
    ),
    "matvec": Case("(vii) matrix times vector", matvec, (256, 1024, 4096), 23, _square(""), 1e-4),
    "product": Case(
        "(viii) a long product", product, (100, 1000, 10_000), 17, _count("factors"), 1e-4,
        frozenset({"backward", "adjoint"}),
    ),
}  # fmt: skip

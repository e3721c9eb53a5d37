"""Random expressions of each type, over the variables in scope."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

COLUMNS = 5
"""Length of a row of `w`, of `acc` and of `vacc`."""


@dataclass
class Scope:
    """The variables that can be read here, by type.

    They are f(loat), i(nt), v(ec3), b(ool), m(at33), h (a quaternion, Hamilton's), d(ouble) and
    s(truct).
    """

    names: dict[str, list[str]] = field(default_factory=lambda: {k: [] for k in "fivbmhds"})
    loop: bool = False
    fixed: tuple[str, ...] = ()
    """Loop counters: read, never assigned, so that loops end."""

    def inner(self, *, loop: bool | None = None) -> Scope:
        names = {k: list(v) for k, v in self.names.items()}
        return Scope(names, self.loop if loop is None else loop, self.fixed)


class Expressions:
    """Writes expressions, and the lines around them."""

    def __init__(self, seed: int, size: int = 7, *, crossing: bool = False) -> None:
        self.crossing = crossing
        self.r = random.Random(seed)
        self.size = size
        self.lines: list[str] = []
        self.indent = 0
        self.count = 0
        self.functions: list[tuple[str, str, str]] = []
        """Name, argument types, result type; a capital F is the array `x`."""
        self.in_kernel = False
        self.result = ""
        self.counted = False

    # Writing

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    @contextmanager
    def indented(self) -> Iterator[None]:
        self.indent += 1
        yield
        self.indent -= 1

    def fresh(self, kind: str) -> str:
        self.count += 1
        return f"{kind}{self.count}"

    def pick(self, *choices: str) -> str:
        return self.r.choice(choices)

    # Expressions

    def value(self, kind: str, scope: Scope, depth: int) -> str:
        made = {"f": self.float, "i": self.int, "v": self.vec, "b": self.bool}
        made |= {"m": self.mat, "h": self.quaternion, "d": self.double, "s": self.body_of}
        return made[kind](scope, depth)

    def mat(self, scope: Scope, depth: int) -> str:
        raise NotImplementedError

    def quaternion(self, scope: Scope, depth: int) -> str:
        raise NotImplementedError

    def double(self, scope: Scope, depth: int) -> str:
        raise NotImplementedError

    def body_of(self, scope: Scope, depth: int) -> str:
        raise NotImplementedError

    def more_floats(self, scope: Scope, depth: int) -> list[Callable[[], str]]:
        raise NotImplementedError

    def more_vecs(self, scope: Scope, depth: int) -> list[Callable[[], str]]:
        raise NotImplementedError

    def float(self, scope: Scope, depth: int) -> str:
        if depth <= 0 or self.r.random() < 0.15:
            return self.float_leaf(scope)
        a, b = (lambda: self.float(scope, depth - 1)), (lambda: self.float(scope, depth - 1))
        v = lambda: self.vec(scope, depth - 1)  # noqa: E731
        makers = [
            lambda: f"({a()} + {b()})",
            lambda: f"({a()} - {b()})",
            lambda: f"({a()} * {b()})",
            lambda: f"({a()} * {b()})",
            lambda: f"-{a()}",
            lambda: f"wp.{self.pick('sin', 'cos', 'tanh', 'atan', 'abs')}({a()})",
            lambda: f"wp.sqrt(1.5 + wp.abs({a()}))",
            lambda: f"({a()} / (1.5 + wp.abs({b()})))",
            lambda: f"wp.{self.pick('min', 'max')}({a()}, {b()})",
            lambda: f"wp.clamp({a()}, -1.25, 1.5)",
            lambda: f"wp.where({self.bool(scope, depth - 1)}, {a()}, {b()})",
            lambda: f"({a()} if {self.bool(scope, depth - 1)} else {b()})",
            lambda: f"float({self.int(scope, depth - 1)})",
            lambda: f"(0.75 + wp.abs({a()})) ** {self.float(scope, 0)}",
            lambda: f"wp.lerp({a()}, {b()}, {self.float(scope, 0)})",
            lambda: f"wp.dot({v()}, {v()})",
            lambda: f"wp.length({v()})",
            lambda: f"wp.length_sq({v()})",
            lambda: self.call("f", scope, depth) or self.float_leaf(scope),
            lambda: self.call("f", scope, depth) or self.float_leaf(scope),
        ]
        if self.r.random() < 0.2:
            makers = self.more_floats(scope, depth)
        return self.r.choice(makers)()

    def float_leaf(self, scope: Scope) -> str:
        axis = self.pick("x", "y", "z")
        choices: list[Callable[[], str]] = [
            lambda: self.pick("0.5", "1.25", "-0.75", "2.0", "0.125", "SCALE")
        ]
        if scope.names["f"]:
            choices += [lambda: self.r.choice(scope.names["f"])] * 4
        if scope.names["v"]:
            v = self.r.choice(scope.names["v"])
            choices += [lambda: f"{v}.{axis}", lambda: f"{v}[1]", lambda: f"{v}[{self.place(scope, 0)} % 3]"]
        if self.has_x:
            choices += [lambda: f"x[{self.place(scope)} % n]"] * 2
        if self.in_kernel:
            choices += [lambda: f"w[{self.row(scope)}, {self.column(scope)}]"] * 2
            choices += [
                lambda: f"y[{self.row(scope)}]",
                lambda: "x[idx[i]]",
                lambda: f"p[{self.row(scope)}].{axis}",
            ]
            choices += [lambda: f"q[{self.place(scope)} % n].{axis}"]
        return self.r.choice(choices)()

    def place(self, scope: Scope, depth: int = 1) -> str:
        return f"({self.int(scope, depth)})"

    def row(self, scope: Scope) -> str:
        """A thread's own row; where threads may cross, also another's."""
        if self.crossing and self.r.random() < 0.4:
            return f"(i + {self.r.randrange(1, 4)}) % n"
        return "i"

    def column(self, scope: Scope) -> str:
        return str(self.r.randrange(COLUMNS)) if self.r.random() < 0.5 else f"{self.place(scope)} % {COLUMNS}"

    def int(self, scope: Scope, depth: int) -> str:
        choices: list[Callable[[], str]] = [lambda: str(self.r.randrange(4)), lambda: "COUNT"]
        if scope.names["i"]:
            choices += [lambda: self.r.choice(scope.names["i"])] * 3
        if self.in_kernel:
            choices += [lambda: "idx[i]", lambda: f"z[{self.row(scope)}]"]
        if depth > 0:
            a = lambda: self.int(scope, depth - 1)  # noqa: E731
            choices += [lambda: f"({a()} + {a()})", lambda: f"({a()} * {a()}) % 5"]
            if self.r.random() < 0.3:
                choices += [lambda: f"int(3.0 + 2.0 * wp.sin({self.float_leaf(scope)}))"]
        return self.r.choice(choices)()

    def vec(self, scope: Scope, depth: int) -> str:
        leaves: list[Callable[[], str]] = []
        if scope.names["v"]:
            leaves += [lambda: self.r.choice(scope.names["v"])] * 3
        if self.in_kernel:
            leaves += [
                lambda: "SHIFT",
                lambda: f"p[{self.row(scope)}]",
                lambda: "p[i]",
                lambda: f"q[{self.place(scope)} % n]",
            ]
        if leaves and (depth <= 0 or self.r.random() < 0.3):
            return self.r.choice(leaves)()
        f = lambda: self.float(scope, depth - 1)  # noqa: E731
        v = lambda: self.vec(scope, depth - 1)  # noqa: E731
        plain = f"wp.vec3({f()}, {f()}, {f()})"
        if depth <= 0:
            return plain
        makers = [
            lambda: plain,
            lambda: f"({v()} + {v()})",
            lambda: f"({v()} - {v()})",
            lambda: f"({v()} * {f()})",
            lambda: f"({f()} * {v()})",
            lambda: f"({v()} / (1.5 + wp.abs({f()})))",
            lambda: f"-{v()}",
            lambda: f"wp.cross({v()}, {v()})",
            lambda: f"wp.cw_mul({v()}, {v()})",
            lambda: f"wp.normalize({v()} + wp.vec3(2.0, 0.5, 0.25))",
            lambda: f"wp.where({self.bool(scope, depth - 1)}, {v()}, {v()})",
            lambda: f"({v()} if {self.bool(scope, depth - 1)} else {v()})",
            lambda: f"wp.{self.pick('min', 'max')}({v()}, {v()})",
            lambda: self.call("v", scope, depth) or plain,
        ]
        if self.r.random() < 0.2:
            makers = self.more_vecs(scope, depth)
        return self.r.choice(makers)()

    def bool(self, scope: Scope, depth: int) -> str:
        sign = self.pick("<", ">", "<=", ">=")
        makers = [
            lambda: f"{self.float(scope, depth - 1)} {sign} {self.float(scope, depth - 1)}",
            lambda: f"{self.int(scope, 1)} {self.pick('<', '==', '!=', '>')} {self.int(scope, 1)}",
            lambda: f"{self.int(scope, 1)} % 2 == 0",
            lambda: f"-0.5 {sign} {self.float(scope, 0)} {sign} {self.float(scope, 0)}",
        ]
        if scope.names["b"]:
            makers.append(lambda: self.r.choice(scope.names["b"]))
        if depth > 0:
            a = lambda: self.bool(scope, depth - 1)  # noqa: E731
            makers.append(lambda: f"({a()} {self.pick('and', 'or')} {a()})")
            makers.append(lambda: f"(not ({a()}))")
        return f"({self.r.choice(makers)()})"

    def call(self, result: str, scope: Scope, depth: int) -> str | None:
        fitting = [f for f in self.functions if f[2] == result and (self.has_x or "F" not in f[1])]
        if not fitting:
            return None
        name, arguments, _ = self.r.choice(fitting)
        values = [self.value(k, scope, depth - 1) for k in arguments if k != "F"]
        return f"{name}({', '.join(values + (['x', 'n'] if 'F' in arguments else []))})"

    @property
    def has_x(self) -> bool:
        return self.in_kernel or self.array_in_scope

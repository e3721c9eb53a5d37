"""Random kernels of which Warp's documents say that it reverses them rightly.

Nothing is overwritten: arrays are read, or added to, or stored to once at the end; loops have constant
bounds, so that Warp unrolls them; no component of a vector is assigned to; no jumps.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tests.compiler.generator import HEADER, PARAMETERS, STRUCT, Generator
from tests.compiler.generator_expressions import Scope

OUTPUTS = ("acc", "vacc", "out")


class Peer(Generator):
    """Writes one program of many in a module."""

    structs = False

    def __init__(self, seed: int, size: int = 6) -> None:
        super().__init__(seed, size)
        self.counted = True

    def part(self, number: int) -> str:
        """A kernel `program_NUMBER`, and its functions."""
        for _ in range(self.r.randrange(3)):
            self.plain_function()
        self.emit("@wp.kernel")
        self.emit(f"def program({PARAMETERS}):")
        self.in_kernel = True
        with self.indented():
            self.emit("i = wp.tid()")
            scope = Scope(fixed=("i", "n", "c"))
            scope.names["i"] += ["i", "n"]
            scope.names["f"].append("c")
            self.body(scope, self.size)
            self.emit(f"out[i] = {self.float(scope, 2)}")
        text = "\n".join(self.lines)
        for name in ("program", *(f[0] for f in self.functions)):
            text = text.replace(f"{name}(", f"{name}_{number}(")
        return text

    def statement(self, scope: Scope, left: int) -> bool:
        makers: list[Callable[[Scope, int], None]] = [self.define] * 4
        if self.in_kernel:
            makers += [self.add] * 2
        if left > 1:
            makers += [self.branch] * 2 + [self.unrolled]
        self.r.choice(makers)(scope, left)
        return False

    def define(self, scope: Scope, left: int) -> None:
        """A new variable, or another value of one that there is."""
        kind = self.r.choice("fffvvmhd")
        known = [v for v in scope.names[kind] if v not in scope.fixed]
        if kind in "fv" and known and self.r.random() < 0.4:
            self.emit(f"{self.r.choice(known)} {self.pick('=', '+=', '-=')} {self.value(kind, scope, 2)}")
            return
        name = self.fresh(kind)
        self.emit(f"{name} = {self.value(kind, scope, 2)}")
        scope.names[kind].append(name)

    def add(self, scope: Scope, left: int) -> None:
        name, column = self.pick("atomic_add", "atomic_sub"), self.column(scope)
        if self.r.random() < 0.5:
            self.emit(f"wp.{name}(acc, {column}, {self.float(scope, 2)})")
        else:
            self.emit(f"wp.{name}(vacc, {column}, {self.vec(scope, 2)})")

    def unrolled(self, scope: Scope, left: int) -> None:
        name = self.fresh("k")
        self.emit(f"for {name} in range({self.pick('2', '3', '1, 3')}):")
        inner = scope.inner()
        inner.names["i"].append(name)
        inner.fixed += (name,)
        with self.indented():
            self.body(inner, 2)

    def bool(self, scope: Scope, depth: int) -> str:
        """One comparison."""
        sign = self.pick("<", ">", "<=", ">=")
        return f"({self.float(scope, depth - 1)} {sign} {self.float(scope, depth - 1)})"


def module(seeds: range) -> str:
    """A file of programs, without its import."""
    parts = [Peer(seed).part(seed) for seed in seeds]
    text = HEADER.partition("\n")[2] + "\n\n" + STRUCT + "\n\n\n".join(parts) + "\n"
    return re.sub(r"\bCOUNT\b(?! =)", "2", text)  # Warp 1.19 takes a captured integer for a float64 at times

"""Random kernels that chain operations of the rule table: all of them, on every scalar type.

The operations are those of the table's checker (`tests/lang/cases`), with their values in NumPy, so that a
new rule is chosen as soon as it has a case. Each seed begins with another operation; the others of its
program are chosen at random, on values that the program has computed, bent into the domain of the operation.
Some stand in a function, in a branch, or in a loop whose number of iterations a thread decides.

`python -m tests.compiler.generator_operations SEED [SIZE]` prints a program.
"""

from __future__ import annotations

import math
import random
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapedebug.lang import types as t
from tests.lang.cases import HEADERS, KINDS, TABLES, Case
from tests.lang.cases.base import Domain
from tests.lang.cases.integers import INTEGER_HEADER, INTEGER_ROWS, wrapped

THREADS = 4
COLUMNS = 2
"""Values of each kind that a thread is given."""
EVERY = [(table, case) for table, listed in TABLES.items() for case in listed]
"""The operations, with the names of their tables."""
SCALARS = (t.float32, t.float64, t.float16, t.bfloat16)
BENT = """
@wp.func
def bent(x: scalar, low: scalar, high: scalar):
    return low + (high - low) * (scalar(0.5) + scalar(0.5) * wp.sin(x))
"""
REMAINDER = """
@wp.func
def small(x: integer):
    return x % integer(11)
"""
Values = dict[str, Any]


def first_of(seed: int) -> tuple[str, Case]:
    """Return the operation with which the program of a seed begins, and its table."""
    return EVERY[seed % len(EVERY)]


def scalars_of(table: str) -> list[type[t.Scalar]]:
    """Return the types on which the operations of a table are defined."""
    return [scalar for scalar in SCALARS if table != "noise" or t.bits_of(scalar) > 16]


class Program:
    """A kernel, and the same in NumPy.

    Args:
        seed: For everything that is chosen.
        size: The number of operations; the program of a smaller size is the beginning of this one.

    Attributes:
        scalar: The scalar type of all floats.
        integer: The type of all integers.
        text: The source, with a kernel `program`.
        used: The names of the operations.
    """

    def __init__(self, seed: int, size: int = 8) -> None:
        self.seed, self._r = seed, random.Random(f"operations {seed}")
        self._table, first = first_of(seed)
        turn, place = divmod(seed, len(EVERY))
        fitting = scalars_of(self._table)
        # of the place, not of the seed: else the number of operations decides which types one of them gets
        self.scalar = fitting[(place + turn) % len(fitting)]
        self.length = first.lengths[turn % len(first.lengths)]
        self.integer = t.INTEGERS[(place + turn) % len(t.INTEGERS)]
        self.used: set[str] = set()
        self._names: dict[str, list[str]] = {kind: [] for kind in [*KINDS, "i"]}
        self._kinds: dict[str, str] = {}
        self._functions: list[str] = []
        self._headers: set[str] = set()
        self._lines: list[str] = []
        self._steps: list[Callable[[Values], None]] = []
        self._count = 0
        for number in range(size):
            self._step(number, first)
        self.text = self._written()

    def shape(self, kind: str) -> tuple[int, ...]:
        """Return the shape of a value of a kind."""
        return KINDS[kind][1](self.length)

    @property
    def inputs(self) -> list[str]:
        """The kinds of the values that the kernel is given, in the order of its parameters."""
        return [kind for kind in KINDS if kind in self._kinds.values()]

    @property
    def outputs(self) -> list[str]:
        """The kinds of the values that it returns, in the order of its parameters."""
        return [kind for kind in [*KINDS, "i"] if self._names[kind]]

    def arguments(self, rng: np.random.Generator) -> list[np.ndarray]:
        """Return the arrays that the kernel takes: random values, and zeros for its results."""
        narrow = self.scalar.numpy if t.bits_of(self.scalar) == 16 else np.float32
        given = [
            rng.uniform(-2.0, 2.0, (COLUMNS, THREADS, *self.shape(kind))).astype(narrow)
            for kind in self.inputs
        ]
        found = [array.astype(self.scalar.numpy) for array in given]
        for kind in self.outputs:
            dtype, shape = (self.integer, ()) if kind == "i" else (self.scalar, self.shape(kind))
            found.append(np.zeros((len(self._names[kind]), THREADS, *shape), dtype.numpy))
        return found

    def reference(self, given: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return the results, computed by NumPy in float64."""
        values: Values = {}
        for kind, array in zip(self.inputs, given, strict=False):
            for column in range(COLUMNS):
                values[f"in_{kind}[{column}, i]"] = np.asarray(array[column], float)
        with np.errstate(all="ignore"):
            for step in self._steps:
                step(values)
        return [np.stack([values[name] for name in self._names[kind]]) for kind in self.outputs]

    # One step

    def _step(self, number: int, first: Case) -> None:
        if number == 0:
            self._operation(self._table, first, plain=True)
        elif self._r.random() < 0.25:
            self._on_integers()
        else:
            self._operation(*self._choice(), plain=False)

    def _choice(self, result: str = "") -> tuple[str, Case]:
        fitting = [
            (table, case)
            for table, case in EVERY
            if self.length in case.lengths
            and self.scalar in scalars_of(table)
            and (not result or case.result == result)
        ]
        return self._r.choice(fitting)

    def _operation(self, table: str, case: Case, *, plain: bool) -> None:
        """Append an operation on floats, perhaps in a branch or a loop."""
        style = self._r.random()
        if not plain and style < 0.2:
            self._branch(table, case)
        elif not plain and style < 0.45 and case.result in case.operands:
            self._loop(table, case)
        else:
            text, value = self._applied(table, case, [self._value(kind) for kind in case.operands])
            target = self._fresh(case.result)
            self._emit(f"{target} = {text}")
            self._steps.append(_assignment(target, value))

    def _branch(self, table: str, case: Case) -> None:
        condition = self._value("s")
        (one, value), (other, elsewhere) = (
            self._applied(name, each, [self._value(kind) for kind in each.operands])
            for name, each in ((table, case), self._choice(case.result))
        )
        target = self._fresh(case.result)
        self._emit(f"if {condition} > scalar(0.25):", f"    {target} = {one}")
        self._emit("else:", f"    {target} = {other}")

        def step(values: Values) -> None:
            yes, no = value(values), elsewhere(values)
            holds = values[condition] > 0.25
            values[target] = np.where(holds.reshape(-1, *[1] * (yes.ndim - 1)), yes, no)

        self._steps.append(step)

    def _loop(self, table: str, case: Case) -> None:
        """Apply an operation to its own result, in thread i from one to three times."""
        start = self._value(case.result)
        target = self._fresh(case.result)
        place = case.operands.index(case.result)
        operands = [target if n == place else self._value(kind) for n, kind in enumerate(case.operands)]
        text, value = self._applied(table, case, operands)
        counter = f"k{self._count}"
        self._emit(f"{target} = {start}", f"for {counter} in range(1 + i % 3):", f"    {target} = {text}")

        def step(values: Values) -> None:
            values[target] = values[start]
            for iteration in range(3):
                runs = np.arange(THREADS) % 3 >= iteration
                new, old = value(values), values[target]
                values[target] = np.where(runs.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        self._steps.append(step)

    def _on_integers(self) -> None:
        """Append an operation on integers, made of floats if there are none yet, and their use as a float."""
        low = -9 if self.integer in t.SIGNED else 0
        if len(self._names["i"]) < 2 or self._r.random() < 0.3:
            source, target = self._value("s"), self._fresh("i")
            self._kinds.setdefault("bent s", "s")
            self._emit(f"{target} = integer(bent({source}, scalar({low}.0), scalar(9.0)))")
            self.used.add(f"to_{'i' if low else 'u'}{t.bits_of(self.integer)}")

            def converted(values: Values) -> None:
                numbers = np.trunc(bent(values[source], (low, 9.0)))
                values[target] = np.array([int(number) for number in numbers], object)

            self._steps.append(converted)
            return
        x, y = self._r.choice(self._names["i"]), self._r.choice(self._names["i"])
        row, function = self._r.choice([*INTEGER_ROWS.items()])
        target, number = self._fresh("i"), self._fresh("s")
        written = re.sub(r"\b[xy]\b", lambda found: f"small({x if found[0] == 'x' else y})", row)
        self._emit(f"{target} = {written}", f"{number} = scalar(small({target}))")

        def step(values: Values) -> None:
            pairs = [(remainder(a), remainder(b)) for a, b in zip(values[x], values[y], strict=True)]
            found = [wrapped(function(a, b), self.integer) for a, b in pairs]
            values[target] = np.array(found, object)
            values[number] = np.array([float(remainder(each)) for each in found])

        self._steps.append(step)

    def _applied(
        self, table: str, case: Case, operands: Sequence[str]
    ) -> tuple[str, Callable[[Values], np.ndarray]]:
        """Return the text of an operation on values that are bent into its domain, and what computes it."""
        self.used.add(case.name)
        self._headers.add(HEADERS.get(table, ""))
        bends = [
            f"bent{'' if kind == 's' else f'_{kind}'}({name}, scalar({low}), scalar({high}))"
            for kind, name, (low, high) in zip(case.operands, operands, map(exact, case.domains), strict=True)
        ]
        spelling = re.sub(r"(?<![\w.])(\d+\.\d+)", r"scalar(\1)", case.spelling)
        names = [f"a{n}" for n in range(len(bends))]
        if self._r.random() < 0.5 or spelling.count("{0}") > 1:
            function = f"f{len(self._functions)}"
            listed = ", ".join(f"{n}: kind_{kind}" for n, kind in zip(names, case.operands, strict=True))
            body = spelling.format(*names, n=self.length)
            self._functions.append(f"\n@wp.func\ndef {function}({listed}):\n    return {body}\n")
            text = f"{function}({', '.join(bends)})"
        else:
            text = spelling.format(*(f"({bend})" for bend in bends), n=self.length)

        def value(values: Values) -> np.ndarray:
            given = [
                bent(values[name], exact(domain)) for name, domain in zip(operands, case.domains, strict=True)
            ]
            return np.asarray(case.value(*given), float)

        return text, value

    def _value(self, kind: str) -> str:
        """Return a value of a kind: a variable, or an element of an array that the kernel is given."""
        self._kinds[f"value {kind}"] = kind
        if self._names[kind] and self._r.random() < 0.7:
            return self._r.choice(self._names[kind])
        return f"in_{kind}[{self._r.randrange(COLUMNS)}, i]"

    def _fresh(self, kind: str) -> str:
        self._count += 1
        name = f"{kind}{self._count}"
        self._names[kind].append(name)
        return name

    def _emit(self, *lines: str) -> None:
        self._lines += lines

    def _written(self) -> str:
        parts = ["import tapedebug as wp\n", f"\nscalar = wp.{self.scalar.__name__}\n"]
        parts.append("vec1 = wp.types.vector(1, scalar)\n")
        parts.append(INTEGER_HEADER.format(scalar=self.integer.__name__) + REMAINDER)
        used = {*self.inputs, *self.outputs} - {"i"}
        parts += [
            f"kind_{kind} = {spelling.format(n=self.length)}\n"
            for kind, (spelling, _) in KINDS.items()
            if kind in used
        ]
        parts += [*sorted(self._headers), BENT]
        parts += [self._bend(kind) for kind in self.inputs if kind != "s"]
        parts += self._functions
        listed = [f"in_{kind}: wp.array2d(dtype=kind_{kind})" for kind in self.inputs]
        listed += [
            f"out_{kind}: wp.array2d(dtype={'integer' if kind == 'i' else f'kind_{kind}'})"
            for kind in self.outputs
        ]
        parts.append(f"\n@wp.kernel\ndef program({', '.join(listed)}):\n    i = wp.tid()\n")
        parts += [f"    {line}\n" for line in self._lines]
        for kind in self.outputs:
            for slot, name in enumerate(self._names[kind]):
                parts.append(f"    out_{kind}[{slot}, i] = {name}\n")
        return "".join(parts)

    def _bend(self, kind: str) -> str:
        places = [", ".join(map(str, place)) for place in np.ndindex(*self.shape(kind))]
        parts = ", ".join(f"bent(a[{place}], low, high)" for place in places)
        return (
            f"\n@wp.func\ndef bent_{kind}(a: kind_{kind}, low: scalar, high: scalar):\n"
            f"    return kind_{kind}({parts})\n"
        )


def exact(domain: Domain) -> Domain:
    """Return the limits of a domain as every scalar type holds them: multiples of 1/16, inside of it."""
    low, high = domain
    return math.ceil(low * 16) / 16, math.floor(high * 16) / 16


def bent(x: Any, domain: Domain) -> Any:
    """Return numbers of a domain, as the kernel's function of the same name does."""
    low, high = domain
    return low + (high - low) * (0.5 + 0.5 * np.sin(x))


def remainder(number: int) -> int:
    """Return the remainder by 11 with the sign of the number, as `small` of the kernels does."""
    return abs(number) % 11 * (-1 if number < 0 else 1)


def _assignment(target: str, value: Callable[[Values], np.ndarray]) -> Callable[[Values], None]:
    def step(values: Values) -> None:
        values[target] = value(values)

    return step


if __name__ == "__main__":
    print(Program(*map(int, sys.argv[1:])).text)

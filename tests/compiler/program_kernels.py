"""Random kernels for programs of several launches: which arrays they take, and how long these have to be.

A kernel is a Python function that means the same to the compiler and to plain Python over `program_values`.
Each thread writes its own row of some arrays, all threads add to elements of others, and read anything. A
third of the kernels choose between arrays of one type, and some take structs whose elements hold arrays.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

PARAMETERS = {
    # name: its annotation, its element type and number of axes, and what threads do with it
    "x": ("wp.array(dtype=F)", "f", 1, "read"),
    "g": ("wp.array2d(dtype=F)", "f", 2, "read"),
    "h": ("wp.array3d(dtype=F)", "f", 3, "read"),
    "q": ("wp.array(dtype=V)", "v", 1, "read"),
    "ix": ("wp.array(dtype=int)", "i", 1, "read"),
    "y": ("wp.array(dtype=F)", "f", 1, "own"),
    "w": ("wp.array2d(dtype=F)", "f", 2, "own"),
    "p": ("wp.array(dtype=V)", "v", 1, "own"),
    "b": ("wp.array(dtype=Body)", "b", 1, "own"),
    "s": ("wp.array(dtype=F)", "f", 1, "sum"),
    "m": ("wp.array2d(dtype=F)", "f", 2, "sum"),
    "r": ("wp.array(dtype=V)", "v", 1, "sum"),
    "n": ("wp.array(dtype=int)", "i", 1, "sum"),
    "top": ("wp.array(dtype=F)", "f", 1, "extreme"),
    # only with others of their type, between which a kernel chooses
    "z": ("wp.array(dtype=F)", "f", 1, "read"),
    "u": ("wp.array(dtype=F)", "f", 1, "own"),
    "t": ("wp.array(dtype=F)", "f", 1, "sum"),
    # the last parameter: structs that hold an array each, made for the launch
    "rows": ("wp.array(dtype=Row)", "row", 1, "held"),
}
ROWS = 3
"""Rows and columns that any array has, so that threads can name these."""


@dataclass(frozen=True)
class Kernel:
    """A kernel: its name, its parameters in order, and its text."""

    name: str
    params: tuple[str, ...]
    text: str
    axes: int


@dataclass
class Writer:
    """Writes one kernel."""

    seed: int
    params: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)

    def kernel(self) -> Kernel:
        r = self.r = random.Random(f"kernel {self.seed}")
        self.axes = 2 if r.random() < 0.2 else 1
        chosen = r.sample(["x", "g", "h", "q", "ix"], r.randint(1, 2))
        chosen += r.sample(["y", "w", "p", "b"], r.randint(0, 2))
        chosen += r.sample(["s", "m", "r", "n", "top"], r.randint(0 if len(chosen) > 2 else 1, 2))
        if self.axes == 2:  # threads own elements of a grid
            chosen = [name for name in chosen if name not in ("y", "p", "b")]
        if not {"y", "w", "p", "b", "s", "m", "r"} & set(chosen):
            chosen.append("s")
        self.params = [name for name in PARAMETERS if name in chosen]
        written = [name for name in self.params if PARAMETERS[name][3] != "read"]
        for name in written:
            self.statement(name)
        for _ in range(r.randint(0, 2)):
            self.statement(r.choice(written))
        functions = self.arrays_by_name() if self.axes == 1 else ""
        declared = ", ".join(f"{name}: {PARAMETERS[name][0]}" for name in self.params)
        tid = "i = wp.tid()" if self.axes == 1 else "i, j = wp.tid()"
        name = f"kernel_{self.seed}"
        body = "\n".join(f"    {line}" for line in [tid, *self.lines])
        return Kernel(
            name,
            tuple(self.params),
            f"{functions}@wp.kernel\ndef {name}({declared}, c: F):\n{body}\n",
            self.axes,
        )

    def pick(self, *choices: str) -> str:
        return self.r.choice(choices)

    # Indices

    def thread(self) -> str:
        return "i" if self.axes == 1 else self.pick("i", "j", "(i + j)")

    def any_row(self, name: str, axis: int = 0) -> str:
        """An index of an axis, which many threads may have."""
        size, i = f"{name}.shape[{axis}]", self.thread()
        choices = [
            self.pick("0", "1", "2"),
            f"{i} % {size}",
            f"({i} * 3 + 1) % {size}",
            f"{size} - 1 - {i} % {size}",
            f"{i} % 3",
            f"{size} - 1",
        ]
        if "ix" in self.params and name != "ix":
            choices += [f"ix[{i} % ix.shape[0]] % {size}"] * 2
        return self.r.choice(choices)

    def element(self, name: str) -> str:
        kind, axes, role = PARAMETERS[name][1:]
        if role == "own":
            if name == "w":
                column = "j" if self.axes == 2 else self.pick("0", "1", "2", "i % 3")
                return f"w[i, {column}]"
            return f"{name}[i]"
        if role == "read" and axes == 1 and kind != "i" and self.axes == 1 and self.r.random() < 0.4:
            return f"{name}[i]"
        return f"{name}[{', '.join(self.any_row(name, axis) for axis in range(axes))}]"

    # Expressions

    def leaf(self) -> str:
        choices = ["c", f"F({self.pick('0.5', '1.25', '-0.75', '0.3')})"]
        for name in self.params:
            kind, role = PARAMETERS[name][1], PARAMETERS[name][3]
            if role in ("sum", "extreme"):
                continue
            if kind == "f":
                choices += [self.element(name)] * 2
            elif kind == "v":
                choices += [f"{self.element(name)}[{self.pick('0', '1', '2')}]"]
            elif kind == "b":
                choices += ["b[i].mass", f"b[i].pos[{self.pick('0', '2')}]"]
        return self.r.choice(choices)

    def value(self, depth: int) -> str:
        if depth <= 0 or self.r.random() < 0.15:
            return self.leaf()
        a, b = self.value(depth - 1), self.value(depth - 1)
        return self.pick(
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {b})",
            f"({a} * {b})",
            f"({a} / (F(1.5) + {b} * {b}))",
            f"wp.{self.pick('sin', 'cos', 'tanh')}({a})",
            f"wp.sqrt(F(1.5) + {a} * {a})",
            f"wp.{self.pick('min', 'max')}({a}, {b})",
            f"wp.dot({self.vector(0)}, {self.vector(0)})",
            f"wp.where({a} > {b}, {b}, {self.leaf()})",
        )

    def small(self, depth: int = 2) -> str:
        """A value that stays between -1 and 1, so that no chain of launches overflows."""
        return f"wp.sin({self.value(depth)})"

    def vector(self, depth: int = 1) -> str:
        known = [self.element(name) for name in self.params if name in ("q", "p")]
        known += ["b[i].pos"] if "b" in self.params else []
        if known and self.r.random() < 0.6:
            return self.r.choice(known)
        parts = ", ".join(self.small(depth) for _ in range(3))
        return f"V({parts})"

    # Statements

    def statement(self, name: str) -> None:
        kind, _, role = PARAMETERS[name][1:]
        if role == "sum":
            self.add(name)
            return
        if role == "extreme":
            self.lines.append(
                f"wp.atomic_{self.pick('max', 'min')}(top, {self.any_row('top')}, {self.value(2)})"
            )
            return
        target = self.element(name)
        if kind == "b":
            self.lines.append(
                self.pick(
                    f"b[i].mass {self.pick('=', '+=', '*=')} {self.small()}",
                    f"b[i].pos {self.pick('=', '+=')} {self.vector()}",
                    "b[i].tag = b[i].tag + 1",
                )
            )
        elif kind == "v":
            self.lines.append(
                self.pick(
                    f"{target} = {self.vector()} * {self.small(1)}",
                    f"{target} += {self.vector()} * F(0.5)",
                    f"{target} = wp.cross({target}, V(c, F(0.5), {self.small(1)})) * F(0.5)",
                    f"{target}[{self.pick('0', '1', '2')}] = {self.small()}",
                )
            )
        else:
            self.lines += self.change(target)

    def change(self, target: str) -> list[str]:
        match self.r.randrange(8):
            case 0 | 1:
                return [f"{target} = {self.small()}"]
            case 2 | 3:
                return [f"{target} {self.pick('+=', '-=')} F(0.5) * {self.small()}"]
            case 4:
                return [f"{target} *= {self.small()}"]
            case 5:
                return ["for k in range(3):", f"    {target} = wp.sin({target} + F(0.5) * {self.leaf()})"]
            case 6:
                return [f"if {self.value(1)} > {self.value(1)}:", f"    {target} = {self.small()}"]
        return [f"{target} = {target} * F(0.5) + {self.small()}"]

    def add(self, name: str) -> None:
        kind, axes = PARAMETERS[name][1:3]
        at = ", ".join(self.any_row(name, axis) for axis in range(axes))
        value = {
            "f": f"F(0.05) * {self.value(2)}",
            "v": f"{self.vector()} * F(0.05)",
            "i": self.pick("1", "2", "i % 3"),
        }
        if self.r.random() < 0.3:
            self.lines.append(f"{name}[{at}] {self.pick('+=', '-=')} {value[kind]}")
        else:
            self.lines.append(f"wp.atomic_{self.pick('add', 'add', 'sub')}({name}, {at}, {value[kind]})")
        if name in ("s", "m") and self.r.random() < 0.4:  # neighbours
            first = "i" if axes == 1 else "1, i"
            size = f"{name}.shape[{axes - 1}]"
            self.lines.append(f"if i + 1 < {size}:")
            self.lines.append(f"    wp.atomic_add({name}, {first}, {value[kind]})")
            self.lines.append(f"    wp.atomic_add({name}, {first} + 1, F(0.05) * {self.leaf()})")

    # Arrays by another name: one of two, or held by an element

    def arrays_by_name(self) -> str:
        """Add statements on arrays that have no parameter of their own; return the functions that they call.

        The choices come from another generator, so that all other kernels stay what they were.
        """
        whole = self.r
        self.r = r = random.Random(f"arrays {self.seed}")
        functions = ""
        if r.random() < 0.35:
            one, two = r.choice([("x", "z"), ("x", "z"), ("y", "u"), ("s", "t")])
            self.take(one, two)
            functions = self.choice_between(one, two)
        if r.random() < 0.3:
            self.take("rows")
            self.element_of_rows()
        self.r = whole
        return functions

    def take(self, *names: str) -> None:
        """Make these arrays parameters, in the order of the table."""
        self.params = [name for name in PARAMETERS if name in (*self.params, *names)]

    def condition(self) -> str:
        """A condition that is the same in all threads, counts with them, or depends on values."""
        return self.pick(
            "c > F(0.5)", "c > F(0.7)", "i % 2 == 0", "i % 3 == 1", "i > 4", f"{self.leaf()} > F(0.1)"
        )

    def choice_between(self, one: str, two: str) -> str:
        """Read from, write to or add to one of two arrays; return the function that chooses, if one does."""
        functions, condition = "", self.condition()
        if self.r.random() < 0.5:
            one, two = two, one
        indent = ""
        match self.r.randrange(4):
            case 0:
                self.lines.append(f"a = {one} if {condition} else {two}")
            case 1:
                self.lines += [f"a = {one}", f"if {condition}:", f"    a = {two}"]
            case 2:
                name, array = f"one_of_two_{self.seed}", PARAMETERS[one][0]
                functions = (
                    f"@wp.func\ndef {name}(one: {array}, two: {array}, first: bool):\n"
                    "    if first:\n        return one\n    return two\n\n\n"
                )
                self.lines.append(f"a = {name}({one}, {two}, {condition})")
            case _:
                self.lines += [f"a = {one}", f"b = {two}"]
                self.lines += [f"for turn in range({self.pick('3', 'i % 3', '2')}):", "    a, b = b, a"]
                indent = self.pick("", "    ")
        role = PARAMETERS[one][3]
        if role == "own":
            lines = self.change("a[i]")
        elif role == "sum":
            lines = [f"wp.atomic_add(a, {self.any_row('a')}, F(0.05) * {self.value(1)})"]
        else:
            lines = [self.result(f"a[{self.any_row('a')}]")]
        self.lines += [indent + line for line in lines]
        return functions

    def result(self, read: str) -> str:
        """A statement on something that was read."""
        if "y" in self.params:
            return f"y[i] += F(0.5) * wp.sin({read} * {self.leaf()})"
        self.take("s")
        return f"wp.atomic_add(s, {self.any_row('s')}, F(0.05) * wp.sin({read} * {self.leaf()}))"

    def element_of_rows(self) -> None:
        """Read from or add to the array that an element holds."""
        row = f"rows[{self.any_row('rows')}]"
        if self.r.random() < 0.5:
            self.lines.append(f"held = {row}")
            row = "held"
        if self.r.random() < 0.4:
            at = self.any_row(f"{row}.data")
            self.lines.append(f"wp.atomic_add({row}.data, {at}, F(0.05) * {row}.gain * {self.value(1)})")
        elif self.r.random() < 0.5:
            self.lines.append(self.result(f"{row}.data[{self.any_row(f'{row}.data')}] * {row}.gain"))
        else:
            self.lines += ["whole = F(0.0)", f"for k in range({row}.data.shape[0]):"]
            self.lines += [f"    whole += wp.sin({row}.data[k]) * F(0.05)", self.result("whole")]


def kernel(seed: int) -> Kernel:
    """A random kernel."""
    return Writer(seed).kernel()

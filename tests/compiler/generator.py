"""Random well-typed kernels: what tests of the compiler are fed with.

A program is a file of functions and one kernel. Each thread owns its row of the arrays that it reads and
writes (`w`, `y`, `p`, `z`, `g`, `r`, `e`, `bodies`); `x`, `q` and `idx` are only read; `acc` and `vacc` are
only added to, and `top` is only raised and lowered. So nothing races, and the derivative is that of the plain
loop over threads. Values stay small: sines damp products.

`python -m tests.compiler.generator SEED` prints a program.
"""

from __future__ import annotations

import sys

from tests.compiler.generator_compound import Compound
from tests.compiler.generator_expressions import COLUMNS as COLUMNS
from tests.compiler.generator_expressions import Scope

HEADER = """import tapedebug as wp

SCALE = 0.75
SHIFT = wp.vec3(0.5, 0.25, -1.0)
COUNT = 2

"""
TYPES = {
    "f": "float",
    "v": "wp.vec3",
    "i": "int",
    "m": "wp.mat33",
    "h": "wp.quat",
    "d": "wp.float64",
    "s": "Body",
}
STRUCT = """@wp.struct
class Body:
    pos: wp.vec3
    mass: float
    turn: wp.quat
    count: int


"""
PARAMETERS = """
    x: wp.array(dtype=float),
    q: wp.array(dtype=wp.vec3),
    idx: wp.array(dtype=int),
    w: wp.array2d(dtype=float),
    y: wp.array(dtype=float),
    p: wp.array(dtype=wp.vec3),
    z: wp.array(dtype=int),
    acc: wp.array(dtype=float),
    vacc: wp.array(dtype=wp.vec3),
    counter: wp.array(dtype=int),
    out: wp.array(dtype=float),
    g: wp.array(dtype=wp.mat33),
    r: wp.array(dtype=wp.quat),
    e: wp.array(dtype=wp.float64),
    top: wp.array(dtype=float),
    n: int,
    c: float,
"""
BODIES = "    bodies: wp.array(dtype=Body),\n"


class Generator(Compound):
    """Writes one program."""

    def program(self) -> str:
        for _ in range(self.r.randrange(3)):
            self.function()
        self.emit("@wp.kernel")
        self.emit(f"def program({PARAMETERS}{BODIES}):")
        self.in_kernel = True
        with self.indented():
            self.emit("i = wp.tid()")
            scope = Scope(fixed=("i", "n", "c"))
            scope.names["i"] += ["i", "n"]
            scope.names["f"].append("c")
            self.body(scope, self.size)
            self.emit(f"y[i] = y[i] * 0.5 + {self.float(scope, 2)}")
            self.use(scope)
        return HEADER + STRUCT + "\n".join(self.lines) + "\n"

    def use(self, scope: Scope) -> None:
        """Let what every variable holds at the end count."""
        sums = {
            "f": "wp.sin({})",
            "v": "wp.dot({}, SHIFT)",
            "m": "wp.sin(wp.ddot({0}, {0}))",
            "h": "{0}.x * {0}.w",
            "d": "float(wp.sin({}))",
            "s": "{0}.mass * {0}.pos.x",
        }
        for kind, form in sums.items():
            for name in scope.names[kind]:
                if name not in scope.fixed:
                    self.emit(f"y[i] += {form.format(name)}")

    # Functions

    def function(self) -> None:
        kind = self.r.random()
        if kind < 0.2:
            self.procedure()
        elif kind < 0.35:
            self.pair()
        else:
            self.plain_function()

    def procedure(self) -> None:
        """A function that changes a row of `w` and returns nothing."""
        name = f"g{len(self.functions)}"
        self.emit("@wp.func")
        self.emit(f"def {name}(row: wp.array(dtype=float), a0: float):")
        self.array_in_scope, self.result = False, ""
        scope = Scope()
        scope.names["f"] += ["a0", "row[1]"]
        scope.fixed += ("row[1]",)
        with self.indented():
            self.body(scope, 2)
            sign = self.pick("=", "+=", "*=", "-=")
            self.emit(f"row[{self.pick('0', '1', '2')}] {sign} wp.sin({self.float(scope, 2)})")
            if self.r.random() < 0.5:
                self.emit(f"if {self.bool(scope, 1)}:")
                self.emit("    return")
                self.emit(f"row[1] = wp.cos({self.float(scope, 1)})")
        self.emit("")
        self.functions.append((name, "Wf", "procedure"))

    def pair(self) -> None:
        """A function of two results."""
        name = f"g{len(self.functions)}"
        declared = " -> tuple[float, wp.vec3]" if self.r.random() < 0.6 else ""
        self.emit("@wp.func")
        self.emit(f"def {name}(a0: float, a1: wp.vec3){declared}:")
        self.array_in_scope, self.result = False, "fv" if declared else ""
        scope = Scope()
        scope.names["f"].append("a0")
        scope.names["v"].append("a1")
        with self.indented():
            self.body(scope, 3)
            self.emit(f"return {self.float(scope, 2)}, {self.vec(scope, 2)}")
        self.emit("")
        self.functions.append((name, "fv", "fv"))

    def plain_function(self) -> None:
        arguments = "".join(self.r.choice("fffvviimhds") for _ in range(self.r.randint(1, 3)))
        array = self.r.random() < 0.4
        result = self.r.choice("ffffvvmhd")
        names = [f"a{k}" for k in range(len(arguments))]
        typed = [f"{n}: {TYPES[k]}" for n, k in zip(names, arguments, strict=True)]
        if array:
            typed += ["x: wp.array(dtype=float)", "n: int"]
        name = f"g{len(self.functions)}"
        returns = self.r.random() < 0.6
        self.emit("@wp.func")
        self.emit(f"def {name}({', '.join(typed)}){f' -> {TYPES[result]}' if returns else ''}:")
        scope = Scope(fixed=("n",) if array else ())
        for n, k in zip(names, arguments, strict=True):
            scope.names[k].append(n)
        if array:
            scope.names["i"].append("n")
        self.array_in_scope = array
        self.result = result if returns else ""
        with self.indented():
            self.body(scope, self.r.randint(1, 3))
            self.emit(f"return {self.value(result, scope, 2)}")
        self.emit("")
        self.functions.append((name, arguments + ("F" if array else ""), result))

    # Statements

    def body(self, scope: Scope, size: int) -> None:
        """Statements of about this many lines; at least one line."""
        before = len(self.lines)
        left = size
        while left > 0:
            start = len(self.lines)
            if self.statement(scope, left):
                return
            left -= max(1, len(self.lines) - start)
        if len(self.lines) == before:
            self.emit("pass")

    def statement(self, scope: Scope, left: int) -> bool:
        """One statement; true where nothing may follow it."""
        makers = [self.assign] * 4 + [self.compound] * 2 + [self.record]
        if self.in_kernel:
            makers += [self.store] * 4 + [self.atomic] * 2 + [self.invoke]
            if not self.counted:
                makers += [self.slot]
            if self.r.random() < 0.3:
                makers += [self.extreme]
        if left > 1:
            makers += (
                [self.recurrence]
                + [self.branch] * 3
                + [self.for_loop] * 2
                + [self.while_loop]
                + [self.definite] * 2
            )
        if self.indent > 1:
            makers += [self.jump]
        return bool(self.r.choice(makers)(scope, left))

    def jump(self, scope: Scope, left: int) -> bool:
        choices = ["break", "continue"] * 2 if scope.loop else []
        if self.in_kernel:
            choices.append("return")
        elif self.result:
            choices.append(f"return {', '.join(self.value(k, scope, 1) for k in self.result)}")
        if not choices:
            return False
        self.emit(self.r.choice(choices))
        return True

    def assign(self, scope: Scope, left: int) -> None:
        kind = self.r.choice("fffvvib")
        known = [v for v in scope.names[kind] if v not in scope.fixed]
        style = self.r.random()
        if kind == "f" and len(known) > 1 and style < 0.15:
            a, b = self.r.sample(known, 2)
            second = a if self.r.random() < 0.6 else self.float(scope, 1)
            self.emit(f"{a}, {b} = {b}, {second}")
        elif kind == "v" and known and style < 0.4:
            where = self.pick(".x", ".y", ".z", "[0]", "[2]", f"[({self.int(scope, 0)}) % 3]")
            sign = self.pick("=", "=", "+=", "*=")
            self.emit(f"{self.r.choice(known)}{where} {sign} {self.float(scope, 2)}")
        elif kind in "fv" and known and style < 0.6:
            sign = self.pick("+=", "-=", "*=", "/=")
            operand = self.value("f" if sign in ("*=", "/=") else kind, scope, 2)
            operand = f"1.5 + wp.abs({operand})" if sign == "/=" else operand
            self.emit(f"{self.r.choice(known)} {sign} {operand}")
        else:
            value = self.value(kind, scope, 2 if kind != "i" else 1)
            value = f"{value} % 7" if kind == "i" else value
            name = self.r.choice(known) if known and style < 0.85 else self.fresh(kind)
            if kind == "f":
                # Damped, so that no chain of products overflows.
                value = f"wp.sin({value})" if self.r.random() < 0.5 else value
            self.emit(f"{name} = {value}")
            if name not in scope.names[kind]:
                scope.names[kind].append(name)

    def store(self, scope: Scope, left: int) -> None:
        f = lambda: self.float(scope, 2)  # noqa: E731
        target = self.pick("w", "w", "y", "p", "pc", "z")
        if target == "z":
            self.emit(f"z[{self.row(scope)}] {self.pick('=', '=', '+=', '*=')} {self.int(scope, 1)} % 5")
            return
        sign = self.pick("=", "=", "+=", "-=", "*=", "/=")
        if target == "p":
            operand = self.vec(scope, 2) if sign in ("=", "+=", "-=") else f"(1.5 + wp.abs({f()}))"
            self.emit(f"p[{self.row(scope)}] {sign} {operand}")
            return
        component = self.pick(".x", ".z", "[1]", "[0]")
        row = self.row(scope)
        places = {"w": f"w[{row}, {self.column(scope)}]", "y": f"y[{row}]", "pc": f"p[{row}]{component}"}
        operand = f"wp.sin({f()})" if sign in ("=", "*=") else f()
        self.emit(f"{places[target]} {sign} {f'1.5 + wp.abs({operand})' if sign == '/=' else operand}")

    def atomic(self, scope: Scope, left: int) -> None:
        name = self.pick("atomic_add", "atomic_sub")
        place = self.column(scope)
        if self.crossing and self.r.random() < 0.4:
            before = self.fresh("f")
            self.emit(f"{before} = wp.{name}(acc, {place}, wp.sin({self.float(scope, 2)}))")
            scope.names["f"].append(before)
            return
        match self.pick("f", "f", "v", "+="):
            case "f":
                self.emit(f"wp.{name}(acc, {place}, {self.float(scope, 2)})")
            case "v":
                self.emit(f"wp.{name}(vacc, {place}, {self.vec(scope, 2)})")
            case _:
                self.emit(f"acc[{place}] {self.pick('+=', '-=')} {self.float(scope, 2)}")

    def invoke(self, scope: Scope, left: int) -> None:
        """A call as a statement, or of a function with two results."""
        fitting = [f for f in self.functions if f[2] in ("procedure", "fv")]
        if not fitting:
            return self.assign(scope, left)
        name, _, result = self.r.choice(fitting)
        if result == "procedure":
            self.emit(f"{name}(w[{self.row(scope)}], {self.float(scope, 2)})")
            return None
        first, second = self.fresh("f"), self.fresh("v")
        self.emit(f"{first}, {second} = {name}({self.float(scope, 1)}, {self.vec(scope, 1)})")
        scope.names["f"].append(first)
        scope.names["v"].append(second)
        return None

    def slot(self, scope: Scope, left: int) -> None:
        """A place handed out by a counter, once in a program: what is written there is written once."""
        self.counted = True
        name = self.fresh("slot")
        self.emit(f"{name} = wp.atomic_add(counter, 0, 1)")
        self.emit(f"if {name} < out.shape[0]:")
        with self.indented():
            self.emit(f"out[{name}] = {self.float(scope, 2)}")

    def branch(self, scope: Scope, left: int) -> None:
        self.emit(f"if {self.bool(scope, 1)}:")
        with self.indented():
            self.body(scope.inner(), self.r.randint(1, max(1, left // 2)))
        if self.r.random() < 0.25:
            self.emit(f"elif {self.bool(scope, 1)}:")
            with self.indented():
                self.body(scope.inner(), 1)
        if self.r.random() < 0.5:
            self.emit("else:")
            with self.indented():
                self.body(scope.inner(), self.r.randint(1, max(1, left // 2)))

    def definite(self, scope: Scope, left: int) -> None:
        """A variable that is assigned on every path that does not leave."""
        kind = self.r.choice("fv")
        name = self.fresh(kind)
        for line in (f"if {self.bool(scope, 1)}:", "else:"):
            self.emit(line)
            with self.indented():
                inner = scope.inner()
                if self.r.random() < 0.5:
                    self.emit(f"if {self.bool(inner, 1)}:")
                    with self.indented():
                        if not self.jump(inner, 1):
                            self.emit("pass")
                elif left > 3 and self.r.random() < 0.4:
                    self.branch(inner, 2)
                self.emit(f"{name} = {self.value(kind, inner, 2)}")
        scope.names[kind].append(name)

    def for_loop(self, scope: Scope, left: int) -> None:
        step = f"{self.int(scope, 0)} % 4"
        stop = "n" if "n" in scope.names["i"] else "COUNT"
        bounds = self.pick("3", "2", "1, 3", "0, 4, 2", "3, 0, -1", stop, f"{step} % 3", f"{step}, -1, -2")
        name = self.fresh("k")
        self.emit(f"for {name} in range({bounds}):")
        inner = scope.inner(loop=True)
        inner.names["i"].append(name)
        inner.fixed += (name,)
        with self.indented():
            self.body(inner, self.r.randint(1, max(1, left // 2)))

    def recurrence(self, scope: Scope, left: int) -> None:
        """A loop whose derivative needs the values that its iterations began with."""
        kind, name = self.r.choice("ffvmhd"), self.fresh("k")
        state = self.fresh(kind)
        self.emit(f"{state} = {self.value(kind, scope, 1)}")
        count = self.pick("n", "n - 1", "2") if "n" in scope.names["i"] else f"{self.int(scope, 0)} % 4"
        self.emit(f"for {name} in range({count}):")
        inner = scope.inner(loop=True)
        inner.names[kind].append(state)
        inner.names["i"].append(name)
        inner.fixed += (name,)
        factor = f"wp.sin({self.float(inner, 1)})"
        follows = {
            "f": f"wp.cos({state} * {self.float(inner, 1)}) + {state} * {factor}",
            "v": f"wp.cross({state}, {self.vec(inner, 1)}) * {factor} + {state} * 0.5",
            "m": f"({state} @ {state}) * 0.125 + {self.mat(inner, 1)} * {factor}",
            "h": f"{self.unit(inner, 1)} * {state}",
            "d": f"wp.cos({state} * {self.double(inner, 1)})",
        }
        with self.indented():
            if left > 3 and self.r.random() < 0.5:
                self.body(inner, 1)
            self.emit(f"{state} = {follows[kind]}")
        scope.names[kind].append(state)

    def while_loop(self, scope: Scope, left: int) -> None:
        name = self.fresh("m")
        self.emit(f"{name} = int(0)")
        guard = f" and {self.bool(scope, 1)}" if self.r.random() < 0.5 else ""
        self.emit(f"while {name} < {self.pick('2', '3', self.int(scope, 0) + ' % 4')}{guard}:")
        inner = scope.inner(loop=True)
        inner.names["i"].append(name)
        inner.fixed += (name,)
        with self.indented():
            self.emit(f"{name} += 1")
            self.body(inner, self.r.randint(1, max(1, left // 2)))


def program(seed: int, size: int = 7, *, crossing: bool = False) -> str:
    """The source of a random program; with `crossing`, threads read and write what others wrote."""
    return Generator(seed, size, crossing=crossing).program()


if __name__ == "__main__":
    print(program(*map(int, sys.argv[1:])))

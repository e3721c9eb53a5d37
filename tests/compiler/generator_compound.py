"""Random expressions of matrices (m), quaternions (h) and float64 (d), and statements on them."""

from __future__ import annotations

from collections.abc import Callable

from tests.compiler.generator_expressions import Expressions, Scope

PARTS = (".mass", ".pos.x", ".pos[1]", ".turn.w")
ZEROS = {"m": "wp.mat33(0.5)", "h": "wp.quat(0.0, 0.5, 0.0, 1.0)", "d": "wp.float64(0.5)"}


class Compound(Expressions):
    """Writes expressions of more types than `Expressions`, which they find their way into."""

    structs = True

    def body_of(self, scope: Scope, depth: int) -> str:
        """A struct: a variable, an array's element, or what a function gives."""
        choices = list(scope.names["s"])
        if self.in_kernel:
            choices.append(f"bodies[{self.row(scope)}]")
        return self.r.choice(choices) if choices else "Body()"

    def more_floats(self, scope: Scope, depth: int) -> list[Callable[[], str]]:
        m, h = (lambda: self.mat(scope, depth - 1)), (lambda: self.quaternion(scope, depth - 1))
        d = lambda: self.double(scope, depth - 1)  # noqa: E731
        v = lambda: self.vec(scope, depth - 1)  # noqa: E731
        return [
            lambda: f"wp.sin(wp.determinant({m()}))",
            lambda: f"wp.trace({m()})",
            lambda: f"wp.ddot({m()}, {m()})",
            lambda: f"wp.dot({h()}, {h()})",
            lambda: f"wp.length({h()})",
            lambda: f"float({d()})",
            lambda: f"wp.dot({v()}, {m()} @ {v()})",
            *[lambda: f"{self.body_of(scope, 0)}{self.pick(*PARTS)}"] * (2 * self.structs),
            *[lambda: f"float({self.body_of(scope, 0)}.count)"] * self.structs,
        ]

    def more_vecs(self, scope: Scope, depth: int) -> list[Callable[[], str]]:
        m, v = (lambda: self.mat(scope, depth - 1)), (lambda: self.vec(scope, depth - 1))
        return [
            lambda: f"({m()} {self.pick('*', '@')} {v()})",
            lambda: f"wp.get_diag({m()})",
            lambda: f"{self.named('m', scope)}[{self.pick('0', '1', '2')}]",
            lambda: f"wp.quat_rotate({self.unit(scope, depth - 1)}, {v()})",
            *[lambda: f"{self.body_of(scope, 0)}.pos"] * self.structs,
            lambda: f"wp.quat_rotate_inv({self.unit(scope, depth - 1)}, {v()})",
        ]

    def named(self, kind: str, scope: Scope) -> str:
        """A variable, or an array's element."""
        choices = [v for v in scope.names[kind] if v not in scope.fixed]
        if self.in_kernel:
            choices.append({"m": "g", "h": "r", "d": "e"}[kind] + f"[{self.row(scope)}]")
        return self.r.choice(choices) if choices else f"({ZEROS[kind]})"

    def mat(self, scope: Scope, depth: int) -> str:
        if depth <= 0 or self.r.random() < 0.3:
            return self.named("m", scope)
        m, v = (lambda: self.mat(scope, depth - 1)), (lambda: self.vec(scope, depth - 1))
        f = lambda: self.float(scope, depth - 1)  # noqa: E731
        makers = [
            lambda: f"({m()} {self.pick('+', '-')} {m()})",
            lambda: f"({m()} * {f()})",
            lambda: f"({f()} * {m()})",
            lambda: f"(({m()} {self.pick('*', '@')} {m()}) * 0.25)",
            lambda: f"({m()} / (1.5 + wp.abs({f()})))",
            lambda: f"-{m()}",
            lambda: f"wp.cw_mul({m()}, {m()})",
            lambda: f"wp.transpose({m()})",
            lambda: f"wp.outer({v()}, {v()})",
            lambda: f"wp.skew({v()})",
            lambda: f"wp.diag({v()})",
            lambda: f"wp.mat33({', '.join(f() for _ in range(9))})",
            lambda: f"wp.quat_to_matrix({self.unit(scope, depth - 1)})",
            lambda: f"wp.inverse({self.regular(scope)})",
            lambda: f"({m()} if {self.bool(scope, depth - 1)} else {m()})",
            lambda: self.call("m", scope, depth) or self.named("m", scope),
        ]
        return self.r.choice(makers)()

    def regular(self, scope: Scope) -> str:
        """A matrix whose condition number is 2."""
        axis = self.axis(scope)
        return f"wp.outer({axis}, {axis}) + wp.identity(n=3, dtype=float)"

    def unit(self, scope: Scope, depth: int) -> str:
        """A quaternion of length 1."""
        return f"wp.normalize({self.quaternion(scope, depth)} + wp.quat(0.25, 0.0, 0.0, 2.5))"

    def axis(self, scope: Scope) -> str:
        """A vector of length 1."""
        return f"wp.normalize({self.vec(scope, 0)} + wp.vec3(2.0, 0.5, 0.25))"

    def quaternion(self, scope: Scope, depth: int) -> str:
        if depth <= 0 or self.r.random() < 0.3:
            return self.named("h", scope)
        h, f = (lambda: self.quaternion(scope, depth - 1)), (lambda: self.float(scope, depth - 1))
        makers = [
            lambda: f"({h()} {self.pick('+', '-')} {h()})",
            lambda: f"({h()} * {h()})",
            lambda: f"({h()} * {f()})",
            lambda: f"wp.quat_inverse({h()})",
            lambda: self.unit(scope, depth - 1),
            lambda: f"wp.quat({f()}, {f()}, {f()}, {f()})",
            lambda: f"wp.quat_from_axis_angle({self.axis(scope)}, {f()})",
            lambda: self.call("h", scope, depth) or self.named("h", scope),
        ]
        return self.r.choice(makers)()

    def double(self, scope: Scope, depth: int) -> str:
        if depth <= 0 or self.r.random() < 0.3:
            return self.named("d", scope)
        d = lambda: self.double(scope, depth - 1)  # noqa: E731
        makers = [
            lambda: f"({d()} {self.pick('+', '-', '*')} {d()})",
            lambda: f"wp.{self.pick('sin', 'cos', 'tanh', 'atan')}({d()})",
            lambda: f"wp.{self.pick('min', 'max')}({d()}, {d()})",
            lambda: f"({d()} / (wp.float64(1.5) + wp.abs({d()})))",
            lambda: f"wp.float64({self.float(scope, depth - 1)})",
            lambda: f"wp.float64({self.int(scope, 0)})",
            lambda: f"wp.where({self.bool(scope, depth - 1)}, {d()}, {d()})",
            lambda: self.call("d", scope, depth) or self.named("d", scope),
        ]
        return self.r.choice(makers)()

    # Statements

    def change(self, target: str, kind: str, scope: Scope) -> None:
        """Assign to, or change in place, a variable or element of one of these types."""
        f = lambda: f"wp.sin({self.float(scope, 2)})"  # noqa: E731
        place, style = self.pick("0", "1", "2"), self.r.random()
        if kind == "m" and style < 0.35:
            column = self.pick("0", "1", "2")
            self.emit(f"{target}[{place}, {column}] {self.pick('=', '+=', '*=')} {f()}")
        elif kind == "m" and style < 0.5:
            self.emit(f"{target}[{place}] = {self.vec(scope, 1)}")
        elif kind == "h" and style < 0.4:
            part = self.pick(".x", ".w", "[2]")
            self.emit(f"{target}{part} {self.pick('=', '+=', '*=')} {f()}")
        elif kind == "d":
            value = f"wp.sin({self.double(scope, 2)})"
            self.emit(f"{target} {self.pick('=', '+=', '-=', '*=')} {value}")
        elif style < 0.7:
            self.emit(f"{target} {self.pick('+=', '-=')} {self.value(kind, scope, 1)}")
        elif style < 0.85:
            self.emit(f"{target} *= {f()}")
        else:
            self.emit(f"{target} = {self.value(kind, scope, 2)}")

    def compound(self, scope: Scope, left: int) -> None:
        """A statement on a matrix, quaternion or float64: on a variable or on an array's element."""
        kind = self.r.choice("mhd")
        known = [v for v in scope.names[kind] if v not in scope.fixed]
        if self.in_kernel and self.r.random() < 0.4:
            array = {"m": "g", "h": "r", "d": "e"}[kind]
            self.change(f"{array}[{self.row(scope)}]", kind, scope)
        elif known and self.r.random() < 0.6:
            self.change(self.r.choice(known), kind, scope)
        else:
            name = self.fresh(kind)
            self.emit(f"{name} = {self.value(kind, scope, 2)}")
            scope.names[kind].append(name)

    def record(self, scope: Scope, left: int) -> None:
        """A statement on a struct."""
        known, f = scope.names["s"], f"wp.sin({self.float(scope, 2)})"
        if not known or self.r.random() < 0.2:
            name = self.fresh("s")
            self.emit(f"{name} = {self.body_of(scope, 0)}")
            scope.names["s"].append(name)
        target = self.r.choice(scope.names["s"])
        if self.in_kernel and self.r.random() < 0.5:
            target = f"bodies[{self.row(scope)}]"
            if self.r.random() < 0.3:
                self.emit(f"{target} = {self.r.choice(scope.names['s'])}")
                return
        match self.pick("part", "part", "pos", "turn", "count"):
            case "part":
                self.emit(f"{target}{self.pick(*PARTS)} {self.pick('=', '+=', '*=', '-=')} {f}")
            case "pos":
                self.emit(f"{target}.pos {self.pick('=', '+=', '-=')} {self.vec(scope, 1)}")
            case "turn":
                self.emit(f"{target}.turn = {self.quaternion(scope, 1)}")
            case _:
                self.emit(f"{target}.count = {self.int(scope, 1)} % 5")

    def extreme(self, scope: Scope, left: int) -> None:
        """The largest or smallest of what threads have, which each may also read."""
        name = self.pick("max", "min")
        call = f"wp.atomic_{name}(top, {self.column(scope)}, {self.float(scope, 2)})"
        if self.crossing and self.r.random() < 0.5:
            before = self.fresh("f")
            self.emit(f"{before} = {call.replace(name, 'exch', 1) if self.r.random() < 0.3 else call}")
            scope.names["f"].append(before)
        else:
            self.emit(call)

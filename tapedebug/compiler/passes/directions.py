"""Products of a direction and a function of its length: smooth at zero, though neither factor is.

`normalize(w) * sin(0.5 * length(w))` is `0.5 * w` near zero: a rotation from an angular velocity, the
logarithm of a rotation, a vector put together again from direction and length. Differentiated factor by
factor, its derivative there is 0, which `normalize` and `length` have by convention. So where a factor
vanishes with the length, the product is differentiated as `w` times the factor's slope by the length wherever
that is 0: `d (a h(|w|)) = h'(0) dw`.

For second derivatives, even functions of the length (`cos(length(w))`, `length(w) * length(w)`) are
differentiated there as functions of its square, with half of the curvature as their slope.
"""

from __future__ import annotations

from dataclasses import replace

from tapedebug.compiler.builder import Builder, constant_of
from tapedebug.compiler.ir import Function, Op, Value, ops_of
from tapedebug.compiler.passes.adjoint import pulled_back
from tapedebug.compiler.passes.rewriting import Adder
from tapedebug.lang import types as t
from tapedebug.lang.rules import RULES

LENGTH = "norm_of_square"
CONVERSIONS = frozenset({"to_f16", "to_bf16", "to_f32", "to_f64"})
DEPTH = 24
"""The number of operations to follow back, one behind the other."""


def with_directions(function: Function, *, second: bool = False) -> Function:
    """The function, to be differentiated, with products of directions and lengths as they are at zero.

    Args:
        function: A kernel in IR.
        second: Whether second derivatives are asked for.
    """
    if not has_directions(function):
        return function
    return replace(function, body=_Directions(second).run(function.body))


def has_directions(function: Function) -> bool:
    """Return whether the function takes a length."""
    return any(op.kind == LENGTH for op in ops_of(function.body))


class _Directions(Adder):
    """The pass."""

    def __init__(self, second: bool) -> None:
        super().__init__()
        self.second = second
        self.along: dict[Value, tuple[Value, Value]] = {}
        """For values that are linear in a direction: its length, and what they are of the vector itself."""
        self.lengths: dict[Value, _OfLength] = {}
        self._without_length: dict[Value, int] = {}
        """For values without a length that far back: the number of operations that were followed."""

    def _op(self, op: Op) -> None:
        result = op.result
        if result is None or result.type not in t.FLOATS:
            self.builder.append(op)
            return
        self._note_linear(op, result)
        if op.kind == "mul":
            for one, other in (op.args, op.args[::-1]):
                found = self.along.get(one)
                if found is not None and self._of(found[0]).vanishes(other):
                    self._product(op, result, *found, other)
                    return
        if self.second and self._even(op, result):
            return
        self.builder.append(op)

    def _renamed(self, op: Op, result: Value) -> Value:
        """The value of an operation whose result is to be another one."""
        value = Value(result.type, result.hint)
        value.op = replace(op, result=value)
        self.builder.append(value.op)
        return value

    def _product(self, op: Op, result: Value, length: Value, vector: Value, factor: Value) -> None:
        """A direction (or what is linear in it) times what vanishes with its length."""
        b = self.builder
        value = self._renamed(op, result)
        zero = b.constant(0, result.type)
        slope = self._of(length).slope(b, factor)
        away = b.apply("gt", length, b.constant(0, length.type))
        smooth = b.apply("and", b.apply("not", away), b.apply("eq", factor, zero))
        at_zero = b.apply("mul", vector, b.apply("where", smooth, slope, zero))
        self.builder.append(Op("where", (away, value, at_zero), result, op.span))

    # What is linear in a direction

    def _note_linear(self, op: Op, result: Value) -> None:
        found = self._component(op) or self._linear_combinations(op)
        if found is not None:
            self.along[result] = found

    def _component(self, op: Op) -> tuple[Value, Value] | None:
        """A component of a normalized vector: where(length > 0, x / where(length > 0, length, 1), 0)."""
        if op.kind != "where" or constant_of(op.args[2]) != 0:
            return None
        test, quotient = op.args[0].op, op.args[1].op
        if test is None or quotient is None or test.kind != "gt" or quotient.kind != "div":
            return None
        length, safe = test.args[0], quotient.args[1].op
        if not _is_length(length) or constant_of(test.args[1]) != 0 or safe is None:
            return None
        if safe.kind != "where" or safe.args[:2] != (op.args[0], length):
            return None
        return length, quotient.args[0]

    def _linear_combinations(self, op: Op) -> tuple[Value, Value] | None:
        """Sums of such components, and products with numbers."""
        b = self.builder
        known = [self.along.get(a) for a in op.args]
        some = next((k for k in known if k is not None), None)
        if some is None:
            return None
        length = some[0]
        match op.kind, known:
            case "neg", [(_, x)]:
                return length, b.apply("neg", x)
            case (("add" | "sub"), [(n, x), (m, y)]) if n is m:
                return length, b.apply(op.kind, x, y)
            case "mul", [(_, x), None]:
                return length, b.apply("mul", x, op.args[1])
            case "mul", [None, (_, y)]:
                return length, b.apply("mul", op.args[0], y)
            case "div", [(_, x), None]:
                return length, b.apply("div", x, op.args[1])
        return None

    # Functions of a length

    def _of(self, length: Value) -> _OfLength:
        return self.lengths.setdefault(length, _OfLength(length))

    def _length_of(self, value: Value, depth: int = DEPTH) -> Value | None:
        """The first length that a value is made of."""
        if _is_length(value):
            return value
        if value.op is None or value.op.kind not in RULES or depth <= self._without_length.get(value, 0):
            return None
        for operand in value.op.args:
            found = self._length_of(operand, depth - 1)
            if found is not None:
                return found
        self._without_length[value] = depth
        return None

    def _even(self, op: Op, result: Value) -> bool:
        """Let an even function of a length be one of its square, where the length is 0; whether it is one."""
        b = self.builder
        length = next((n for n in map(self._length_of, op.args) if n is not None), None)
        if length is None or not all(map(self._of(length).vanishes, op.args)):
            return False
        slopes = [self._of(length).slope(b, a) for a in op.args]
        curvature = RULES[op.kind].curvature if op.kind in RULES else None
        if curvature is not None:
            curved = b.constant(0.5 * curvature, result.type)
            half = b.apply("mul", curved, b.apply("mul", slopes[0], slopes[0]))
        elif op.kind == "mul":
            half = b.apply("mul", *slopes)
        else:
            return False
        assert length.op is not None
        square = length.op.args[0]
        value = self._renamed(op, result)
        away = b.apply("gt", length, b.constant(0, length.type))
        moved = b.apply("sub", square, b.apply("stop_gradient", square))
        at_zero = b.apply("add", b.apply("stop_gradient", value), b.apply("mul", moved, half))
        b.append(Op("where", (away, value, at_zero), result, op.span))
        return True


def _is_length(value: Value) -> bool:
    return value.op is not None and value.op.kind == LENGTH


class _OfLength:
    """Values as functions of one length.

    Args:
        length: The length.
    """

    def __init__(self, length: Value) -> None:
        self.length = length
        self._depends: dict[Value, bool] = {}
        self._vanishes: dict[Value, bool] = {}

    def depends(self, value: Value, depth: int = DEPTH) -> bool:
        """Return whether a value is made of the length."""
        if value is self.length:
            return True
        if value.op is None or value.op.kind not in RULES or not depth:
            return False
        if value not in self._depends:
            self._depends[value] = any(self.depends(a, depth - 1) for a in value.op.args)
        return self._depends[value]

    def vanishes(self, value: Value, depth: int = DEPTH) -> bool:
        """Return whether a value is known to be 0 where the length is, and to have a slope there."""
        if value is self.length:
            return True
        if value.op is None or not depth:
            return False
        if value not in self._vanishes:
            self._vanishes[value] = self._found_to_vanish(value, value.op, depth - 1)
        return self._vanishes[value]

    def _found_to_vanish(self, value: Value, op: Op, depth: int) -> bool:
        if op.kind not in RULES or not self.depends(value):
            return False
        zero = [self.vanishes(a, depth) for a in op.args]
        if RULES[op.kind].odd or op.kind in CONVERSIONS:
            return zero[0]
        if op.kind == "mul":
            return any(zero)
        if op.kind in (
            "div",
            "atan2",
        ):  # the angle of (length, x) is 0 only for positive x: seen when it runs
            return zero[0] and not zero[1]
        if op.kind == "sub" and all(self._is_one(a, depth) for a in op.args):
            return True
        if op.kind in ("add", "sub"):
            return all(zero)
        return op.kind == "where" and all(zero[1:])

    def _is_one(self, value: Value, depth: int) -> bool:
        """Return whether a value is known to be 1 where the length is 0."""
        if constant_of(value) == 1:
            return True
        op = value.op
        if op is None or op.kind not in RULES or RULES[op.kind].curvature is None:
            return False
        return self.vanishes(op.args[0], depth)

    def slope(self, b: Builder, value: Value, depth: int = DEPTH) -> Value:
        """The derivative of a value by the length; 0 where it is not made of it."""
        if value is self.length:
            return b.constant(1, value.type)
        op = value.op
        rule = RULES.get(op.kind) if op is not None else None
        total = None
        if op is not None and rule is not None and not isinstance(rule.partials, str) and depth:
            exprs = [b.expr(a) for a in op.args]
            for argument, partial in zip(op.args, rule.partials, strict=True):
                if partial is None or argument.type not in t.FLOATS or not self.depends(argument):
                    continue
                inner = b.expr(self.slope(b, argument, depth - 1))
                part = pulled_back(partial(*exprs, b.expr(value)), inner, value.type)
                total = part if total is None else b.apply("add", total, part)
        return b.constant(0, value.type) if total is None else total

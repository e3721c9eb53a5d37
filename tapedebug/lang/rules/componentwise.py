"""Functions that vectors and matrices take component by component; tests; bits of integers."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from tapedebug.lang import types as t
from tapedebug.lang.rules._quantities import componentwise, scalar
from tapedebug.lang.rules.table import Expr, Quantity, RuleError, composite, conversion, name_list


def _unary(name: str) -> Callable[[Quantity], Quantity]:
    def build(x: Quantity) -> Quantity:
        if t.is_quaternion(x.type) or t.is_transformation(x.type):
            raise RuleError(
                f"takes numbers, vectors or matrices; got {t.type_name(x.type)}", "apply it to each component"
            )
        return Quantity(x.type, tuple(part.apply(name) for part in x.parts))

    return build


composite("abs", "Absolute value, of each component; its derivative at 0 is 0.")(_unary("abs"))
for _name, _doc in (
    ("sign", "-1 of a negative number, else 1, of each component."),
    ("floor", "Largest integer not above, as a float, of each component."),
    ("ceil", "Smallest integer not below, as a float, of each component."),
    ("trunc", "Rounded toward zero, as a float, of each component."),
    ("round", "Rounded to the nearest integer, halves away from zero, as a float, of each component."),
    ("rint", "Rounded to the nearest integer, halves to even, as a float, of each component."),
    ("invert", "Bits that an integer does not have, of each component."),
):
    composite(_name, _doc, differentiable=False)(_unary(_name))


def _test(name: str, all_of_them: bool) -> Callable[[Quantity], Quantity]:
    def build(x: Quantity) -> Quantity:
        word = "and" if all_of_them else "or"
        return scalar(reduce(lambda a, b: a.apply(word, b), (part.apply(name) for part in x.parts)))

    return build


for _name, _doc in (
    ("isnan", "Whether a number, or a component of a value, is not a number."),
    ("isinf", "Whether a number, or a component of a value, is infinite."),
    ("isfinite", "Whether a number, or every component of a value, is neither infinite nor NaN."),
):
    composite(_name, _doc, differentiable=False)(_test(_name, _name == "isfinite"))


def _pairs(name: str) -> Callable[[Quantity, Quantity], Quantity]:
    def build(a: Quantity, b: Quantity) -> Quantity:
        kinds = [a.type, b.type]
        if any(t.is_quaternion(k) or t.is_transformation(k) for k in kinds):
            raise RuleError(f"takes numbers, vectors or matrices; got {name_list(kinds)}", "use components")
        if t.is_compound(a.type) != t.is_compound(b.type) or (t.is_compound(a.type) and a.type is not b.type):
            raise RuleError(f"takes two values of one type; got {name_list(kinds)}", conversion(kinds))
        return componentwise(name, a, b)

    return build


composite("mod", "Remainder with the sign of the dividend, as in C, of each pair.")(_pairs("mod"))
for _name, _doc in (
    ("bit_and", "Bits that both integers have, of each pair of components."),
    ("bit_or", "Bits that at least one integer has, of each pair of components."),
    ("bit_xor", "Bits that exactly one integer has, of each pair of components."),
    ("lshift", "Bits of the first, moved up by the second, of each pair of components."),
    ("rshift", "Bits of the first, moved down by the second, of each pair; a signed integer keeps its sign."),
):
    composite(_name, _doc, differentiable=False)(_pairs(_name))


@composite("bit_count", "Number of bits of an integer that are set; of -1 all.", differentiable=False)
def bit_count(x: Quantity) -> Quantity:
    if x.type not in t.INTEGERS:
        raise RuleError(f"takes an integer; got {t.type_name(x.type)}", "convert it with int(…)")
    bits, n = t.bits_of(x.type), x.scalar

    def mask(byte: int) -> Expr:
        return n.lift(int.from_bytes(bytes([byte]) * (bits // 8), "big"))

    def half(value: Expr, by: int, byte: int) -> Expr:
        return value.apply("rshift", by).apply("bit_and", mask(byte))

    # Counts of pairs of bits, then of fours, then of bytes, which add up in the lowest one.
    n = n - half(n, 1, 0x55)
    n = n.apply("bit_and", mask(0x33)) + half(n, 2, 0x33)
    n = (n + n.apply("rshift", 4)).apply("bit_and", mask(0x0F))
    for by in (8, 16, 32):
        if by < bits:
            n = n + n.apply("rshift", by)
    return scalar(n.apply("bit_and", 0x7F).apply("to_i32"))


@composite("copysign", "The first with the sign of the second, which may be that of -0.0.")
def copysign(x: Quantity, y: Quantity) -> Quantity:
    kinds = [x.type, y.type]
    if x.type not in t.FLOATS or x.type is not y.type:
        raise RuleError(f"takes two floats of one type; got {name_list(kinds)}", "convert them with float(…)")

    def negative(value: Expr) -> Expr:
        return value.apply(f"i{t.bits_of(x.type)}_of_bits") < 0

    return scalar(negative(x.scalar).apply("ne", negative(y.scalar)).select(-x.scalar, x.scalar))

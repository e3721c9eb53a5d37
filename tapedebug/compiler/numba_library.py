"""What generated code calls, for Numba: casts, pointers into the argument slots, functions, stacks.

Imported only when something is compiled. Every function is an intrinsic that emits LLVM directly, so that
types stay as the IR has them (Numba would widen) and nothing refers to Numba's runtime: the object code runs
without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending, types
from numba.core import cgutils

SCALARS = {
    "f32": types.float32,
    "f64": types.float64,
    "i8": types.int8,
    "u8": types.uint8,
    "i16": types.int16,
    "u16": types.uint16,
    "i32": types.int32,
    "u32": types.uint32,
    "i64": types.int64,
    "u64": types.uint64,
    "b1": types.boolean,
}


def intrinsic(generator: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's decorator, with a type."""
    function: Callable[..., Any] = extending.intrinsic(generator)
    return function


WORD = ir.IntType(64)
STACK = types.CPointer(types.int64)


def _pointer(kind: Any) -> Any:
    @intrinsic
    def pointer(context: Any, args: Any, slot: Any) -> Any:
        """The pointer that an argument slot holds."""

        def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
            address = b.load(b.gep(values[0], [values[1]]))
            return b.inttoptr(address, ctx.get_value_type(sig.return_type))

        return types.CPointer(kind)(args, slot), generate

    return pointer


@intrinsic
def arg_f64(context: Any, args: Any, slot: Any) -> Any:
    """The float that an argument slot holds."""

    def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        return b.bitcast(b.load(b.gep(values[0], [values[1]])), ir.DoubleType())

    return types.float64(args, slot), generate


def _cast(target: Any) -> Any:
    @intrinsic
    def cast(context: Any, x: Any) -> Any:
        """A number in another type; a float out of an integer's range gives the nearest integer, NaN 0."""

        def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
            source = sig.args[0]
            if isinstance(source, types.Float) and isinstance(target, types.Integer):
                width = target.bitwidth
                sign = "s" if target.signed else "u"
                name = f"llvm.fpto{sign}i.sat.i{width}.f{source.bitwidth}"
                kind = ir.FunctionType(ir.IntType(width), [ctx.get_value_type(source)])
                return b.call(cgutils.get_or_insert_function(b.module, kind, name), [values[0]])
            return ctx.cast(b, values[0], source, target)

        return target(x), generate

    return cast


def _llvm_math(name: str) -> Any:
    @intrinsic
    def function(context: Any, x: Any) -> Any:
        def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
            kind = ctx.get_value_type(sig.return_type)
            symbol = f"llvm.{name}.f{sig.return_type.bitwidth}"
            function = cgutils.get_or_insert_function(b.module, ir.FunctionType(kind, [kind]), symbol)
            return b.call(function, values)

        return (x(x), generate) if isinstance(x, types.Float) else None

    return function


def _libm(name: str, arity: int) -> Any:
    """A function of the C library, in the operand's precision."""

    def build(operands: Any) -> Any:
        first = operands[0]

        def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
            kind = ctx.get_value_type(first)
            symbol = name + ("f" if first.bitwidth == 32 else "")
            called = cgutils.get_or_insert_function(b.module, ir.FunctionType(kind, [kind] * arity), symbol)
            called.attributes.add("nounwind")
            return b.call(called, values)

        return (first(*operands), generate) if isinstance(first, types.Float) else None

    if arity == 1:

        @intrinsic
        def unary(context: Any, x: Any) -> Any:
            return build((x,))

        return unary

    @intrinsic
    def binary(context: Any, x: Any, y: Any) -> Any:
        return build((x, y))

    return binary


@intrinsic
def m_abs(context: Any, x: Any) -> Any:
    """Absolute value of a number of any type."""

    def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        value = values[0]
        if isinstance(sig.args[0], types.Float):
            kind = ctx.get_value_type(sig.args[0])
            symbol = f"llvm.fabs.f{sig.args[0].bitwidth}"
            return b.call(
                cgutils.get_or_insert_function(b.module, ir.FunctionType(kind, [kind]), symbol), values
            )
        if not sig.args[0].signed:
            return value
        return b.select(b.icmp_signed("<", value, value.type(0)), b.neg(value), value)

    return x(x), generate


def _sign(at_zero: int) -> Any:
    @intrinsic
    def sign(context: Any, x: Any) -> Any:
        """-1 or 1 by the sign, and what is agreed at 0."""

        def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
            value = values[0]
            kind = value.type
            if isinstance(sig.args[0], types.Float):
                below, above = (b.fcmp_ordered(s, value, kind(0.0)) for s in "<>")
            elif sig.args[0].signed:
                below, above = (b.icmp_signed(s, value, kind(0)) for s in "<>")
            else:
                below, above = ir.IntType(1)(0), b.icmp_unsigned(">", value, kind(0))
            return b.select(below, kind(-1), b.select(above, kind(1), kind(at_zero)))

        return x(x), generate

    return sign


@intrinsic
def unit(context: Any, x: Any) -> Any:
    """The operand, held in [-1, 1]; NaN stays."""

    def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        value = values[0]
        low, high = value.type(-1.0), value.type(1.0)
        raised = b.select(b.fcmp_ordered("<", value, low), low, value)
        return b.select(b.fcmp_ordered(">", raised, high), high, raised)

    return x(x), generate


@intrinsic
def select(context: Any, condition: Any, yes: Any, no: Any) -> Any:
    """`yes` where the condition holds, else `no`; no branch."""

    def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        return b.select(values[0], values[1], values[2])

    return yes(types.boolean, yes, yes), generate


def _division(quotient: bool, floor: bool) -> Any:
    """Integer division (x / 0 is 0) and remainder as in C; of floats as in C's `fmod` and `floor(x / y)`."""

    @intrinsic
    def divide(context: Any, x: Any, y: Any) -> Any:
        def integers(b: Any, x: Any, y: Any) -> Any:
            zero = b.icmp_signed("==", y, y.type(0))
            # -1 would overflow for the least integer; its quotient is the negation.
            minus = b.icmp_signed("==", y, y.type(-1))
            safe = b.select(b.or_(zero, minus), y.type(1), y)
            if not quotient:
                return b.select(b.or_(zero, minus), y.type(0), b.srem(x, safe))
            plain = b.sdiv(x, safe)
            if floor:
                rest = b.srem(x, safe)
                below = b.and_(
                    b.icmp_signed("!=", rest, rest.type(0)),
                    b.icmp_signed(
                        "!=", b.icmp_signed("<", rest, rest.type(0)), b.icmp_signed("<", safe, safe.type(0))
                    ),
                )
                plain = b.sub(plain, b.zext(below, plain.type))
            return b.select(zero, y.type(0), b.select(minus, b.neg(x), plain))

        def naturals(b: Any, x: Any, y: Any) -> Any:
            zero = b.icmp_unsigned("==", y, y.type(0))
            safe = b.select(zero, y.type(1), y)
            return b.select(zero, y.type(0), b.udiv(x, safe) if quotient else b.urem(x, safe))

        def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
            if isinstance(sig.args[0], types.Integer):
                return integers(b, *values) if sig.args[0].signed else naturals(b, *values)
            if not quotient:
                return b.frem(*values)
            kind = values[0].type
            symbol = f"llvm.floor.f{sig.args[0].bitwidth}"
            called = cgutils.get_or_insert_function(b.module, ir.FunctionType(kind, [kind]), symbol)
            return b.call(called, [b.fdiv(*values)])

        return x(x, x), generate

    return divide


def _shift(left: bool) -> Any:
    @intrinsic
    def shift(context: Any, x: Any, y: Any) -> Any:
        """Shifted by `y` bits; a number of bits that the type does not have shifts all of them out."""

        def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
            value, count = values
            width = value.type.width
            inside = b.icmp_unsigned("<", count, count.type(width))
            signed = sig.args[0].signed
            # The sign is what a signed number has beyond its highest bit.
            safe = b.select(inside, count, count.type(width - 1 if signed and not left else 0))
            if not left and signed:
                return b.ashr(value, safe)
            return b.select(inside, b.shl(value, safe) if left else b.lshr(value, safe), value.type(0))

        return x(x, x), generate

    return shift


@intrinsic
def trip_count(context: Any, start: Any, stop: Any, step: Any) -> Any:
    """Number of iterations of range(start, stop, step); 0 for a step of 0."""

    def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        start, stop, step = values
        zero, one = WORD(0), WORD(1)
        up = b.icmp_signed(">", step, zero)
        distance = b.select(up, b.sub(stop, start), b.sub(start, stop))
        size = b.select(up, step, b.neg(step))
        safe = b.select(b.icmp_signed("==", step, zero), one, size)
        count = b.sdiv(b.sub(b.add(distance, safe), one), safe)
        some = b.and_(b.icmp_signed(">", distance, zero), b.icmp_signed("!=", step, zero))
        return b.select(some, count, zero)

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def inside(context: Any, index: Any, length: Any) -> Any:
    """An index where it is one of `length` elements, else 0."""

    def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        return b.select(b.icmp_unsigned("<", values[0], values[1]), values[0], WORD(0))

    return types.int64(types.int64, types.int64), generate


# Stacks: two words, the address of the memory and its capacity in words -------------------------------------


def _c_function(b: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    called = cgutils.get_or_insert_function(b.module, ir.FunctionType(result, arguments), name)
    called.attributes.add("nounwind")
    return called


@intrinsic
def stack_new(context: Any) -> Any:
    """An empty stack."""

    def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        stack = cgutils.alloca_once(b, WORD, size=WORD(2))
        b.store(WORD(0), stack)
        b.store(WORD(0), b.gep(stack, [WORD(1)]))
        return stack

    return STACK(), generate


@intrinsic
def stack_ensure(context: Any, stack: Any, count: Any) -> Any:
    """Room for `count` words; what is kept stays. Memory that cannot be had ends the process, as in C."""

    def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        stack, count = values
        capacity = b.gep(stack, [WORD(1)])
        with b.if_then(b.icmp_signed(">", count, b.load(capacity)), likely=False):
            size = b.add(b.mul(count, WORD(2)), WORD(64))
            byte = ir.IntType(8).as_pointer()
            realloc = _c_function(b, "realloc", byte, [byte, WORD])
            old = b.inttoptr(b.load(stack), byte)
            new = b.call(realloc, [old, b.mul(size, WORD(8))])
            failed = b.icmp_unsigned("==", b.ptrtoint(new, WORD), WORD(0))
            with b.if_then(failed, likely=False):
                b.call(_c_function(b, "abort", ir.VoidType(), []), [])
            b.store(b.ptrtoint(new, WORD), stack)
            b.store(size, capacity)
        return ctx.get_dummy_value()

    return types.void(STACK, types.int64), generate


@intrinsic
def stack_free(context: Any, stack: Any) -> Any:
    """Give the stack's memory back."""

    def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        b.call(_c_function(b, "free", ir.VoidType(), [byte]), [b.inttoptr(b.load(values[0]), byte)])
        return ctx.get_dummy_value()

    return types.void(STACK), generate


def _stack_access(kind: Any) -> tuple[Any, Any]:
    def place(ctx: Any, b: Any, stack: Any, at: Any) -> Any:
        words = b.inttoptr(b.load(stack), WORD.as_pointer())
        return b.bitcast(b.gep(words, [at]), ctx.get_data_type(kind).as_pointer())

    @intrinsic
    def put(context: Any, stack: Any, at: Any, value: Any) -> Any:
        def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
            data = ctx.data_model_manager[kind].as_data(b, values[2])
            b.store(data, place(ctx, b, values[0], values[1]))
            return ctx.get_dummy_value()

        return types.void(STACK, types.int64, kind), generate

    @intrinsic
    def get(context: Any, stack: Any, at: Any) -> Any:
        def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
            data = b.load(place(ctx, b, values[0], values[1]))
            return ctx.data_model_manager[kind].from_data(b, data)

        return kind(STACK, types.int64), generate

    return put, get


# The journal: words 0 address of the lines, 1 capacity, 2 words used, 3 lines, 4 most lines, 5 lines dropped,
# 6 number of the remark that ended the launch and 1, 7 its thread. What does not fit goes behind it all.


@intrinsic
def tell(context: Any, journal: Any, number: Any, thread: Any, count: Any) -> Any:
    """Begin a remark in the journal: its number, thread and count of values; gives the place of these."""

    def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        journal, number, thread, count = values

        def field(k: int) -> Any:
            return b.gep(journal, [WORD(k)])

        used, capacity = b.load(field(2)), b.load(field(1))
        after = b.add(used, b.add(count, WORD(3)))
        room = b.icmp_signed("<=", after, capacity)
        fits = b.and_(room, b.icmp_signed("<", b.load(field(3)), b.load(field(4))))
        place = b.select(fits, used, capacity)
        b.store(b.select(fits, after, used), field(2))
        b.store(b.add(b.load(field(3)), b.zext(fits, WORD)), field(3))
        b.store(b.add(b.load(field(5)), b.zext(b.not_(fits), WORD)), field(5))
        words = b.inttoptr(b.load(journal), WORD.as_pointer())
        for k, value in enumerate((number, thread, count)):
            b.store(value, b.gep(words, [b.add(place, WORD(k))]))
        return b.add(place, WORD(3))

    return types.int64(STACK, types.int64, types.int64, types.int64), generate


@intrinsic
def fail(context: Any, journal: Any, number: Any, thread: Any, count: Any) -> Any:
    """Note what ends the launch; gives the place of its values."""

    def generate(ctx: Any, b: Any, sig: Any, values: Any) -> Any:
        journal, number, thread, _ = values
        b.store(b.add(number, WORD(1)), b.gep(journal, [WORD(6)]))
        b.store(thread, b.gep(journal, [WORD(7)]))
        return b.add(b.load(b.gep(journal, [WORD(1)])), WORD(3))

    return types.int64(STACK, types.int64, types.int64, types.int64), generate


C_LIBRARY = "tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc cbrt"


def namespace() -> dict[str, Any]:
    """The names that generated code uses."""
    names: dict[str, Any] = {
        "f32": np.float32,
        "f64": np.float64,
        "i8": np.int8,
        "u8": np.uint8,
        "i16": np.int16,
        "u16": np.uint16,
        "i32": np.int32,
        "u32": np.uint32,
        "u64": np.uint64,
        "nan": math.nan,
        "inf": math.inf,
        "arg_f64": arg_f64,
        "select": select,
        "unit": unit,
        "trip_count": trip_count,
        "inside": inside,
        "m_abs": m_abs,
        "m_sign": _sign(1),
        "m_sign0": _sign(0),
        "c_div": _division(quotient=True, floor=False),
        "floor_div": _division(quotient=True, floor=True),
        "c_mod": _division(quotient=False, floor=False),
        "shl": _shift(left=True),
        "shr": _shift(left=False),
        "journal_at": _pointer(types.int64),
        "tell": tell,
        "fail": fail,
        "stack_new": stack_new,
        "stack_ensure": stack_ensure,
        "stack_free": stack_free,
    }
    for code, kind in SCALARS.items():
        names[f"ptr_{code}"] = _pointer(types.uint8 if kind is types.boolean else kind)
        names[f"to_{code}"] = _cast(kind)
        names[f"put_{code}"], names[f"get_{code}"] = _stack_access(kind)
    for name in [
        "sqrt",
        "exp",
        "log",
        "log2",
        "log10",
        "sin",
        "cos",
        "floor",
        "ceil",
        "trunc",
        "rint",
        "round",
    ]:
        names[f"m_{name}"] = _llvm_math(name)
    for name in C_LIBRARY.split():
        names[f"m_{name}"] = _libm(name, 1)
    names["m_atan2"] = _libm("atan2", 2)
    names["m_pow"] = _libm("pow", 2)
    return names


NAMESPACE: dict[str, Callable[..., Any]] = namespace()

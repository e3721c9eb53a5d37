"""The IR builder: a stack of blocks, common subexpressions, folded constants.

The builder is the `Emitter` that rules write to. Loads are found again only while no store in between could
have changed the element: each store starts a new epoch of its scalar type, and so does each loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tapedebug._source import Span
from tapedebug.compiler.ir import FREE, Block, For, Node, Op, Value
from tapedebug.lang import types as t
from tapedebug.lang.rules import RULES, Expr


class Builder:
    """Appends operations to the innermost open block."""

    def __init__(self) -> None:
        self.root = Block()
        self.span: Span | None = None
        self._blocks = [self.root]
        self._seen: list[dict[Any, Value]] = [{}]
        self._free: dict[Any, Value] = {}
        self._epoch = 0
        self._epochs: dict[Any, int] = {}
        self.counters: set[Value] = set()
        """The indices of loops, which are not negative."""

    # Blocks

    @contextmanager
    def block(self) -> Iterator[Block]:
        """Open a block inside the current one."""
        with self.scope(), self.region() as inner:
            yield inner

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Do not reuse values that are computed inside this context after it."""
        self._seen.append({})
        try:
            yield
        finally:
            self._seen.pop()

    @contextmanager
    def region(self) -> Iterator[Block]:
        """Open a block that is no scope: what it computes is found again after it."""
        inner = Block()
        self._blocks.append(inner)
        try:
            yield inner
        finally:
            self._blocks.pop()

    @property
    def depth(self) -> int:
        """The number of open blocks inside the function's body."""
        return len(self._blocks) - 1

    @property
    def epoch(self) -> int:
        """Changes whenever a store or a loop makes earlier loads stale."""
        return self._epoch

    def append(self, node: Node) -> None:
        """Add a finished node to the current block."""
        self._blocks[-1].ops.append(node)

    def forget_loads(self, scalar: Any = None) -> None:
        """From here on, loads (of one scalar type, or of all) are made anew."""
        self._epoch += 1
        for key in [scalar] if scalar is not None else t.SCALARS:
            self._epochs[key] = self._epoch

    def forget_values(self) -> None:
        """From here on, everything of the current scope is computed anew, and everything is loaded anew."""
        self._seen[-1].clear()
        self.forget_loads()

    # Values

    def constant(self, value: Any, type: Any) -> Value:
        """A constant of a scalar type."""
        number = type.numpy.type(value)
        return self._free_value("const", (number.item(),), type, key=number.tobytes())

    def exact(self, value: float, type: Any) -> Value:
        """A number of mathematics, in a rule: the float64 twin has it unrounded, unlike those of users."""
        if type not in t.FLOATS or float(type.numpy.type(value)) == value or value != value:
            return self.constant(value, type)
        return self._free_value("const", (float(value),), type, key=repr(value))

    def thread(self, axis: int) -> Value:
        """The thread's index on one axis (int64)."""
        return self._free_value("thread", (axis,), t.int64)

    def argument(self, param: int, component: int, type: Any) -> Value:
        """A component of a by-value argument."""
        return self._free_value("argument", (param, component), type)

    def extent(self, param: int, axis: int) -> Value:
        """The length of an array's axis (int64)."""
        return self._free_value("extent", (param, axis), t.int64)

    def place(self) -> Value:
        """The start of the thread's part of the log (int64)."""
        return self._free_value("place", (), t.int64)

    def _free_value(self, kind: str, data: tuple[Any, ...], type: Any, key: Any = None) -> Value:
        seen = (kind, type, key if key is not None else data)
        value = self._free.get(seen)
        if value is None:
            value = Value(type)
            value.op = Op(kind, (), value, None, data)
            self._free[seen] = value
        return value

    def emit(
        self, kind: str, args: tuple[Value, ...], type: Any, data: tuple[Any, ...] = (), *, key: Any = None
    ) -> Value:
        """An operation with a result; one with the same `key` that is still visible is used again."""
        if key is not None:
            for scope in reversed(self._seen):
                found: Value | None = scope.get(key)
                if found is not None:
                    return found
        result = Value(type)
        result.op = Op(kind, args, result, self.span, data)
        self.append(result.op)
        if key is not None:
            self._seen[-1][key] = result
        return result

    def effect(self, kind: str, args: tuple[Value, ...], data: tuple[Any, ...] = ()) -> Op:
        """An operation without a result."""
        op = Op(kind, args, None, self.span, data)
        self.append(op)
        return op

    def apply(self, rule: str, *args: Value) -> Value:
        """A scalar rule on values; raises `RuleError` where their types do not fit."""
        unit = RULES[rule]
        type = unit.result([a.type for a in args])
        simple = simplify(self, rule, args, type)
        if simple is not None:
            return simple
        constants = [constant_of(a) for a in args]
        if unit.fold is not None and all(c is not None for c in constants):
            typed = [a.type.numpy.type(c) for a, c in zip(args, constants, strict=True)]
            return self.constant(unit.fold(*typed), type)
        return self.emit(rule, args, type, key=(rule, *map(id, args)))

    def repeat(
        self, count: int, values: Sequence[Value], step: Callable[..., Sequence[Value]]
    ) -> Sequence[Value]:
        """The values after `count` steps, in a loop; `step` does not load or store."""
        index, carried = Value(t.int64, "k"), [Value(v.type) for v in values]
        with self.block() as body:
            body.yields = list(step(*carried))
        results = [Value(v.type) for v in values]
        total = self.constant(count, t.int64)
        self.append(For(total, index, list(values), carried, body, results, self.span))
        return results

    def expr(self, value: Value) -> Expr:
        """The value with operators, for rules."""
        return Expr(self, value)

    # Memory

    def offset(self, param: int, indices: tuple[Value, ...]) -> Value:
        """The place of an element (int64), in scalars from the array's start."""
        return self.emit("offset", indices, t.int64, (param,), key=("offset", param, *map(id, indices)))

    def load(self, param: int, component: int, offset: Value, type: Any, *, constant: bool = False) -> Value:
        """Read a component of an element; `constant` where nothing in this function writes the array."""
        epoch = -1 if constant else self._epochs.get(type, 0)
        key = ("load", param, component, id(offset), epoch)
        return self.emit("load", (offset,), type, (param, component), key=key)

    def store(self, param: int, component: int, offset: Value, value: Value) -> None:
        """Write a component of an element."""
        self.effect("store", (offset, value), (param, component))
        self.forget_loads(value.type)

    def atomic_add(self, param: int, component: int, offset: Value, value: Value) -> Value:
        """Add to a component of an element; the result is its value before."""
        result = self.emit("atomic_add", (offset, value), value.type, (param, component))
        self.forget_loads(value.type)
        return result


def constant_of(value: Value) -> Any:
    """The number of a constant, or None."""
    return value.op.data[0] if value.op is not None and value.op.kind == "const" else None


def is_free(value: Value) -> bool:
    """True if the value belongs to no block: a constant, an argument, the thread's index."""
    return value.op is not None and value.op.kind in FREE


def simplify(builder: Builder, rule: str, args: tuple[Value, ...], type: Any) -> Value | None:
    """The value of an operation that needs none; only what is exact, for -0.0 and NaN too."""
    constants = [constant_of(a) for a in args]
    integer = type in t.INTEGERS
    if rule == "mul":
        for one, other in ((0, 1), (1, 0)):
            if constants[one] == 1:
                return args[other]
            if constants[one] == -1 and constants[other] is None:
                return builder.apply("neg", args[other])
            if integer and constants[one] == 0:
                return args[one]
    if rule == "pow" and constants[1] == 2:  # the library's power may be off by an ulp
        return builder.apply("mul", args[0], args[0])
    if rule in ("div", "pow") and constants[1] == 1:
        return args[0]
    if rule == "add" and integer:
        for zero, other in ((0, 1), (1, 0)):
            if constants[zero] == 0:
                return args[other]
    if rule == "sub" and integer and constants[1] == 0:
        return args[0]
    if rule == "neg" and args[0].op is not None and args[0].op.kind == "neg":
        return args[0].op.args[0]
    if rule == "where":
        if constants[0] is not None:
            return args[1] if constants[0] else args[2]
        if args[1] is args[2]:
            return args[1]
    if rule == "not" and constants[0] is not None:
        return builder.constant(not constants[0], t.bool)
    if rule in ("and", "or"):
        for known, other in ((0, 1), (1, 0)):
            if constants[known] is not None:
                absorbing = constants[known] == (rule == "or")
                return args[known] if absorbing else args[other]
    if rule.startswith("to_") and args[0].type is type:
        return args[0]
    if rule == "trip_count" and all(c is not None for c in constants):
        return builder.constant(len(range(*constants)), t.int64)
    return None


def widened(builder: Builder, value: Value, depth: int = 8) -> Value:
    """An int32 value as int64, computed in int64 throughout.

    Overflow of a signed 32-bit index is undefined in C and meaningless as an index, so sums and products may
    be formed in 64 bits; with that LLVM sees that neighbouring threads touch neighbouring elements.
    """
    if value.type is t.int64:
        return value
    op = value.op
    number = constant_of(value)
    if number is not None:
        return builder.constant(number, t.int64)
    if op is not None and value.type is t.int32 and depth > 0:
        if op.kind == "to_i32" and op.args[0].type is t.int64:
            return op.args[0]
        if op.kind in ("add", "sub", "mul", "neg"):
            return builder.apply(op.kind, *(widened(builder, a, depth - 1) for a in op.args))
    return builder.apply("to_i64", value)


def not_negative(builder: Builder, value: Value, depth: int = 8) -> bool:
    """True if an index is known to be ≥ 0: made of threads, counters and lengths."""
    number = constant_of(value)
    if number is not None:
        return bool(number >= 0)
    if value.type in t.UNSIGNED or value in builder.counters:
        return True
    op = value.op
    if op is None or depth == 0:
        return False
    if op.kind in ("thread", "extent", "trip_count"):
        return True
    operands = op.args[1:] if op.kind == "where" else op.args
    made = op.kind == "where" or (op.kind in RULES and RULES[op.kind].natural)
    return made and all(not_negative(builder, a, depth - 1) for a in operands)


def same_values(a: list[Value], b: list[Value]) -> bool:
    """True if two lists hold the same values; constants are compared by their bits."""

    def key(value: Value) -> Any:
        number = constant_of(value)
        return id(value) if number is None else (value.type, np.asarray(number, value.type.numpy).tobytes())

    return [key(v) for v in a] == [key(v) for v in b]

"""Operations of the kernel language outside kernels: `wp.normalize(v)`, `q * r`, `wp.transform_inverse(t)`.

The entries of the rule table are evaluated on NumPy scalars, so that they mean what they mean in kernels.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import OperandError, TapedebugError
from tapedebug.lang import types as t
from tapedebug.lang.compound_types import is_plain
from tapedebug.lang.lowering import in_python
from tapedebug.lang.rules import COMPOSITES, DRAWS, RULES, Expr, Quantity, RuleError
from tapedebug.lang.rules.random import Stream
from tapedebug.lang.rules.table import Rule


@dataclass(frozen=True, slots=True, eq=False)
class Number:
    """A scalar with the type that it has in kernels."""

    number: Any
    type: Any


class NumpyEval:
    """The emitter whose values are numbers."""

    def exact(self, value: float, type: Any) -> Number:
        """A constant of a scalar type."""
        return Number(type.numpy.type(value), type)

    def apply(self, rule: str, *args: Number) -> Number:
        """The value of a rule."""
        unit = RULES[rule]
        kind = unit.result([a.type for a in args])
        with np.errstate(all="ignore"):
            value = eval(_code(rule), in_python(), {f"x{k}": a.number for k, a in enumerate(args)})
            return Number(kind.numpy.type(value), kind)

    def repeat(self, count: int, values: Sequence[Number], step: Callable[..., Any]) -> Sequence[Number]:
        """The values after `count` steps."""
        for _ in range(count):
            values = step(*values)
        return values


NUMPY_EVAL = NumpyEval()
OF_STATES = frozenset({"noise", "pnoise", "curlnoise"})
"""Operations whose first operand is a state of random numbers."""
OF_INTEGERS = frozenset({"quat_from_euler", "quat_to_euler"})
"""Operations that take whole numbers beside floats."""


@functools.cache
def _code(rule: str) -> CodeType:
    return compile(RULES[rule].text.format(*(f"x{k}" for k in range(9))), f"<{rule}>", "eval")


def evaluate(name: str, shown: str, operands: Sequence[Any]) -> Any:
    """The value of an operation on Python and NumPy numbers, vectors and other compound values.

    Args:
        name: The entry of the rule table.
        shown: What messages call it.
        operands: Plain Python numbers take the scalar type of the others.

    Returns:
        A Python number, a compound value, or a tuple of them.

    Raises:
        OperandError: The operands do not fit.
    """
    states, operands = (operands[:1], operands[1:]) if name in OF_STATES else ((), operands)
    typed = [k for k in map(_type_of, operands) if k is not None]
    scalar = t.scalar_of(typed[0]) if typed else None
    if scalar is None and any(isinstance(operand, float) for operand in operands):
        scalar = t.float32
    if states or name in OF_INTEGERS:
        scalar = None  # a point, and whole numbers: each of its own type
    try:
        quantities = [_state(s) for s in states] + [_quantity(operand, scalar) for operand in operands]
        entry = COMPOSITES.get(name)
        if entry is None:
            found: Any = _scalar_rule(RULES[name], quantities)
        else:
            found = entry.build(*quantities)
    except RuleError as error:
        raise OperandError(f"{shown} {error.message}", hint=error.hint) from None
    return tuple(map(_python, found)) if isinstance(found, tuple) else _python(found)


def _drawn(name: str, operands: Sequence[Any]) -> Any:
    """Return the draw for a state. The state does not advance, because numbers are immutable in Python."""
    state, *bounds = operands
    scalar = t.uint32 if name == "randu" else t.float32 if name == "randf" else None
    try:
        build, stream = DRAWS[name].build, Stream(_state(state).scalar)
        assert build is not None
        return _python(build(stream, *(_quantity(bound, scalar) for bound in bounds)))
    except RuleError as error:
        raise OperandError(f"{name}() {error.message}", hint=error.hint) from None


def _state(operand: Any) -> Quantity:
    """A state of random numbers, which `rand_init` gives as a Python number."""
    whole = isinstance(operand, int | np.integer) and not isinstance(operand, bool)
    if not whole or not 0 <= operand < 2**32:
        raise RuleError(
            f"takes a state of rand_init() first; got {operand!r}", "make one: state = wp.rand_init(seed)"
        )
    return _quantity(np.uint32(operand), None)


def _scalar_rule(rule: Rule, quantities: list[Quantity]) -> Quantity:
    compound = next((q for q in quantities if t.is_compound(q.type)), None)
    if compound is not None:
        raise RuleError(f"takes numbers; got {t.type_name(compound.type)}", "apply it to each component")
    first, *others = quantities
    value = first.scalar.apply(rule.name, *(q.scalar for q in others))
    return Quantity(value.type, (value,))


def _type_of(operand: Any) -> Any:
    """The type of a value that has one; None of a plain Python number, which takes that of the others."""
    if isinstance(operand, t.Compound):
        return type(operand)
    return t.from_numpy(operand.dtype) if isinstance(operand, np.generic) else None


def _quantity(operand: Any, scalar: Any) -> Quantity:
    kind = _type_of(operand)
    if kind is None:
        if not isinstance(operand, bool | int | float):
            raise RuleError(
                f"takes numbers, vectors and other values of kernels; got {type(operand).__name__}",
                "convert it, for example with wp.vec3(…)",
            )
        plain = t.canonical(type(operand))
        # A whole number fits a float; the other way, and of truth values, types are not mixed.
        fits = scalar in t.FLOATS or (scalar in t.INTEGERS and plain is t.int32)
        kind = scalar if fits and plain is not t.bool else plain
    component = t.scalar_of(kind)
    numbers = np.asarray(operand).reshape(-1)
    return Quantity(kind, tuple(Expr(NUMPY_EVAL, Number(component(n), component)) for n in numbers.tolist()))


def _python(q: Quantity) -> Any:
    """Return a value: a Python number of a float32, int32 or truth value, else one that has the type."""
    numbers = [part.value.number.item() for part in q.parts]
    if t.is_compound(q.type):
        return q.type(*numbers)
    return numbers[0] if is_plain(q.type) else q.type(numbers[0])


def call(name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The value of a function of the kernel language, called outside kernels.

    Raises:
        TapedebugError: It needs a thread.
        TypeError: The arguments do not fit.
    """
    if name in CONSTRUCTORS:
        return CONSTRUCTORS[name](*args, **keywords)
    if name in EXPECTED:
        return _expect(name, *EXPECTED[name](*args, **keywords))
    entry = COMPOSITES.get(name)
    drawn = DRAWS.get(name)
    if drawn is not None and drawn.build is not None:
        if keywords or len(args) - 1 not in drawn.arities:
            raise TypeError(f"{name}() takes {drawn.signature}; got {len(args) + len(keywords)} arguments")
        return _drawn(name, args)
    if entry is None and name not in RULES:
        raise TapedebugError(
            f"{name}() is a function of the kernel language and was called outside a kernel",
            hint="call it inside a function decorated with @kernel or @func",
        )
    least, most = (entry.least, entry.most) if entry is not None else (RULES[name].arity,) * 2
    operands = inspect.Signature.from_callable(entry.build).bind(*args, **keywords).args if entry else args
    if len(operands) < least or (most is not None and len(operands) > most) or (keywords and entry is None):
        raise TypeError(f"{name}() takes {least} arguments; got {len(operands) + len(keywords)}")
    return evaluate(name, f"{name}()", operands)


Expected = tuple[bool, tuple[Any, ...]]
"""True if an expectation holds, and the values to show."""


def _expect_eq(a: Any, b: Any) -> Expected:
    return bool(evaluate("eq", "expect_eq()", (a, b))), (a, b)


def _expect_neq(a: Any, b: Any) -> Expected:
    return bool(evaluate("ne", "expect_neq()", (a, b))), (a, b)


def _expect_near(a: Any, b: Any, tolerance: float = 1e-6) -> Expected:
    distance = np.abs(np.asarray(evaluate("sub", "expect_near()", (a, b))))
    return bool((distance <= tolerance).all()), (a, b, tolerance)


EXPECTED: dict[str, Callable[..., Expected]] = {
    "expect_eq": _expect_eq,
    "expect_near": _expect_near,
    "expect_neq": _expect_neq,
}
"""The functions that evaluate expectations."""


def _expect(name: str, holds: bool, values: tuple[Any, ...]) -> None:
    if not holds:
        print(f"{name}() failed: {', '.join(map(repr, values))}")


def _vector(*args: Any, length: int | None = None, dtype: Any = None) -> t.Vector:
    scalar = _scalar(dtype, args)
    return t.vector(length if length is not None else max(1, len(args)), scalar)(*args)


def _matrix(*args: Any, shape: tuple[int, int] | None = None, dtype: Any = None) -> t.Matrix:
    if shape is None:
        raise TypeError("matrix() takes the shape of the matrix: matrix(…, shape=(2, 2))")
    return t.matrix(shape, _scalar(dtype, args))(*args)


def _quaternion(*args: Any, dtype: Any = None) -> t.Quaternion:
    return t.quaternion(_scalar(dtype, args))(*args)


def _transformation(*args: Any, dtype: Any = None) -> t.Transformation:
    return t.transformation(_scalar(dtype, args))(*args)


def _scalar(dtype: Any, args: tuple[Any, ...]) -> Any:
    """The scalar type that is asked for, else that of the first argument that has one, else float32."""
    if dtype is not None:
        return t.canonical(dtype)
    kinds = [k for k in map(_type_of, args) if k is not None]
    return t.scalar_of(kinds[0]) if kinds else t.float32


def _identity(n: int, dtype: Any = float) -> t.Matrix:
    return t.matrix((n, n), dtype)(*np.eye(n).reshape(-1))


def _set_part(xform: Any, part: str, value: Any) -> None:
    if not isinstance(xform, t.Transformation):
        raise TypeError(f"a transform is changed; got {type(xform).__name__}")
    setattr(xform, part, value)


def _cast(a: Any, dtype: Any) -> Any:
    target, kind = t.canonical(dtype), _type_of(a) or t.canonical(type(a))
    if not t.is_scalar(kind) or target not in (*t.INTEGERS, *t.FLOATS):
        raise TypeError(f"cast() takes a number and a type of numbers; got {t.type_name(kind)}")
    return evaluate(f"{target.code}_of_bits", "cast()", (kind.numpy.type(a),))


CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "cast": _cast,
    "identity": _identity,
    "matrix": _matrix,
    "quat_identity": lambda dtype=None: t.quaternion(dtype or float)(0, 0, 0, 1),
    "quaternion": _quaternion,
    "transform_identity": lambda dtype=None: t.transformation(dtype or float)(),
    "transform_set_rotation": lambda xform, q: _set_part(xform, "q", q),
    "transform_set_translation": lambda xform, p: _set_part(xform, "p", p),
    "transformation": _transformation,
    "vector": _vector,
}
"""Functions that make values of types and sizes which kernels know when they are compiled."""

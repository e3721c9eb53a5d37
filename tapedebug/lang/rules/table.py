"""The rule table: what an operation is, in one unit (typing, value, derivatives, lowerings, documentation).

Two kinds of entries. A *rule* is an operation on scalars, with the partial derivative by each operand; the
adjoint (`adj_x += partial * adj_r`) and the tangent (`dot_r = Σ partial * dot_x`) both follow from it. A
*composite* is written with rules (a dot product is products and sums), so its derivative follows from theirs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol, TypeVar

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.lang import types as t
from tapedebug.lang.lowering import FUNCTIONS, Function

NOT_DIFFERENTIABLE = "not differentiable"
"""Declares that a rule has no derivative: its operands' adjoints get nothing from it."""


class RuleError(Exception):
    """Operands do not fit an operation; carries what is wrong and what to change."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class Emitter(Protocol):
    """The operations of the compiler that a rule uses on its values."""

    def exact(self, value: float, type: Any) -> Any:
        """A constant of a type."""

    def apply(self, rule: str, *args: Any) -> Any:
        """The result of a rule."""

    def repeat(self, count: int, values: Sequence[Any], step: Callable[..., Any]) -> Any:
        """The values after `step` has replaced them `count` times."""


@dataclass(frozen=True, slots=True, eq=False)
class Expr:
    """A scalar value under construction, with Python's operators: what rules are written in."""

    emitter: Emitter
    value: Any

    @property
    def type(self) -> Any:
        """The scalar type."""
        return self.value.type

    def lift(self, other: Expr | float) -> Expr:
        """`other` as a value; a Python number becomes a constant of this value's type."""
        if isinstance(other, Expr):
            return other
        return Expr(self.emitter, self.emitter.exact(other, self.type))

    def apply(self, rule: str, *others: Expr | float) -> Expr:
        """The result of a rule on this value and `others`."""
        values = [self.lift(o).value for o in others]
        return Expr(self.emitter, self.emitter.apply(rule, self.value, *values))

    def __add__(self, other: Expr | float) -> Expr:
        return self.apply("add", other)

    def __sub__(self, other: Expr | float) -> Expr:
        return self.apply("sub", other)

    def __mul__(self, other: Expr | float) -> Expr:
        return self.apply("mul", other)

    def __truediv__(self, other: Expr | float) -> Expr:
        return self.apply("div", other)

    def __radd__(self, other: float) -> Expr:
        return self.lift(other) + self

    def __rsub__(self, other: float) -> Expr:
        return self.lift(other) - self

    def __rmul__(self, other: float) -> Expr:
        return self.lift(other) * self

    def __rtruediv__(self, other: float) -> Expr:
        return self.lift(other) / self

    def __neg__(self) -> Expr:
        return self.apply("neg")

    def __lt__(self, other: Expr | float) -> Expr:
        return self.apply("lt", other)

    def __gt__(self, other: Expr | float) -> Expr:
        return self.apply("gt", other)

    def __ge__(self, other: Expr | float) -> Expr:
        return self.apply("ge", other)

    def stop_gradient(self) -> Expr:
        """This number without a derivative."""
        return self.apply("stop_gradient")

    def differentiated_as(self, one: Expr, other: Expr | None = None) -> Expr:
        """This number, with the derivatives of another, or the mean of those of two."""
        return self.apply("differentiated_as", one, one if other is None else other)

    def select(self, yes: Expr | float, no: Expr) -> Expr:
        """`yes` where this condition holds, else `no`."""
        return Expr(self.emitter, self.emitter.apply("where", self.value, no.lift(yes).value, no.value))


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """A partial derivative that is 1 where the condition holds, else 0.

    The adjoint is selected, not multiplied: a zero times an infinite adjoint would be NaN.
    """

    condition: Expr


CALL = re.compile(r"(\w+)\(")
"""A call in the text of a rule."""
Partial = Callable[..., "Expr | float | Select"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A scalar operation.

    Attributes:
        name: The name in the IR.
        doc: One line.
        result: The result's type from the operands' types; raises `RuleError` where they do not fit.
        text: The value as generated source, with `{0}`, `{1}`, … for the operands: operators, which every
            target has, and calls of functions of `lang.lowering`, which have a lowering for each.
        partials: One function an operand, `(operands…, result) -> ∂result/∂operand` (None: always zero), or
            `NOT_DIFFERENTIABLE`.
        fold: The value on constants, in NumPy; None where constants are left to the code generator.
        beside: How many operands follow that only derivatives use.
        operands: Their names, as programs may pass them by keyword.
        public: Whether programs call it by its name.
        exact: Whether its value needs no rounding where its operands were rounded to the result's type.
        natural: Whether it is not negative where no operand is, of integers and but for overflow.
        odd: Whether it is 0 at 0, with a finite slope.
        curvature: Its curvature at 0, if it is 1 there, without a slope; else None.
    """

    name: str
    doc: str
    result: Callable[[Sequence[Any]], Any]
    text: str
    partials: tuple[Partial | None, ...] | str
    fold: Callable[..., Any] | None = None
    beside: int = 0
    operands: tuple[str, ...] = ()
    public: bool = False
    exact: bool = False
    natural: bool = False
    odd: bool = False
    curvature: float | None = None

    @property
    def arity(self) -> int:
        """The number of operands."""
        return 1 + max(i for i in range(9) if f"{{{i}}}" in self.text) + self.beside

    @property
    def differentiable(self) -> bool:
        """True if the rule has derivatives."""
        return not isinstance(self.partials, str)

    @property
    def calls(self) -> tuple[str, ...]:
        """The functions that its text calls."""
        return tuple(CALL.findall(self.text))

    @property
    def is_operator(self) -> bool:
        """True if its text is an operator on its operands, which computes integers in 64 bits in Python."""
        return self.text != "{0}" and not self.calls


@dataclass(frozen=True, slots=True, eq=False)
class Quantity:
    """A value as kernels see it: its type and its scalar components, one after the other."""

    type: Any
    parts: tuple[Expr, ...]

    @property
    def scalar(self) -> Expr:
        """The only component of a scalar."""
        return self.parts[0]


Built = Quantity | tuple[Quantity, ...]


@dataclass(frozen=True, slots=True)
class Composite:
    """An operation on scalars and compound values, written with rules; some give several values.

    `most` is None where any number of operands fits.
    """

    name: str
    doc: str
    build: Callable[..., Built]
    least: int
    most: int | None
    differentiable: bool = True

    @property
    def operands(self) -> tuple[str, ...]:
        """The names of the operands."""
        code = self.build.__code__
        return code.co_varnames[: code.co_argcount] or (f"*{code.co_varnames[0]}",)


B = TypeVar("B", bound=Built)
RULES: dict[str, Rule] = {}
COMPOSITES: dict[str, Composite] = {}


def rule(
    name: str,
    doc: str,
    *,
    result: Callable[[Sequence[Any]], Any],
    lowering: Function | str,
    partials: tuple[Partial | None, ...] | str,
    fold: Callable[..., Any] | None = None,
    beside: int = 0,
    operands: tuple[str, ...] = (),
    public: bool = False,
    exact: bool = False,
    natural: bool = False,
    odd: bool = False,
    curvature: float | None = None,
) -> Rule:
    """Enter a scalar rule into the table; the arguments are those of `Rule`, but for its lowering.

    The lowering is a function, which is called with the operands, or a text of operators and functions.

    Raises:
        ValueError: An operand has no partial (or None), or a function that it calls no lowering.
    """
    text = lowering if isinstance(lowering, str) else lowering.call()
    unit = Rule(name, doc, result, text, partials, fold, beside)
    if not isinstance(partials, str) and len(partials) != unit.arity:
        raise ValueError(f"rule {name!r} has {unit.arity} operands but {len(partials)} partial derivatives")
    if missing := [called for called in unit.calls if called not in FUNCTIONS]:
        raise ValueError(f"rule {name!r} calls {missing[0]!r}, which has no lowering")
    if name in RULES:
        raise ValueError(f"rule {name!r} is in the table already")
    RULES[name] = unit = replace(
        unit,
        operands=operands or ("x", "y", "z")[: unit.arity],
        public=public,
        exact=exact,
        natural=natural,
        odd=odd,
        curvature=curvature,
    )
    return unit


def composite(
    name: str, doc: str, *, differentiable: bool = True
) -> Callable[[Callable[..., B]], Callable[..., B]]:
    """Enter a composite operation into the table: a function of `Quantity` operands."""

    def enter(build: Callable[..., B]) -> Callable[..., B]:
        if name in COMPOSITES:
            raise ValueError(f"operation {name!r} is in the table already")
        most = build.__code__.co_argcount
        least = most - len(build.__defaults__ or ())
        COMPOSITES[name] = Composite(name, doc, build, least, most or None, differentiable)
        return build

    return enter


# Typing of scalar rules ------------------------------------------------------------------------------------


def name_list(operands: Sequence[Any]) -> str:
    """Types as messages list them."""
    *first, last = [t.type_name(o) for o in operands]
    return f"{', '.join(first)} and {last}" if first else last


def conversion(operands: Sequence[Any]) -> str:
    """Return the constructor that makes values of one type of these operands."""
    scalars = [o for o in operands if o in t.SCALARS]
    if len(scalars) < len(operands):
        compound = next(o for o in operands if o not in t.SCALARS)
        name = t.type_name(compound)
        if t.is_quaternion(compound):
            return f"make them quaternions of one type: wp.{name}(x, y, z, w)"
        if t.is_transformation(compound):
            return f"make them transforms of one type: wp.{name}(p, q)"
        plural = "vectors" if t.is_vector(compound) else "matrices"
        return f"make them {plural} of one type; wp.{name}(s) has the number s in every component"
    widest = t.conversion(max(scalars, key=t.SCALARS.index))
    if any(o in t.INTEGERS for o in scalars) and any(o in t.FLOATS for o in scalars):
        return f"types are never mixed silently: convert the integer with {widest}, or write a literal as 2.0"
    return f"convert one of them with {widest}"


def same_type(operands: Sequence[Any]) -> Any:
    """Operands of one type; that is the result's type."""
    if len(set(operands)) != 1:
        raise RuleError(f"takes values of one type; got {name_list(operands)}", conversion(operands))
    return operands[0]


def numbers(operands: Sequence[Any]) -> Any:
    """Numbers (not bool) of one type."""
    kind = same_type(operands)
    if kind is t.bool:
        raise RuleError("takes numbers; got bool", "convert it with int(…) or float(…)")
    return kind


def floats(operands: Sequence[Any]) -> Any:
    """Floating-point numbers of one type."""
    kind = same_type(operands)
    if kind not in t.FLOATS:
        raise RuleError(f"takes floating-point numbers; got {t.type_name(kind)}", "convert it with float(…)")
    return kind


def integers(operands: Sequence[Any]) -> Any:
    """Integers of one type."""
    kind = same_type(operands)
    if kind not in t.INTEGERS:
        raise RuleError(f"takes integers; got {t.type_name(kind)}", "convert it with int(…)")
    return kind


def bits(operands: Sequence[Any]) -> Any:
    """Integers of one type, for operations on their bits."""
    kind = same_type(operands)
    if kind not in t.INTEGERS:
        raise RuleError(
            f"takes integers; got {name_list(operands)}",
            "conditions are combined with `and`, `or`, `not`; a float is converted with int(…)",
        )
    return kind


def comparison(operands: Sequence[Any]) -> Any:
    """Two values of one type, compared."""
    same_type(operands)
    return t.bool


def truth(operands: Sequence[Any]) -> Any:
    """Truth values."""
    if any(o is not t.bool for o in operands):
        raise RuleError(
            f"takes truth values (bool); got {name_list(operands)}", "write a comparison, such as `n != 0`"
        )
    return t.bool


def typed(result: Any, *operands: Any) -> Callable[[Sequence[Any]], Any]:
    """Typing of a rule that the compiler uses itself: operands of these types, and no others."""

    def check(found: Sequence[Any]) -> Any:
        if tuple(found) != operands:
            raise RuleError(f"takes {name_list(operands)}; got {name_list(found)}", "convert them")
        return result

    return check


def numpy_fold(function: Callable[..., Any]) -> Callable[..., Any]:
    """Folding on constants in the type's own arithmetic, without warnings."""

    def fold(*values: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*values)

    return fold

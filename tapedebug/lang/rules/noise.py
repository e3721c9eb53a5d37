"""Perlin noise: smooth fields that a state selects, differentiable in the point.

Each point of the integer lattice has a random direction; the field is the product of direction and distance
at the corners of a cell, blended by a polynomial of degree 5: its first two derivatives are continuous
(Perlin, "Improving Noise", SIGGRAPH 2002, DOI 10.1145/566654.566636). Hashes are those of warp-lang 1.19.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug.lang import types as t
from tapedebug.lang.lowering import Instructions, double, fitting, function, llvm_type
from tapedebug.lang.rules._quantities import inner, scalar, vector
from tapedebug.lang.rules.random import UNIT, next_field, require_state
from tapedebug.lang.rules.table import (
    NOT_DIFFERENTIABLE,
    Expr,
    Quantity,
    RuleError,
    composite,
    name_list,
    rule,
    typed,
)

PRIMES = (73856093, 19349663, 53471161, 10000019)
FIELDS = (10019689, 13112221)
"""Constants that derive the states of the second and third of three independent fields."""


def _centred(kind: type[t.Scalar]) -> Callable[[Any], Any]:
    return lambda state: kind.numpy.type((int(state) >> 8) * 2.0**-24 - 0.5)


def _centred_instructions(kind: str) -> Callable[..., Instructions]:
    def centred(state: str) -> Instructions:
        fitting(state == "u32", state)
        of = llvm_type(kind)
        return Instructions(
            kind,
            f"{{r}}.bits = lshr i32 {{0}}, 8\n{{r}}.whole = uitofp i32 {{r}}.bits to {of}\n"
            f"{{r}}.unit = fmul {of} {{r}}.whole, {double(UNIT)}\n{{r}} = fsub {of} {{r}}.unit, 0.5",
        )

    return centred


def _direction(part: Any, length: Any) -> Any:
    return part / length if length > 0 else length


def _direction_instructions(part: str, length: str) -> Instructions:
    fitting(part == length and part in ("f32", "f64"), part, length)
    of = llvm_type(part)
    return Instructions(
        part,
        f"{{r}}.some = fcmp ogt {of} {{1}}, 0.0\n{{r}}.ratio = fdiv {of} {{0}}, {{1}}\n"
        f"{{r}} = select i1 {{r}}.some, {of} {{r}}.ratio, {of} 0.0",
    )


def _of_lattice(kind: type[t.Scalar]) -> None:
    rule(
        f"centred_{kind.code}",
        "The number in [-0.5, 0.5) that a state of random numbers stands for.",
        result=typed(kind, t.uint32),
        lowering=function(f"centred_{kind.code}", _centred(kind), _centred_instructions(kind.code)),
        partials=NOT_DIFFERENTIABLE,
    )
    rule(
        f"direction_{kind.code}",
        "A component of a random vector over its length; 0 where that is 0.",
        result=typed(kind, kind, kind),
        lowering=function(f"direction_{kind.code}", _direction, _direction_instructions),
        partials=NOT_DIFFERENTIABLE,
    )


for _kind in (t.float32, t.float64):
    _of_lattice(_kind)

Corner = tuple[int, ...]
"""0 or 1 an axis: the lower or upper end of a cell."""


@dataclass(frozen=True)
class _Cell:
    """The cell of the lattice that a point is in.

    Attributes:
        state: Selects the field.
        ends: The lattice's coordinates of the cell, lower and upper, an axis.
        inside: The point from the lower corner: in [0, 1), an axis.
    """

    state: Expr
    ends: tuple[tuple[Expr, Expr], ...]
    inside: tuple[Expr, ...]

    def of(self, state: Expr) -> _Cell:
        """The same cell in the field of another state."""
        return _Cell(state, self.ends, self.inside)

    def value(self) -> Expr:
        """The field at the point."""
        return self._blended(len(self.inside) - 1, (), slopes=False)[0]

    def slopes(self) -> list[Expr]:
        """The gradient of the field at the point."""
        return self._blended(len(self.inside) - 1, (), slopes=True)[1]

    def _blended(self, axis: int, corner: Corner, *, slopes: bool) -> tuple[Expr, list[Expr]]:
        """Value and gradient between the corners that end with `corner`, blended up to this axis."""
        if axis < 0:
            return self._at(corner)
        low, from_low = self._blended(axis - 1, (0, *corner), slopes=slopes)
        high, from_high = self._blended(axis - 1, (1, *corner), slopes=slopes)
        x = self.inside[axis]
        weight = x * x * x * (x * (x * 6.0 - 15.0) + 10.0)
        value = (high - low) * weight + low
        if not slopes:
            return value, []
        found = [(b - a) * weight + a for a, b in zip(from_low, from_high, strict=True)]
        found[axis] = found[axis] + (high - low) * (30.0 * x * x * (x * (x - 2.0) + 1.0))
        return value, found

    def _at(self, corner: Corner) -> tuple[Expr, list[Expr]]:
        """Return the contribution of one corner: a linear function, 0 there, with a random gradient."""
        terms = [
            ends[end].apply("to_u32") * prime
            for ends, end, prime in zip(self.ends, corner, PRIMES, strict=False)
        ]
        terms[-1] = terms[-1] + self.state
        direction = self._direction(reduce(lambda a, b: a.apply("bit_xor", b), terms))
        distance = [x - 1.0 if end else x for x, end in zip(self.inside, corner, strict=True)]
        return inner(distance, direction), direction

    def _direction(self, state: Expr) -> list[Expr]:
        """A random unit vector; on the line, a number in [-1, 1)."""
        code = self.inside[0].type.code
        parts = []
        for _ in self.inside:
            state = state.apply("rand_pcg")
            parts.append(state.apply(f"centred_{code}"))
        if len(parts) == 1:
            return [parts[0] * 2.0]
        length = inner(parts, parts).apply("sqrt")
        return [part.apply(f"direction_{code}", length) for part in parts]


def _cell(state: Quantity, point: Quantity, periods: Sequence[Quantity] = ()) -> _Cell:
    kind = point.type
    floating = t.scalar_of(kind) in (t.float32, t.float64)
    if not (floating and (t.is_scalar(kind) or (t.is_vector(kind) and 2 <= kind.length <= len(PRIMES)))):
        raise RuleError(
            f"takes a point: a float, vec2, vec3 or vec4; got {t.type_name(kind)}",
            "convert it with float(…)" if t.is_scalar(kind) else "make a vector of two to four floats",
        )
    whole = [x.apply("floor") for x in point.parts]
    lower = [w.apply("to_i32") for w in whole]
    upper = [i + 1 for i in lower]
    if periods:
        lower = [_wrapped(i, p.scalar) for i, p in zip(lower, periods, strict=True)]
        upper = [(i + 1).apply("mod", p.scalar) for i, p in zip(lower, periods, strict=True)]
    return _Cell(
        require_state(state),
        tuple(zip(lower, upper, strict=True)),
        tuple(x - w for x, w in zip(point.parts, whole, strict=True)),
    )


def _wrapped(index: Expr, period: Expr) -> Expr:
    """The index in [0, period), also of a negative one, where C's remainder is negative."""
    return (index.apply("mod", period) + period).apply("mod", period)


@composite("noise", "Perlin noise at a point (float, vec2, vec3, vec4) of the field that a state selects.")
def noise(state: Quantity, x: Quantity) -> Quantity:
    return scalar(_cell(state, x).value())


@composite("pnoise", "Perlin noise that repeats with these periods (int), one an axis of the point.")
def pnoise(*operands: Quantity) -> Quantity:
    count = len(operands[1].parts) if len(operands) > 1 else 1
    if len(operands) != count + 2:
        names = ", ".join(("px", "py", "pz", "pt")[:count])
        raise RuleError(
            f"takes a state, a point, and a period for each axis; got {len(operands)} values",
            f"pnoise(state, x, {names})",
        )
    state, x, *periods = operands
    if any(p.type is not t.int32 for p in periods):
        kinds = name_list([p.type for p in periods])
        raise RuleError(f"takes periods of int32; got {kinds}", "write whole numbers, such as 4")
    return scalar(_cell(state, x, periods).value())


@composite(
    "curlnoise", "Random vector field without sources at a vec2, vec3, or vec4 (its last axis is time)."
)
def curlnoise(state: Quantity, x: Quantity) -> Quantity:
    if not t.is_vector(x.type):
        raise RuleError(
            f"takes a point: a vec2, vec3 or vec4; got {t.type_name(x.type)}", "make a vector of it"
        )
    cell = _cell(state, x)
    one = cell.slopes()
    if len(one) == 2:  # in the plane, one field is enough
        return vector([-one[1], one[0]])
    second = next_field(cell.state, FIELDS[0])
    two, three = cell.of(second).slopes(), cell.of(next_field(second, FIELDS[1])).slopes()
    return vector([three[1] - two[2], one[2] - three[0], two[0] - one[1]])

"""Square roots, sines and cosines of vector lanes, inline; calls take a third longer.

Less the nearest multiple of pi (for cosines, the nearest half of an odd one) an argument x leaves r, in
[-pi / 2, pi / 2], exact but for the rounding of its last two steps: pi is the sum of three numbers, fused
products lose nothing, and the first difference has no bits to lose. The sine of r is an odd polynomial. Its
sign changes with every multiple: adding 1.5 * 2^23 leaves the parity in the last bit.

A vector of 512 bits can hold the multiples themselves, of both signs: each is the sum of two numbers, of
which the second is right to 2^-25 of itself. An argument equals the first, or is further from it than the
second is large, so that r is as right. Two table look-ups and differences take the place of three fused
products, and leave the multipliers to the polynomial. Arguments beyond the tables leave an r with a large
square: one comparison of a sum of squares tells that two vectors have none of them.
"""

from __future__ import annotations

import math
import struct

from tapedebug.lang.lowering import Instructions, VectorTarget, double, in_parts, shuffle, splat, vector_type

LARGEST = 10_000.0
"""Larger arguments, of which the multiples of pi have more digits, are left to the C library."""
SHIFT = 12_582_912.0
"""1.5 * 2^23: adding it rounds to a whole number."""
TABLE = 16
"""Numbers that one vector holds, and one instruction looks up in it."""
TABLED = 21.0
"""The multiples of pi that are nearest to smaller arguments are in the tables."""
MULTIPLES = 7
"""The largest multiples of pi (for cosines, of half of pi less) in the tables, of either sign."""
SQUARE = 9.0
"""More than twice the square of pi / 2; what is left of an argument beyond the tables has a larger square."""
FAR = 9.9e7
"""Less than the square of what the tables leave of an argument that is larger than `LARGEST`."""
TURN = 0.31830987334251404
"""1 / pi."""
PI = (3.141592502593994, 1.5099578831723193e-07, 1.078060505991553e-14)
"""Numbers of float32 that sum up to pi less 7e-22. All are positive, so that -0 remains -0."""
ODD = (-0.16666659712791443, 0.008333069272339344, -0.00019809778314083815, 2.6061029529955704e-06)
"""(sin(r) / r - 1) / r^2 by powers of r^2, so that the sine is right to 2^-27.3 of itself (a fit in extended
precision, one coefficient rounded after the other)."""


def sine(target: VectorTarget, operands: tuple[str, ...]) -> Instructions | None:
    """Sines of float32 in every lane.

    Of all numbers from 2^-5 to 10,000 the worst is 1.83 units in the last place from the true one. Of every
    11th up to 10,000, 98 % of sines and 94 % of cosines are the nearest there are. Sines of -0 are -0, of
    infinities and NaN NaN.
    """
    return _sined(target, operands, half=False)


def cosine(target: VectorTarget, operands: tuple[str, ...]) -> Instructions | None:
    """Cosines of float32 in every lane; as for sines."""
    return _sined(target, operands, half=True)


def _sined(target: VectorTarget, operands: tuple[str, ...], *, half: bool) -> Instructions | None:
    if not target.fast or operands != ("f32",) or target.bits < 256:
        return None
    name = "cos" if half else "sin"
    rare = target.library(name, operands)
    if rare is None:
        return None
    of, symbol = vector_type("float", target.width), f"@td.{name}.{target.width}"
    tabled = target.bits == 512 and target.width in (TABLE, 2 * TABLE)
    lines = _body(_Lanes(target.width), rare, half=half, tabled=tabled)
    text = "\n".join([f"define internal {of} {symbol}({of} %x) alwaysinline nounwind {{", *lines, "}"])
    return Instructions("f32", f"{{r}} = call {of} {symbol}({of} {{0}})", (*rare.needs, text))


class _Lanes:
    """Instructions on float32 in so many lanes."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.of, self.whole = vector_type("float", width), vector_type("i32", width)
        self.masks = vector_type("i1", width)
        self.numbers = range(width // TABLE)
        """The numbers of the parts that are as wide as a table."""

    def fused(self, target: str, x: str, y: str, z: str) -> str:
        """Multiply and add, rounding once."""
        operands = ", ".join(f"{self.of} {operand}" for operand in (x, y, z))
        return f"  %{target} = call {self.of} @llvm.fma.v{self.width}f32({operands})"

    def size(self, target: str, number: str = "%x") -> str:
        """The absolute value of a number."""
        return f"  %{target} = call {self.of} @llvm.fabs.v{self.width}f32({self.of} {number})"

    def parts(self, target: str, kind: str) -> list[str]:
        """Split `%target`, numbers of a type, into vectors as wide as a table."""
        of = vector_type(kind, self.width)
        return [
            f"  %{target}.{k} = {shuffle(of, f'%{target}', 'poison', self._part(k))}" for k in self.numbers
        ]

    def looked_up(self, target: str, table: list[float]) -> list[str]:
        """Look up the numbers of a table that the last four digits of the parts of `%digits` count."""
        numbers = ", ".join(f"float {double(number)}" for number in table)
        of, whole = vector_type("float", TABLE), vector_type("i32", TABLE)
        call = f"call {of} @llvm.x86.avx512.permvar.sf.512({of} <{numbers}>, {whole}"
        last = f"%{target}.{self.numbers[-1]}"
        return [
            *(f"  %{target}.{k} = {call} %digits.{k})" for k in self.numbers),
            f"  %{target} = {shuffle(of, f'%{target}.0', last, range(self.width))}",
        ]

    def _part(self, number: int) -> range:
        return range(TABLE * number, TABLE * (number + 1))

    def any_above(self, target: str, number: str, bound: float) -> list[str]:
        """True if a number is not below a bound in one of the lanes: above it, or NaN."""
        return [
            f"  %{target}.mask = fcmp ugt {self.of} {number}, {_number(bound)}",
            *self.any(target, f"%{target}.mask"),
        ]

    def any(self, target: str, mask: str) -> list[str]:
        """True if a mask holds in one of the lanes."""
        lanes = f"  %{target}.lanes = bitcast {self.masks} {mask} to i{self.width}"
        return [lanes, f"  %{target} = icmp ne i{self.width} %{target}.lanes, 0"]


def _body(lanes: _Lanes, rare: Instructions, *, half: bool, tabled: bool) -> list[str]:
    of, whole = lanes.of, lanes.whole
    # Cosines count turns from a half: cos(x) = sin(x + pi / 2).
    turns = [
        lanes.fused("turns", "%x", _number(TURN), _number(0.5)),
        f"  %near = fadd {of} %turns, {_number(SHIFT)}",
    ]
    if not half:
        turns = [lanes.fused("near", "%x", _number(TURN), _number(SHIFT))]
    far = [
        lanes.size("size.far"),
        f"  %far = fcmp ogt {of} %size.far, {_number(LARGEST)}",
        *lanes.any("any", "%far"),
    ]
    if tabled:
        reduced = _by_tables(lanes, half=half)
        far = ["  br i1 %may, label %exact, label %usual", "exact:", *far]
    else:
        reduced = [*_in_steps(lanes, "rest", half=half), f"  %square = fmul {of} %rest, %rest"]
    return [
        "start:",
        *turns,
        f"  %digits = bitcast {of} %near to {whole}",
        *reduced,
        lanes.fused("sum.0", "%square", _number(ODD[3]), _number(ODD[2])),
        lanes.fused("sum.1", "%square", "%sum.0", _number(ODD[1])),
        lanes.fused("sum.2", "%square", "%sum.1", _number(ODD[0])),
        lanes.fused("sum", "%square", "%sum.2", _number(0.0)),  # fused, so that of -0 it is 0
        f"  %parity = shl {whole} %digits, splat (i32 31)",
        f"  %bits = bitcast {of} %rest to {whole}",
        f"  %turned = xor {whole} %bits, %parity",
        f"  %side = bitcast {whole} %turned to {of}",
        lanes.fused("sine", "%side", "%sum", "%side"),
        *far,
        "  br i1 %any, label %rare, label %usual",
        "usual:",
        f"  ret {of} %sine",
        "rare:",  # of those lanes only: what a lane gives does not depend on its neighbours
        *(f"  {_cold(line)}" for line in rare.text.format("%x", r="%slow").splitlines()),
        f"  %chosen = select {lanes.masks} %far, {of} %slow, {of} %sine",
        f"  ret {of} %chosen",
    ]


def _by_tables(lanes: _Lanes, *, half: bool) -> list[str]:
    """Subtract multiples of pi that are looked up, in steps those that are not in the tables."""
    of, part = lanes.of, _Lanes(TABLE)
    high, low = _tables(half=half)
    if lanes.width == TABLE:  # known sooner than what is left, which takes 4 % less time
        more = [lanes.size("size"), *lanes.any_above("more", "%size", TABLED)]
        beyond = [lanes.size("count", "%whole"), f"  %beyond = fcmp ogt {of} %count, {_number(MULTIPLES)}"]
        far = lanes.any_above("may.steps", "%size", LARGEST)
    else:
        squares = f"  %squares = fadd {part.of} %square.tabled.0, %square.tabled.1"
        more = [*lanes.parts("square.tabled", "float"), squares, *part.any_above("more", "%squares", SQUARE)]
        beyond = [f"  %beyond = fcmp ugt {of} %square.tabled, {_number(SQUARE)}"]
        far = part.any_above("may.steps", "%squares", FAR)
    return [
        *lanes.parts("digits", "i32"),
        *lanes.looked_up("high", high),
        *lanes.looked_up("low", low),
        f"  %rest.high = fsub {of} %x, %high",
        f"  %rest.tabled = fsub {of} %rest.high, %low",
        f"  %square.tabled = fmul {of} %rest.tabled, %rest.tabled",
        *more,
        "  br i1 %more, label %steps, label %reduced",
        "steps:",
        *_in_steps(lanes, "rest.steps", half=half),
        # Lanes within the tables keep what these give: it does not depend on their neighbours.
        *beyond,
        f"  %rest.chosen = select {lanes.masks} %beyond, {of} %rest.steps, {of} %rest.tabled",
        f"  %square.chosen = fmul {of} %rest.chosen, %rest.chosen",
        *far,
        "  br label %reduced",
        "reduced:",
        f"  %rest = phi {of} [ %rest.tabled, %start ], [ %rest.chosen, %steps ]",
        f"  %square = phi {of} [ %square.tabled, %start ], [ %square.chosen, %steps ]",
        "  %may = phi i1 [ false, %start ], [ %may.steps, %steps ]",
    ]


def _in_steps(lanes: _Lanes, target: str, *, half: bool) -> list[str]:
    """Subtract the nearest multiple of pi from an argument, in three steps."""
    of = lanes.of
    back = [f"  %whole = fsub {of} %near, {_number(SHIFT)}"]
    if half:
        back = [f"  %next = fsub {of} %near, {_number(SHIFT)}", f"  %whole = fsub {of} %next, {_number(0.5)}"]
    return [
        *back,
        f"  %minus = fneg {of} %whole",
        lanes.fused("rest.0", "%minus", _number(PI[0]), "%x"),
        lanes.fused("rest.1", "%minus", _number(PI[1]), "%rest.0"),
        lanes.fused(target, "%minus", _number(PI[2]), "%rest.1"),
    ]


def _tables(*, half: bool) -> tuple[list[float], list[float]]:
    """The multiples of pi from 0 to 7 and from -8 to -1, or half of pi less, each as two numbers.

    Those whose counterpart of the other sign is not among them are 0, which no argument is near that looks
    them up: positive and negative arguments take the same way.
    """
    high: list[float] = []
    low: list[float] = []
    for turns in [*range(TABLE // 2), *range(-TABLE // 2, 0)]:
        multiple = turns - 0.5 * half
        if abs(multiple) > MULTIPLES:
            multiple = 0.0
        parts = [multiple * part for part in PI]  # exact in float64
        high.append(_single(math.fsum(parts)))
        low.append(_single(math.fsum([*parts, -high[-1]])))
    return high, low


def _cold(line: str) -> str:
    """Instructions of a block that hardly ever runs: for its calls nothing is kept out of registers."""
    return f"{line} cold" if " = call " in line else line


def _number(value: float) -> str:
    """A number of float32 in every lane."""
    return splat("float", double(_single(value)))


def _single(value: float) -> float:
    """The nearest number of float32."""
    nearest: float = struct.unpack("f", struct.pack("f", value))[0]
    return nearest


SQRT = """define internal <16 x float> @td.sqrt(<16 x float> %x) alwaysinline nounwind {
start:
  %bits = bitcast <16 x float> %x to <16 x i32>
  %above = sub <16 x i32> %bits, splat (i32 218103808)
  %inside = icmp ult <16 x i32> %above, splat (i32 1694498816)
  %lanes = bitcast <16 x i1> %inside to i16
  %all = icmp eq i16 %lanes, -1
  br i1 %all, label %usual, label %other
usual:
  %near = call <16 x float> @llvm.x86.avx512.rsqrt14.ps.512(<16 x float> %x, <16 x float> zeroinitializer, i16 -1)
  %root.0 = fmul <16 x float> %x, %near
  %half.0 = fmul <16 x float> %near, splat (float 0.5)
  %minus.0 = fneg <16 x float> %root.0
  %error = call <16 x float> @llvm.fma.v16f32(<16 x float> %minus.0, <16 x float> %half.0, <16 x float> splat (float 0.5))
  %root.1 = call <16 x float> @llvm.fma.v16f32(<16 x float> %root.0, <16 x float> %error, <16 x float> %root.0)
  %half.1 = call <16 x float> @llvm.fma.v16f32(<16 x float> %half.0, <16 x float> %error, <16 x float> %half.0)
  %minus.1 = fneg <16 x float> %root.1
  %rest = call <16 x float> @llvm.fma.v16f32(<16 x float> %minus.1, <16 x float> %root.1, <16 x float> %x)
  %root = call <16 x float> @llvm.fma.v16f32(<16 x float> %rest, <16 x float> %half.1, <16 x float> %root.1)
  ret <16 x float> %root
other:
  %slow = call <16 x float> @llvm.sqrt.v16f32(<16 x float> %x)
  ret <16 x float> %slow
}"""  # noqa: E501
"""The square roots, rounded as the processor rounds them: two steps of Newton's from its estimate, with fused
products. Of normal numbers from 2^-100 to 2^100 each of the 2^24 digits and parities of exponents was tried;
others take the processor's own root, which takes three times as long."""


def root(target: VectorTarget, operands: tuple[str, ...]) -> Instructions | None:
    """A square root that leaves the processor's divider to divisions, where it has estimates of 14 bits."""
    if operands != ("f32",) or target.bits != 512:
        return None
    if target.width == 16:
        return Instructions("f32", "{r} = call <16 x float> @td.sqrt(<16 x float> {0})", (SQRT,))
    return Instructions("f32", in_parts("td.sqrt", "float", 1, target.width, 16), (SQRT,))

"""Square roots, sines and cosines of vector lanes, inline; calls take a third longer.

Less the nearest multiple of pi (for cosines, the nearest half of an odd one) an argument x leaves r, in
[-pi / 2, pi / 2], exact but for the rounding of its last two steps: pi is the sum of three numbers, fused
products lose nothing, and the first difference has no bits to lose. The sine of r is an odd polynomial. Its
sign changes with every multiple: adding 1.5 * 2^23 leaves the parity in the last bit.
"""

from __future__ import annotations

import struct

from tapedebug.lang.lowering import Instructions, VectorTarget, double, splat, vector_type

LARGEST = 10_000.0
"""Larger arguments, of which the multiples of pi have more digits, are left to the C library."""
SHIFT = 12_582_912.0
"""1.5 * 2^23: adding it rounds to a whole number."""
TURN = 0.31830987334251404
"""1 / pi."""
PI = (3.141592502593994, 1.5099578831723193e-07, 1.078060505991553e-14)
"""Numbers of float32 that sum up to pi less 7e-22. All are positive, so that -0 remains -0."""
ODD = (-0.16666659712791443, 0.008333069272339344, -0.00019809778314083815, 2.6061029529955704e-06)
"""(sin(r) / r - 1) / r^2 by powers of r^2, so that the sine is right to 2^-27.3 of itself (a fit in extended
precision, one coefficient rounded after the other)."""


def sine(target: VectorTarget, operands: tuple[str, ...]) -> Instructions | None:
    """Sines of float32 in every lane.

    Of every 11th number up to 10,000 the worst is 1.79 units in the last place from the true one, and 98 % of
    sines and 94 % of cosines are the nearest there are. Sines of -0 are -0, of infinities and NaN NaN.
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
    text = "\n".join(_body(of, symbol, rare, target.width, half=half))
    return Instructions("f32", f"{{r}} = call {of} {symbol}({of} {{0}})", (*rare.needs, text))


def _body(of: str, symbol: str, rare: Instructions, width: int, half: bool) -> list[str]:
    whole = vector_type("i32", width)

    def fused(target: str, x: str, y: str, z: str) -> str:
        return f"  %{target} = call {of} @llvm.fma.v{width}f32({of} {x}, {of} {y}, {of} {z})"

    # Cosines count turns from a half: cos(x) = sin(x + pi / 2).
    turns = [
        fused("turns", "%x", _number(TURN), _number(0.5)),
        f"  %near = fadd {of} %turns, {_number(SHIFT)}",
    ]
    back = [f"  %next = fsub {of} %near, {_number(SHIFT)}", f"  %whole = fsub {of} %next, {_number(0.5)}"]
    if not half:
        turns = [fused("near", "%x", _number(TURN), _number(SHIFT))]
        back = [f"  %whole = fsub {of} %near, {_number(SHIFT)}"]
    return [
        f"define internal {of} {symbol}({of} %x) alwaysinline nounwind {{",
        "start:",
        f"  %size = call {of} @llvm.fabs.v{width}f32({of} %x)",
        f"  %far = fcmp ogt {of} %size, {_number(LARGEST)}",
        *turns,
        *back,
        f"  %minus = fneg {of} %whole",
        fused("rest.0", "%minus", _number(PI[0]), "%x"),
        fused("rest.1", "%minus", _number(PI[1]), "%rest.0"),
        fused("rest", "%minus", _number(PI[2]), "%rest.1"),
        f"  %square = fmul {of} %rest, %rest",
        fused("sum.0", "%square", _number(ODD[3]), _number(ODD[2])),
        fused("sum.1", "%square", "%sum.0", _number(ODD[1])),
        fused("sum.2", "%square", "%sum.1", _number(ODD[0])),
        fused("sum", "%square", "%sum.2", _number(0.0)),  # fused, so that of -0 it is 0
        f"  %digits = bitcast {of} %near to {whole}",
        f"  %parity = shl {whole} %digits, splat (i32 31)",
        f"  %bits = bitcast {of} %rest to {whole}",
        f"  %turned = xor {whole} %bits, %parity",
        f"  %side = bitcast {whole} %turned to {of}",
        fused("sine", "%side", "%sum", "%side"),
        f"  %lanes = bitcast {vector_type('i1', width)} %far to i{width}",
        f"  %any = icmp ne i{width} %lanes, 0",
        "  br i1 %any, label %rare, label %usual",
        "usual:",
        f"  ret {of} %sine",
        "rare:",  # of those lanes only: what a lane gives does not depend on its neighbours
        *(f"  {_cold(line)}" for line in rare.text.format("%x", r="%slow").splitlines()),
        f"  %chosen = select {vector_type('i1', width)} %far, {of} %slow, {of} %sine",
        f"  ret {of} %chosen",
        "}",
    ]


def _cold(line: str) -> str:
    """Instructions of a block that hardly ever runs: for its calls nothing is kept out of registers."""
    return f"{line} cold" if " = call " in line else line


def _number(value: float) -> str:
    """A number of float32 in every lane."""
    return splat("float", double(struct.unpack("f", struct.pack("f", value))[0]))


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
    return Instructions("f32", "{r} = call <16 x float> @td.sqrt(<16 x float> {0})", (SQRT,))

"""Sines and cosines of all lanes at once, inline: calls of the C library's take a third longer.

Less the nearest multiple of pi (for cosines, the nearest half of an odd one) an argument x leaves r, in
[-pi / 2, pi / 2], exact but for the rounding of its last two steps: pi is the sum of three numbers, fused
products lose nothing, and the first difference has no bits to lose. The sine of r is an odd polynomial. Its
sign changes with every multiple: adding 1.5 * 2^23 leaves the parity in the last bit.
"""

from __future__ import annotations

import struct
from functools import cache

from tapedebug.compiler.llvm.library import Call
from tapedebug.compiler.llvm.simd.vector_calls import from_c_library, splat, vector

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


@cache
def sined(name: str, operands: tuple[str, ...], width: int, bits: int) -> Call | None:
    """A sine or cosine on vectors of float32, or None.

    Of every 11th number up to 10,000 the worst is 1.79 units in the last place from the true one, and 98 % of
    sines and 94 % of cosines are the nearest there are. Sines of -0 are -0, of infinities and NaN NaN.

    Args:
        name: The library function.
        operands: The types of its operands.
        width: How many lanes there are.
        bits: How wide the processor's vectors are: it has fused products where that is 256 or more.
    """
    if name not in ("m_sin", "m_cos") or operands != ("f32",) or bits < 256:
        return None
    rare = from_c_library(name, operands, width, bits)
    if rare is None:
        return None
    of, symbol = vector("float", width), f"@td.{name[2:]}.{width}"
    text = "\n".join(_body(of, symbol, rare, width, half=name == "m_cos"))
    return Call("f32", f"{{r}} = call {of} {symbol}({of} {{0}})", (*rare.needs, text))


def _body(of: str, symbol: str, rare: Call, width: int, half: bool) -> list[str]:
    whole = vector("i32", width)

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
        f"  %lanes = bitcast {vector('i1', width)} %far to i{width}",
        f"  %any = icmp ne i{width} %lanes, 0",
        "  br i1 %any, label %rare, label %usual",
        "usual:",
        f"  ret {of} %sine",
        "rare:",  # of those lanes only: what a lane gives does not depend on its neighbours
        *(f"  {_cold(line)}" for line in rare.text.format("%x", r="%slow").splitlines()),
        f"  %chosen = select {vector('i1', width)} %far, {of} %slow, {of} %sine",
        f"  ret {of} %chosen",
        "}",
    ]


def _cold(line: str) -> str:
    """Instructions of a block that hardly ever runs: for its calls nothing is kept out of registers."""
    return f"{line} cold" if " = call " in line else line


def _number(value: float) -> str:
    """A number of float32 in every lane, as LLVM writes it: by the bits of the float64 that equals it."""
    (single,) = struct.unpack("f", struct.pack("f", value))
    (bits,) = struct.unpack("Q", struct.pack("d", single))
    return splat("float", f"0x{bits:016X}")

"""Half precision: by the processor's conversions (F16C), or in integer arithmetic.

Generated code holds a half as the float32 of the same value, and rounds after every operation (`to_f16`),
which for sums, products, quotients and roots is exact: float32 has more than twice the digits. Memory holds
its bits.
"""

from __future__ import annotations

import numpy as np

from tapedebug.lang.lowering import BITS, FLOATS, Instructions, cast, defined, fitting, function, llvm_type

# Of a float: the difference of the exponents' biases, the digits beyond those of a half, what has no normal
# half below and above it, infinity; and a number whose sum with a small one has the digits of a small half.
LAYOUT = {
    "f32": (112 << 10, 13, 0x38800000, 0x47800000, 0x7F800000, 0x3F000000),
    "f64": (
        1008 << 10,
        42,
        0x3F10000000000000,
        0x40F0000000000000,
        0x7FF0000000000000,
        0x41B0000000000000,
    ),
}


def _bits(x: str) -> Instructions:
    """The bits of the half that is nearest to a float, halves between two to the even one."""
    fitting(x in LAYOUT, x)
    bias, cut, small, large, infinite, lift = LAYOUT[x]
    word, kind, width = f"i{BITS[x]}", llvm_type(x), BITS[x]
    body = f"""
%bits = bitcast {kind} %0 to {word}
%high = lshr {word} %bits, {width - 16}
%sign = and {word} %high, 32768
%size = and {word} %bits, {(1 << (width - 1)) - 1}
%shown = lshr {word} %size, {cut}
%odd = and {word} %shown, 1
%below = add {word} %size, {(1 << (cut - 1)) - 1}
%rounded = add {word} %below, %odd
%digits = lshr {word} %rounded, {cut}
%normal = sub {word} %digits, {bias}
%magnitude = bitcast {word} %size to {kind}
%unit = bitcast {word} {lift} to {kind}
%lifted = fadd {kind} %magnitude, %unit
%lifted.bits = bitcast {kind} %lifted to {word}
%subnormal = sub {word} %lifted.bits, {lift}
%is.nan = icmp ugt {word} %size, {infinite}
%beyond = select i1 %is.nan, {word} 32256, {word} 31744
%is.small = icmp ult {word} %size, {small}
%is.large = icmp uge {word} %size, {large}
%finite = select i1 %is.small, {word} %subnormal, {word} %normal
%value = select i1 %is.large, {word} %beyond, {word} %finite
%signed = or {word} %value, %sign
%half = trunc {word} %signed to i16
ret i16 %half
"""
    return defined("half_bits", "u16", (x,), body)


def _short_bits(x: str) -> Instructions:
    fitting(x == "f32", x)
    return Instructions("u16", "{r}.half = fptrunc float {0} to half\n{r} = bitcast half {r}.half to i16")


def _value(bits: str) -> Instructions:
    """The float32 of the same value as a half, by its bits."""
    fitting(bits == "u16", bits)
    body = """
%word = zext i16 %0 to i32
%high = and i32 %word, 32768
%sign = shl i32 %high, 16
%size = and i32 %word, 32767
%digits = shl i32 %size, 13
%normal = add i32 %digits, 939524096
%beyond = add i32 %digits, 1879048192
%count = uitofp i32 %size to float
%tiny = fmul float %count, 0x3E70000000000000
%subnormal = bitcast float %tiny to i32
%is.small = icmp ult i32 %size, 1024
%is.large = icmp uge i32 %size, 31744
%finite = select i1 %is.small, i32 %subnormal, i32 %normal
%value = select i1 %is.large, i32 %beyond, i32 %finite
%signed = or i32 %value, %sign
%single = bitcast i32 %signed to float
ret float %single
"""
    return defined("half_value", "f32", (bits,), body)


def _short_value(bits: str) -> Instructions:
    fitting(bits == "u16", bits)
    return Instructions("f32", "{r}.half = bitcast i16 {0} to half\n{r} = fpext half {r}.half to float")


def _rounded(x: str) -> Instructions:
    """A number, rounded to the nearest half; a float32."""
    if x not in FLOATS:
        wide, back = cast(x, "f64"), _rounded("f64")
        text = wide.text.replace("{r}", "{r}.wide") + "\n" + back.text.replace("{0}", "{r}.wide")
        return Instructions("f32", text, (*wide.needs, *back.needs))
    bits, value = _bits(x), _value("u16")
    kind = llvm_type(x)
    body = f"""
%bits = call i16 @td.half_bits_{x}({kind} %0)
{value.text.replace("{r}", "%value").replace("{0}", "%bits")}
ret float %value
"""
    return defined("to_f16", "f32", (x,), body, *bits.needs, *value.needs)


def _shortly_rounded(x: str) -> Instructions:
    fitting(x == "f32", x)
    return Instructions("f32", "{r}.half = fptrunc float {0} to half\n{r} = fpext half {r}.half to float")


# What memory holds of a half, and its value.
function(
    "half_bits",
    lambda x: np.float16(x).view(np.uint16),
    _bits,
    with_feature={"f16c": _short_bits},
)
function(
    "half_value",
    lambda bits: np.float32(np.uint16(bits).view(np.float16)),
    _value,
    with_feature={"f16c": _short_value},
)
to_half = function(
    "to_f16",
    lambda x: np.float32(np.float16(x)),  # a half is held as a float32
    _rounded,
    with_feature={"f16c": _shortly_rounded},
)

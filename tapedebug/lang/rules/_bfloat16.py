"""The type bfloat16, in integer arithmetic: its bits are the first 16 of those of a float32.

Generated code holds such a number as the float32 of the same value, and rounds after every operation
(`to_bf16`), halves between two to the even one. Memory holds its bits. Other numbers become float32 first.
"""

from __future__ import annotations

import numpy as np

from tapedebug.lang.lowering import Instructions, cast, fitting, function

# A NaN keeps its sign and first digits, and is made quiet: rounding could make it infinite.
_ROUNDED = """{r}.word = bitcast float {0} to i32
{r}.shown = lshr i32 {r}.word, 16
{r}.odd = and i32 {r}.shown, 1
{r}.below = add i32 {r}.odd, 32767
{r}.sum = add i32 {r}.word, {r}.below
{r}.quiet = or i32 {r}.word, 4194304
{r}.is.nan = fcmp uno float {0}, 0.0
{r}.chosen = select i1 {r}.is.nan, i32 {r}.quiet, i32 {r}.sum"""


def _bits(x: str) -> Instructions:
    return _from_float32(x, "u16", "{r}.high = lshr i32 {r}.chosen, 16\n{r} = trunc i32 {r}.high to i16")


def _rounded(x: str) -> Instructions:
    """A number, rounded to the nearest bfloat16; a float32."""
    return _from_float32(
        x, "f32", "{r}.high = and i32 {r}.chosen, -65536\n{r} = bitcast i32 {r}.high to float"
    )


def _from_float32(x: str, result: str, text: str) -> Instructions:
    rounded = f"{_ROUNDED}\n{text}"
    if x == "f32":
        return Instructions(result, rounded)
    single = cast(x, "f32")
    first = single.text.replace("{r}", "{r}.single")
    return Instructions(result, f"{first}\n{rounded.replace('{0}', '{r}.single')}", single.needs)


def _value(bits: str) -> Instructions:
    fitting(bits == "u16", bits)
    text = "{r}.word = zext i16 {0} to i32\n{r}.high = shl i32 {r}.word, 16\n"
    return Instructions("f32", text + "{r} = bitcast i32 {r}.high to float")


def round_to_bfloat16(x: float | np.generic) -> np.float32:
    """Return the float32 that has the value of the nearest bfloat16."""
    return bfloat16_value(bfloat16_bits(x))


def bfloat16_bits(x: float | np.generic) -> np.uint16:
    """Return the bits of the nearest bfloat16."""
    with np.errstate(over="ignore"):
        single = np.float32(x)
    word = int(single.view(np.uint32))
    word = word | 0x400000 if np.isnan(single) else word + 0x7FFF + (word >> 16 & 1)
    return np.uint16(word >> 16 & 0xFFFF)


def bfloat16_value(bits: int | np.generic) -> np.float32:
    """Return the float32 that has the value of a bfloat16, by its bits."""
    return np.uint32(int(bits) << 16).view(np.float32)


function("bfloat16_bits", bfloat16_bits, _bits)
function("bfloat16_value", bfloat16_value, _value)
to_bfloat16 = function("to_bf16", round_to_bfloat16, _rounded)

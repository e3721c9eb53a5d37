"""What random numbers and noise call, in LLVM."""

from __future__ import annotations

from collections.abc import Callable

from tapedebug.compiler.llvm.library import Call, cast, entry, fitting, llvm_type


@entry("rand_pcg")
def _pcg(state: str) -> Call:
    """The state after a state of random numbers."""
    fitting(state == "u32", state)
    return Call(
        "u32",
        """{r}.times = mul i32 {0}, 747796405
{r}.word = add i32 {r}.times, -1403630843
{r}.top = lshr i32 {r}.word, 28
{r}.count = add i32 {r}.top, 4
{r}.moved = lshr i32 {r}.word, {r}.count
{r}.mixed = xor i32 {r}.moved, {r}.word
{r}.spread = mul i32 {r}.mixed, 277803737
{r}.low = lshr i32 {r}.spread, 22
{r} = xor i32 {r}.low, {r}.spread""",
    )


def _centred(kind: str) -> Callable[..., Call]:
    """The number in [-0.5, 0.5) that a state of random numbers stands for."""

    def centred(state: str) -> Call:
        fitting(state == "u32", state)
        of = llvm_type(kind)
        return Call(
            kind,
            f"{{r}}.bits = lshr i32 {{0}}, 8\n{{r}}.whole = uitofp i32 {{r}}.bits to {of}\n"
            f"{{r}}.unit = fmul {of} {{r}}.whole, {UNIT}\n{{r}} = fsub {of} {{r}}.unit, 0.5",
        )

    return centred


UNIT = "0x3E70000000000000"
"""2^-24, as LLVM writes it."""


def _direction(part: str, length: str) -> Call:
    """A component of a vector over its length; 0 where that is 0."""
    fitting(part == length and part in ("f32", "f64"), part, length)
    of = llvm_type(part)
    return Call(
        part,
        f"{{r}}.some = fcmp ogt {of} {{1}}, 0.0\n{{r}}.ratio = fdiv {of} {{0}}, {{1}}\n"
        f"{{r}} = select i1 {{r}}.some, {of} {{r}}.ratio, {of} 0.0",
    )


for _code in ("f32", "f64"):
    entry(f"centred_{_code}")(_centred(_code))
    entry(f"direction_{_code}")(_direction)


@entry("single")
def _single(x: str) -> Call:
    """A float64, rounded to the nearest float32."""
    down, up = cast(x, "f32"), cast("f32", x)
    fitting(x == "f64", x)
    return Call(x, down.text.replace("{r}", "{r}.narrow") + "\n" + up.text.replace("{0}", "{r}.narrow"))

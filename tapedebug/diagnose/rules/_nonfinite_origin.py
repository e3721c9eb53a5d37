"""Describes the launch and operation in which a NaN or Inf first appeared."""

from __future__ import annotations

from tapedebug._dataclass import dataclass
from tapedebug.contract import Consume, NonfiniteOperation, Place
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.places import location_at
from tapedebug.trace import Launch

STRONG_ZERO = ", or set config.strong_zero = True: then an adjoint of 0 stays 0"


@dataclass(slots=True)
class NonfiniteOrigin:
    """The origin of a NaN or Inf: launch, parameter, place of the first bad number, and the operation."""

    launch: Launch
    param: int
    place: int
    value: float
    forward: bool
    consume: Consume = "versions"
    thread: int | None = None
    culprit: NonfiniteOperation | None = None
    native: str = ""


def explain(culprit: NonfiniteOperation | None, birth: NonfiniteOrigin) -> tuple[str, str, str]:
    """Return the cause by name, the sentence about it, and the fix."""
    if culprit is None and birth.native:
        snippet = "snippet" if birth.forward else "adjoint snippet"
        return (
            "native",
            f"The kernel calls the native function {birth.native}, whose C is not followed.",
            f"look at what the {snippet} of {birth.native} computes of the values that this launch reads",
        )
    if culprit is None:
        return (
            "unknown",
            "No operation explains it: a sum of large numbers overflows, or memory outside of an array is "
            "read.",
            "look at the values that this launch reads, and rescale them",
        )
    operands = ", ".join(words.number(value) for value in culprit.operands)
    name, sentence, fix = _operation(culprit)
    code = snippet_of(culprit.span)
    at = f"{code} at {words.place(location_at(culprit.span))}" if culprit.span is not None else culprit.kind
    plural = "s" if len(culprit.operands) > 1 else ""
    text = f"In thread {birth.thread}, {at} has the operand{plural} {operands}: {sentence}."
    zero = STRONG_ZERO if culprit.adjoint == 0 else ""
    if culprit.unselected is None:
        return name, text, fix + zero
    where = f"{snippet_of(culprit.unselected)} at {words.place(location_at(culprit.unselected))}"
    return (
        "where",
        f"{text} The result is not even selected by {where}, but both operands of where are computed, "
        "and an adjoint of 0 times an infinite slope is nan.",
        "make the operand safe before the operation, not its result after it: put the where inside, "
        f"as in {_safe(culprit)}{zero}",
    )


def _operation(culprit: NonfiniteOperation) -> tuple[str, str, str]:
    kind, operands = culprit.kind, culprit.operands
    forward = culprit.adjoint is None
    if kind in ("sqrt", "cbrt", "norm_of_square") and not any(operands):
        return (
            f"{kind}(0)",
            "its slope is infinite at 0",
            "keep the operand away from 0, for example by adding 1e-12",
        )
    if kind == "sqrt":
        return (
            "sqrt(<0)",
            "a negative number has no square root",
            "keep the operand at 0 or above, for example with max",
        )
    if kind in ("div", "mod", "floordiv") and operands[-1] == 0:
        return "x/0", "it divides by 0", "keep the divisor away from 0"
    if kind.startswith("log") and operands[0] <= 0:
        sentence = "the logarithm is not finite there" if forward else "its slope is infinite at 0"
        return "log(0)", sentence, "keep the operand above 0, for example with max"
    if kind in ("asin", "acos"):
        return (
            f"{kind}(±1)",
            "its slope is infinite at -1 and 1",
            "keep the operand inside (-1, 1), for example with clamp",
        )
    if kind == "pow":
        return "pow(0)", "its slope is infinite there", "keep the base away from 0"
    if kind == "atan2":
        return "atan2(0, 0)", "the angle of the origin has no slope", "keep the point away from the origin"
    if forward:
        return (
            f"{kind} overflows",
            "the result is beyond the largest number of its type",
            "rescale the values",
        )
    return (
        f"{kind} overflows",
        "its slope times the adjoint is beyond the largest number of its type",
        "rescale the loss or the values",
    )


def _safe(culprit: NonfiniteOperation) -> str:
    name = "1/where" if culprit.kind == "div" else f"{culprit.kind}(where"
    return "x / where(y != 0.0, y, 1.0)" if name == "1/where" else f"{name}(x > 0.0, x, 1.0))"


def snippet_of(span: Place | None) -> str:
    """Return the source text of an operation that is within one line."""
    if span is None:
        return ""
    end = span.end_column if span.end_line == span.line else len(span.text)
    return span.text[span.column : end].strip()

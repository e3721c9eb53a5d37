"""The smallest error that is found, by size and place, and the claim made if it is not found.

`python -m tests.gallery.detection` plants errors in adjoints, runs the checks on them, keeps what they said
in `detection.json` and writes `docs/detection.md`; `--page` writes the page from what was kept.
"""

from __future__ import annotations

import functools
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

import tapedebug as wp
from tapedebug.autograd import assert_gradients, gradcheck
from tapedebug.autograd.assertions import GradientAssertionError
from tests.gallery.entry import HERE
from tests.processes import ROOT

ERRORS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5)
SIZES = (16, 400, 10_000)
WHERE = {
    "everywhere": "everywhere",
    "branch": "a branch that 10 % of the threads take",
    "thread": "one thread",
    "entry": "one entry of a parameter that all threads read",
    "launch": "one launch of 100",
}
HOW = {
    "diagnose": "`diagnose`",
    "assert": "`assert_gradients(tape, loss=…)`",
    "gradcheck": "`gradcheck`",
    "tight": "`gradcheck(rtol=1e-4, atol=1e-6)`",
    "fast": "`gradcheck(fast_mode=True)`",
}
KINDS = {"func_grad": "a gradient by hand (`func_grad`)", "partial": "a partial derivative (`adj_snippet`)"}
END_TO_END = ("diagnose", "assert")
TIGHT = {"rtol": 1e-4, "atol": 1e-6}
LAUNCHES, GUILTY = 100, 57
STEP = 0.01
QUIET: dict[str, Any] = {"show_summary": False, "raise_exception": False, "progress": False}
PAGE = ROOT / "docs" / "detection.md"
TEXT = HERE / "detection.md"
KEPT = HERE / "detection.json"
CLAIM = re.compile(r"agrees\s+to\s+(\d(?:\.\d+)?(?:e-?\d+)?)")


# ---------------------------------------------------------------------------------------- what is planted


@wp.func
def bend(x: float, i: int, factor: float, place: int, below: float):
    return wp.sin(x) + x * x


@wp.func_grad(bend)
def adj_bend(x: float, i: int, factor: float, place: int, below: float, adj_ret: float):
    slope = wp.cos(x) + 2.0 * x
    if place < 0 or i == place or x < below:
        slope = slope * factor
    wp.adjoint[x] += slope * adj_ret


@wp.func_native(
    "return sinf(x) + x * x;",
    adj_snippet="""
    float slope = cosf(x) + 2.0f * x;
    if (place < 0 || i == place || x < below) slope *= factor;
    adj_x += slope * adj_ret;
    """,
)
def bend_native(x: float, i: int, factor: float, place: int, below: float) -> float: ...


@wp.func
def read(p: wp.array(dtype=float), k: int, factor: float):
    return p[k] * p[k]


@wp.func_grad(read)
def adj_read(p: wp.array(dtype=float), k: int, factor: float, adj_ret: float):
    if k == 2:
        wp.adjoint[p][k] += factor * 2.0 * p[k] * adj_ret
    else:
        wp.adjoint[p][k] += 2.0 * p[k] * adj_ret


@wp.func_native("return v * v;", adj_snippet="adj_v += (k == 2 ? factor : 1.0f) * 2.0f * v * adj_ret;")
def read_native(v: float, k: int, factor: float) -> float: ...


@wp.kernel
def bent(x: wp.array(dtype=float), factor: float, place: int, below: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = bend(x[i], i, factor, place, below)


@wp.kernel
def bent_native(x: wp.array(dtype=float), factor: float, place: int, below: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = bend_native(x[i], i, factor, place, below)


@wp.kernel
def mixed(p: wp.array(dtype=float), x: wp.array(dtype=float), factor: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = read(p, i % 4, factor) * x[i]


@wp.kernel
def mixed_native(p: wp.array(dtype=float), x: wp.array(dtype=float), factor: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = read_native(p[i % 4], i % 4, factor) * x[i]


@wp.kernel
def moved(x: wp.array(dtype=float), factor: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] - 0.01 * bend(x[i], i, factor, -1, 0.0)


@wp.kernel
def moved_native(x: wp.array(dtype=float), factor: float, y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] - 0.01 * bend_native(x[i], i, factor, -1, 0.0)


@wp.kernel
def weighed(y: wp.array(dtype=float), w: wp.array(dtype=float), loss: wp.array(dtype=float)):
    i = wp.tid()
    wp.atomic_add(loss, 0, y[i] * w[i])


KERNELS = {
    "func_grad": {"bent": bent, "mixed": mixed, "moved": moved},
    "partial": {"bent": bent_native, "mixed": mixed_native, "moved": moved_native},
}


@dataclass(frozen=True)
class Planted:
    """One error.

    Attributes:
        kind: A key of `KINDS`.
        where: A key of `WHERE`.
        size: How many threads.
        error: Of the derivative, relative; 0 for the right one.
    """

    kind: str
    where: str
    size: int
    error: float

    @functools.cached_property
    def values(self) -> np.ndarray[Any, Any]:
        """The input."""
        return np.random.default_rng(self.size).uniform(0.2, 1.2, self.size).astype(np.float32)

    @functools.cached_property
    def weights(self) -> np.ndarray[Any, Any]:
        """Weights of the outputs in the loss."""
        return np.random.default_rng(self.size + 1).uniform(0.5, 1.5, self.size).astype(np.float32)

    @property
    def kernel(self) -> Any:
        """The kernel with the error."""
        name = {"entry": "mixed", "launch": "moved"}.get(self.where, "bent")
        return KERNELS[self.kind][name]

    def is_for(self, how: str) -> bool:
        """Return whether a check looks at it: a kernel has one launch, the longest tape is checked once."""
        if self.where != "launch":
            return True
        return how in END_TO_END and (how == "diagnose" or self.size < max(SIZES))

    def arguments(self) -> list[Any]:
        """The arguments of the kernel but its output."""
        x, factor = floats(self.values), 1.0 - self.error
        if self.where == "entry":
            x.requires_grad = False
            return [floats([0.7, 1.1, 0.9, 1.3]), x, factor]
        if self.where == "launch":
            return [x, factor]
        place = {"everywhere": -1, "thread": int(0.7 * self.size)}.get(self.where, self.size)
        return [x, factor, place, float(np.quantile(self.values, 0.1)) if self.where == "branch" else 0.0]

    def tape(self) -> tuple[Any, Any, Any]:
        """The tape, its loss, and the input."""
        given, loss = self.arguments(), floats([0.0])
        w = wp.array(self.weights, dtype=float)
        with wp.Tape() as tape:
            y = wp.zeros(self.size, dtype=float, requires_grad=True)
            if self.where == "launch":
                at = given[0]
                for step in range(LAUNCHES):
                    y = wp.zeros(self.size, dtype=float, requires_grad=True)
                    wp.launch(self.kernel, self.size, [at, given[1] if step == GUILTY else 1.0], [y])
                    at = y
            else:
                wp.launch(self.kernel, self.size, given, [y])
            wp.launch(weighed, self.size, [y, w], [loss])
        tape.backward(loss)
        return tape, loss, given[0]

    def truth(self) -> np.ndarray[Any, Any]:
        """The gradient of the loss, in float64."""
        x, w = self.values.astype(np.float64), self.weights.astype(np.float64)
        if self.where == "entry":
            p = np.float32([0.7, 1.1, 0.9, 1.3]).astype(np.float64)
            return np.array([2.0 * p[k] * (w * x)[k::4].sum() for k in range(4)])
        if self.where != "launch":
            return w * (np.cos(x) + 2.0 * x)
        slope = w
        step = float(np.float32(STEP))
        for _ in range(LAUNCHES):
            slope = slope * (1.0 - step * (np.cos(x) + 2.0 * x))
            x = x - step * (np.sin(x) + x * x)
        return slope


def floats(values: Any) -> Any:
    """An array with a gradient."""
    return wp.array(np.asarray(values, dtype=np.float32), dtype=float, requires_grad=True)


# ------------------------------------------------------------------------------------------- what is said


@dataclass(frozen=True)
class Said:
    """The result of one check of one error.

    Attributes:
        how: A key of `HOW`.
        verdict: Of the check.
        claimed: The precision that it prints where it says AGREE; None where it prints none.
        true: What the gradient is off as a whole, relative to its size.
    """

    kind: str
    where: str
    size: int
    error: float
    how: str
    verdict: str
    claimed: float | None
    true: float


def planted() -> Iterator[Planted]:
    """All errors, and the right programs."""
    for kind in KINDS:
        for where in WHERE:
            for size in SIZES:
                for error in (0.0, *ERRORS):
                    yield Planted(kind, where, size, error)


def said(it: Planted, ways: Callable[[str], bool] = lambda how: True) -> Iterator[Said]:
    """Return what the checks say of one error."""
    tape, loss, x = it.tape()
    right = it.truth()
    true = float(np.linalg.norm(x.grad.numpy() - right) / np.linalg.norm(right))
    for how in HOW:
        if ways(how) and it.is_for(how):
            verdict, text = checked(it, how, tape, loss)
            found = CLAIM.search(text)
            claimed = float(found[1]) if found and verdict == "AGREE" else None
            yield Said(it.kind, it.where, it.size, it.error, how, verdict, claimed, true)


def checked(it: Planted, how: str, tape: Any, loss: Any) -> tuple[str, str]:
    """The verdict of one check, and all that it prints."""
    result: Any
    if how == "diagnose":
        result = wp.diagnose(tape, loss=loss, progress=False)
    elif how == "assert":
        try:
            result = assert_gradients(tape, loss=loss, progress=False)
        except GradientAssertionError as error:
            result = error.result
    else:
        y = wp.zeros(it.size, dtype=float, requires_grad=True)
        options = {**QUIET, **(TIGHT if how == "tight" else {}), "fast_mode": how == "fast"}
        result = gradcheck(it.kernel, it.size, it.arguments(), [y], **options)
    return result.verdict, f"{result} {result.coverage}"


def measured() -> list[Said]:
    """All results."""
    return [result for it in planted() for result in said(it)]


def keep(results: list[Said]) -> None:
    """Keep results in `detection.json`, one a line."""
    lines = ",\n".join(json.dumps(asdict(result)) for result in results)
    KEPT.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


@functools.cache
def kept() -> tuple[Said, ...]:
    """Return what was kept."""
    return tuple(Said(**row) for row in json.loads(KEPT.read_text(encoding="utf-8")))


# ------------------------------------------------------------------------------------------------ the page


def page() -> str:
    """The page, from what was kept."""
    results = kept()
    wrong = [r for r in results if r.error]
    missed = [r for r in wrong if r.verdict == "AGREE"]
    claims = [r.claimed / r.true for r in results if r.claimed is not None and r.true]
    strict = [r for r in wrong if r.how in END_TO_END]
    text = TEXT.read_text(encoding="utf-8")
    return text.format(
        by_hand=table("func_grad"), partial=table("partial"),
        runs=len(wrong), controls=len(results) - len(wrong),
        false=sum(r.verdict != "AGREE" for r in results if not r.error),
        found=len(wrong) - len(missed), missed=len(missed),
        strict=len(strict), strict_found=sum(r.verdict != "AGREE" for r in strict),
        least=f"{min(claims):.1f}", claims=len(claims),
        largest=power(max(r.true for r in strict if r.verdict == "AGREE")),
    )  # fmt: skip


def table(kind: str) -> str:
    """The smallest error that is found, with all larger ones, by place and size."""
    lines = [f"| where | threads | {' | '.join(HOW.values())} |", "|---|---|" + "---|" * len(HOW)]
    for where, words in WHERE.items():
        for size in SIZES:
            cells = [cell(kind, where, size, how) for how in HOW]
            lines.append(f"| {words} | {size:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def cell(kind: str, where: str, size: int, how: str) -> str:
    """The smallest error from which on all are found, and what is claimed of the largest that is not."""
    rows = [r for r in kept() if (r.kind, r.where, r.size, r.how) == (kind, where, size, how) and r.error]
    if not rows:
        return "–"
    rows.sort(key=lambda r: -r.error)
    count = next((i for i, r in enumerate(rows) if r.verdict == "AGREE"), len(rows))
    text = power(rows[count - 1].error) if count else "none"
    if count == len(rows):
        return text
    claimed = rows[count].claimed
    return f"{text} ({power(rows[count].error)}: " + (
        "within tolerance)" if claimed is None else f"agrees to {power(claimed)})"
    )


def power(number: float) -> str:
    """`1e-3`."""
    exponent = math.floor(math.log10(number) + 1e-9)
    digit = round(number / 10.0**exponent)
    return f"{digit}e{exponent}"


def main(arguments: list[str]) -> None:
    """Measure, and write the page."""
    if "--page" not in arguments:
        keep(measured())
        kept.cache_clear()
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} is written")


if __name__ == "__main__":
    main(sys.argv[1:])

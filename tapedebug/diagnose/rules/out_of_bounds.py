"""Rule `out-of-bounds`: an index outside its array, which launches do not check by default."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tapedebug._errors import BoundsError
from tapedebug.autograd.thresholds import FLOAT64_RUNS_DIFFER
from tapedebug.contract import Array, OutOfBoundsAccess
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.element_accesses import (
    element_of,
    element_words,
    place_words,
)
from tapedebug.diagnose.experiments.memory_effects import loss_without
from tapedebug.diagnose.experiments.places import place_of
from tapedebug.diagnose.rule import TapeRule
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.rules.nonfinite import NonfiniteFinding
from tapedebug.diagnose.timings import READS_TRACE, Cost
from tapedebug.trace import Finding
from tapedebug.trace.model import Severity

VERBS = {"read": "reads", "write": "writes", "atomic": "changes"}


class OutOfBounds(TapeRule):
    """An index outside its array, which launches do not check by default."""

    code = "out-of-bounds"
    title = "An index is outside its array"
    severity = "error"
    explains = ("nonfinite",)

    def cost(self, context: RuleContext) -> Cost:
        """Estimate a look at the trace."""
        return READS_TRACE

    def check(self, context: RuleContext) -> Iterator[Finding]:
        """Yield one finding for each line of a kernel that accesses memory outside an array."""
        groups: dict[Any, list[OutOfBoundsAccess]] = {}
        for item in context.elements.outside:
            launch = context.trace.launches[item.launch]
            groups.setdefault((launch.kernel, item.param, item.side.span), []).append(item)
        for group in groups.values():
            yield _finding(context, group)

    def explain(self, cause: Finding, finding: Finding) -> str:
        """Explain a non-finite number of unknown cause: it was read outside an array."""
        if cause.severity != "error" or finding.severity == "info":
            return ""
        unknown = isinstance(finding, NonfiniteFinding) and finding.cause == "unknown"
        if not unknown or not set(finding.launches) & set(cause.launches):
            return ""
        return f"See {self.code}: the launch reads memory that is not the array's."


def _finding(context: RuleContext, group: list[OutOfBoundsAccess]) -> Finding:
    trace, first = context.trace, group[0]
    launch = trace.launches[first.launch]
    record = context.rerun.records[first.launch]
    a: Array = record.args[first.param]
    label = words.label_of(trace, launch, first.param)
    start = a.offset
    at = start + sum(i * s for i, s in zip(first.index, a.strides, strict=True))
    inside = at >= 0 and at + _item_size(a) <= a.region.nbytes
    change = None
    if inside:
        with contextlib.suppress(BoundsError):  # more threads are out of bounds, and some may be far outside
            change = loss_without(context.rerun, first.launch, first.threads)
    whose = f"axis {first.axis} of {label}" if a.ndim > 1 else label
    text = (
        f"thread {first.side.thread} of {words.launch_words(launch)} {VERBS[first.side.kind]} "
        f"{element_words(label, first.index)} ({place_words(first.side)}), "
        f"and {whose} has length {first.length}."
    )
    if len(first.threads) > 1:
        least = "" if first.complete else "at least "
        text += f" So do {least}{len(first.threads)} threads."
    severity, outcome = _judged(context, first, a, at, inside, change)
    return Finding(
        rule=OutOfBounds.code,
        severity=severity,
        message=f"{text} {outcome}",
        launches=list(dict.fromkeys(item.launch for item in group)),
        arrays=[label],
        location=place_of(first.side.span),
        call_site=launch.call_site,
        evidence={
            "element": list(first.index),
            "axis": first.axis,
            "length": first.length,
            "thread": first.side.thread,
            "threads": len(first.threads),
            "access": first.side.kind,
            "byte": at,
            "buffer_bytes": a.region.nbytes,
            "inside_buffer": inside,
            "loss_change": change,
        },
        fix=_fix(launch.name, record.dim, first, label),
    )


def _fix(kernel: str, dim: tuple[int, ...], item: OutOfBoundsAccess, label: str) -> str:
    """Return the fix: for an index that is the thread's own, a launch size that fits."""
    index, length = item.index[item.axis], item.length
    thread = np.unravel_index(item.side.thread, dim) if item.side.thread < math.prod(dim) else ()
    own = [axis for axis, place in enumerate(thread) if place == index and dim[axis] > length > 0]
    if len(own) != 1:
        return f"test the index before {label} is used, make the array larger, or launch fewer threads"
    sizes = tuple(length if axis == own[0] else size for axis, size in enumerate(dim))
    fitting = sizes[0] if len(sizes) == 1 else sizes
    return f"launch {kernel} with dim={fitting}, which fits {label}, or test the index before {label} is used"


def _judged(
    context: RuleContext, item: OutOfBoundsAccess, a: Array, at: int, inside: bool, change: float | None
) -> tuple[Severity, str]:
    done = {"read": "was read", "write": "was written"}.get(item.side.kind, "was changed")
    if not inside:
        past = at + _item_size(a) - a.region.nbytes
        where = f"{past} bytes past the end" if past > 0 else f"{-at} bytes before the start"
        return "error", f"Memory {where} of the array's own {done}: whatever is there."
    whose = _owner(context, a, at)
    if change is None:
        return "warning", f"Within the same memory {whose} {done} instead."
    if change > FLOAT64_RUNS_DIFFER:
        return (
            "error",
            f"Within the same memory {whose} {done} instead; without those threads the loss changes by "
            f"{words.percent(change)}.",
        )
    return (
        "warning",
        f"Within the same memory {whose} {done} instead; the loss does not depend on that.",
    )


def _owner(context: RuleContext, a: Array, at: int) -> str:
    """Return the array and the element at a byte of a buffer, in words."""
    replay, arrays = context.rerun, context.trace.arrays
    scalar = a.scalar_dtype.itemsize
    for known, info in sorted(zip(replay.arrays, arrays, strict=True), key=lambda pair: pair[0] is not a):
        start = known.offset
        if known.region is a.region and known.start <= at < known.stop and known.dtype_name == a.dtype_name:
            index = element_of(known, (at - start) // scalar)
            if start + sum(i * s for i, s in zip(index, known.strides, strict=True)) == at:
                return element_words(info.label, index)
    return f"what lies at byte {at}"


def _item_size(a: Array) -> int:
    """Return the size of an element in bytes."""
    return a.scalar_dtype.itemsize * math.prod(a.element_shape)

"""Finds operations without a derivative at their operands: lengths at zero, repeated singular values.

There a gradient of 0, or of any size, is no error of an adjoint; the fix is to rewrite the expression.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tapedebug.autograd.thresholds import SINGULAR_VALUES_NEAR
from tapedebug.contract import Array, KernelOperations, Place, Values
from tapedebug.diagnose import wording as words
from tapedebug.diagnose.experiments.places import location_at
from tapedebug.diagnose.experiments.replay import Replay, perturbed
from tapedebug.diagnose.rule_context import RuleContext
from tapedebug.diagnose.trace_analysis.kernel_source import code_at
from tapedebug.trace import Location

SINGULAR = {
    "norm_of_square": "the length of a vector, which has no derivative at zero",
    "acos": "acos, which has no finite derivative at 1 and -1",
    "asin": "asin, which has no finite derivative at 1 and -1",
    "atan2": "atan2, which has no derivative at the origin",
    "abs": "abs, which has no derivative at zero",
}
FIXES = {
    "norm_of_square": (
        "write it so that the derivative exists there: take wp.normalize(v) and wp.length(v) of the same "
        "vector in this kernel, whose products have theirs, or add a small constant to the squared length"
    ),
    "acos": "take the angle by wp.atan2 of sine and cosine, or by wp.quat_to_axis_angle",
    "asin": "take the angle by wp.atan2 of sine and cosine",
}
OTHER_FIX = "write it with a function that is smooth there, or begin beside that point"
BESIDE = 1e-3
"""Relative displacement of inputs to test if a gradient is 0 at one point only."""


def zero_only_here(context: RuleContext, leaf: int, index: int) -> tuple[str, str, Location | None] | None:
    """Return the operations that make a gradient 0 at this point only: words, fix, and line of the first.

    None if the gradient is also 0 beside the point, or if the launch's kernel has no such operation.
    """
    replay = context.replay
    if replay is None:
        return None
    kernel = replay.records[index].capability(KernelOperations)
    found = [] if kernel is None else list(_operations(kernel))
    if not found or not _is_alive_beside(replay, replay.arrays[leaf]):
        return None
    kinds = dict.fromkeys(kind for kind, _ in found)
    lines = dict.fromkeys(_place(span) for _, span in found)
    text = f"It takes {words.listed([SINGULAR[k] for k in kinds])} ({words.listed(lines)}); 0 is taken there"
    fix = next((FIXES[k] for k in kinds if k in FIXES), OTHER_FIX)
    return f"{text}, and beside that point the gradient is not 0.", fix, location_at(found[0][1])


def _operations(kernel: KernelOperations) -> Iterator[tuple[str, Place]]:
    """Yield the operations of a kernel that are in `SINGULAR`, each line once."""
    seen: set[tuple[str, int]] = set()
    for op in kernel.operations():
        if op.kind in SINGULAR and op.span is not None and (op.kind, op.span.line) not in seen:
            seen.add((op.kind, op.span.line))
            yield op.kind, op.span


def _is_alive_beside(replay: Replay, array: Array) -> bool:
    """Return True if the gradient of an array is not 0 for slightly displaced values."""
    shadow = replay.twin()
    values = shadow.forward(stop=0).values(array)
    for side in (BESIDE, -BESIDE):  # beyond 1, acos is flat
        shadow.forward(stop=0).set(array, perturbed(values, side))
        shadow.forward(start=0).backward(replay.seeds, consume="versions")
        if np.any(shadow.gradient(array)):
            return True
    return False


def repeated_values(context: RuleContext, index: int) -> tuple[str, str] | None:
    """Return words about a launch that decomposes a matrix with (nearly) repeated values, and a fix."""
    replay = context.replay
    kernel = None if replay is None else replay.records[index].capability(KernelOperations)
    if replay is None or kernel is None:
        return None
    record = replay.records[index]
    span = _decomposition(kernel)
    if span is None:
        return None
    flow = replay.flow(index, "versions")
    gaps = [gap for p in record.reads if p in flow.values for gap in _gaps(flow.values[p])]
    if not gaps or not min(gaps) < SINGULAR_VALUES_NEAR:
        return None
    gap = min(gaps)
    how = "are equal" if gap < 1e-12 else f"differ by {words.number(gap)} of their size"
    text = (
        f"It decomposes a matrix ({_place(span)}) of which two singular values {how}: the vectors that "
        "belong to them have no derivative, or one that rounding changes"
    )
    fix = (
        "combine the factors in the kernel that computes them, as in U * wp.diag(S) * wp.transpose(V): what "
        "does not depend on the choice of vectors has its derivative there; or keep the values apart"
    )
    return text, fix


def _decomposition(kernel: KernelOperations) -> Place | None:
    spans = (op.span for op in kernel.operations() if op.kind == "differentiated_as")
    return next((span for span in spans if span is not None), None)


def _gaps(values: Values) -> list[float]:
    """Return the relative gaps of neighbouring singular values of the matrices in an array."""
    shape = np.shape(values)
    if len(shape) < 2 or shape[-1] != shape[-2] or shape[-1] not in (2, 3):
        return []
    matrices = np.asarray(values, np.float64).reshape(-1, *shape[-2:])
    matrices = matrices[np.isfinite(matrices).all(axis=(1, 2))]
    if not len(matrices):
        return []
    sigma = np.linalg.svd(matrices, compute_uv=False)
    size = np.maximum(sigma[:, :1], np.finfo(np.float64).tiny)
    return [float(np.min((sigma[:, :-1] - sigma[:, 1:]) / size))]


def _place(span: Place) -> str:
    location = location_at(span)
    code = code_at(location).strip()
    return f"line {span.line}: `{code}`" if code else f"line {span.line}"

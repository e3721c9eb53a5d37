"""Compact summaries of values that count NaN and Inf exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tapedebug.trace.model import Histogram, Summary

BINS = 16
BLOCK = 1 << 14
"""Elements that are processed together: their float64 values fit in the cache."""
TAME = 1e100
"""Squares of numbers between this and its inverse, and their sums, neither overflow nor underflow."""


def summarise(values: np.ndarray[Any, Any]) -> Summary:
    """Return the summary of `values`, of any shape and any numeric dtype. Statistics are in float64."""
    flat = np.asarray(values).ravel()
    summary = Summary(count=flat.size)
    low, high, finite = math.inf, -math.inf, 0
    for block, nan in _finite_blocks(flat):
        summary.nan += nan
        finite += block.size
        if block.size:
            low, high = min(low, float(block.min())), max(high, float(block.max()))
    summary.inf = flat.size - finite - summary.nan
    if not finite:
        return summary
    summary.min, summary.max = low, high
    _add_moments(summary, flat, low, high, finite)
    return summary


def _finite_blocks(flat: np.ndarray[Any, Any]) -> Iterator[tuple[np.ndarray[Any, Any], int]]:
    """Yield the finite values of each block as float64, and the number of NaN in the block."""
    for start in range(0, flat.size, BLOCK):
        block = flat[start : start + BLOCK].astype(np.float64)
        sound = np.isfinite(block)
        if sound.all():
            yield block, 0
        else:
            yield block[sound], int(np.isnan(block).sum())


def _add_moments(summary: Summary, flat: np.ndarray[Any, Any], low: float, high: float, finite: int) -> None:
    """Set mean, norm and histogram of the finite values, which lie between `low` and `high`."""
    largest = max(abs(low), abs(high))
    scale = largest if largest and not 1 / TAME < largest < TAME else 1.0
    total, squares = 0.0, 0.0
    spread = high - low
    bins = np.zeros(BINS, np.int64)
    for block, _ in _finite_blocks(flat):
        scaled = block / scale if scale != 1.0 else block
        total += float(scaled.sum())
        squares += float(np.square(scaled).sum())  # not a dot product, which may wait for BLAS threads
        if spread and math.isfinite(spread):
            position = np.minimum((block - low) * (BINS / spread), BINS - 1).astype(np.intp)
            bins += np.bincount(np.maximum(position, 0), minlength=BINS)
        else:  # one value, or a range that overflows float64
            bins[0] += block.size
    summary.mean = scale * (total / finite)
    summary.norm = scale * math.sqrt(squares)
    summary.histogram = Histogram(low=low, high=high, counts=bins.tolist())

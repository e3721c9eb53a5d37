"""Summaries of values: small, and never wrong about NaN and Inf."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapedebug.trace.model import Histogram, Summary

BINS = 16


def summarise(values: np.ndarray[Any, Any]) -> Summary:
    """Return the summary of `values`, of any shape and any numeric dtype. Statistics are in float64."""
    flat = np.asarray(values, dtype=np.float64).ravel()
    finite = flat[np.isfinite(flat)]
    nan = int(np.isnan(flat).sum())
    summary = Summary(count=flat.size, nan=nan, inf=flat.size - finite.size - nan)
    if not finite.size:
        return summary
    low, high = float(finite.min()), float(finite.max())
    summary.min, summary.max = low, high
    scale = max(abs(low), abs(high))
    if scale == 0:
        summary.mean = summary.norm = 0.0
    else:  # scaled first: squares and sums near the largest or smallest float64 must not over- or underflow
        scaled = finite / scale
        summary.mean = scale * float(np.mean(scaled))
        summary.norm = scale * math.sqrt(float(np.sum(np.square(scaled))))
    summary.histogram = _histogram(finite, low, high)
    return summary


def _histogram(finite: np.ndarray[Any, Any], low: float, high: float) -> Histogram:
    if high > low and math.isfinite(high - low):
        position = (finite - low) * (BINS / (high - low))
        bins = np.minimum(position.astype(np.int64), BINS - 1)
    else:  # one value, or a range that float64 can not express
        bins = np.zeros(finite.size, dtype=np.int64)
    counts = np.bincount(np.maximum(bins, 0), minlength=BINS)
    return Histogram(low=low, high=high, counts=[int(count) for count in counts])

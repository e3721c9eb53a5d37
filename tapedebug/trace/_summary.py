"""Summaries of values: small, and never wrong about NaN and Inf."""

from __future__ import annotations

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
    # Halved before they are added: the sum of values near the largest float64 must not overflow.
    summary.mean = float(np.mean(finite / 2) * 2) if finite.size else None
    scale = max(abs(low), abs(high))
    summary.norm = float(scale * np.sqrt(np.sum(np.square(finite / scale)))) if scale > 0 else 0.0
    summary.histogram = _histogram(finite, low, high)
    return summary


def _histogram(finite: np.ndarray[Any, Any], low: float, high: float) -> Histogram:
    if high > low and np.isfinite(high - low):
        position = (finite - low) * (BINS / (high - low))
        bins = np.minimum(position.astype(np.int64), BINS - 1)
    else:  # one value, or a range that float64 can not express
        bins = np.zeros(finite.size, dtype=np.int64)
    counts = np.bincount(np.maximum(bins, 0), minlength=BINS)
    return Histogram(low=low, high=high, counts=[int(count) for count in counts])

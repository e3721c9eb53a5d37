"""Finds non-finite numbers in the summaries of a trace, without a replay."""

from __future__ import annotations

from tapedebug._dataclass import dataclass
from tapedebug.trace import Summary, Trace


@dataclass(frozen=True)
class NonfiniteValue:
    """The first launch that writes a non-finite value; None if none does."""

    launch: int | None


def first_nonfinite_value(trace: Trace) -> NonfiniteValue | None:
    """Return the first launch that writes a non-finite value; None if summaries are missing."""
    written = [version for version in trace.versions if version.written_by is not None]
    if any(version.value is None for version in written):
        return None
    bad = [item.written_by for item in written if not _is_finite(item.value) and item.written_by is not None]
    return NonfiniteValue(min(bad, default=None))


def adjoints_are_finite(trace: Trace) -> bool:
    """Return True if the adjoints of all versions with a gradient were summarised and are finite.

    A non-finite number stays in an adjoint until the adjoint is complete, so partial sums are finite, too.
    """
    with_gradient = [
        version
        for version in trace.versions
        if trace.arrays[version.array].requires_grad and (version.written_by is not None or version.reads)
    ]
    return all(item.adjoint is not None and _is_finite(item.adjoint) for item in with_gradient)


def _is_finite(summary: Summary | None) -> bool:
    return summary is not None and not (summary.nan or summary.inf)

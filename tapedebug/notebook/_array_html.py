"""Arrays as static HTML: type, values and gradient."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.lang.types import type_name
from tapedebug.runtime import array as Array
from tapedebug.runtime import indexedarray
from tapedebug.runtime.tape.tape_arrays import gradient_in_memory
from tapedebug.trace.summaries import summarise

if TYPE_CHECKING:
    from tapedebug.trace.model import Histogram, Summary

MOST_VALUES = 64
"""Largest number of scalars for which all values are shown."""

MOST_SUMMARISED = 1 << 26
"""Largest size in bytes for which values are summarised: display must take no noticeable time."""

WIDTH, HEIGHT = 96.0, 24.0

STYLE = """
.td-array {
  --td-fg: var(--jp-ui-font-color0, #1b2027); --td-fg-2: var(--jp-ui-font-color2, #58616d);
  --td-border: var(--jp-border-color2, #d4d9e0); --td-bar: #3f6fd8; --td-red: #b71c24;
  color: var(--td-fg);
  font: 12px/1.45 var(--jp-ui-font-family, system-ui, -apple-system, "Segoe UI", sans-serif);
  max-width: 900px; padding: 2px;
}
@media (prefers-color-scheme: dark) { :root:not(:has([data-jp-theme-light])) .td-array {
  --td-fg: #e8eaee; --td-fg-2: #9aa3b0; --td-border: #2c323b; --td-bar: #7ea2f0; --td-red: #ff7d80; } }
[data-jp-theme-light="false"] .td-array, .vscode-dark .td-array, [data-theme="dark"] .td-array {
  --td-fg: var(--jp-ui-font-color0, #e8eaee); --td-fg-2: var(--jp-ui-font-color2, #9aa3b0);
  --td-border: var(--jp-border-color2, #2c323b); --td-bar: #7ea2f0; --td-red: #ff7d80; }
.td-array p { margin: 0 0 4px; }
.td-array .td-dim { color: var(--td-fg-2); }
.td-array .td-bad { color: var(--td-red); font-weight: 600; }
.td-array table { border-collapse: collapse; border: none; margin: 0; font-size: 12px; color: inherit; }
.td-array th, .td-array td {
  border: none; border-bottom: 1px solid var(--td-border); padding: 3px 14px 3px 0; text-align: left;
  background: none; white-space: nowrap; font-variant-numeric: tabular-nums; vertical-align: middle;
}
.td-array th { color: var(--td-fg-2); font-weight: 600; }
.td-array svg { display: block; }
.td-array rect { fill: var(--td-bar); }
.td-array pre {
  color: inherit; background: none; margin: 6px 0 0; padding: 0; overflow-x: auto;
  font: 12px/1.4 var(--jp-code-font-family, ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace);
}
"""


def array_html(array: Array | indexedarray) -> str:
    """Return an array as HTML for a notebook. Displaying it does not count as a read in diagnoses."""
    values = _values_of(array)
    facts = [
        _type_name(array.dtype),
        f"shape {tuple(array.shape)!r}",
        _bytes(array.size * array.item_size if hasattr(array, "item_size") else values.nbytes),
        "requires_grad" if getattr(array, "requires_grad", False) else "no gradient",
    ]
    said = f'<span class="td-dim">{escape(" · ".join(facts))}</span>'
    parts = [f"<p><strong>{escape(type(array).__name__)}</strong> {said}</p>"]
    if values.dtype.names is not None:
        parts.append('<p class="td-dim">an array of structs: its fields are arrays of their own</p>')
        return _whole(parts)
    gradient = _gradient(array)
    if values.nbytes > MOST_SUMMARISED:
        parts.append('<p class="td-dim">too large to summarise at a glance</p>')
    elif values.size == 0:
        parts.append('<p class="td-dim">empty</p>')
    else:
        rows = [_row("value", summarise(values))]
        if gradient is not None:
            rows.append(_row("gradient", summarise(gradient)))
        head = "".join(f"<th>{name}</th>" for name in ("", "min", "max", "mean", "norm", "not finite", ""))
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>")
    if getattr(array, "requires_grad", False) and gradient is None:
        parts.append('<p class="td-dim">nothing has written its gradient yet</p>')
    if 0 < values.size <= MOST_VALUES:
        parts.append(f"<pre>{escape(np.array2string(values, precision=6, max_line_width=100))}</pre>")
    return _whole(parts)


def _whole(parts: list[str]) -> str:
    return f'<style>{STYLE}</style><div class="td-array">{"".join(parts)}</div>'


def _values_of(array: Array | indexedarray) -> Any:
    return array._numpy_view() if hasattr(array, "_numpy_view") else array.numpy()


def _gradient(array: Array | indexedarray) -> Any:
    """Return the gradient, if memory for it exists: access to `.grad` would allocate it."""
    gradient = gradient_in_memory(array) if isinstance(array, Array) else None
    return None if gradient is None else gradient._numpy_view()


def _type_name(dtype: object) -> str:
    return type_name(dtype)


def _row(name: str, summary: Summary) -> str:
    bad = []
    if summary.nan:
        bad.append(f"{summary.nan:,} NaN")
    if summary.inf:
        bad.append(f"{summary.inf:,} Inf")
    lost = f'<span class="td-bad">✕ {", ".join(bad)}</span>' if bad else "0"
    if summary.nan + summary.inf == summary.count:
        numbers = ["–"] * 4
    else:
        numbers = [f"{number:.6g}" for number in (summary.min, summary.max, summary.mean, summary.norm)]
    cells = "".join(f"<td>{cell}</td>" for cell in (*numbers, lost, _histogram(summary.histogram)))
    return f"<tr><th>{name}</th>{cells}</tr>"


def _histogram(histogram: Histogram | None) -> str:
    """Return a small bar chart, with a title that describes it in words."""
    if histogram is None or not sum(histogram.counts):
        return ""
    step, top = WIDTH / len(histogram.counts), max(histogram.counts)
    bars = "".join(
        f'<rect x="{i * step:.1f}" y="{HEIGHT - (tall := max(1.0, HEIGHT * count / top)):.1f}" '
        f'width="{step - 1:.1f}" height="{tall:.1f}"/>'
        for i, count in enumerate(histogram.counts)
        if count
    )
    title = f"histogram from {histogram.low:.6g} to {histogram.high:.6g}"
    return (
        f'<svg role="img" width="{WIDTH:.0f}" height="{HEIGHT:.0f}" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}">'
        f"<title>{escape(title)}</title>{bars}</svg>"
    )


def _bytes(count: int) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:.3g} GB"

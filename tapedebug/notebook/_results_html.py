"""Results without a panel as static HTML: Jacobians, end-to-end and second-order checks."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.autograd.finite_diff.compared_entries import ComparedEntries
from tapedebug.autograd.hessian import HessianCheck
from tapedebug.autograd.plots import matrix_of
from tapedebug.autograd.results.heatmap import Blocks, heat_map
from tapedebug.autograd.results.html import badge
from tapedebug.autograd.results.html_style import STYLE
from tapedebug.autograd.results.pair_result import Layout

if TYPE_CHECKING:
    from tapedebug.autograd.finite_diff.compared_entries import ComparedEntries
    from tapedebug.autograd.sparse.jacobian_dict import Jacobians, Key
    from tapedebug.autograd.tapes.end_to_end import EndToEnd

Shapes = tuple[tuple[int, ...], tuple[int, ...], int, int]
"""Shapes of output and input, and their numbers of components."""

MOST_SHOWN = 12
"""Largest number of Jacobians with pictures."""

MOST_ENTRIES = 1 << 22
"""Largest number of entries of a Jacobian with a picture."""


def jacobians_html(found: Jacobians) -> str:
    """Return heat maps of Jacobians, with their shapes, signs and largest entries."""
    parts: list[str] = []
    for (key, matrix), names, shapes in list(zip(found.items(), found._names, found._shapes, strict=True))[
        :MOST_SHOWN
    ]:
        parts += _jacobian(key, matrix, names, shapes)
    if len(found) > MOST_SHOWN:
        parts.append(f'<p class="td-more">{len(found) - MOST_SHOWN} more are not shown.</p>')
    runs = f"computed in {found.runs:,} run{'s' * (found.runs != 1)}"
    notes = "".join(f"<li>{escape(str(note)[:400])}</li>" for note in found.notes[:MOST_SHOWN])
    parts.append(f'<p class="td-facts">{runs}</p>' + (f'<ul class="td-notes">{notes}</ul>' if notes else ""))
    return _styled(parts)


def _jacobian(key: Key, matrix: Any, names: tuple[str, str], shapes: Shapes) -> Iterator[str]:
    title = f"d {names[1][:200]} / d {names[0][:200]}"
    layout = Layout(*shapes)
    compared = _entries(matrix)
    if compared is None:
        shape = " × ".join(f"{size:,}" for size in matrix.shape)
        yield f'<p class="td-title"><b>{escape(title)}</b> <span>{shape}: too large for a picture</span></p>'
        return
    rows, columns = compared.shape
    yield (
        f'<div class="td-pair"><div class="td-title"><b>{escape(title)}</b> '
        f"<span>[{escape(str(key[0]))}, {escape(str(key[1]))}] · {rows:,} × {columns:,} scalars</span></div>"
    )
    blocks = Blocks.of(compared)
    picture = heat_map(blocks.signed(blocks.ad), blocks, layout, f"entries of {title}", None)
    facts = "<br>".join(escape(fact) for fact in _facts(compared, blocks.reduced))
    yield f'<div class="td-maps"><figure>{picture}</figure><div class="td-legend"><p>{facts}</p>'
    yield (
        f'<p><span class="td-key td-key-plus"></span> to {blocks.largest():.3g} '
        f'<span class="td-key td-key-minus"></span> to −{blocks.largest():.3g}</p></div></div></div>'
    )


def _entries(matrix: Any) -> ComparedEntries | None:
    """Return the evaluated entries in the form of checks; None if there are too many."""
    if hasattr(matrix, "tocoo"):
        stored = matrix.tocoo()
        rows, columns, values = stored.row, stored.col, np.asarray(stored.data, np.float64)
        shape, zeros = stored.shape, True
    else:
        dense = np.asarray(matrix_of(matrix), np.float64)
        if dense.size > MOST_ENTRIES:
            return None
        rows, columns = np.nonzero(~np.isnan(dense))
        values, shape, zeros = dense[rows, columns], dense.shape, False
    if len(values) > MOST_ENTRIES:
        return None
    places = np.asarray(rows, np.int64), np.asarray(columns, np.int64)
    return ComparedEntries(shape, *places, values, values, np.zeros_like(values), zeros)


def _facts(compared: ComparedEntries, reduced: bool) -> Iterator[str]:
    values = compared.ad
    total = compared.shape[0] * compared.shape[1]
    finite = np.isfinite(values)
    yield f"{int((values != 0).sum()):,} of {total:,} entries are not zero"
    if finite.any():
        at = int(np.argmax(np.where(finite, np.abs(values), -1.0)))
        yield f"largest {values[at]:.6g} at [{compared.rows[at]}, {compared.columns[at]}]"
    if not compared.zeros and len(values) < total:
        yield f"{total - len(values):,} are NaN: not evaluated, or not a number"
    if not finite.all():
        yield f"✕ {int((~finite).sum()):,} are not finite"
    if reduced:
        yield "each cell: the largest entry of a block"


def check_html(result: EndToEnd | HessianCheck) -> str:
    """Return an `EndToEnd` or a `HessianCheck` as HTML: its verdict and the underlying numbers."""
    if isinstance(result, HessianCheck):
        numbers = (("⟨u, H v⟩", result.forward), ("⟨v, H u⟩", result.reverse), ("difference", result.fd))
        rows = [f"<tr><th>{name}</th><td>{value:.9g}</td></tr>" for name, value in numbers]
        rows.append(f"<tr><th>error bar</th><td>{result.bar:.2g}</td></tr>")
        title = f"{badge(result.verdict)} <strong>Second derivatives</strong>"
        return _styled([f'<div class="td-head">{title}</div>', _message(result.message), _table(rows)])
    rows = [
        f"<tr><td>{badge(check.verdict)}</td><th>{escape(check.name[:200])}</th>"
        f"<td>{check.rel_error:.3g}</td><td>{escape(check.message[:400])}</td></tr>"
        for check in result.inputs[:100]
    ]
    head = "<tr><th>Verdict</th><th>Input</th><th>Relative error</th><th></th></tr>"
    title = f"{badge(result.verdict)} <strong>Gradient of the whole tape</strong>"
    return _styled(
        [f'<div class="td-head">{title}</div>', _message(str(result.coverage)), _table([head, *rows])]
    )


def _message(text: str) -> str:
    return f'<p class="td-message">{escape(text[:4000])}</p>'


def _table(rows: list[str]) -> str:
    return f'<div class="td-scroll"><table>{"".join(rows)}</table></div>'


def _styled(parts: list[str]) -> str:
    return f'<style>{STYLE}</style><div class="td-check">{"".join(parts)}</div>'

"""The summary table of the documents, as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

HEADER = ("Input", "Output", "Max Abs Error", "AD at MAE", "FD at MAE", "Max Rel Error", "Pass")
"""Of Warp 1.19; the columns that the documents show are among them."""


def format_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Align `rows` under `header`, columns separated by `|`, with a rule under the header."""
    lines = [tuple(header), *map(tuple, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    text = [
        " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]
    rule = "-+-".join("-" * width for width in widths)
    return "\n".join([text[0], rule, *text[1:]])


def number(value: float) -> str:
    """A number as in Warp's table, `1.513e-03`."""
    return f"{value:.3e}"

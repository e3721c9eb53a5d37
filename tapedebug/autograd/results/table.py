"""The summary table of Warp's API, as plain text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

HEADER = ("Input", "Output", "Max Abs Error", "AD at max", "FD at max", "Max Rel Error", "Pass")
"""Column names of Warp 1.19, two of them plainer; all columns in Warp's documentation are included."""

MEANINGS = {
    "Max Abs Error": "largest difference of an entry of the Jacobian, and where: (row, column)",
    "AD at max": "that entry by automatic differentiation, the gradient under test",
    "FD at max": "that entry by finite differences, the reference",
    "Max Rel Error": "largest difference of an entry, relative to the entry",
}
"""Column → meaning, for tooltips."""


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
    """Return a number formatted as in Warp's table, `1.513e-03`."""
    return f"{value:.3e}"

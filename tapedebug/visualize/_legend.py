"""The legend of a drawing: the meaning of each mark that occurs in it."""

from __future__ import annotations

from collections.abc import Sequence

from tapedebug.visualize._text import text

GREEN = "#c8e6c9"
GREY = "#e0e0e0"
ORANGE = "#e65100"
RED = "#c62828"
BOX = "#d5d5d5"
CUT = "✂"
SENTENCE = 200
"""Largest number of characters of an explanation."""


def legend(rows: Sequence[tuple[str, str, str]], notes: Sequence[str] = ()) -> str:
    """Return the label of a graph: a table of swatches (fill, border) with words, and sentences below."""
    lines = [
        f'<TR><TD BGCOLOR="{fill}" BORDER="2" COLOR="{border}" WIDTH="22"></TD>'
        f'<TD ALIGN="LEFT">{text(words, SENTENCE)}</TD></TR>'
        for fill, border, words in rows
    ]
    lines += [f'<TR><TD COLSPAN="2" ALIGN="LEFT">{text(note, SENTENCE)}</TD></TR>' for note in notes]
    table = f'<TABLE BORDER="0" CELLSPACING="3" CELLPADDING="2">{"".join(lines)}</TABLE>'
    return f"  label=<{table}>; labelloc=b; labeljust=l; fontsize=10;"

"""Reads and writes of arrays by native snippets, from their C++ text.

An array that the text uses other than by `name[index]`, for instance by passing it on or by taking an
address or a reference, counts as read and written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tapedebug._dataclass import dataclass
from tapedebug.watch.kernel_accesses import ANYTHING, READ, Use

COMMENTS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"', re.DOTALL)
REFERRED_TO = re.compile(r"(?<!const )(?<!\w)[\w:]+\s*&{1,2}\s*\w+\s*=$|\bswap\s*\([^()]*$")
"""The text before an element that gets another name, by which it may be written, or that is exchanged."""
ASSIGNED = re.compile(r"\s*(=(?!=)|(?:\+|-|\*|/|%|&|\||\^|<<|>>)=|\+\+|--)")


@dataclass(frozen=True, slots=True)
class NativeFunction:
    """A function of the user in C++.

    Attributes:
        params: The names of its parameters.
        forward: The texts that run forward: the snippet, and the one that replays it.
        adjoint: The text of its adjoint; empty if it has none.
    """

    params: Sequence[str]
    forward: Sequence[str]
    adjoint: str

    def uses(self, name: str) -> Use:
        """Return the use of an array parameter. Its adjoint may read what the function has written."""
        found = Use()
        for text in self.forward:
            for use in _uses(name, text):
                _join(found, use)
        if any(True for _ in _uses(name, self.adjoint)):
            found.reads |= not found.writes
            found.left |= found.writes
        return found


def _join(found: Use, other: Use) -> None:
    found.reads |= other.reads
    found.writes |= other.writes
    found.left |= other.left


def _uses(name: str, text: str) -> Iterator[Use]:
    """Yield the use that each occurrence of an array in a text makes of it."""
    text = COMMENTS.sub(" ", text)
    for match in re.finditer(rf"(?<![\w.])(?<!->){re.escape(name)}(?!\w)", text):
        before, at = text[: match.start()].rstrip(), match.end()
        end = _after_index(text, at)
        if end is None or before.endswith(("&", "++", "--")) or REFERRED_TO.search(before):
            yield ANYTHING
            continue
        assigned = ASSIGNED.match(text, end)
        if assigned is None:
            yield ANYTHING if text[end:].lstrip().startswith(("[", ".")) else READ
        else:
            yield Use(reads=assigned[1] != "=", writes=True, left=assigned[1] != "=")


def _after_index(text: str, at: int) -> int | None:
    """Return the position after `[index]`; None if no index in brackets follows."""
    start = len(text) - len(text[at:].lstrip())
    if text[start : start + 1] != "[":
        return None
    depth = 0
    for position in range(start, len(text)):
        depth += {"[": 1, "]": -1}.get(text[position], 0)
        if not depth:
            return position + 1
    return None

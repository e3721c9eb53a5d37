"""Every argument of the seed documents' functions, one a row of `arguments.txt`: theirs, ours, a test.

A line `= title = place` begins a function: what the document calls it, and where ours is in tapedebug. A row
is

    name | what the document says | the test under tests/ | what is to be said of ours

`name` is an argument, and what the document says its default, or "required"; or it is "returns", "raises" or
"note". `name → other` is called otherwise here; `name !` has another default here, and the last column says
why. A bar within a formula is written ¦.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

SOURCE = Path(__file__).with_name("arguments.txt")
REQUIRED = "required"
PROMISES = {"returns", "raises", "note"}


@dataclass(frozen=True)
class Row:
    """One argument, or something else that a document promises of its function."""

    name: str
    document: str
    test: str
    remark: str = ""
    ours: str = ""
    differs: bool = False

    @property
    def is_argument(self) -> bool:
        """True if it is a reason, and not a promise."""
        return self.name not in PROMISES

    @classmethod
    def read(cls, line: str) -> Row:
        """The row of a line."""
        name, document, test, remark = (*(cell.strip() for cell in line.split("|")), "")[:4]
        name, _, ours = name.removesuffix(" !").partition(" → ")
        differs = line.partition("|")[0].strip().endswith("!")
        return cls(name, document.replace("¦", "|"), test, remark, ours or name, differs)


@dataclass(frozen=True)
class Function:
    """One function of a document: its title there, our name for it, its arguments in the document's order."""

    title: str
    ours: str
    rows: list[Row] = field(default_factory=list)


def read() -> list[Function]:
    """All functions, in the order of the file."""
    found: list[Function] = []
    for line in SOURCE.read_text(encoding="utf-8").splitlines():
        if line.startswith("="):
            _, title, ours = (part.strip() for part in line.split("="))
            found.append(Function(title, ours))
        elif line.strip() and not line.startswith("#"):
            found[-1].rows.append(Row.read(line))
    return found


TABLE = read()

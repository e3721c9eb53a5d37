"""The notebook cell that the name ``In [4]`` in a trace denotes, and its text when it ran.

IPython has the numbers of cells, Jupyter their ids. A trace uses the displayed file names (``In [4]``), so
the number connects the two.
"""

from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING, Any

from tapedebug import _shell
from tapedebug._dataclass import dataclass

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionResult, InteractiveShell

MOST_CELLS = 2_000
"""Number of executions that are stored; a kernel may run for weeks."""

_NAME = re.compile(r"In \[(\d+)\]")


@dataclass(frozen=True)
class CellSource:
    """One execution: its number, the text in the notebook, and the cell's id if the front end sent one."""

    number: int
    source: str
    id: str | None

    @property
    def lines(self) -> list[str]:
        """The lines of the text."""
        return self.source.splitlines()

    def line_of(self, line: int) -> int:
        """Return the line of the text for compiled line `line`: IPython drops leading blank lines."""
        return line + self._dropped

    def holds(self, line: int, lines: list[str]) -> bool:
        """True if the text has these lines at the place of compiled line `line`."""
        first = self.line_of(line) - 1
        return first >= 0 and bool(lines) and self.lines[first : first + len(lines)] == list(lines)

    @property
    def _dropped(self) -> int:
        lines = self.lines
        above = _blank(lines)
        if above < len(lines) and lines[above].startswith("%%"):
            above += _blank(lines[above + 1 :])
        return above


class CellSources:
    """The executions of one shell."""

    def __init__(self) -> None:
        self._cells: dict[int, CellSource] = {}
        self._shells: weakref.WeakSet[Any] = weakref.WeakSet()

    def install(self, shell: InteractiveShell) -> None:
        """Follow the cells of an IPython shell; once for each shell."""
        if shell not in self._shells:
            self._shells.add(shell)
            shell.events.register("post_run_cell", self._ran)

    def find(self, file: str) -> CellSource | None:
        """Return the execution with the name `file` in a trace; None if it is not a cell, or too old."""
        found = _NAME.fullmatch(file)
        if found is None:
            return None
        number = int(found[1])
        return self._cells.get(number) or _from_history(number)

    def _ran(self, result: ExecutionResult) -> None:
        info = getattr(result, "info", None)
        number = getattr(result, "execution_count", None)
        if info is None or number is None or not info.store_history:
            return
        id = getattr(info, "cell_id", None) or _shell.cell_id()
        self._cells[number] = CellSource(number, info.raw_cell, str(id) if id else None)
        while len(self._cells) > MOST_CELLS:
            del self._cells[next(iter(self._cells))]


def _from_history(number: int) -> CellSource | None:
    """Return a cell that ran before ``%load_ext``, from IPython's history: its text without an id."""
    history = getattr(getattr(_shell.current(), "history_manager", None), "input_hist_raw", [])
    source = history[number] if 0 < number < len(history) else ""
    return CellSource(number, source, None) if source else None


def _blank(lines: list[str]) -> int:
    """Return the number of blank lines at the beginning."""
    return next((i for i, line in enumerate(lines) if line.strip()), 0)


cells = CellSources()

"""Execution of the code below a cell magic as the cell would run without the magic."""

from __future__ import annotations

import ast
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


class CellCode:
    """The code under a cell magic, with the line numbers and the name (``In [4]``) of the whole cell.

    Raises:
        UsageError: It is not Python; the message points at the place. A SyntaxError would be shown with all
            of IPython's frames and ours.
    """

    def __init__(self, magic: str, shell: InteractiveShell, cell: str) -> None:
        __tracebackhide__ = True
        self._shell = shell
        try:
            # the line of the magic is line 1 of the cell
            source = "\n" + shell.transform_cell(cell)
            self.name = shell.compile.cache(source, number=_cell_number(shell), raw_code=source)
            self._module = shell.compile.ast_parse(source, filename=self.name)
        except SyntaxError as error:
            from IPython.core.error import UsageError

            raise UsageError(_pointed(magic, error)) from None

    def run(self) -> Any:
        """Run it in the user's namespace; return the value of its last expression, or None."""
        __tracebackhide__ = True
        body = self._module.body
        last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
        globals_, locals_ = self._shell.user_global_ns, self._shell.user_ns
        exec(self._shell.compile(self._module, self.name, "exec"), globals_, locals_)
        if last is None:
            return None
        expression = ast.Expression(last.value)
        return eval(self._shell.compile(expression, self.name, "eval"), globals_, locals_)


def _pointed(magic: str, error: SyntaxError) -> str:
    """Return the syntax error of a cell as a message, with its line and a caret."""
    message = f"{magic}: line {error.lineno} of this cell is not Python: {error.msg}"
    line = (error.text or "").rstrip()
    if not line:
        return message
    start = max(1, error.offset or 1)
    width = max(1, (error.end_offset or 0) - start) if error.end_lineno == error.lineno else 1
    return f"{message}\n   | {line}\n   | {' ' * (start - 1)}{'^' * width}"


def _cell_number(shell: InteractiveShell) -> int:
    """Return the number of the running cell, which is that of the nearest frame of a cell.

    `execution_count` may already be that of the next cell, depending on how this one was started.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        number = shell.compile._filename_map.get(frame.f_code.co_filename)
        if number is not None:
            return int(number)
        frame = frame.f_back
    return int(shell.execution_count)

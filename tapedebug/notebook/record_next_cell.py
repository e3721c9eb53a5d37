"""Recording of the next executed cell as with ``%%tape``, without changing the cell."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tapedebug import _shell
from tapedebug.panel.check_runner import describe
from tapedebug.panel.panel_source import made_in
from tapedebug.runtime import Tape

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

    from tapedebug.runtime import Tape

State = Literal["off", "armed", "recording"]
Listener = Callable[[dict[str, Any]], None]

_OWN_MAGIC = re.compile(r"\s*%%(tape|gradcheck|jacobian)\b")
_OWN_TAPE = re.compile(r"\bTape\s*\(")


class NextCell:
    """Recorder that, once armed, records one cell and then disarms itself."""

    def __init__(self) -> None:
        self.state: State = "off"
        self.message = ""
        """The outcome of the last recording in words; may be empty."""
        self.tape: int | None = None
        """The id of the tape that was recorded last in this way."""
        self._recording: Tape | None = None
        self._kept: Tape | None = None
        self._depth = 0
        self._listeners: dict[int, Listener] = {}
        self._keys = 0
        self._shells: weakref.WeakSet[Any] = weakref.WeakSet()

    def install(self, shell: InteractiveShell) -> None:
        """Follow the cells of an IPython shell; once for each shell."""
        if shell not in self._shells:
            self._shells.add(shell)
            shell.events.register("pre_run_cell", self.cell_starts)
            shell.events.register("post_run_cell", self.cell_ends)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` at every change; return a function that unsubscribes."""
        self._keys += 1
        key = self._keys
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None

    def describe(self) -> dict[str, Any]:
        """Return the state in the form sent to front ends."""
        return {"state": self.state, "tape": self.tape, "message": self.message}

    def arm(self, on: bool) -> None:
        """Arm or disarm recording of the next cell; a cell that is being recorded is not affected."""
        if self.state != "recording":
            self._set("armed" if on else "off")

    def cell_starts(self, info: ExecutionInfo) -> None:
        """Handle the start of a cell. Cells nest (magics run cells): only the outermost is the user's."""
        self._depth += 1
        if self._depth > 1 or self.state != "armed" or not info.store_history or info.silent:
            return
        if _OWN_MAGIC.match(info.raw_cell):
            self._set("off", "That cell has a magic that records by itself.")
        elif _OWN_TAPE.search(info.raw_cell):
            self._set("off", "That cell makes a Tape of its own, which is in the list.")
        else:
            self._start()

    def cell_ends(self, result: ExecutionResult) -> None:
        """Handle the end of a cell. IPython also calls this for empty cells, without a start event."""
        if self._depth == 0:
            return
        self._depth -= 1
        tape = self._recording
        if self._depth > 0 or tape is None:
            return
        self._recording = None
        # as if from the user's namespace, where the tape searches for names of arrays
        _shell.in_namespace(partial(tape.__exit__, None, None, None))
        if not tape.records:
            self._set("off", "That cell launched no kernel; nothing was recorded.")
            return
        self.tape, self._kept = tape.id, tape
        made_in(tape, f"In [{result.execution_count}]", None)
        if not result.success:
            self._set("off", f"That cell failed; what it had launched before is tape {tape.id}.")
            return
        _show(tape)
        self._set("off")

    def _start(self) -> None:
        try:
            tape = Tape()
            tape.__enter__()
        except Exception as error:  # not an error of the user's cell, which still runs
            self._set("off", f"That cell was not recorded: {describe(error)}")
            return
        self._recording = tape
        self._set("recording")

    def _set(self, state: State, message: str = "") -> None:
        self.state, self.message = state, message
        for listener in list(self._listeners.values()):
            listener(self.describe())


def _show(tape: Tape) -> None:
    """Show a tape below the cell."""
    from IPython.display import display

    display(tape)


next_cell = NextCell()

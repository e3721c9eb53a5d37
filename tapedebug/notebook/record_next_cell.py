"""Recording of the next executed cell as with ``%%tape``, without changing the cell."""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tapedebug import _shell
from tapedebug.notebook._warp_cell import OWN_TAPE, WarpCell
from tapedebug.panel.check_runner import describe
from tapedebug.panel.panel_source import made_in
from tapedebug.runtime import Tape

if TYPE_CHECKING:
    from IPython.core.interactiveshell import ExecutionInfo, ExecutionResult, InteractiveShell

    from tapedebug.contract import RecordedTape

State = Literal["off", "armed", "recording"]
Listener = Callable[[dict[str, Any]], None]

_OWN_MAGIC = re.compile(r"\s*%%(tape|gradcheck|jacobian)\b")
_IN_THE_LIST = "That cell makes a Tape of its own, which is in the list."


class NextCell:
    """Recorder that, once armed, records one cell and then disarms itself."""

    def __init__(self) -> None:
        self.state: State = "off"
        self.message = ""
        """The outcome of the last recording in words; may be empty."""
        self.tape: int | None = None
        """The id of the tape that was recorded last in this way."""
        self._recording: _CellRecording | None = None
        self._kept: RecordedTape | None = None
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
        elif OWN_TAPE.search(info.raw_cell) and not _may_use_warp(info.raw_cell):
            self._set("off", _IN_THE_LIST)
        else:
            self._start(info.raw_cell)

    def cell_ends(self, result: ExecutionResult) -> None:
        """Handle the end of a cell. IPython also calls this for empty cells, without a start event."""
        if self._depth == 0:
            return
        self._depth -= 1
        recording = self._recording
        if self._depth > 0 or recording is None:
            return
        self._recording = None
        tape, nothing = recording.end()
        if tape is None:
            self._set("off", nothing)
            return
        self.tape, self._kept = tape.id, tape
        made_in(tape, f"In [{result.execution_count}]", None)
        if not result.success:
            self._set("off", f"That cell failed; what it had launched before is tape {tape.id}.")
            return
        _show(tape)
        self._set("off")

    def _start(self, code: str) -> None:
        try:
            self._recording = _CellRecording(code)
        except Exception as error:  # not an error of the user's cell, which still runs
            self._set("off", f"That cell was not recorded: {describe(error)}")
            return
        self._set("recording")

    def _set(self, state: State, message: str = "") -> None:
        self.state, self.message = state, message
        for listener in list(self._listeners.values()):
            listener(self.describe())


class _CellRecording:
    """The recording of a cell that is running, on a tape of this engine or of NVIDIA Warp.

    Args:
        code: The code of the cell.
    """

    def __init__(self, code: str) -> None:
        self._own = None if OWN_TAPE.search(code) else Tape()
        if self._own is not None:
            self._own.__enter__()
        self._warp = WarpCell(code).__enter__()

    def end(self) -> tuple[RecordedTape | None, str]:
        """End it; return the tape with the launches, or None and the reason why there is none."""
        on_warp = self._warp.recorded()
        self._warp.__exit__(None, None, None)
        if self._own is not None:
            # as if from the user's namespace, where the tape searches for names of arrays
            _shell.in_namespace(partial(self._own.__exit__, None, None, None))
            if self._own.operations:
                return self._own, ""
        nothing = "That cell launched no kernel; nothing was recorded."
        return on_warp, self._warp.refused or (_IN_THE_LIST if self._own is None else nothing)


def _may_use_warp(code: str) -> bool:
    """True if NVIDIA Warp is loaded, or the code names it."""
    return "warp" in sys.modules or re.search(r"\bwarp\b", code) is not None


def _show(tape: RecordedTape) -> None:
    """Show a tape below the cell."""
    from IPython.display import display

    display(tape)


next_cell = NextCell()

"""Recording of a notebook cell that launches kernels of NVIDIA Warp, which the notebook imports itself."""

from __future__ import annotations

import re
from contextlib import ExitStack
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any

from tapedebug import _shell
from tapedebug._errors import TapeError
from tapedebug._tape_observers import program_tape, recorded_tape, unlist
from tapedebug._warp_watch import WarpWatch
from tapedebug.runtime import Tape

if TYPE_CHECKING:
    from tapedebug.contract import RecordedTape

OWN_TAPE = re.compile(r"\bTape\s*\(")
"""Code that makes a tape. Warp cannot record on two tapes at once, so such a cell records on its own."""


class WarpCell:
    """Context that watches NVIDIA Warp while a cell runs, and records its launches on a tape of Warp.

    Nothing happens without Warp in the process; the cell itself may import it. A cell that makes a tape is
    watched only.

    Args:
        code: The code of the cell.

    Attributes:
        tape: The tape of Warp that recorded the cell; None if the cell has its own, or does not use Warp.
    """

    def __init__(self, code: str) -> None:
        self.tape: Any = None
        self._makes_tape = OWN_TAPE.search(code) is not None
        self._recording = False
        self._watch = WarpWatch(begun=self._record)
        self._stack = ExitStack()

    def __enter__(self) -> WarpCell:
        self._stack.enter_context(self._watch)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            _shell.in_namespace(self._end_tape)  # where the names of arrays are found
        finally:
            self._stack.close()

    @property
    def refused(self) -> str:
        """The reason why Warp cannot be watched; else empty."""
        return self._watch.refused

    @property
    def notes(self) -> list[str]:
        """Sentences on launches and writes of Warp that are not covered, or the reason why none is."""
        return [self.refused] if self.refused else self._watch.notes()

    def recorded(self) -> RecordedTape | None:
        """End the recording on a tape of Warp; return the last watched tape with launches, or None."""
        _shell.in_namespace(self._end_tape)
        watched = self._watch.watched
        others = [] if watched is None else [tape for tape in watched.tapes if tape.operations]
        return others[-1] if others else None

    def _record(self, warp: ModuleType) -> None:
        if not self._makes_tape:
            tape = warp.Tape()
            tape.__enter__()
            self.tape, self._recording = tape, True

    def _end_tape(self) -> None:
        if self._recording:
            self._recording = False
            self.tape.__exit__(None, None, None)
            tape = recorded_tape(self.tape)
            if not tape.operations:  # it is not the user's, and nothing was launched on Warp
                unlist(tape)


def reverse(tape: RecordedTape, loss: object) -> None:
    """Run the reverse pass of a tape from a loss, in the engine that recorded it.

    Raises:
        TapeError: The loss is not an array of one element with a gradient.
    """
    used = program_tape(tape)
    if isinstance(used, Tape):
        used.backward(loss)  # type: ignore[arg-type]  # it checks the loss itself
        return
    try:
        used.backward(loss)
    except (RuntimeError, AttributeError, TypeError) as error:
        raise TapeError(f"backward: {error}") from None


def zero_gradients(tape: RecordedTape) -> None:
    """Set the gradients of a tape to zero; of a tape of Warp, also those that no reverse pass has used."""
    used = program_tape(tape)
    used.zero()
    for launch in () if used is tape else used.launches:
        if not callable(launch):
            for value in (*launch[3], *launch[4]):
                gradient = getattr(value, "grad", None)
                if gradient is not None and hasattr(gradient, "zero_"):
                    gradient.zero_()

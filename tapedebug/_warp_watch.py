"""Watching of NVIDIA Warp from the moment when a program imports it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

from tapedebug._errors import TapedebugError
from tapedebug._import_hook import AfterImport

if TYPE_CHECKING:
    from tapedebug.watch import Watched

LISTED = 20
"""Number of launches and writes that are not covered and that a note describes one by one."""


class WarpWatch:
    """Context for a program that may import NVIDIA Warp, at any time, or never.

    Warp is imported by the program only. From then on until the end of the context it is watched. If Warp
    cannot be watched, the program runs as without tapedebug.

    Args:
        off: Watch nothing: `import warp` imports this engine.
        begun: Called with the module `warp` when watching has begun.

    Attributes:
        watched: What has been recorded; None if Warp was not imported or cannot be watched.
        imported: The program has imported Warp inside the context.
        refused: The reason why Warp cannot be watched; else empty.
    """

    def __init__(self, *, off: bool = False, begun: Callable[[ModuleType], None] | None = None) -> None:
        self.watched: Watched | None = None
        self.imported = False
        self.refused = ""
        self._off = off
        self._begun = begun
        self._inside = False
        self._stack = ExitStack()

    def __enter__(self) -> WarpWatch:
        if not self._off:
            self._stack.enter_context(AfterImport("warp", self._begin))
            self._inside = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._inside = False
        self._stack.close()

    def notes(self, said: Sequence[str] = ()) -> list[str]:
        """Return sentences on launches and writes of Warp that are not covered.

        Args:
            said: Sentences that are shown elsewhere, perhaps with the number of times; they are left out.
        """
        if self.watched is None:
            return []
        found = [str(each) for each in self.watched.not_covered]
        found = [note for note in found if not any(other.startswith(note) for other in said)]
        more = len(found) - LISTED
        return found[:LISTED] + ([f"{more} more parts of the program are not covered"] if more > 0 else [])

    def _begin(self, module: ModuleType) -> None:
        if not hasattr(module, "_src") or self.watched is not None:  # our stand-in, or imported again
            return
        self.imported = self._inside
        from tapedebug.watch import watch_warp

        try:
            self.watched = self._stack.enter_context(watch_warp())
        except TapedebugError as error:
            self.refused = error.message
            return
        if self._begun is not None:
            self._begun(module)

"""The tapes of this process that are alive, of all engines; held weakly."""

from __future__ import annotations

import weakref
from typing import Any

from tapedebug.contract import RecordedTape

_live: weakref.WeakSet[Any] = weakref.WeakSet()


def enrol(tape: RecordedTape) -> None:
    """List a tape for as long as it lives."""
    _live.add(tape)


def unlist(tape: RecordedTape) -> None:
    """Forget a tape that is not one of the user's."""
    _live.discard(tape)


def live_tapes() -> list[Any]:
    """Return the tapes of all engines that are alive, in the order in which they were made."""
    return sorted(_live, key=lambda tape: tape.id)

"""Tracebacks without the frames of this package."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType

PACKAGE = f"{Path(__file__).parent}{os.sep}"
"""The folder of this package, with which the files of its frames begin."""


def frames_of_user(trace: TracebackType | None) -> TracebackType | None:
    """Return a traceback of the frames that are not in this package, or the same one if there are none.

    The given traceback is not changed, so debuggers still reach every frame.
    """
    entries = []
    following = trace
    while following is not None:
        entries.append(following)
        following = following.tb_next
    kept: TracebackType | None = None
    for each in reversed(entries):
        if not is_own_frame(each):
            kept = TracebackType(kept, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return trace if kept is None else kept


def is_own_frame(trace: TracebackType) -> bool:
    """True if the first frame of a traceback runs code of this package."""
    return trace.tb_frame.f_code.co_filename.startswith(PACKAGE)

"""The user's line that called a function of Warp: the nearest frame outside Warp and this package."""

from __future__ import annotations

import sys
from functools import lru_cache
from types import FrameType

from tapedebug._source import Span, site_span

NOT_USERS = ("tapedebug", "warp", "contextlib", "IPython")
"""Packages whose frames are skipped."""
USERS = ("warp.examples", "warp.tests")
"""Parts of them that are programs."""


def user_frame(depth: int = 1) -> FrameType:
    """Return the nearest frame of the program; the outermost one if there is none."""
    frame = sys._getframe(depth)
    while _is_skipped(frame.f_globals.get("__name__", "")) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def user_place(depth: int = 2) -> Span:
    """Return the place of the call in the program."""
    frame = user_frame(depth)
    return site_span((frame.f_code, frame.f_lasti))


@lru_cache(maxsize=4096)
def _is_skipped(module: str) -> bool:
    package = module.partition(".")[0]
    return package in NOT_USERS and not module.startswith(USERS)

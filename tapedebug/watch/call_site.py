"""The user's line that called a function of Warp: the nearest frame outside Warp and this package."""

from __future__ import annotations

import sys
from functools import lru_cache
from types import FrameType
from typing import Any, NamedTuple

from tapedebug._source import Site, Span, site_span

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


def is_user(frame: FrameType) -> bool:
    """True if a frame belongs to the program."""
    return not _is_skipped(frame.f_globals.get("__name__", ""))


def user_place(depth: int = 2) -> Span:
    """Return the place of the call in the program."""
    return place_in(user_frame(depth)).span


class CallPlace(NamedTuple):
    """A place in the program that calls a function of Warp.

    Attributes:
        span: The place.
        caller: The same, as Warp describes the caller of a launch.
        site: The code, and the instruction.
    """

    span: Span
    caller: dict[str, Any]
    site: Site


PLACES = 4096
"""Number of places that are remembered."""
_places: dict[tuple[int, int], CallPlace] = {}
"""Places by the identity of their code, which is kept: equality and hashes of code compare all of it."""


def place_in(frame: FrameType) -> CallPlace:
    """Return the place that a frame has reached."""
    code, instruction = frame.f_code, frame.f_lasti
    found = _places.get((id(code), instruction))
    if found is None:
        if len(_places) >= PLACES:
            _places.clear()
        caller = {"file": code.co_filename, "lineno": frame.f_lineno, "func": code.co_name}
        found = CallPlace(site_span((code, instruction)), caller, (code, instruction))
        _places[id(code), instruction] = found
    return found


@lru_cache(maxsize=4096)
def _is_skipped(module: str) -> bool:
    package = module.partition(".")[0]
    return package in NOT_USERS and not module.startswith(USERS)

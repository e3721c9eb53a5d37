"""Pauses of the garbage collector: while many objects are created, and over those that last."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gc_paused() -> Iterator[None]:
    """Context without the cyclic garbage collector, which took half the time of a large trace."""
    if not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@contextmanager
def lasting_objects() -> Iterator[None]:
    """Context in which collections leave out the objects that existed at its start, such as modules."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()

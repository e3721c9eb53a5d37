"""Pauses of the garbage collector: while many objects are created, and over those that last."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token

NEVER = 1 << 30
"""Collections of younger objects after which there is a full one: more than there are."""
_inside: ContextVar[bool] = ContextVar("inside lasting_objects", default=False)
"""True inside `lasting_objects`, of which the outermost context ends for all objects.

Where Ctrl-C ends a diagnosis in between, its context variables are gone with it.
"""
PAUSE = 20.0
"""Times the duration of a full collection that pass before the next one in `rare_full_collections`."""


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
    outer = _inside.set(True)
    try:
        gc.freeze()
        yield
    finally:
        is_outermost = outer.old_value in (Token.MISSING, False)
        _inside.reset(outer)
        if is_outermost:
            gc.unfreeze()


@contextmanager
def no_full_collections() -> Iterator[None]:
    """Context in which only objects that were made a short while ago are collected.

    A full collection visits every object of the process: with the tapes of a long program these are
    millions, and collections took a quarter of the time of a diagnosis. While a kernel is compiled, it visits
    all that was made of it so far, which lasts: a quarter of the time of 400 loops outside LLVM.
    """
    before = gc.get_threshold()
    changed = *before[:2], NEVER
    gc.set_threshold(*changed)
    try:
        yield
    finally:
        if gc.get_threshold() == changed:
            gc.set_threshold(*before)


@contextmanager
def rare_full_collections() -> Iterator[None]:
    """Context in which full collections take about a twentieth of the time, at most.

    Python makes one when the number of objects has grown by a quarter. While a program makes a long tape,
    nearly all objects last, and collections took up to a third of the time.
    """
    before = gc.get_threshold()
    paused = *before[:2], NEVER
    began = until = 0.0

    def note(phase: str, info: dict[str, int]) -> None:
        nonlocal began, until
        now = time.perf_counter()
        if info["generation"] == 2:
            if phase == "start":
                began = now
            else:
                until = now + PAUSE * (now - began)
                if gc.get_threshold() == before:
                    gc.set_threshold(*paused)
        elif phase == "stop" and now >= until and gc.get_threshold() == paused:
            gc.set_threshold(*before)

    gc.callbacks.append(note)
    try:
        yield
    finally:
        gc.callbacks.remove(note)
        if gc.get_threshold() == paused:
            gc.set_threshold(*before)

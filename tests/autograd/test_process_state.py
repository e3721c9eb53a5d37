"""Checks put back the settings of the process that they change, also where Ctrl-C comes as they do."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tapedebug import autograd, diagnose
from tapedebug._process_state import preserve_process_state

CHECKS = [
    autograd.check_pairs,
    autograd.end_to_end,
    autograd.gradcheck,
    autograd.gradcheck_tape,
    autograd.gradgradcheck,
    autograd.hvp,
    autograd.hvp_check,
    autograd.jacobian,
    autograd.jacobian_fd,
    autograd.jacobian_plot,
    autograd.jvp,
    diagnose,
]


def interrupted_as_it_enters() -> None:
    np.errstate(all="ignore").__enter__()
    raise KeyboardInterrupt


def interrupted_without_collections() -> None:
    gc.disable()
    raise KeyboardInterrupt


@pytest.mark.parametrize("work", [interrupted_as_it_enters, interrupted_without_collections])
def test_after_an_interrupt(work: Callable[[], None]) -> None:
    before = np.geterr()
    with pytest.raises(KeyboardInterrupt):
        preserve_process_state(work)()
    assert np.geterr() == before
    assert gc.isenabled()


def test_who_collects_no_garbage_does_not_afterwards() -> None:
    gc.disable()
    try:
        assert preserve_process_state(lambda *args, **named: (args, named))(1, two=2) == ((1,), {"two": 2})
        assert not gc.isenabled()
    finally:
        gc.enable()


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_check_keeps_them(check: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that is called wrongly never comes to its arguments: it is the decorator that calls it."""
    contexts: list[Any] = []

    def copied() -> Any:
        contexts.append(check)
        raise KeyboardInterrupt

    monkeypatch.setattr("tapedebug._process_state.copy_context", copied)
    with pytest.raises(KeyboardInterrupt):
        check()
    assert contexts == [check]

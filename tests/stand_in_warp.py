"""A stand-in for NVIDIA Warp and for the watcher of it, on the reference engine: for tests without Warp.

`install` puts modules `warp` and `tapedebug.watch` into `sys.modules`. The former has `array`, `zeros`,
`launch(operation, inputs)` and `Tape`, whose `backward` and `zero` are those of the reference engine.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tapedebug._errors import TapedebugError
from tapedebug._tape_observers import link
from tapedebug.contract import Engine, EngineCoverage, ProgramArrays
from tests import reference_engine

ENGINE = Engine("NVIDIA Warp", "1.19.0", "cpu")


class array:
    """An array as programs hold it, which is no array of the contract."""

    def __init__(self, values: Any, requires_grad: bool = False) -> None:
        self._own = reference_engine.array(values, requires_grad)

    @property
    def grad(self) -> Any:
        return self._own.grad if self._own.requires_grad else None

    def numpy(self) -> Any:
        return self._own.values

    def __repr__(self) -> str:
        return f"array(shape={self._own.shape}, dtype=float32)"


def zeros(*shape: int, requires_grad: bool = False) -> array:
    return array(np.zeros(shape), requires_grad)


def launch(operation: Any, inputs: Any) -> None:
    operation(*(value._own if isinstance(value, array) else value for value in inputs))


class _Arrays:
    kind = array

    def array_of(self, found: array) -> Any:
        return found._own


class _Coverage:
    """All launches run again on the stand-in itself."""

    def __init__(self, tape: Recorded) -> None:
        self.tape = tape

    def counts(self) -> dict[str, int]:
        return {"native": len(self.tape.operations)}

    def notes(self) -> list[str]:
        return ["native launches are compared with differences in float32"]


class Recorded(reference_engine.Tape):
    """The recording of a tape."""

    def __init__(self) -> None:
        super().__init__()
        self.engine = ENGINE
        self.capabilities[ProgramArrays] = _Arrays()
        self.capabilities[EngineCoverage] = _Coverage(self)


class Tape:
    """The tape as programs hold it."""

    def __init__(self) -> None:
        self.launches: list[Any] = []
        self._recorded: Recorded | None = None

    def __enter__(self) -> Tape:
        if reference_engine._tape is not None:
            raise RuntimeError("Warp: Error, entering a tape while one is already active")
        self._recorded = Recorded()
        link(self, self._recorded)
        for watched in _open:
            watched.tapes.append(self._recorded)
        self._recorded.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        assert self._recorded is not None
        self._recorded.note_names(array, sys._getframe(1), lambda found: found._own)
        self._recorded.__exit__(*error)

    def backward(self, loss: array) -> None:
        assert self._recorded is not None
        if loss._own.size != 1:
            raise RuntimeError("Can only return gradients for scalar loss functions.")
        self._recorded.backward(loss._own)

    def zero(self) -> None:
        assert self._recorded is not None
        self._recorded.zero()


_open: list[Watched] = []


class Watched:
    """The result of watching.

    Attributes:
        log: The beginnings and ends of all watching since `install`.
        refusal: The message of the error that watching raises; empty for none.
    """

    log: list[str]
    refusal = ""
    not_covered: list[str]

    def __init__(self) -> None:
        self.tapes: list[Recorded] = []


@contextmanager
def watch_warp() -> Iterator[Watched]:
    if Watched.refusal:
        raise TapedebugError(Watched.refusal, hint="install another one")
    Watched.log.append("watching")
    watched = Watched()
    _open.append(watched)
    try:
        yield watched
    finally:
        _open.remove(watched)
        Watched.log.append("done")


def install(monkeypatch: pytest.MonkeyPatch, *, module: bool = True) -> type[Watched]:
    """Put the stand-ins in place of Warp, if wanted, and of its watcher; return the state of the watcher."""
    monkeypatch.setattr(Watched, "log", [], raising=False)
    monkeypatch.setattr(Watched, "not_covered", [], raising=False)
    monkeypatch.setattr(Watched, "refusal", "")
    watch: Any = types.ModuleType("tapedebug.watch")
    watch.watch_warp = watch_warp
    monkeypatch.setitem(sys.modules, "tapedebug.watch", watch)
    if module:
        warp: Any = types.ModuleType("warp")
        warp.__dict__.update(array=array, zeros=zeros, launch=launch, Tape=Tape, _src=None)
        monkeypatch.setitem(sys.modules, "warp", warp)
    return Watched

"""Interception of functions by exchanging their code, on functions of our own; NVIDIA Warp is not needed."""

from __future__ import annotations

import sys
import traceback
import types
from functools import partial

import pytest

from tapedebug._interception import Interception, not_intercepted
from tapedebug.watch import hooks

SOURCE = """
calls = []
def launch(kernel, dim, inputs=[], *, adjoint=False):
    '''Launch.'''
    calls.append(("launch", kernel, dim, adjoint))
    return copy(kernel)
def copy(what):
    calls.append(("copy", what))
    return what
class Tape:
    def backward(self, loss=None):
        calls.append(("backward", loss))
        return launch("adjoint", 1)
def closure():
    there = 1
    def inner():
        return there
    return inner
inner = closure()
"""


@pytest.fixture
def engine(monkeypatch):
    module = types.ModuleType("engine_for_hooks")
    exec(SOURCE, module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def state(module):
    names = ("launch", "copy", "inner")
    functions = [*(getattr(module, name) for name in names), module.Tape.backward]
    return [(f, f.__code__, f.__defaults__, f.__kwdefaults__, dict(f.__dict__)) for f in functions], set(
        vars(module)
    )


def test_all_who_hold_a_function_reach_the_handler(engine):
    held, part, bound = engine.launch, partial(engine.launch, "k"), engine.Tape().backward
    seen = []

    def handler(original, *args, **named):
        seen.append((args, named))
        return original(*args, **named)

    with Interception({engine.launch: handler, engine.Tape.backward: handler}):
        assert held("a", 2) == "a"
        assert part(3, adjoint=True) == "k"
        assert bound(loss=4) == "adjoint"
    held("b", 5)
    assert [args[-2:] for args, _ in seen[:2]] == [("a", 2), ("k", 3)]
    assert len(seen) == 3, "calls that a handler makes are not intercepted"


def test_the_time_of_handlers_is_that_without_the_functions(engine, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("tapedebug._interception.time.perf_counter", lambda: clock[0])

    def handler(original, *args, **named):
        clock[0] += 2.0
        result = original(*args, **named)
        clock[0] += 1.0
        return result

    def slow(original, *args, **named):
        clock[0] += 64.0

    interception = Interception({engine.launch: handler})
    with interception, Interception({engine.copy: slow}):
        engine.launch("a", 2)
        assert interception.seconds == 3.0
    with interception, pytest.raises(TypeError):
        engine.launch()
    assert interception.seconds == 5.0


def test_afterwards_everything_is_as_before(engine):
    before = state(engine)
    interception = Interception({engine.launch: lambda original, *a, **n: original(*a, **n)})
    with pytest.raises(RuntimeError, match="the program"), interception:
        assert state(engine) != before
        raise RuntimeError("the program")
    assert state(engine) == before


def test_an_error_in_a_handler_leaves_interception_on(engine):
    def handler(original, *args):
        if args[0] == "bad":
            raise KeyError(args[0])
        return original(*args)

    with Interception({engine.copy: handler}):
        with pytest.raises(KeyError):
            engine.copy("bad")
        assert engine.launch("good", 1) == "good"


def test_the_traceback_of_an_error_has_no_frame_of_this_package(engine):
    def handler(original, *args):
        return original(*args)

    def refuse(what):
        raise ValueError(what)

    engine.copy = refuse
    with (
        Interception({engine.launch: handler}),
        pytest.raises(ValueError, match="kernel") as raised,
    ):
        engine.launch("kernel", 1)
    frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(raised.tb)]
    assert frames[1:] == ["launch", "handler", "launch", "refuse"]
    assert not any("tapedebug/watch" in frame.f_code.co_filename for frame, _ in traceback.walk_tb(raised.tb))
    shown = [
        f.f_code.co_name for f, _ in traceback.walk_tb(raised.tb) if "__tracebackhide__" not in f.f_locals
    ]
    assert shown[1:] == ["handler", "launch", "refuse"]  # by IPython and pytest


def test_not_intercepted_is_a_context(engine):
    with Interception({engine.copy: lambda original, what: "handled"}):
        with not_intercepted():
            assert engine.copy("x") == "x"
        assert engine.copy("x") == "handled"


def test_two_interceptions_nest(engine):
    before = state(engine)

    def adding(text):
        return lambda original, what: original(what) + text

    with Interception({engine.copy: adding("1")}):
        with Interception({engine.copy: adding("2")}):
            assert engine.copy("x") == "x2", "what a handler calls is not intercepted"
        assert engine.copy("x") == "x1"
    assert state(engine) == before


def test_names_that_a_release_lacks_are_listed(engine):
    names = ["engine_for_hooks:launch", "engine_for_hooks:gone", "no_such_module_for_hooks:launch"]
    assert hooks.missing(names) == names[1:]


def test_a_function_that_cannot_be_intercepted_is_missing(engine, monkeypatch):
    monkeypatch.setitem(hooks.INTERCEPTED, "inner", "engine_for_hooks:inner")
    assert hooks.missing(["engine_for_hooks:inner"]) == ["engine_for_hooks:inner (it is no plain function)"]


def test_installation_that_fails_is_undone(engine):
    before = state(engine)
    with pytest.raises(ValueError, match="free vars"):
        Interception({engine.copy: lambda original, what: what, engine.inner: print}).install()
    assert state(engine) == before


@pytest.mark.peer
def test_the_installed_release_of_warp_has_all_names():
    pytest.importorskip("warp")
    assert hooks.missing() == []

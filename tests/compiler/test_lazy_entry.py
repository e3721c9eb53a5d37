"""Entries are compiled when they are called: a launch in lanes compiles nothing for single threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler.effects import differentiable
from tapedebug.compiler.kernel import Kernel
from tapedebug.compiler.lazy_entry import LazyEntry
from tapedebug.compiler.objects import Entry
from tapedebug.compiler.variant import Variant


@wp.func
def scaled(x: float):
    return x * 3.0


@wp.kernel
def kernel(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = scaled(x[i]) * x[i] + 0.1875


@wp.kernel
def looping(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = x[i]
    for _ in range(100):
        s = s * 1.001
    y[i] = s


@wp.kernel
def written_out(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    s = x[i]
    for _ in range(3):
        s = s * 2.0
    y[i] = s


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kernel:
    """The kernel as if no process had compiled it."""
    monkeypatch.setenv("TAPEDEBUG_CACHE_DIR", str(tmp_path))
    return Kernel(kernel.python)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[Variant]:
    """Return what has been compiled, or taken from the cache."""
    found: list[Variant] = []
    make = Kernel.compiled

    def noted(self: Kernel, variant: Variant) -> Entry:
        found.append(variant)
        return make(self, variant)

    monkeypatch.setattr(Kernel, "compiled", noted)
    return found


def ran(fresh: Kernel, threads: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the result of a launch, and its gradient."""
    x = wp.array(np.linspace(-1.0, 2.0, threads, dtype=np.float32), dtype=float, requires_grad=True)
    y = wp.zeros(threads, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(fresh, dim=threads, inputs=[x, y])
    tape.backward(grads={y: wp.ones(threads, dtype=float)})
    return y.numpy(), x.grad.numpy()


def check(threads: int, found: tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]) -> None:
    x = np.linspace(-1.0, 2.0, threads, dtype=np.float32)
    np.testing.assert_allclose(found[0], 3.0 * x * x + 0.1875, rtol=1e-6)
    np.testing.assert_allclose(found[1], 6.0 * x, rtol=1e-6)


def test_each_direction_is_compiled_once_for_each_size(fresh: Kernel, compiled: list[Variant]) -> None:
    check(1000, ran(fresh, 1000))
    assert [(v.kind, v.lanes) for v in compiled] == [("forward", True), ("adjoint", True)]
    compiled.clear()
    check(7, ran(fresh, 7))
    assert [(v.kind, v.lanes) for v in compiled] == [("forward", False), ("adjoint", False)]
    compiled.clear()
    check(1000, ran(fresh, 1000))
    check(7, ran(fresh, 7))
    assert compiled == []


def test_without_lanes_there_is_one_of_each(
    fresh: Kernel, compiled: list[Variant], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wp.config, "lanes", False)
    for threads in (1000, 7):
        check(threads, ran(fresh, threads))
    assert len({v for v in compiled if v.kind == "forward"}) == 1
    assert len({v for v in compiled if v.kind == "adjoint"}) == 1


def test_an_entry_becomes_what_it_stands_for(fresh: Kernel, compiled: list[Variant]) -> None:
    late = fresh.forward(late=True)
    assert type(late) is LazyEntry and compiled == []
    assert fresh.forward(late=True) is late and type(late) is LazyEntry
    assert fresh.variant_of(late) == Variant("forward")
    now = fresh.forward()
    assert now is late and type(late) is Entry and len(compiled) == 1
    assert late.address and late.diagnostics == () and late.settled() is late
    assert not {"kernel", "variant"} & vars(late).keys(), "it keeps no kernel alive"


@pytest.mark.parametrize("ask", ["address", "diagnostics"])
def test_asking_compiles(ask: str, fresh: Kernel, compiled: list[Variant]) -> None:
    late = fresh.adjoint(differentiable(fresh.params), late=True)
    assert compiled == []
    assert getattr(late, ask) is not None
    assert type(late) is Entry and len(compiled) == 1
    assert late.address == fresh.adjoint(differentiable(fresh.params)).address


def test_what_fails_may_be_tried_again(fresh: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    late = fresh.forward(late=True)
    with monkeypatch.context() as patch:

        def interrupted(self: Kernel, variant: Variant) -> Entry:
            raise KeyboardInterrupt

        patch.setattr(Kernel, "compiled", interrupted)
        with pytest.raises(KeyboardInterrupt):
            late(0, 0, 0)
    assert type(late) is LazyEntry
    late(0, 0, 0)
    assert type(late) is Entry


@pytest.mark.parametrize(("of", "least"), [(kernel, 256), (written_out, 256), (looping, 32)])
def test_launches_of_how_many_threads_run_in_lanes(
    of: Kernel, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: list[Variant]
) -> None:
    """Fewer are worth it where each does more; of three iterations no loop is left."""
    monkeypatch.setenv("TAPEDEBUG_CACHE_DIR", str(tmp_path))
    for threads, lanes in ((least - 1, False), (least, True)):
        compiled.clear()
        ran(Kernel(of.python), threads)
        assert [(v.kind, v.lanes) for v in compiled] == [("forward", lanes), ("adjoint", lanes)]


def test_loading_compiles(fresh: Kernel, compiled: list[Variant]) -> None:
    fresh.forward(late=True)
    fresh.load()
    found = [(v.kind, v.lanes) for v in compiled]
    assert found == [("forward", False), ("adjoint", False), ("forward", True), ("adjoint", True)]
    assert all(type(entry) is Entry for entry in fresh._entries.values())
    compiled.clear()
    for threads in (7, 1000):
        check(threads, ran(fresh, threads))
    assert compiled == []


def test_launches_keep_what_they_were_recorded_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An entry that nobody had called when its kernel was made anew is compiled of what the kernel was."""
    monkeypatch.setenv("TAPEDEBUG_CACHE_DIR", str(tmp_path))

    @wp.func
    def twice(x: float):
        return x * 2.0

    @wp.kernel
    def doubled(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = twice(x[i])

    late = doubled.forward(late=True)
    analysed = doubled._lowered

    @wp.func_grad(twice)
    def of_twice(x: float, adj_result: float):
        wp.adjoint[x] += 100.0 * adj_result

    assert type(late) is LazyEntry and doubled._lowered is not analysed
    assert late.kernel is not doubled and late.kernel._lowered is analysed
    assert late.address and doubled.forward(late=True) is not late

"""Entries as built-in functions: they do the same as through `ctypes`, and frequent launches use them."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.compiler import backend, direct_call
from tapedebug.compiler.direct_call import direct, direct_timed
from tapedebug.runtime.launch import plan as plans

STORES = """define void @{symbol}(i64 %lo, i64 %hi, ptr %args) nounwind {
  store i64 %lo, ptr %args
  %second = getelementptr i64, ptr %args, i64 1
  store i64 %hi, ptr %second
  ret void
}
"""


@wp.kernel
def count(most: int, found: wp.array(dtype=float)):
    total = float(0.0)
    for i in range(most):
        total = wp.sin(total) + float(i)
    found[0] = total


def test_it_passes_the_arguments() -> None:
    words = np.zeros(2, np.int64)
    run = direct(backend.assembled(STORES))
    for numbers in ((3, 4), (-1, 2**62), (0, -(2**63))):
        assert run(*numbers, words.ctypes.data) is None
        assert words.tolist() == [*numbers]


def test_wrong_arguments_raise_and_nothing_runs() -> None:
    words = np.zeros(2, np.int64)
    run, at = direct(backend.assembled(STORES)), words.ctypes.data
    for wrong in ((1, 2), (1, 2, at, 4), (1.0, 2, at), (1, "2", at), (1, 2, None)):
        with pytest.raises(TypeError):
            run(*wrong)  # type: ignore[arg-type]
    with pytest.raises(OverflowError):
        run(1, 2**70, at)
    with pytest.raises(TypeError):
        run(1, 2, args=at)  # type: ignore[call-arg]
    assert words.tolist() == [0, 0]


def test_calls_leave_the_count_of_references_to_none_as_it_was() -> None:
    words = np.zeros(2, np.int64)
    run, at = direct(backend.assembled(STORES)), words.ctypes.data
    before = sys.getrefcount(None)
    for number in range(10_000):
        run(number, number, at)
    assert abs(sys.getrefcount(None) - before) < 1000


def test_one_that_measures_itself() -> None:
    words = np.zeros(2, np.int64)
    run, at = direct_timed(backend.assembled(STORES)), words.ctypes.data
    assert run is not None
    start = time.perf_counter()
    took = [run(number, -number, at) for number in range(100)]
    assert {*map(type, took)} == {float}
    assert 0 < sum(took) < time.perf_counter() - start
    assert words.tolist() == [99, -99]
    with pytest.raises(TypeError):
        run(1, 2, None)  # type: ignore[arg-type]


@pytest.mark.parametrize("clocks", [direct_call.CLOCKS, ()], ids=["with its clock", "without"])
def test_records_tell_how_long_launches_took(
    clocks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_call, "CLOCKS", clocks)
    monkeypatch.setattr(plans, "OFTEN", 3)

    @wp.kernel
    def sum_up(most: int, found: wp.array(dtype=float)):
        total = float(0.0)
        for i in range(most):
            total = wp.sin(total) + float(i)
        found[0] = total

    found = wp.zeros(1)
    for most in (10, 2_000_000):
        start = time.perf_counter()
        with wp.Tape() as tape:
            for _ in range(5):
                wp.launch(sum_up, 1, inputs=[most, found])
        whole = time.perf_counter() - start
    took = [record.elapsed for record in tape.records]
    assert sum(took) < whole
    assert min(took) > 1e-4  # two million sines take longer on any machine
    kind = type(tape.records[0].plan.timed).__name__  # type: ignore[attr-defined]
    assert kind == ("builtin_function_or_method" if clocks else "function")


def test_launches_are_the_same_after_the_plan_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "OFTEN", 3)

    @wp.kernel
    def double(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = 2.0 * x[i]

    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros(3, requires_grad=True)
    runs, seen = [], []
    for number in range(8):
        x.assign(np.float32([number, 1, 2]))
        with wp.Tape() as tape:
            wp.launch(double, 3, inputs=[x, y])
        tape.backward(grads={y: wp.ones(3)})
        runs.append(type(tape.records[0].plan.run).__name__)  # type: ignore[attr-defined]
        seen.append((y.numpy().tolist(), x.grad.numpy().tolist()))
        tape.zero()
    assert runs == ["function"] * 2 + ["builtin_function_or_method"] * 6
    assert seen == [([2.0 * number, 2, 4], [2, 2, 2]) for number in range(8)]


def test_other_threads_run_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "OFTEN", 1)
    found = wp.zeros(1)
    wp.launch(count, 1, inputs=[10, found])
    ticks, ended = [0], threading.Event()

    def tick() -> None:
        while not ended.wait(1e-4):
            ticks[0] += 1

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        before = ticks[0]
        wp.launch(count, 1, inputs=[20_000_000, found])
        during = ticks[0] - before
    finally:
        ended.set()
        thread.join()
    assert during > 3

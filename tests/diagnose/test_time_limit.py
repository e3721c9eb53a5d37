"""`max_seconds` where a single step takes long: compilations and private copies test the limit themselves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug import _time_limit
from tapedebug._progress import OutOfTime, Progress
from tapedebug._time_limit import enforced, ensure
from tapedebug.compiler import backend
from tapedebug.compiler.backend import CompileTimes
from tests.autograd import kernels as k

pytestmark = pytest.mark.unoptimized


def overwritten() -> tuple[wp.Tape, Any]:
    """A tape with an error, so that a diagnosis takes most of its paths."""
    x, y, loss = k.vector([1.0, 2.0, 3.0]), k.vector(np.zeros(3)), k.vector([0.0])
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(k.square, 3, [x], [y])
        wp.launch(k.identity, 3, [y], [x])
        wp.launch(k.total, 3, [y, loss])
    tape.backward(loss)
    return tape, loss


class Moments:
    """A limit that expires at its `last` test."""

    counts_compilation = True

    def __init__(self, last: float) -> None:
        self.count = 0
        self.last = last

    def now(self) -> float:
        return float(self.count)

    def remaining(self) -> float:
        return math.inf

    def compared(self) -> None:
        pass

    def pulse(self) -> None:
        self.count += 1
        if self.count >= self.last:
            raise OutOfTime("time was up")


def diagnosed(last: float, monkeypatch: pytest.MonkeyPatch) -> tuple[wp.Diagnosis, int]:
    """Diagnose a tape with a limit that expires at its `last` test; also return how often it was tested."""
    limit = Moments(last)
    monkeypatch.setattr(Progress, "pulse", lambda self: limit.pulse())
    tape, loss = overwritten()
    return wp.diagnose(tape, loss, progress=False), limit.count


def test_a_limit_may_expire_at_any_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosed(math.inf, monkeypatch)  # compiles kernels, which tests the limit, too
    whole, count = diagnosed(math.inf, monkeypatch)
    assert whole.verdict == "WRONG"
    assert not whole.coverage.partial
    rng = np.random.default_rng(1)
    for last in [1, 2, 3, *rng.integers(4, count, 12).tolist(), count]:
        found, _ = diagnosed(last, monkeypatch)
        assert any("time was up" in note for note in found.coverage.notes), last
        assert not any("error in tapedebug" in note for note in found.coverage.notes), found.coverage


def test_a_compilation_that_would_exceed_the_limit_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    @wp.kernel(module="unique")
    def cubes(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = x[i] * x[i] * x[i]

    x, y = k.vector([1.0, 2.0]), k.vector([0.0, 0.0])
    with wp.Tape() as tape:
        wp.launch(cubes, 2, [x], [y])
    tape.backward(grads={y: wp.array([1.0, 1.0], dtype=float)})
    monkeypatch.setattr(backend, "cached", lambda key: None)
    monkeypatch.setattr(CompileTimes, "estimate", lambda self, code: 1e6)
    monkeypatch.setitem(backend.COMPILERS, "llvm", lambda *args: pytest.fail("it was compiled"))
    found = wp.diagnose(tape, max_seconds=1000.0, progress=False)
    assert found.verdict == "NOT CHECKED"
    assert "0 of 1 launches checked end to end: compiling the " in found.coverage.summary
    assert "cubes would take about 1e+06 s, and " in found.coverage.summary
    assert found.coverage.partial
    late = [note for note in found.coverage.notes if " not looked for: compiling the " in note]
    assert late


def test_without_a_limit_everything_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CompileTimes, "estimate", lambda self, code: 1e6)
    tape, loss = overwritten()
    assert wp.diagnose(tape, loss, progress=False).verdict == "WRONG"
    ensure(1e9, "nothing")


def test_a_limit_holds_in_its_thread_and_its_context() -> None:
    limit = Moments(3)
    with enforced(limit):
        _time_limit.pulse()
        ensure(5.0, "reading")
        with pytest.raises(OutOfTime):
            _time_limit.pulse()
    _time_limit.pulse()
    assert limit.count == 3


def test_estimates_follow_what_was_measured() -> None:
    times, code = CompileTimes(), "\n" * 999
    first = times.estimate(code)
    for _ in range(20):
        times.learn(code, 10 * first)
    assert times.estimate(code) == pytest.approx(10 * first, rel=1e-3)
    times.learn(code, 1e-4)
    assert times.estimate(code) == pytest.approx(10 * first, rel=1e-3), "too short to be a measure"
    assert times.estimate(code * 10) == pytest.approx(10 * times.estimate(code), rel=0.01), "in proportion"

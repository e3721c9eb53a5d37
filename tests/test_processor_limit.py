"""The time limit of diagnoses without `max_seconds`: processor time, in proportion to the program's."""

from __future__ import annotations

import importlib
import sys
from itertools import count
from types import SimpleNamespace

import pytest

import tapedebug as wp
from tapedebug import _progress, _time_limit
from tapedebug._processor_limit import BESIDE, UNLIMITED, ProcessorLimit, ProgramTime
from tapedebug._progress import OutOfTime, Progress
from tapedebug._time_limit import enforced, ensure
from tests.contract.test_end_to_end import recorded
from tests.diagnose.test_time_limit import overwritten


class Processor:
    """A stand-in for the module `time` whose processor waits for the test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seconds = 0.0
        steps = count(1e6)  # pulses read the clock of the processor, as time has passed since the last one
        own = SimpleNamespace(process_time=lambda: self.seconds, monotonic=lambda: next(steps))
        monkeypatch.setattr(_time_limit, "time", own)
        monkeypatch.setattr(_progress, "time", own)
        monkeypatch.setattr(_time_limit, "_compiling", 0.0)


@pytest.fixture
def processor(monkeypatch: pytest.MonkeyPatch) -> Processor:
    return Processor(monkeypatch)


def test_the_limit_is_a_multiple_of_the_program_and_at_least_some_seconds() -> None:
    assert ProgramTime(0.1).limit() == ProcessorLimit(1.6, 4.0)
    assert ProgramTime(10.0).limit() == ProcessorLimit(15.0, 30.0)
    assert ProgramTime(10.0).limit(5.0) == ProcessorLimit(10.0, 25.0)
    assert ProgramTime(10.0).limit(99.0).seconds > 0
    assert ProgramTime(10.0).limit().part(0.5) == ProcessorLimit(7.5, 15.0)


def test_watching_does_not_lengthen_the_limit() -> None:
    """The watched program and its diagnosis stay below a multiple of the program alone."""
    alone, watching = 10.0, 5.0
    limit = ProgramTime(alone + BESIDE * watching, watching).limit()
    assert limit.seconds == 15.0
    assert limit.longest == pytest.approx(40.0 - 16.5 - UNLIMITED * watching)
    assert ProgramTime(30.0, watching=20.0).limit() == ProcessorLimit(4.0, 4.0)


def test_the_clock_is_that_of_the_processor(processor: Processor) -> None:
    with Progress(False, ProcessorLimit(2.0, 5.0)) as pace:
        processor.seconds = 1.5
        pace.pulse()
        assert pace.remaining() == 0.5
        processor.seconds = 2.0
        with pytest.raises(OutOfTime, match=r"time was up \(2 s of processor time\)"):
            pace.pulse()
        pace.allow_for_explanation()
        processor.seconds = 4.9
        pace.pulse()


def test_a_first_comparison_has_the_longest_limit(processor: Processor) -> None:
    pace = Progress(False, ProcessorLimit(10.0, 40.0), parts=2)
    with enforced(pace):
        with pace.share(0.5, 99.0) as seconds:
            assert seconds == 0.5 * 2.5  # of the first of two tapes
            processor.seconds = 9.0
            pace.pulse()
            _time_limit.compared()
            with pytest.raises(OutOfTime):
                pace.pulse()
        with pace.share(0.5, 99.0) as seconds:
            assert seconds == 0
            processor.seconds = 39.0
            pace.pulse()
            processor.seconds = 40.0
            with pytest.raises(OutOfTime):
                pace.pulse()


def test_compilation_does_not_count(processor: Processor) -> None:
    with Progress(False, ProcessorLimit(2.0, 5.0)) as pace, enforced(pace):
        ensure(1e9, "compiling it")
        with _time_limit.compilation():
            processor.seconds += 100.0
            with _time_limit.compilation():
                processor.seconds += 100.0
        processor.seconds += 1.0
        assert pace.remaining() == 1.0
        with _time_limit.shared(0.5):
            ensure(1e9, "compiling it")
            processor.seconds += 0.5
            with pytest.raises(OutOfTime):
                _time_limit.pulse()


def test_a_wrong_gradient_is_explained_after_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = []
    monkeypatch.setattr(Progress, "allow_for_explanation", lambda self: allowed.append(self))
    tape, loss = overwritten()
    assert wp.diagnose(tape, loss, progress=False).verdict == "WRONG"
    assert len(allowed) == 1


def test_each_tape_is_compared_although_the_limit_is_over() -> None:
    tapes = [recorded()[0] for _ in range(3)]
    found = wp.diagnose(tapes, progress=False, max_seconds=ProcessorLimit(1e-9, 60.0))
    assert [trace.verdict for trace in found.traces] == ["AGREE"] * 3
    assert all(trace.coverage.partial for trace in found.traces)


def test_a_tape_that_was_not_compared_is_tried_again_only_if_there_is_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries: list[object] = []
    module = sys.modules["tapedebug.diagnose._diagnose"]
    plain = module.find_target  # type: ignore[attr-defined]

    def late(*given: object, **named: object) -> None:
        raise OutOfTime("time was up")

    def target(*given: object) -> object:
        tries.append(given)
        return plain(*given)

    monkeypatch.setattr(module, "end_to_end", late)
    monkeypatch.setattr(module, "find_target", target)
    tapes = [recorded()[0] for _ in range(3)]
    for limit, calls in ((ProcessorLimit(1e-9, 60.0), 6), (ProcessorLimit(1e-9, 1e-9), 3)):
        tries.clear()
        found = wp.diagnose(tapes, progress=False, max_seconds=limit)
        assert [trace.verdict for trace in found.traces] == ["NOT CHECKED"] * 3
        assert len(tries) == calls


def test_a_comparison_that_cannot_be_reached_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reverse passes would be for nothing: a forward run tells how long they take."""
    tape = recorded()[0]
    module = importlib.import_module("tapedebug.autograd.subjects.whole_tape")
    monkeypatch.setattr(module, "timed", lambda run: (run(), (40.0, 40.0))[1])
    found = wp.diagnose(tape, progress=False, max_seconds=ProcessorLimit(60.0, 60.0))
    assert found.verdict == "NOT CHECKED"
    why = "comparing its gradients would take at least 1e+02 s, and "
    assert found.coverage.summary.startswith(f"0 of 3 launches checked end to end: {why}")
    assert found.trace.coverage.partial
    assert "nonfinite" in found.rules

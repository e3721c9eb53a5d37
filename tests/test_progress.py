"""Progress is shown where somebody can see it, and a diagnosis ends when its time is up."""

from __future__ import annotations

import contextlib
import io
import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import tapedebug as wp
from tapedebug import _progress
from tapedebug._progress import GONE, OutOfTime, Progress, cancelled_by, find_display
from tests.diagnose.test_diagnosis import recorded


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setattr(_progress, "find_display", lambda: _progress._Terminal(stream).show)
    return stream


def slowly(pace: Progress, seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pace.pulse()


def test_a_slow_diagnosis_shows_one_line_and_erases_it(terminal: Terminal) -> None:
    with Progress() as pace:
        pace.subject = "tape"
        pace.begin("comparing the gradient with differences of the loss")
        slowly(pace, _progress.PATIENCE + 3 * _progress.EVERY)
    lines = terminal.getvalue().split("\r\x1b[2K")
    assert lines[0] == "" and lines[-1] == "", "begun after a while, and erased at the end"
    assert 2 <= len(lines[1:-1]) <= 5, "a few updates a second"
    assert set(lines[1:-1]) == {"diagnosing tape: comparing the gradient with dif…"}
    assert "\n" not in terminal.getvalue()


def test_a_quick_diagnosis_shows_nothing(terminal: Terminal) -> None:
    with Progress() as pace:
        pace.begin("anything")
        slowly(pace, 0.05)
    assert terminal.getvalue() == ""


def test_the_line_is_erased_when_something_fails(terminal: Terminal) -> None:
    with pytest.raises(KeyboardInterrupt), Progress() as pace:
        slowly(pace, _progress.PATIENCE + _progress.EVERY)
        raise KeyboardInterrupt
    assert terminal.getvalue().endswith("\r\x1b[2K")


def test_progress_false_and_a_function_of_ones_own_show_nothing(terminal: Terminal) -> None:
    said: list[str] = []
    for progress in (False, said.append):
        with Progress(progress) as pace:
            pace.begin("one")
            slowly(pace, _progress.PATIENCE + _progress.EVERY)
            pace.begin("two")
    assert terminal.getvalue() == ""
    assert said == ["one", "two"]


@pytest.mark.parametrize(
    ("stream", "term", "shown"),
    [
        (Terminal(), "xterm", True),
        (Terminal(), "dumb", False),
        (io.StringIO(), "xterm", False),
        (None, "xterm", False),
    ],
)
def test_only_a_terminal_shows_progress(
    monkeypatch: pytest.MonkeyPatch, stream: Any, term: str, shown: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", term)
    assert (find_display() is not None) == shown


def test_a_notebook_shows_a_line_that_goes_away_and_leaves_no_widget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[dict[str, str], bool]] = []

    class Handle:
        def update(self, bundle: dict[str, str], raw: bool) -> None:
            seen[-1] = (bundle, raw)

    def display(bundle: dict[str, str], raw: bool, display_id: bool) -> Handle:
        assert display_id
        seen.append((bundle, raw))
        return Handle()

    ipython, module = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: SimpleNamespace(kernel=object())  # type: ignore[attr-defined]
    module.display = display  # type: ignore[attr-defined]
    for each in (ipython, module):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    show = find_display()
    assert show is not None
    show("")
    assert seen == []
    show("checking tape: one (1 s)")
    show("checking tape: two (2 s)")
    assert seen == [({"text/plain": "checking tape: two (2 s)"}, True)]
    show("")
    gone = ({"text/html": GONE, "text/plain": ""}, True)
    assert seen == [gone]
    for error in (KeyboardInterrupt, ValueError):
        with contextlib.suppress(error), Progress() as pace:
            slowly(pace, _progress.PATIENCE + _progress.EVERY)
            assert seen[-1][0]["text/plain"].startswith("diagnosing: ")
            raise error
        assert seen[-1] == gone


def test_the_steps_of_a_diagnosis_are_told_in_order() -> None:
    tape, _, loss = recorded("ignore")
    tape.backward(loss)
    said: list[str] = []
    wp.diagnose(tape, progress=said.append)
    assert said[:2] == ["comparing the gradient with differences of the loss", "summarising values"]
    assert {"looking for nonfinite", "looking for overwrite"} <= set(said[2:])
    assert len(said) == len(set(said))


def test_out_of_time_leaves_gaps_that_coverage_names() -> None:
    tape, _, loss = recorded("ignore")
    tape.backward(loss)
    began = time.process_time()  # processor time, for the machine may be busy
    diagnosis = wp.diagnose(tape, max_seconds=1e-9)
    assert time.process_time() - began < 1.0
    assert diagnosis.verdict == "NOT CHECKED"
    assert diagnosis.coverage.summary == "0 of 3 launches checked end to end: time was up (max_seconds=1e-09)"
    assert (
        diagnosis.coverage.notes[0]
        == "values and adjoints were not summarised: time was up (max_seconds=1e-09)"
    )
    (late,) = [
        note for note in diagnosis.coverage.notes if note.startswith("not looked for, as time was up: ")
    ]
    assert {"nonfinite", "disconnected", "overwrite"} <= set(late.partition(": ")[2].split(", "))
    assert "overwrite" not in {finding.rule for finding in diagnosis.findings}


def test_tapes_share_what_earlier_ones_have_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(_progress, "time", SimpleNamespace(monotonic=lambda: now[0]))
    pace = Progress(False, 100.0, parts=2)
    with pace.share(0.6, 99.0) as seconds:
        assert seconds == pytest.approx(0.5 * 30)
        now[0] = 10.0
    with pace.share(0.6, 99.0) as seconds:
        assert seconds == pytest.approx(0.5 * 50)
        now[0] = 60.0
        with pytest.raises(OutOfTime):
            pace.pulse()
    with pace.share(0.6, 99.0) as seconds:
        assert seconds == pytest.approx(0.5 * 0.6 * 40)


def test_time_that_suffices_changes_nothing() -> None:
    tape, _, loss = recorded("ignore")
    tape.backward(loss)
    one, other = wp.diagnose(tape), wp.diagnose(tape, max_seconds=300.0)
    assert (one.verdict, one.coverage.notes) == (other.verdict, other.coverage.notes)
    assert [item.message for item in one.findings] == [item.message for item in other.findings]


def test_pulse_ends_what_takes_too_long() -> None:
    pace = Progress(False, 0.05)
    with pytest.raises(OutOfTime) as caught:
        slowly(pace, 5.0)
    assert str(caught.value) == "time was up (max_seconds=0.05)"


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"max_seconds": 0}, ValueError, "diagnose: max_seconds must be positive, not 0"),
        ({"max_seconds": float("nan")}, ValueError, "diagnose: max_seconds must be positive, not nan"),
        ({"max_seconds": "5"}, TypeError, "diagnose: max_seconds is a number of seconds or None, not '5'"),
        ({"max_seconds": True}, TypeError, "diagnose: max_seconds is a number of seconds or None, not True"),
        (
            {"progress": "yes"},
            TypeError,
            "diagnose: progress is a function of one string, True or False, not 'yes'",
        ),
    ],
)
def test_messages(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    tape, _, _ = recorded()
    with pytest.raises(kind) as caught:
        wp.diagnose(tape, **options)
    assert str(caught.value) == message


# Threads of linear algebra ----------------------------------------------------------------------------------


def blas_threads() -> set[int]:
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


@pytest.fixture
def _two_threads() -> Iterator[None]:
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != {2}:
            pytest.skip("NumPy's linear algebra has no threads here")
        yield


@pytest.mark.usefixtures("_two_threads")
def test_a_check_has_one_thread_for_linear_algebra_and_gives_the_others_back() -> None:
    seen = []
    wp.diagnose(recorded()[0], progress=lambda step: seen.append(blas_threads()))
    assert seen and set(map(frozenset, seen)) == {frozenset({1})}
    assert blas_threads() == {2}
    with contextlib.suppress(KeyError), Progress(False):
        assert blas_threads() == {1}
        with Progress(False):
            pass
        assert blas_threads() == {1}
        raise KeyError
    assert blas_threads() == {2}


@pytest.mark.usefixtures("_two_threads")
def test_checks_of_two_python_threads_that_overlap_give_the_threads_back() -> None:
    first, second = Progress(False), Progress(False)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert blas_threads() == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == {2}


def test_an_event_ends_the_work_of_its_thread_once() -> None:
    event = threading.Event()
    with cancelled_by(event), Progress(False) as pace:
        pace.pulse()
        event.set()
        with pytest.raises(KeyboardInterrupt):
            pace.begin("a step")
        pace.pulse()  # what was found is reported
        ended: list[str] = []

        def elsewhere() -> None:
            with Progress(False) as other:
                other.pulse()
            ended.append("to its end")

        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert ended == ["to its end"]
    with Progress(False) as later:
        later.pulse()

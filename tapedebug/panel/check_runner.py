"""Runs of the pairs of a mask for the panel, with progress reports, without widgets or comms."""

from __future__ import annotations

import itertools
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tapedebug._errors import TapedebugError
from tapedebug.autograd import check_pairs
from tapedebug.panel.check_results import that_hold
from tapedebug.panel.execution_lock import execution_lock
from tapedebug.panel.result_cache import result_cache

if TYPE_CHECKING:
    from tapedebug.autograd.results.pair_result import PairResult
    from tapedebug.panel.panel_source import PanelSource

MaskEntry = list[Any]
"""``[launch, input, output]``: launch index, or None for the whole tape, and two names."""

Report = Callable[..., None]
"""Function that is called with any of ``running``, ``progress``, ``status``, ``checks``, ``beat``."""

BETWEEN_REPORTS = 0.05
"""Seconds between reports: browsers draw no faster, and messages must not dominate short checks."""

BETWEEN_RESULTS = 0.2
"""Smallest time between messages with results, in seconds; longer for many, as each message has them all."""

BETWEEN_BEATS = 1.0
"""Seconds between heartbeats, by which a front end detects that its kernel has died."""

FORESEEABLE = 2.0
"""Seconds after which the remaining time of a run is estimated."""

_RUNNERS: weakref.WeakSet[CheckRunner] = weakref.WeakSet()


def checked_tapes() -> set[int]:
    """Return the ids of the tapes that a panel is currently checking."""
    return {runner.subject.source.tape.id for runner in list(_RUNNERS) if runner.running}


class CheckRunner:
    """The checks of one tape.

    Args:
        subject: The tape with its trace. Without a tape (a trace that was recorded elsewhere) every run fails
            with a message.
        report: Function that is called at every change, with keyword arguments.
    """

    def __init__(self, subject: PanelSource, report: Report) -> None:
        self.subject = subject
        self._table = _by_pair(subject.checks)
        self._telling = threading.RLock()  # heartbeats come from a separate thread
        self._tell = report
        self._cancelled = threading.Event()
        self._running = threading.Lock()
        self._last_report = 0.0
        self._last_results = 0.0
        self._untold = False
        self._began = 0.0
        self._asked: list[MaskEntry] = []
        self._fresh: dict[tuple[Any, Any, Any], dict[str, Any]] = {}
        _RUNNERS.add(self)

    @property
    def checks(self) -> list[dict[str, Any]]:
        """All results so far, and the pairs that have not been run."""
        return list(self._table.values())

    @property
    def running(self) -> bool:
        """True while checks run."""
        return self._running.locked()

    def adopt(self, subject: PanelSource) -> bool:
        """Switch to a newer trace of the same tape, with the results still valid; False for another tape.

        No result is valid for a tape that was reset and recorded again, even with as many launches.
        """
        before = self.subject
        if subject.tape is None or subject.tape is not before.tape:
            return False
        continued = subject.source.recording == before.source.recording
        holding = that_hold(before, self.checks, subject) if continued else []
        self.subject = subject
        self._table = _by_pair([*subject.checks, *holding])
        return True

    def learn(self, checks: Sequence[dict[str, Any]]) -> None:
        """Add results of other runners."""
        self._table.update(_by_pair(checks))

    def cancel(self) -> None:
        """Stop the run at its next step; the results so far are kept."""
        if self.running and not self._cancelled.is_set():
            self._cancelled.set()
            self._report(status="Cancelling …")
        self._cancelled.set()

    def start(self, mask: Sequence[MaskEntry]) -> threading.Thread | None:
        """Run the pairs in a thread; return None if a run is already in progress."""
        if not self._running.acquire(blocking=False):
            return None
        self._cancelled.clear()
        self._report(running=True, progress=0.0, status=_waiting())
        thread = threading.Thread(
            target=self._in_thread, args=(list(mask),), name="tapedebug checks", daemon=True
        )
        thread.start()
        return thread

    def run(self, mask: Sequence[MaskEntry]) -> list[dict[str, Any]]:
        """Run the pairs in this thread and return their results.

        Raises:
            TapedebugError: The tape cannot be checked, or a pair of the mask does not exist.
            KeyboardInterrupt: The user interrupted the run; the results so far are in `checks`.
        """
        if not self._running.acquire(blocking=False):
            raise TapedebugError(
                "A check of this tape is running already.", hint="Wait for it, or call cancel()."
            )
        self._cancelled.clear()
        try:
            with self._beating():
                return self._check(list(mask))
        finally:
            self._running.release()
            self._report(running=False)

    def _in_thread(self, mask: list[MaskEntry]) -> None:
        turn = execution_lock.for_check(
            self.cancel, f"the check of {self._name}", cancelled=self._cancelled.is_set
        )
        with self._beating(), turn as acquired:
            try:
                if acquired:
                    self._check(mask)
                else:
                    self._report(status=self._summary([], len(mask), 0.0))
            except Exception as error:
                if not self._fresh:
                    self._report(status=describe(error))
            finally:  # before the lock is released: a cell that waited for the check finds that it has ended
                self._running.release()
                self._report(running=False)

    @property
    def _name(self) -> str:
        """Return the name of the tape in a status line."""
        trace = self.subject.source
        return f"tape {trace.tape.id}" + (f" ({trace.name[:40]})" if trace.name else "")

    def _report(self, **changes: object) -> None:
        with self._telling:
            self._tell(**changes)

    @contextmanager
    def _beating(self) -> Iterator[None]:
        """Context that reports a heartbeat every second.

        Its thread has ended when the context does: until then it holds the runner, and with it the tape.
        """
        ended = threading.Event()

        def beat() -> None:
            for number in itertools.count(1):
                if ended.wait(BETWEEN_BEATS):
                    return
                self._tell_results()
                self._report(beat=number)

        thread = threading.Thread(target=beat, name="tapedebug beat", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _check(self, mask: list[MaskEntry]) -> list[dict[str, Any]]:
        self._asked, self._fresh = mask, {}
        self._last_report = self._last_results = 0.0
        self._began = time.monotonic()
        self._require_checkable(mask)
        tape = self.subject.tape
        assert tape is not None, "refused above"

        self._report(running=True, progress=0.0, status=f"Checking {_pairs(len(mask))} …")
        try:
            results = check_pairs(
                tape,
                [{"launch": launch, "input": source, "output": target} for launch, source, target in mask],
                labels=self.subject.labels(),
                progress=self._progressed,
                cancelled=self._cancelled.is_set,
                each=self._found,
            )
        except BaseException as error:
            self._report(checks=self.checks, status=self._broken_off(error))
            raise
        self._untold = False
        for result in results:
            self._add(result)
        fresh = [result.to_dict() for result in results]
        seconds = time.monotonic() - self._began
        self._report(checks=self.checks, progress=1.0, status=self._summary(fresh, len(mask), seconds))
        return fresh

    def _require_checkable(self, mask: Sequence[MaskEntry]) -> None:
        if self.subject.tape is None:
            raise TapedebugError(
                "This tape was recorded elsewhere: only its trace is here, and checks run kernels.",
                hint="Record it again in this kernel.",
            )
        self.subject.require_unchanged()
        if not mask:
            raise TapedebugError("No pair is switched on.", hint="Switch on a pair of the mask, then run.")

    def _add(self, result: PairResult) -> None:
        result_cache.keep(self.subject, result)
        check = result.to_dict()
        self._fresh[_key(check)] = self._table[_key(check)] = check

    def _found(self, result: PairResult) -> None:
        """Add a result, and report it soon, together with others that arrive until then."""
        self._add(result)
        self._untold = True
        self._tell_results()

    def _tell_results(self) -> None:
        """Report new results, unless the last report was a moment ago."""
        now = time.monotonic()
        pause = BETWEEN_RESULTS * max(1.0, len(self._table) / 200)
        if self._untold and now - self._last_results >= pause:
            self._last_results, self._untold = now, False
            self._report(checks=self.checks)

    def _progressed(self, fraction: float, *_: object) -> None:
        self._tell_results()
        now = time.monotonic()
        if now - self._last_report >= BETWEEN_REPORTS:
            self._last_report = now
            share = min(1.0, max(0.0, float(fraction)))
            if self._cancelled.is_set():
                self._report(progress=share)
            else:
                self._report(progress=share, status=self._standing(share, now - self._began))

    def _standing(self, share: float, seconds: float) -> str:
        """Return the progress of the run in words, with an estimate of the time left, if there can be one.

        The steps of a check of the whole tape are not counted in advance.
        """
        count = len(self._asked)
        done = f"Checking {_pairs(count)}" + (f", {len(self._fresh)} done" if count > 1 else "")
        whole = any(launch is None for launch, _, _ in self._asked)
        if whole or seconds < FORESEEABLE or share < 0.02:
            return f"{done} …"
        left = seconds * (1 - share) / share
        return f"{done}, about {_duration(left)} left …"

    def _broken_off(self, error: BaseException) -> str:
        """Return a sentence with the reason for an early end of the run and the results that are kept."""
        if isinstance(error, KeyboardInterrupt):
            return f"Interrupted after {len(self._fresh)} of {_pairs(len(self._asked))}."
        why = describe(error)
        return why if not self._fresh else f"After {len(self._fresh)} of {_pairs(len(self._asked))}: {why}"

    def _summary(self, fresh: Sequence[dict[str, Any]], asked: int, seconds: float) -> str:
        counts = Counter(str(check["verdict"]) for check in fresh if check["verdict"] is not None)
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        if self._cancelled.is_set():
            done = sum(counts.values())
            return f"Cancelled after {done} of {_pairs(asked)}" + (f": {verdicts}." if verdicts else ".")
        return f"{_pairs(asked)} checked in {seconds:.2g} s: {verdicts}."


def describe(error: BaseException) -> str:
    """Return an error for a status line: its message, with its type if that adds information."""
    text = str(error).strip()
    if isinstance(error, TapedebugError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _waiting() -> str:
    """Return the status line of a check that starts now, possibly after waiting."""
    holder = execution_lock.holder
    return "Starting …" if holder is None else f"Waiting for {holder} …"


def _by_pair(checks: Sequence[dict[str, Any]]) -> dict[tuple[Any, Any, Any], dict[str, Any]]:
    """Return checks by pair; later ones replace earlier ones."""
    return {_key(check): check for check in checks}


def _key(check: dict[str, Any]) -> tuple[Any, Any, Any]:
    return check["launch"], check["input"], check["output"]


def _duration(seconds: float) -> str:
    """Return `12 s`, `3 min`: with no more digits than an estimate has."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min"


def _pairs(count: int) -> str:
    return f"{count} pair{'' if count == 1 else 's'}"

"""Runs the pairs of a mask for the panel, and tells how it goes; nothing here knows of widgets or comms."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapedebug._errors import TapedebugError
from tapedebug.notebook._gate import gate

if TYPE_CHECKING:
    from tapedebug.notebook._subject import Subject

MaskEntry = list[Any]
"""``[launch, input, output]``: launch index, or None for the whole tape, and two names."""

Report = Callable[..., None]
"""Called with any of ``running``, ``progress``, ``status``, ``checks``."""

BETWEEN_REPORTS = 0.05
"""Seconds: a browser draws no faster, and a check of microseconds should not drown in messages."""


class CheckRunner:
    """The checks of one tape.

    Args:
        subject: The tape with its trace. Without a tape (a trace that was recorded elsewhere) every run
        says so. report: Told of every change, with keyword arguments.
    """

    def __init__(self, subject: Subject, report: Report) -> None:
        self.subject = subject
        self.checks: list[dict[str, Any]] = list(subject.trace["checks"])
        self._report = report
        self._cancelled = threading.Event()
        self._running = threading.Lock()
        self._told = 0.0

    @property
    def running(self) -> bool:
        """Whether a run is under way."""
        return self._running.locked()

    def adopt(self, subject: Subject) -> bool:
        """Take a newer trace of the same tape, keep the results; False if the tape is another, or longer."""
        then, now = self.subject.source.tape, subject.source.tape
        if subject.tape is not self.subject.tape or then.launches != now.launches:
            return False
        done = [check for check in self.checks if check["verdict"] is not None]
        self.subject = subject
        self.checks = merge(subject.trace["checks"], done)
        return True

    def cancel(self) -> None:
        """Ask the run to stop after the pair that it is at; the results so far stay."""
        self._cancelled.set()

    def start(self, mask: Sequence[MaskEntry]) -> threading.Thread | None:
        """Run the pairs in a thread; None where a run is under way already."""
        if not self._running.acquire(blocking=False):
            return None
        self._cancelled.clear()
        waits = "Waiting for the running cell …" if gate.busy else "Starting …"
        self._report(running=True, progress=0.0, status=waits)
        thread = threading.Thread(
            target=self._in_thread, args=(list(mask),), name="tapedebug checks", daemon=True
        )
        thread.start()
        return thread

    def run(self, mask: Sequence[MaskEntry]) -> list[dict[str, Any]]:
        """Run the pairs here and now and return their results.

        Raises:
            TapedebugError: The tape can not be checked, or a pair of the mask does not exist.
            KeyboardInterrupt: As ever; the results so far are in `checks`.
        """
        if not self._running.acquire(blocking=False):
            raise TapedebugError(
                "A check of this tape is running already.", mend="Wait for it, or call cancel()."
            )
        self._cancelled.clear()
        try:
            return self._check(list(mask))
        finally:
            self._running.release()
            self._report(running=False)

    def _in_thread(self, mask: list[MaskEntry]) -> None:
        try:
            with gate.for_check(self.cancel):
                self._check(mask)
        except Exception as error:
            self._report(status=describe(error))
        finally:
            self._running.release()
            self._report(running=False)

    def _check(self, mask: list[MaskEntry]) -> list[dict[str, Any]]:
        if self.subject.tape is None:
            raise TapedebugError(
                "This tape was recorded elsewhere: only its trace is here, and checks run kernels.",
                mend="Record it again in this kernel.",
            )
        then, now = self.subject.source.tape.launches, len(self.subject.tape.records)
        if then != now:
            raise TapedebugError(
                f"The tape has changed since this was drawn: it had {then} launches and has {now} now.",
                mend="Show it again, then run.",
            )
        if not mask:
            raise TapedebugError("No pair is switched on.", mend="Switch on a pair of the mask, then run.")
        from tapedebug.autograd import check_pairs

        started = time.perf_counter()
        self._told = 0.0
        self._report(running=True, progress=0.0, status=f"Checking {_pairs(len(mask))} …")
        results = check_pairs(
            self.subject.tape,
            [{"launch": launch, "input": source, "output": target} for launch, source, target in mask],
            labels=self.subject.labels(),
            progress=self._progressed,
            cancelled=self._cancelled.is_set,
        )
        fresh = [result.to_dict() for result in results]
        self.checks = merge(self.checks, fresh)
        seconds = time.perf_counter() - started
        self._report(checks=self.checks, progress=1.0, status=self._summary(fresh, len(mask), seconds))
        return fresh

    def _progressed(self, fraction: float, *_: Any) -> None:
        now = time.monotonic()
        if now - self._told >= BETWEEN_REPORTS:
            self._told = now
            self._report(progress=min(1.0, max(0.0, float(fraction))))

    def _summary(self, fresh: Sequence[dict[str, Any]], asked: int, seconds: float) -> str:
        counts = Counter(str(check["verdict"]) for check in fresh if check["verdict"] is not None)
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
        if self._cancelled.is_set():
            done = sum(counts.values())
            return f"Cancelled after {done} of {_pairs(asked)}" + (f": {verdicts}." if verdicts else ".")
        return f"{_pairs(asked)} checked in {seconds:.2g} s: {verdicts}."


def write_report(trace: dict[str, Any], checks: Sequence[dict[str, Any]], path: str | Path) -> Path:
    """Write a trace with the results of checks as one offline HTML file; return its absolute path.

    Raises:
        OSError: It can not be written.
    """
    from tapedebug.report import report

    return report({**trace, "checks": list(checks)}, path)


def merge(before: Sequence[dict[str, Any]], fresh: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return `before` with the pairs of `fresh` replaced in place, and those that are new at the end."""
    newer = {_key(check): check for check in fresh}
    merged = [newer.pop(_key(check), check) for check in before]
    return [*merged, *newer.values()]


def describe(error: BaseException) -> str:
    """Return an error for a status line: its message, with its type where that says more."""
    text = str(error).strip()
    if isinstance(error, TapedebugError):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _key(check: dict[str, Any]) -> tuple[Any, Any, Any]:
    return check["launch"], check["input"], check["output"]


def _pairs(count: int) -> str:
    return f"{count} pair{'' if count == 1 else 's'}"

"""The kernel side of the JupyterLab extension: lists live tapes, sends traces, runs checks.

Each message is a dict with ``type`` and, for a request, a number ``request`` that its answer repeats.
``js/src/lab/protocol.ts`` describes the protocol. With ipykernel 7 messages arrive while a cell runs, in
another thread; then the list is sent, and requests that would access a tape are answered with ``busy``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tapedebug import _shell
from tapedebug._errors import TapedebugError, TapeError
from tapedebug._progress import cancelled_by
from tapedebug.diagnose import Diagnosis, diagnose
from tapedebug.notebook._cell_marks import cell_marks
from tapedebug.notebook._update_pace import UpdatePace
from tapedebug.notebook.display import write_report
from tapedebug.notebook.record_next_cell import next_cell
from tapedebug.panel.check_runner import CheckRunner, checked_tapes, describe
from tapedebug.panel.execution_lock import execution_lock
from tapedebug.panel.pair_mask import check_mask
from tapedebug.panel.panel_source import (
    PanelSource,
    default_mask,
    named,
    remember,
    row_follows,
    subject_of,
    tape_row,
)
from tapedebug.panel.queries import answer_later

if TYPE_CHECKING:
    from comm.base_comm import BaseComm

    from tapedebug.runtime import Tape
    from tapedebug.trace import Trace

TARGET = "tapedebug"

PROCESS = uuid4().hex
"""Id of this kernel process, which changes with a restart while the kernel id stays the same."""

_DIAGNOSES: dict[int, list[threading.Event]] = {}
"""For each tape that is diagnosed on request, of any front end, the events that cancel its diagnoses."""


def register() -> None:
    """Register the comm target to which the JupyterLab extension connects."""
    import comm

    comm.get_comm_manager().register_target(TARGET, opened)


def opened(channel: BaseComm, _: object = None) -> Connection:
    """Create the connection of a side bar or tab that has opened a comm."""
    return Connection(channel)


class Connection:
    """One connected front end, with a check runner for each tape that it has open."""

    def __init__(self, channel: BaseComm) -> None:
        from tapedebug import __version__

        self._channel = channel
        self._runners: dict[int, CheckRunner] = {}
        self._waiting: dict[int, list[int | None]] = {}
        """For each tape that is being diagnosed on request, the requests of its trace that came meanwhile."""
        self._waiting_lock = threading.Lock()
        channel.on_msg(self._on_message)
        channel.on_close(self._closed)
        self._deaf = next_cell.listen(lambda change: self._say("next", **change))
        self._say("hello", version=__version__, process=PROCESS, next=next_cell.describe())

    def _on_message(self, message: dict[str, Any]) -> None:
        question = message.get("content", {}).get("data", {})
        request = question.get("request")
        try:
            kind = question.get("type")
            if kind in {"run", "cancel", "arm", "forget"}:
                getattr(self, f"_{kind}")(question)
                self._say("done", request=request)
            elif kind == "list":
                self._say("tapes", request=request, tapes=tape_rows(), busy=execution_lock.cell_running)
            elif kind == "diagnose":
                self._diagnose(question, request)
            elif kind == "ask":
                subject = self._runner(question).subject
                answer_later(subject, question.get("question"), request, self._send)
            elif kind == "trace" and self._wait(question.get("tape"), request):
                pass
            elif kind in {"trace", "export", "marks"}:
                self._between_cells(kind, question, request)
            else:
                self._say("error", request=request, message=f"The kernel's tapedebug does not know {kind!r}.")
        except Exception as error:
            self._say("error", request=request, message=describe(error))

    def _between_cells(self, kind: str, question: dict[str, Any], request: int | None) -> None:
        """Answer a question that accesses a tape, unless a cell or a check is running."""
        holder = execution_lock.holder
        with execution_lock.between_cells() as quiet:
            answer = getattr(self, f"_{kind}")(question) if quiet else ("busy", {"holder": holder})
        self._say(answer[0], request=request, **answer[1])

    def _closed(self, _: object = None) -> None:
        self._deaf()
        for runner in self._runners.values():
            runner.cancel()

    def _say(
        self, kind: str, *, request: int | None = None, buffers: list[bytes] | None = None, **fields: object
    ) -> None:
        message = {"type": kind, **fields}
        if request is not None:
            message["request"] = request
        if buffers is None:
            self._channel.send(message)
        else:
            self._channel.send(message, buffers=buffers)

    def _send(self, message: dict[str, Any], buffers: list[bytes]) -> None:
        self._channel.send(message, buffers=buffers)

    def _arm(self, question: dict[str, Any]) -> None:
        next_cell.arm(question.get("on") is True)

    def _forget(self, question: dict[str, Any]) -> None:
        """Cancel the checks of a closed tab and drop its data."""
        runner = self._runners.pop(question.get("tape", -1), None)
        if runner is not None:
            runner.cancel()

    def _marks(self, _: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        from tapedebug._tape_observers import live_tapes

        return "marks", {"cells": cell_marks(tape for tape in live_tapes() if not tape.is_recording)}

    def _trace(self, question: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        tape = find_tape(question.get("tape"))
        return self._shown(tape.id, subject_of(tape))

    def _shown(self, number: int, subject: PanelSource) -> tuple[str, dict[str, Any]]:
        """Return the answer with a trace; later questions about the tape are about this trace."""
        runner = self._runners.get(number)
        if runner is None or not runner.adopt(subject):
            runner = self._runners[number] = self._new_runner(subject)
        return "trace", {
            "tape": number,
            "head": subject.head,
            "columns": list(subject.packed.columns),
            "mask": default_mask(subject.head),
            "checks": runner.checks,
            "buffers": list(subject.packed.columns.values()),
        }

    def _new_runner(self, subject: PanelSource) -> CheckRunner:
        number = subject.source.tape.id

        def report(**changes: object) -> None:
            self._say("state", tape=number, state=changes)

        return CheckRunner(subject, report)

    def _run(self, question: dict[str, Any]) -> None:
        runner = self._runner(question)
        runner.start(check_mask(question.get("mask", []), runner.subject.source))

    def _cancel(self, question: dict[str, Any]) -> None:
        """Cancel the diagnosis of a tape, else its checks."""
        diagnoses = list(_DIAGNOSES.get(question.get("tape", -1), ()))
        for event in diagnoses:
            event.set()
        if not diagnoses:
            self._runner(question).cancel()

    def _export(self, question: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        runner = self._runner(question)
        number = runner.subject.source.tape.id
        target = write_report(runner.subject, runner.checks)
        self._say("state", tape=number, state={"status": f"Report written to {target}"})
        return "done", {"message": f"Report written to {target}"}

    def _diagnose(self, question: dict[str, Any], request: int | None) -> None:
        """Diagnose a tape in a thread; send its row with the findings so far, and then the list of tapes.

        A diagnosis that is cancelled leaves what it has found.
        """
        tape = find_tape(question.get("tape"))
        cancel = threading.Event()
        _DIAGNOSES.setdefault(tape.id, []).append(cancel)

        def work() -> None:
            try:
                lock = execution_lock.for_check(
                    cancel.set, f"the diagnosis of tape {tape.id}", cancelled=cancel.is_set
                )
                with lock as acquired, cancelled_by(cancel):
                    if acquired:
                        run()
                    rows = tape_rows()
                self._say("tapes", request=request, tapes=rows)
            except Exception as error:
                self._say("error", request=request, message=describe(error))
            finally:
                _DIAGNOSES[tape.id].remove(cancel)

        def run() -> None:
            last: list[Trace] = []
            with row_follows(tape) as take, self._trace_follows(tape) as show_trace:

                def show(trace: Trace) -> None:
                    take(trace)
                    self._say("row", row=row_of(tape))
                    show_trace(trace)

                pace = UpdatePace(show)

                def follow(trace: Trace) -> None:
                    last[:] = [trace]
                    pace(trace)

                try:
                    found = _shell.in_namespace(lambda: diagnose(tape, progress=False, so_far=follow))
                except KeyboardInterrupt:
                    if not last or last[0].verdict == "NOT CHECKED":
                        return
                    found = Diagnosis(last[0].verdict, last[0].coverage, last[0].findings, last[0])
                remember(tape, found)

        threading.Thread(target=work, name="tapedebug diagnosis", daemon=True).start()

    @contextmanager
    def _trace_follows(self, tape: Tape) -> Iterator[Callable[[Trace], None]]:
        """Context of a diagnosis; the tab of the tape, open or opened meanwhile, has its findings so far.

        Yields:
            The function that sends a trace of `diagnose(so_far=…)`. It packs it, in the thread of the
            diagnosis, as the columns of such a trace are those that the diagnosis goes on to fill.
        """
        number = tape.id

        def show(trace: Trace) -> None:
            runner = self._runners.get(number)
            if runner is not None and runner.running:
                return
            with self._waiting_lock:
                requests, self._waiting[number] = self._waiting[number], []
            if runner is not None or requests:
                kind, answer = self._shown(number, PanelSource(named(tape, trace), tape))
                for request in requests or [None]:
                    self._say(kind, request=request, **answer)

        with self._waiting_lock:
            self._waiting[number] = []
        try:
            yield show
        finally:
            with self._waiting_lock:
                requests = self._waiting.pop(number)
            for request in requests:
                try:
                    kind, answer = self._trace({"tape": number})
                except TapedebugError as error:
                    kind, answer = "error", {"message": describe(error)}
                self._say(kind, request=request, **answer)

    def _wait(self, number: object, request: int | None) -> bool:
        """Note a request of a trace if the tape is being diagnosed, which then answers it; else False."""
        with self._waiting_lock:
            waiting = self._waiting.get(number)  # type: ignore[call-overload]
            if waiting is not None:
                waiting.append(request)
        return waiting is not None

    def _runner(self, question: dict[str, Any]) -> CheckRunner:
        """Return the runner of a tape whose trace the front end has."""
        tape = find_tape(question.get("tape"))
        if tape.id not in self._runners:
            self._trace(question)
        return self._runners[tape.id]


def find_tape(number: object) -> Tape:
    """Return the live tape with this id.

    Raises:
        TapeError: There is none; the message lists the live tapes.
    """
    from tapedebug._tape_observers import live_tapes

    tapes = {tape.id: tape for tape in live_tapes()}
    found: Tape | None = tapes.get(number)
    if found is not None:
        return found
    known = ", ".join(str(known) for known in sorted(tapes)) or "none"
    raise TapeError(f"Tape {number} no longer exists. Live tapes: {known}.")


def row_of(tape: Tape) -> dict[str, Any]:
    """Return the side bar's row of a tape."""
    return {**tape_row(tape), "checking": tape.id in checked_tapes()}


def tape_rows() -> list[dict[str, Any]]:
    """Return the side bar's row of each live tape, newest first, without any computation.

    A running cell may record at the same time, so the counted collections may change during the count.
    """
    from tapedebug._tape_observers import live_tapes

    for attempt in range(5):
        try:
            return [row_of(tape) for tape in sorted(live_tapes(), key=lambda tape: -tape.id)]
        except RuntimeError:
            if attempt == 4:
                raise
    raise AssertionError("unreachable")

"""Queries that a panel sends when a view needs more data, and the function that answers each kind.

A query is a dict with ``type``. An answer is JSON-compatible data and buffers; the panel in a widget, the
JupyterLab extension and reports transport both, independently of the kind. ``js/src/trace/store.ts``
describes the client side.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import field
from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug._errors import TapedebugError
from tapedebug.panel.check_runner import describe
from tapedebug.panel.execution_lock import execution_lock
from tapedebug.panel.jacobian_query import is_kept, respond_script
from tapedebug.panel.jacobian_query import respond as respond_jacobian
from tapedebug.panel.js_chunks import respond as respond_chunk
from tapedebug.panel.panel_source import PanelSource
from tapedebug.panel.values_query import respond as respond_values


@dataclass(frozen=True)
class Answer:
    """JSON-compatible `data`, and `buffers` in little-endian order that it describes."""

    data: dict[str, Any]
    buffers: list[bytes] = field(default_factory=list)


Respond = Callable[[PanelSource, Mapping[str, Any]], Answer]

KINDS: dict[str, Respond] = {
    "jacobian": respond_jacobian,
    "chunk": respond_chunk,
    "script": respond_script,
    "values": respond_values,
}
"""Answering functions by the ``type`` of the query."""

AT_ONCE: dict[str, Callable[[PanelSource, Mapping[str, Any]], bool]] = {
    "jacobian": is_kept,
    "chunk": lambda *_: True,
}
"""Tests by query type: queries that need no computation may be answered while a cell or check runs."""


def answer(subject: PanelSource, question: Mapping[str, Any]) -> Answer:
    """Return the answer to a query about a tape.

    Raises:
        TapedebugError: The kind of query is unknown, or there is no answer; the message contains the reason.
    """
    kind = question.get("type")
    if kind not in KINDS:
        raise TapedebugError(f"The kernel's tapedebug does not know the question {kind!r}.")
    return KINDS[kind](subject, question)


def answer_later(
    subject: PanelSource,
    question: object,
    request: object,
    send: Callable[[dict[str, Any], list[bytes]], None],
) -> threading.Thread:
    """Answer in a thread, if necessary after the running cell or check; `send` the message and its buffers.

    The message is ``{"type": "answer", "request", "data"}``, or ``{"type": "refused", "request",
    "message"}``.
    """

    def work() -> None:
        try:
            asked = question if isinstance(question, Mapping) else {}
            known = AT_ONCE.get(str(asked.get("type")))
            at_once = known is not None and known(subject, asked)
            with nullcontext() if at_once else execution_lock.for_check(lambda: None, _named(subject)):
                given = answer(subject, asked)
            send({"type": "answer", "request": request, "data": given.data}, given.buffers)
        except Exception as error:
            send({"type": "refused", "request": request, "message": describe(error)}, [])

    thread = threading.Thread(target=work, name="tapedebug answer", daemon=True)
    thread.start()
    return thread


def _named(subject: PanelSource) -> str:
    """Return the name of a query for the status lines of waiting checks."""
    return f"what a panel of tape {subject.source.tape.id} asked for"

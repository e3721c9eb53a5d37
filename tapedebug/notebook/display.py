"""Rich display of tapes, traces and diagnoses: the panel if possible, else static HTML or text."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tapedebug import _shell
from tapedebug._errors import TapedebugError
from tapedebug.autograd.sparse.jacobian_dict import Jacobians
from tapedebug.diagnose import Diagnosis
from tapedebug.diagnose.timings import END_TO_END
from tapedebug.notebook._html import trace_html
from tapedebug.panel.jacobian_query import is_kept
from tapedebug.panel.panel_source import PanelSource, subject_of
from tapedebug.report import AnswerBudget, answered, embed_answers, unused_path
from tapedebug.report import write_report as write_page
from tapedebug.runtime import array, indexedarray

if TYPE_CHECKING:
    from tapedebug.autograd.hessian import HessianCheck
    from tapedebug.autograd.tapes.end_to_end import EndToEnd

TRACE_MIME = "application/vnd.tapedebug.trace+json"
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"

MOST_SAVED = 4_000_000
"""Size limit in bytes of one panel's JSON in a notebook, reached by a tape of about 100,000 launches."""

MOST_ANSWERS = AnswerBudget(bytes=100_000, seconds=1.0)
"""Limits of size and time of the answers in a notebook that a live panel computes only on request."""
MOST_ANSWERED = 5_000
"""Largest number of launches for which a saved notebook has such answers: display must be fast."""

Bundle = tuple[dict[str, Any], dict[str, Any]]

Static: TypeAlias = "array | indexedarray | Jacobians | EndToEnd | HessianCheck"
"""Results that have static HTML instead of a panel."""


def tape_bundle(obj: object, include: object = None, exclude: object = None) -> Bundle:
    """Return the MIME bundle (data, metadata) of a `Tape`, `Trace` or `Diagnosis`.

    In a notebook it holds the live panel, the trace for a saved notebook without a kernel, static HTML and
    plain text; elsewhere only the text. A notebook that a program runs has no live panel: nbconvert would
    prefer it to the static HTML, and load its front end from the network. `include` and `exclude` are unused:
    IPython filters by itself.
    """
    text = _plain(obj)
    if not _shell.in_notebook():
        return {"text/plain": text}, {}
    from tapedebug.notebook._open_panels import open_panel

    if _shell.is_batch():
        subject = subject_of(obj)
        return bundle_of(subject, subject.checks, text, answers=saved_answers(subject, subject.checks))
    try:
        panel = open_panel(obj)
    except ImportError as error:
        warnings.warn(f"The panel cannot be shown ({error}); this is its static form.", stacklevel=2)
        subject = subject_of(obj)
        return bundle_of(subject, subject.checks, text)
    data, metadata = panel.bundle()
    return {**data, "text/plain": text}, metadata


def marimo_view(obj: object) -> Any:
    """Return the view of a `Tape`, `Trace` or `Diagnosis` in marimo: the panel, or its static form.

    marimo calls it through `_display_`, and displays widgets by itself.
    """
    from tapedebug.notebook._open_panels import open_panel

    try:
        return open_panel(obj)
    except ImportError as error:
        warnings.warn(f"The panel cannot be shown ({error}); this is its static form.", stacklevel=2)
        return _Html(trace_html(subject_of(obj).head))


class _Html:
    """Object with an HTML representation."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_html_(self) -> str:
        return self.text


def static_bundle(obj: Static) -> Bundle:
    """Return the MIME bundle of an object without a panel: static HTML in a notebook, and text everywhere.

    Args:
        obj: An array, Jacobians, or the result of `end_to_end` or `hvp_check`.
    """
    data: dict[str, Any] = {"text/plain": repr(obj)}
    if _shell.in_notebook():
        data["text/html"] = _static_html(obj)
    return data, {}


def bundle_of(
    subject: PanelSource,
    checks: Sequence[dict[str, Any]],
    text: str,
    *,
    model_id: str | None = None,
    mask: list[Any] | None = None,
    answers: list[dict[str, Any]] | None = None,
) -> Bundle:
    """Return the MIME bundle of a trace.

    Args:
        subject: The displayed source.
        checks: The results of its checks so far.
        text: The plain-text form.
        model_id: The live widget that shows it.
        mask: The enabled pairs, for the panel without a kernel.
        answers: The result of `saved_answers`, for the panel without a kernel.
    """
    data: dict[str, Any] = {"text/plain": text}
    metadata: dict[str, Any] = {}
    head = {**subject.head, "checks": list(checks)}
    size = len(subject.sealed) + len(json.dumps(head, separators=(",", ":")))
    note = ""
    if size <= MOST_SAVED:
        data[TRACE_MIME] = {"head": head, "columns": subject.sealed}
        metadata[TRACE_MIME] = {"mask": mask or [], "answers": answers or []}
    else:
        note = (
            f"The tape's trace ({size / 1e6:.0f} MB) is too large to keep in a notebook. "
            "Write it to a file with %tape_report."
        )
    data["text/html"] = trace_html(head, note)
    if model_id is not None:
        data[WIDGET_MIME] = {"version_major": 2, "version_minor": 0, "model_id": model_id}
    return data, metadata


def saved_answers(subject: PanelSource, checks: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers for a saved notebook: failed Jacobians, values around findings.

    Args:
        subject: The source that answers.
        checks: The results of its checks so far.
    """
    launches = subject.source.launches
    if subject.tape is None or len(launches) > MOST_ANSWERED:
        return []
    known = answered(subject.source, subject.tape, packed=subject.packed, checks=checks)
    compared = sum(each.seconds for each in subject.source.timings if each.step == END_TO_END)

    def ask(question: dict[str, Any]) -> tuple[dict[str, Any], list[bytes]]:
        """Answer a question, unless that means to compare the gradient again, which takes too long."""
        whole = question["type"] == "jacobian" and question["launch"] is None
        if whole and compared > MOST_ANSWERS.seconds and not is_kept(subject, question):
            raise TapedebugError("this takes as long as the diagnosis")
        return known.ask(question)

    return embed_answers(known.head, launches, ask, known.kinds, MOST_ANSWERS)[0]


def write_report(
    subject: PanelSource, checks: Sequence[dict[str, Any]], path: str | Path | None = None
) -> Path:
    """Write a tape with the results of checks as one offline HTML file; return its absolute path.

    Without `path` the file is named after the tape, and no existing file is replaced.

    Raises:
        OSError: The file cannot be written.
    """
    shown = answered(subject.source, subject.tape, packed=subject.packed, checks=checks)
    return write_page([shown], unused_path(subject.source.name) if path is None else path)


def _static_html(obj: Static) -> str:
    if isinstance(obj, array | indexedarray):
        from tapedebug.notebook._array_html import array_html

        return array_html(obj)
    from tapedebug.notebook import _results_html

    if isinstance(obj, Jacobians):
        return _results_html.jacobians_html(obj)
    return _results_html.check_html(obj)


def _plain(obj: object) -> str:
    """Return the text form: the complete text of a diagnosis, else one line."""
    return str(obj) if isinstance(obj, Diagnosis) else repr(obj)

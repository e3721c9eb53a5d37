"""How tapes, traces and diagnoses look in a notebook: the panel where there is one, static HTML, text."""

from __future__ import annotations

import json
import warnings
from typing import Any

from tapedebug.notebook import _shell
from tapedebug.notebook._html import trace_html
from tapedebug.notebook._subject import subject_of

TRACE_MIME = "application/vnd.tapedebug.trace+json"
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"

MOST_SAVED = 8_000_000
"""Bytes of JSON that a notebook may be made to carry for one panel; a tape of about 15,000 launches."""

Bundle = tuple[dict[str, Any], dict[str, Any]]


def tape_bundle(obj: Any, include: Any = None, exclude: Any = None) -> Bundle:
    """Return the MIME bundle (data, metadata) of a `Tape`, `Trace` or `Diagnosis`.

    In a notebook it holds the live panel, the trace for a saved notebook without a kernel, static HTML and
    plain text; elsewhere only the text. `include` and `exclude` are IPython's, which filters by itself.
    """
    text = _plain(obj)
    if not _shell.in_notebook():
        return {"text/plain": text}, {}
    from tapedebug.notebook._panels import open_panel

    try:
        panel = open_panel(obj)
    except ImportError as error:
        warnings.warn(f"The panel can not be shown ({error}); this is its static form.", stacklevel=2)
        return bundle_of(subject_of(obj).trace, text)
    data, metadata = panel.bundle()
    return {**data, "text/plain": text}, metadata


def bundle_of(
    trace: dict[str, Any], text: str, *, model_id: str | None = None, mask: list[Any] | None = None
) -> Bundle:
    """Return the MIME bundle of a trace.

    Args:
        trace: The trace as JSON-compatible data.
        text: The plain-text form.
        model_id: The live widget that shows it.
        mask: The pairs that are switched on, for the panel without a kernel.
    """
    data: dict[str, Any] = {"text/plain": text}
    metadata: dict[str, Any] = {}
    size = len(json.dumps(trace, separators=(",", ":")))
    note = ""
    if size <= MOST_SAVED:
        data[TRACE_MIME] = trace
        metadata[TRACE_MIME] = {"mask": mask or []}
    else:
        note = (
            f"The tape's trace ({size / 1e6:.0f} MB) is too large to keep in a notebook. "
            "Write it to a file with %tape_report."
        )
    data["text/html"] = trace_html(trace, note)
    if model_id is not None:
        data[WIDGET_MIME] = {"version_major": 2, "version_minor": 0, "model_id": model_id}
    return data, metadata


def _plain(obj: Any) -> str:
    """Return the text form: the whole diagnosis in words, else one line."""
    from tapedebug.diagnose import Diagnosis

    return str(obj) if isinstance(obj, Diagnosis) else repr(obj)

"""`report`: a tape, a trace or a diagnosis as one HTML file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tapedebug._atomic import written_whole
from tapedebug.report._assets import load_assets
from tapedebug.report._page import build_page
from tapedebug.report._reduce import Json, reduce_trace

if TYPE_CHECKING:
    from tapedebug.diagnose import Diagnosis
    from tapedebug.runtime import Tape
    from tapedebug.trace import Trace

    Reportable: TypeAlias = Tape | Trace | Diagnosis | Json


def report(
    obj: Reportable | Sequence[Reportable], path: str | os.PathLike[str], *, redact_source: bool = False
) -> Path:
    """Write a report: one HTML file that shows the panel, with no network and nothing to install.

    The file appears complete or not at all. Very long texts and lists are cut, and the report says so.

    Args:
        obj: A `Tape`, a `Trace`, a `Diagnosis`, the JSON data of a trace, or a list of these, which the
            report shows one at a time.
        path: The file to write.
        redact_source: Leave out source, generated code and the folders of files. Names of kernels and
            arrays, line numbers and values stay.

    Returns:
        The absolute path of the file.

    Raises:
        TypeError: `obj` is nothing that has a trace.
        TraceError: `obj` is JSON data that is no trace.
        BundleError: The front end of this installation was not built.
        OSError: The file can not be written.
    """
    from tapedebug import __version__

    traces: list[Json] = []
    notes: list[str] = []
    for item in _items(obj):
        trace, said = reduce_trace(_trace_of(item), redact_source=redact_source)
        traces.append(trace)
        notes.extend(note for note in said if note not in notes)
    page = build_page(traces, notes, load_assets(), __version__)
    return _write(page, Path(path).absolute())


def _items(obj: Any) -> list[Any]:
    if not isinstance(obj, list | tuple):
        return [obj]
    if not obj:
        raise TypeError("there is nothing to report: the sequence is empty")
    return list(obj)


def _trace_of(obj: Any) -> Json:
    from tapedebug.diagnose import Diagnosis
    from tapedebug.runtime import Tape
    from tapedebug.trace import Trace, trace_from_json

    if isinstance(obj, dict):
        obj = trace_from_json(obj)  # so that damaged data is told here, not in the browser
    elif isinstance(obj, Tape):
        obj = obj.trace()
    elif isinstance(obj, Diagnosis):
        obj = obj.trace
    if not isinstance(obj, Trace):
        raise TypeError(
            "a report is made of a Tape, a Trace, a Diagnosis or the JSON data of a trace, "
            f"not of {type(obj).__name__} {obj!r:.80}"
        )
    return obj.to_json()


def _write(page: str, target: Path) -> Path:
    with written_whole(target) as stream:
        stream.write(page.encode("utf-8"))
    return target

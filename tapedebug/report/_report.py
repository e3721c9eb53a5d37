"""The function `report`, which writes a tape, a trace or a diagnosis as one HTML file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from tapedebug._atomic import require_place, write_whole
from tapedebug._errors import ArgumentError
from tapedebug.report._assets import load_assets
from tapedebug.report._embedded_answers import AnswerBudget, embed_answers
from tapedebug.report._page import build_page
from tapedebug.report._redact import Redactor
from tapedebug.report._report_source import ReportSource, report_sources
from tapedebug.report._sentences import sentences
from tapedebug.report._size_limits import Json, reduce_trace
from tapedebug.trace.packing import Packed, seal

if TYPE_CHECKING:
    from tapedebug.contract import RecordedTape
    from tapedebug.diagnose import Diagnosis
    from tapedebug.trace import Trace

    Reportable: TypeAlias = RecordedTape | Trace | Diagnosis | Json

LONGEST_NAME = 60
"""Largest number of characters of a tape's name in a file name."""


def report(
    obj: Reportable | Sequence[Reportable],
    path: str | os.PathLike[str],
    *,
    redact_source: bool = False,
    diagnose: bool = True,
) -> Path:
    """Write a report: one HTML file that shows the panel, with no network and nothing to install.

    The file appears complete or not at all. Very long texts and lists are cut, which the report states. If
    the tape is alive in this process, the Jacobians of failed pairs and the values around the findings are
    also computed and embedded.

    Args:
        obj: A `Tape`, a `Trace`, a `Diagnosis`, the JSON data of a trace, or a list of these, which the
            report shows one at a time.
        path: The file to write.
        redact_source: Leave out source, generated code and the folders of files. Names of kernels and
            arrays, line numbers and values stay.
        diagnose: Diagnose a `Tape` that has no diagnosis, or whose newest is older than its last launch or
            reverse pass. False reports such a tape as it is, with nothing checked.

    Returns:
        The absolute path of the file.

    Raises:
        TypeError: `obj` is none of these.
        TraceError: `obj` is JSON data that is not a trace.
        BundleError: The front end of this installation has not been built.
        OSError: The file cannot be written.
    """
    require_place(Path(path).absolute())  # before the minutes that a diagnosis may take
    load_assets()
    subjects = [subject for item in _items(obj) for subject in report_sources(item, diagnose=diagnose)]
    return write_report(subjects, path, redact_source=redact_source)


def write_report(
    subjects: Sequence[ReportSource],
    path: str | os.PathLike[str],
    *,
    redact_source: bool = False,
    diff: Json | None = None,
) -> Path:
    """Write a report of the results of `report_sources`; `diff` is the comparison of two of them."""
    from tapedebug import __version__

    target = Path(path).absolute()
    require_place(target)
    assets = load_assets()  # before the minutes that answers may take
    traces: list[Json] = []
    answers: list[Json] = []
    notes: list[str] = []
    room = AnswerBudget().shared(len(subjects))
    for number, subject in enumerate(subjects):
        head, said = reduce_trace(subject.head, redact_source=redact_source)
        launches = subject.trace.launches
        embedded, more = embed_answers(subject.head, launches, subject.ask, subject.kinds, room)
        if redact_source:
            redactor = Redactor(subject.head)
            embedded = [redactor.answer(item) for item in embedded]
        traces.append(seal(Packed(head, subject.columns)))
        answers += [{"tape": number, **item} for item in embedded]
        notes.extend(note for note in [*said, *more] if note not in notes)
    data: Json = {
        "traces": traces,
        "notes": notes,
        "answers": answers,
        "sentences": [sentences(trace["head"]) for trace in traces],
    }
    if diff is not None:
        data["diff"] = diff
    write_whole(target, build_page(data, assets, __version__))
    return target


def _items(obj: object) -> list[Any]:
    if not isinstance(obj, list | tuple):
        return [obj]
    if not obj:
        raise ArgumentError("there is nothing to report: the sequence is empty")
    return list(obj)


def unused_path(name: str, folder: Path | None = None) -> Path:
    """Return an unused path for the report of a tape.

    Args:
        name: The tape's name, any text: ``"net"`` gives ``tapedebug-report-net.html``, then
            ``tapedebug-report-net-2.html``.
        folder: The folder; by default the working directory, and then the path is relative.
    """
    called = re.sub(r"[^\w.]+", "-", name[:LONGEST_NAME]).strip("-.") or "tape"
    for number in count(1):
        again = "" if number == 1 else f"-{number}"
        path = (folder or Path()) / f"tapedebug-report-{called}{again}.html"
        if not path.exists() and not path.is_symlink():
            return path
    raise AssertionError("unreachable")

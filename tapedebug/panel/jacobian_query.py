"""The answer to ``{"type": "jacobian"}``: a Jacobian as a check compared it.

``launch`` (None for the whole tape), ``input`` and ``output`` identify it; ``rows`` and ``columns`` select a
window ``[from, to]`` of it. Cached results of a check are shown without computing them again; a pair that has
not been checked is checked now. With ``whole`` all entries are evaluated, also if a check took a sample. The
answer's data has

- ``verdict``, ``message``, ``max_abs_error``, ``max_rel_error``, ``tolerance``, ``evaluation``, ``notes``;
- ``output`` and ``input``: ``name``, ``shape`` of the elements, ``suffixes`` of their components;
- ``shape`` of the Jacobian, ``rows`` and ``columns`` of the window, ``cells`` of the maps; None if there are
  no entries; ``pooled``: the largest number of rows and columns of a cell, else None;
- ``scale``: largest ``value`` and ``error`` of the Jacobian; ``against``: the reference of the errors;
- ``worst``: the entries with the largest errors, first the one that the message is about;
- ``line``, ``further``, ``called``, ``thread``: the place that writes the output, as far as it is known;
- ``buffers``: name and dtype of each buffer; cells in C order.

``{"type": "script"}`` returns a script that reproduces the pair alone.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._errors import GradcheckError, TapedebugError
from tapedebug.autograd import check_pairs
from tapedebug.autograd.pair_check import pair_script
from tapedebug.autograd.results.pair_result import plain
from tapedebug.autograd.subjects.entry_names import component_name
from tapedebug.autograd.subjects.probes import flat_index
from tapedebug.lang.types import value_shape
from tapedebug.panel.execution_lock import execution_lock
from tapedebug.panel.jacobian_cells import ADJOINT, MOST_UNPOOLED, MOST_WINDOW, Looked, Window
from tapedebug.panel.pair_mask import check_mask
from tapedebug.panel.result_cache import result_cache

if TYPE_CHECKING:
    from tapedebug._source import Span
    from tapedebug.autograd.results.pair_result import PairResult
    from tapedebug.panel.panel_source import PanelSource
    from tapedebug.panel.queries import Answer

WORST = 10
"""Largest number of entries that are listed."""

MOST_WHOLE = 1 << 18
"""Largest number of entries of a Jacobian that can be evaluated in full from the panel."""

LONGEST = 4_000
"""Largest number of characters of one message or note."""


def respond(subject: PanelSource, question: Mapping[str, Any]) -> Answer:
    """Return the Jacobian that a query requests.

    Raises:
        TapedebugError: There is no such pair, or no live tape; the message contains the reason.
    """
    from tapedebug.panel.queries import Answer

    launch, source, target = _asked(subject, question)
    pair = result_cache.find(subject, launch, source, target)
    whole = question.get("whole") is True
    if pair is None or (whole and _lacks(pair)):
        pair = _checked(subject, launch, source, target, whole)
    data = _as_json(subject, pair, launch, source, target)
    looked = Looked.of(pair)
    if looked is None:
        return Answer({**data, "cells": None, "worst": [], "buffers": []})
    shape = looked.compared.shape
    rows = _window(question, "rows", shape[0])
    columns = _window(question, "columns", shape[1])
    windowed = "rows" in question or "columns" in question
    cells, found = looked.cells(rows, columns, MOST_WINDOW if windowed else MOST_UNPOOLED)
    value, error = looked.scale()
    blocks = [
        math.ceil((to - start) / count) for (start, to), count in zip((rows, columns), cells, strict=True)
    ]
    data |= {
        "shape": list(shape),
        "rows": list(rows),
        "columns": list(columns),
        "cells": list(cells),
        "pooled": blocks if max(blocks) > 1 else None,
        "scale": {"value": value, "error": error},
        "against": looked.against,
        "worst": _worst(data, pair, looked),
        "buffers": [{"name": name, "dtype": values.dtype.str} for name, values in found.items()],
    }
    return Answer(data, [np.ascontiguousarray(values).tobytes() for values in found.values()])


def respond_script(subject: PanelSource, question: Mapping[str, Any]) -> Answer:
    """Return the script that reproduces a pair of a launch alone.

    Raises:
        TapedebugError: There is none; the message contains the reason.
    """
    from tapedebug.panel.queries import Answer

    launch, source, target = _asked(subject, question)
    pair = result_cache.find(subject, launch, source, target)
    if pair is None:
        pair = _checked(subject, launch, source, target, whole=False)
    assert subject.tape is not None, "refused by _asked"
    return Answer({"text": pair_script(subject.tape, pair)})


def is_kept(subject: PanelSource, question: Mapping[str, Any]) -> bool:
    """True if cached results of a check contain the Jacobian, so that nothing has to run."""
    names = [question.get(key) for key in ("launch", "input", "output")]
    if not isinstance(names[0], int | None) or not all(isinstance(name, str) for name in names[1:]):
        return False
    pair = result_cache.find(subject, names[0], str(names[1]), str(names[2]))
    return pair is not None and not (question.get("whole") is True and _lacks(pair))


def _asked(subject: PanelSource, question: Mapping[str, Any]) -> tuple[int | None, str, str]:
    tape = subject.tape
    if tape is None:
        raise TapedebugError("Jacobians need the kernel that recorded the tape: only its trace is here.")
    subject.require_unchanged()
    entry = [question.get("launch"), question.get("input"), question.get("output")]
    ((launch, source, target),) = check_mask([entry], subject.source)
    return launch, source, target


def _checked(subject: PanelSource, launch: int | None, source: str, target: str, whole: bool) -> PairResult:
    assert subject.tape is not None, "refused by _asked"
    stopped = threading.Event()
    with execution_lock.cancelling(stopped.set):
        results = check_pairs(
            subject.tape,
            [{"launch": launch, "input": source, "output": target}],
            labels=subject.labels(),
            cancelled=stopped.is_set,
            all_entries=whole,
        )
    if not results:
        raise TapedebugError("It was interrupted before it was done.")
    result_cache.keep(subject, results[0])
    return results[0]


def _lacks(pair: PairResult) -> bool:
    """True if entries that could be evaluated were not."""
    looked = pair.evaluated + pair.zeros
    known_zero = pair.compared is not None and pair.compared.zeros
    few = 0 < pair.entries <= MOST_WHOLE
    return pair.launch is not None and few and looked < pair.entries and not known_zero


def _window(question: Mapping[str, Any], axis: str, size: int) -> Window:
    """Return the requested range of rows or columns; all by default.

    Raises:
        GradcheckError: The request is not a valid range.
    """
    given = question.get(axis)
    if given is None:
        return 0, size
    whole = isinstance(given, list | tuple) and len(given) == 2
    if not whole or not all(isinstance(end, int) and not isinstance(end, bool) for end in given):
        raise GradcheckError(f"{axis} are a range [from, to]; not {given!r}"[:200])
    start, stop = given
    if not 0 <= start < stop <= size:
        raise GradcheckError(f"{axis} {start} to {stop} are not in this Jacobian, which has {size} {axis}")
    return start, stop


# ------------------------------------------------------------------ in words


def _as_json(
    subject: PanelSource, pair: PairResult, launch: int | None, source: str, target: str
) -> dict[str, Any]:
    line = pair.written.line if pair.written is not None else None
    called = pair.written.called if pair.written is not None else None
    return {
        "launch": launch,
        "subject": pair.subject,
        "verdict": pair.verdict,
        "message": pair.message[:LONGEST],
        "max_abs_error": plain(pair.max_abs_error),
        "max_rel_error": plain(pair.max_rel_error),
        "slopes": None if pair.slopes is None else [plain(slope) for slope in pair.slopes],
        "tolerance": _tolerance(pair),
        "evaluation": _evaluation(pair),
        "entries": pair.entries,
        "lacks": _lacks(pair),
        "notes": [note[:LONGEST] for note in pair.notes],
        "output": _side(subject, pair, launch, target, "output"),
        "input": _side(subject, pair, launch, source, "input"),
        "line": _place(line),
        "further": [] if pair.written is None else list(pair.written.further),
        "called": _place(called),
        "thread": None,
        "script": launch is not None,
    }


def _tolerance(pair: PairResult) -> str:
    if pair.gradient is not None:
        return "agrees to 0.1 % of each entry, as end_to_end has it"
    return "agrees where |AD − FD| ≤ 0.001 + 0.01·|FD|"


def _evaluation(pair: PairResult) -> str:
    """Return the evaluated part of the Jacobian, in words."""
    gradient = pair.gradient
    if gradient is not None:
        count = int(np.isfinite(gradient.fd).sum())
        entries = f"{count} of {gradient.fd.size} entries"
        of = f"a fixed random combination of the {gradient.outputs} entries of {pair.output}"
        what = f"This is the gradient of {of if gradient.outputs > 1 else pair.output}. "
        if gradient.confirmed:
            return (
                f"{what}Errors are against the float64 adjoint, which differences confirm: along {entries} "
                "one by one, and along random directions."
            )
        return f"{what}Differences do not confirm the float64 adjoint: only they count, along {entries}."
    if pair.compared is None:
        return "No entry was evaluated by itself."
    done = f"{len(pair.compared):,} of {pair.entries:,} entries were evaluated"
    if len(pair.compared) == pair.entries:
        return f"All {pair.entries:,} entries were evaluated."
    if pair.compared.zeros:
        return f"{done}; the others are zero (traced, verified by random products)."
    return f"{done} one by one, the others in random combinations."


def _side(subject: PanelSource, pair: PairResult, launch: int | None, name: str, side: str) -> dict[str, Any]:
    """Return the description of an array: name, shape of its elements, names of their components."""
    dtype = _dtype(subject, pair, launch, name, side)
    inner = value_shape(dtype)
    shape = () if pair.layout is None else getattr(pair.layout, f"{side}_shape")
    outer = shape[: len(shape) - len(inner)]
    suffixes = [component_name(dtype, index) for index in np.ndindex(inner)] if inner else [""]
    return {"name": name, "shape": list(outer), "suffixes": suffixes}


def _dtype(subject: PanelSource, pair: PairResult, launch: int | None, name: str, side: str) -> Any:
    tape = subject.tape
    assert tape is not None
    if pair.gradient is not None:
        return pair.gradient.types[side == "input"]
    if launch is None:
        return float
    operation = tape.operations[launch]
    params = [operation.param_name(number) for number in range(len(operation.args))]
    return getattr(operation.args[params.index(name)], "dtype", float)


def _place(span: Span | None) -> dict[str, Any] | None:
    from tapedebug._source import display_file

    if span is None:
        return None
    return {"file": display_file(span.file), "line": span.line, "text": span.text[:200]}


def _worst(data: Mapping[str, Any], pair: PairResult, looked: Looked) -> list[dict[str, Any]]:
    """Return the entries with the largest errors, first the one that the message is about."""
    order = looked.worst(WORST)
    if pair.worst is not None and pair.layout is not None:
        row = flat_index(pair.worst.output_index, pair.layout.output_shape)
        column = flat_index(pair.worst.input_index, pair.layout.input_shape)
        same = np.flatnonzero((looked.compared.rows == row) & (looked.compared.columns == column))
        first = [int(same[0])] if len(same) else []
        if pair.verdict != "AGREE":
            order = [*first, *(entry for entry in order if entry not in first)][:WORST]
    return [_entry(data, looked, entry) for entry in order]


def _entry(data: Mapping[str, Any], looked: Looked, entry: int) -> dict[str, Any]:
    compared = looked.compared
    row, column = int(compared.rows[entry]), int(compared.columns[entry])
    alone = looked.known[entry] == ADJOINT
    return {
        "row": row,
        "column": column,
        "output": _name(data["output"], row) if looked.reference is None else data["output"]["name"],
        "input": _name(data["input"], column),
        "ad": plain(float(compared.ad[entry])),
        "fd": None if alone else plain(float(compared.fd[entry])),
        "bar": None if alone else plain(float(compared.bar[entry])),
        "reference": None if looked.reference is None else plain(float(looked.reference[entry])),
        "error": plain(float(looked.error[entry])),
        "wrong": bool(compared.wrong is not None and compared.wrong[entry]),
    }


def _name(side: Mapping[str, Any], flat: int) -> str:
    """Return the name of the entry at a flat position as in messages: `force[4].y`."""
    count = len(side["suffixes"])
    element, component = divmod(flat, count)
    index = np.unravel_index(element, side["shape"]) if side["shape"] else ()
    place = f"[{', '.join(str(int(i)) for i in index)}]" if side["shape"] else ""
    return f"{side['name']}{place}{side['suffixes'][component]}"

"""Answers to the most important queries of the panel, embedded in a report.

``tapedebug/panel/queries.py`` describes the format of queries and answers them; this module selects the
queries and limits the size of their answers.
"""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tapedebug._dataclass import dataclass

if TYPE_CHECKING:
    from tapedebug.trace import Launch

Json = dict[str, Any]
Ask = Callable[[Json], tuple[Json, list[bytes]]]
"""Function that answers a query with JSON-compatible data and buffers, or raises if there is no answer."""

MOST_BYTES = 4_000_000
"""Size limit of the answers of one report, in bytes."""
MOST_SECONDS = 20.0
"""Seconds after which no further queries are answered."""
MOST_FAILED = 24
MOST_OTHERS = 4
"""Number of Jacobians, of pairs that failed a check and of those that passed with the largest errors."""
MOST_LAUNCHES = 60
"""Largest number of launches named by findings whose values are embedded."""
MOST_ELEMENTS = 20_000
"""Largest number of elements of an array whose values are embedded."""
_FAILED = ("WRONG", "NONDETERMINISTIC", "KINK", "UNDECIDABLE")


@dataclass(frozen=True, slots=True)
class AnswerBudget:
    """Limits of bytes and seconds for embedded answers."""

    bytes: int = MOST_BYTES
    seconds: float = MOST_SECONDS

    def shared(self, among: int) -> AnswerBudget:
        """Return the share of each of this many traces."""
        return AnswerBudget(self.bytes // max(1, among), self.seconds / max(1, among))


def embed_answers(
    trace: Json, launches: Sequence[Launch], ask: Ask, kinds: Iterable[str], room: AnswerBudget
) -> tuple[list[Json], list[str]]:
    """Return the answers to embed (``question``, ``data``, ``buffers`` as base64), and notes about them.

    Args:
        trace: The trace as JSON-compatible data, or the head of it.
        launches: The launches of the trace.
        ask: Function that answers a query; queries for which it raises are left out.
        kinds: The kinds of queries that it supports.
        room: The limits of size and time.
    """
    known = set(kinds)
    until = time.monotonic() + room.seconds
    answers: list[Json] = []
    counts = {"jacobian": 0, "values": 0}
    used, left_out = 0, 0
    for question in questions(trace, launches):
        if question["type"] not in known:
            continue
        if time.monotonic() > until:
            left_out += 1
            continue
        answer = _asked(ask, question)
        if answer is None:
            continue
        size = len(json.dumps(answer))
        if used + size > room.bytes:
            left_out += 1
            continue
        used += size
        answers.append(answer)
        counts[question["type"]] += 1
    return answers, list(_said(counts, used, left_out, room))


def questions(trace: Json, launches: Sequence[Launch]) -> Iterator[Json]:
    """Yield the queries to answer, the most important first: failed checks, then values at the findings."""
    yield from _jacobians(trace["checks"])
    yield from _values(trace, launches)


def _jacobians(checks: list[Json]) -> Iterator[Json]:
    run = [check for check in checks if check["verdict"] not in (None, "NOT CHECKED")]
    failed = sorted((c for c in run if c["verdict"] in _FAILED), key=lambda c: _FAILED.index(c["verdict"]))
    others = sorted((c for c in run if c["verdict"] not in _FAILED), key=_error, reverse=True)
    for check in [*failed[:MOST_FAILED], *others[:MOST_OTHERS]]:
        names = {key: check[key] for key in ("launch", "input", "output")}
        yield {"type": "jacobian", **names}


def _error(check: Json) -> float:
    error = check["max_rel_error"]
    value = -1.0 if error is None else float(error)  # JSON has "nan" and "inf" as text
    return math.inf if math.isnan(value) else value


def _values(trace: Json, launches: Sequence[Launch]) -> Iterator[Json]:
    """Yield queries for values and adjoints at the launches of findings, the worst finding first."""
    named: dict[int, None] = {}
    for finding in trace["findings"]:
        named.update(dict.fromkeys(finding["launches"]))
    seen: set[tuple[int, int]] = set()
    for index in list(named)[:MOST_LAUNCHES]:
        for arg in launches[index].args:
            array = arg.array
            if array is None or math.prod(trace["arrays"][array]["shape"]) > MOST_ELEMENTS:
                continue
            for version in (arg.read_version, arg.write_version):
                if version is None or (array, version) in seen:
                    continue
                seen.add((array, version))
                for of in ("value", "adjoint"):
                    yield {"type": "values", "array": array, "version": version, "of": of}


def _asked(ask: Ask, question: Json) -> Json | None:
    try:
        data, buffers = ask(question)
    except Exception:  # no tape, or a pair that cannot be compared: the panel shows the reason on request
        return None
    return {
        "question": question,
        "data": data,
        "buffers": [base64.b64encode(buffer).decode("ascii") for buffer in buffers],
    }


def _said(counts: dict[str, int], used: int, left_out: int, room: AnswerBudget) -> Iterator[str]:
    parts = []
    if counts["jacobian"]:
        parts.append(f"{counts['jacobian']} Jacobian{'s' if counts['jacobian'] > 1 else ''}")
    if counts["values"]:
        parts.append(f"{counts['values']} array{'s' if counts['values'] > 1 else ''} of values or adjoints")
    if parts:
        yield f"{' and '.join(parts)} can be looked at in this file ({_size(used)}); others need the kernel."
    if left_out:
        more = "answer was" if left_out == 1 else "answers were"
        yield (
            f"{left_out} more {more} left out: they would take more than {_size(room.bytes)} "
            f"or {room.seconds:g} s."
        )


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1_000_000 else f"{max(1, round(count / 1000))} kB"

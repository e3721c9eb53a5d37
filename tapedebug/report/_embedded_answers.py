"""Answers embedded in a report to the queries of the panel that matter most.

How questions look and who answers them is written in ``tapedebug/panel/queries.py``; here is only which
are worth asking, and how much room they may take.
"""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tapedebug.trace import Launch

Json = dict[str, Any]
Ask = Callable[[Json], tuple[Json, list[bytes]]]
"""Returns JSON-compatible data and buffers, or raises where there is no answer."""

MOST_BYTES = 4_000_000
"""Bytes that the answers of one report may take."""
MOST_SECONDS = 20.0
"""Seconds after which no more questions are asked."""
MOST_FAILED = 24
MOST_OTHERS = 4
"""Jacobians of pairs that failed a check, and of those that passed with the largest errors."""
MOST_LAUNCHES = 60
"""Launches whose values are looked at, of those that findings name."""
MOST_ELEMENTS = 20_000
"""Elements of an array whose values are embedded."""
_FAILED = ("WRONG", "NONDETERMINISTIC", "KINK", "UNDECIDABLE")


@dataclass(frozen=True, slots=True)
class AnswerBudget:
    """Limits of bytes and seconds for embedded answers."""

    bytes: int = MOST_BYTES
    seconds: float = MOST_SECONDS

    def shared(self, among: int) -> AnswerBudget:
        """The part of each of so many."""
        return AnswerBudget(self.bytes // max(1, among), self.seconds / max(1, among))


def embed_answers(
    trace: Json, launches: Sequence[Launch], ask: Ask, kinds: Iterable[str], room: AnswerBudget
) -> tuple[list[Json], list[str]]:
    """Return the answers to embed (``question``, ``data``, ``buffers`` as base64), and what to say of them.

    Args:
        trace: The trace as JSON-compatible data, or the head of it.
        launches: Those of the trace.
        ask: Answers a question; one that it raises for is left out.
        kinds: The kinds of questions that it knows.
        room: Where to stop.
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
    """The questions that a reader of this trace asks first: about what failed, then about where it did."""
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
    """Values and adjoints of what the launches of findings read and wrote, those of the worst first."""
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
    except Exception:  # no tape, a pair that can not be compared: the panel says so where somebody looks
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

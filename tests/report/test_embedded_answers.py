"""Answers that a report embeds, because a panel would compute them only on demand."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.notebook import display
from tapedebug.panel import queries as kinds
from tapedebug.panel.panel_source import live_tape_of, subject_of
from tapedebug.report import AnswerBudget, _assets, embed_answers, report
from tapedebug.trace import trace_from_json
from tests.report.pages import Page, bundle
from tests.wrong_tape import wrong_tape

Json = dict[str, Any]
NET = Path(__file__).parents[2] / "js" / "tests" / "fixtures" / "net.trace.json"
ROOM = AnswerBudget()


@pytest.fixture
def net() -> Json:
    data: Json = json.loads(NET.read_text("utf-8"))
    return data


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@pytest.fixture
def tape() -> wp.Tape:
    x = wp.array(np.ones(3, np.float32), requires_grad=True)
    y = wp.zeros(3, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
    return tape


def launches(net: Json) -> list[Any]:
    return trace_from_json(net).launches


def echo(question: Json) -> tuple[Json, list[bytes]]:
    return {"asked": question}, [b"\0\1"]


def test_what_failed_comes_first_and_the_rest_by_error(net: Json) -> None:
    answers, notes = embed_answers(net, launches(net), echo, ["jacobian"], ROOM)
    asked = [(a["question"]["launch"], a["question"]["input"], a["question"]["output"]) for a in answers]
    assert asked == [(None, "throw", "loss"), (2, "x", "force"), (1, "x", "force")]
    assert answers[0] == {
        "question": {"type": "jacobian", "launch": None, "input": "throw", "output": "loss"},
        "data": {"asked": answers[0]["question"]},
        "buffers": [base64.b64encode(b"\0\1").decode()],
    }
    assert notes == ["3 Jacobians can be looked at in this file (1 kB); others need the kernel."]


def test_values_are_those_around_the_findings(net: Json) -> None:
    answers, _ = embed_answers(net, launches(net), echo, ["values"], ROOM)
    asked = [a["question"] for a in answers]
    assert {"type": "values", "array": 2, "version": 0, "of": "value"} in asked or asked
    arrays = {net["arrays"][question["array"]]["label"] for question in asked}
    assert {"x", "x_next", "force"} <= arrays
    keys = [(q["array"], q["version"], q["of"]) for q in asked]
    assert len(keys) == len(set(keys))
    assert {q["of"] for q in asked} == {"value", "adjoint"}


def test_large_arrays_stay_out(net: Json) -> None:
    for array in net["arrays"]:
        array["shape"] = [1_000_000]
    assert embed_answers(net, launches(net), echo, ["values"], ROOM) == ([], [])


def test_limits_are_said(net: Json) -> None:
    answers, notes = embed_answers(
        net, launches(net), lambda q: ({}, [bytes(3_000)]), ["jacobian"], AnswerBudget(bytes=5_000)
    )
    assert len(answers) == 1
    assert notes == [
        "1 Jacobian can be looked at in this file (4 kB); others need the kernel.",
        "2 more answers were left out: they would take more than 5 kB or 20 s.",
    ]

    def slow(question: Json) -> tuple[Json, list[bytes]]:
        time.sleep(0.02)
        return {}, []

    answers, notes = embed_answers(net, launches(net), slow, ["jacobian"], AnswerBudget(seconds=0.01))
    assert len(answers) == 1
    assert notes[1] == "2 more answers were left out: they would take more than 4.0 MB or 0.01 s."


def test_what_can_not_be_answered_is_left_out(net: Json) -> None:
    def refuse(question: Json) -> tuple[Json, list[bytes]]:
        raise wp.TapedebugError("no tape")

    assert embed_answers(net, launches(net), refuse, ["jacobian", "values"], ROOM) == ([], [])


def test_a_report_of_a_tape_asks_its_tape(
    tape: wp.Tape, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_assets, "STATIC", bundle(tmp_path))
    asked = []

    def respond(subject: Any, question: Any) -> kinds.Answer:
        asked.append((subject.tape, dict(question)))
        return kinds.Answer({"text": "y[i] = x[i] * x[i]\n", "worst": "y[i] = x[i] * x[i] at /a/b/c.py:3"})

    monkeypatch.setitem(kinds.KINDS, "jacobian", respond)
    found = wp.diagnose(tape)
    found.trace.checks.append(
        wp.trace.Check(launch=0, input="x", output="y", verdict="WRONG", max_rel_error=0.5)
    )
    page = Page(report(found, tmp_path / "out.html").read_text("utf-8"))
    (answer,) = [a for a in page.payload()["answers"] if a["question"]["type"] == "jacobian"]
    assert asked == [(tape, {"type": "jacobian", "launch": 0, "input": "x", "output": "y"})]
    assert (answer["tape"], answer["question"]) == (0, asked[0][1])
    assert "1 Jacobian" in " ".join(page.payload()["notes"])

    page = Page(report(found, tmp_path / "out.html", redact_source=True).read_text("utf-8"))
    (answer,) = [a for a in page.payload()["answers"] if a["question"]["type"] == "jacobian"]
    assert answer["data"] == {"worst": "… at c.py:3"}


def test_a_saved_notebook_has_some_too(tape: wp.Tape, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(kinds.KINDS, "jacobian", lambda subject, question: kinds.Answer({"n": 1}))
    subject = subject_of(tape)
    check = {"launch": 0, "input": "x", "output": "y", "verdict": "WRONG", "max_rel_error": 0.5}
    answers = display.saved_answers(subject, [check])
    assert [a["data"] for a in answers if a["question"]["type"] == "jacobian"] == [{"n": 1}]
    _, metadata = display.bundle_of(subject, [check], "text", answers=answers)
    assert metadata[display.TRACE_MIME]["answers"] == answers
    monkeypatch.setattr(display, "MOST_ANSWERED", 0)
    assert display.saved_answers(subject, [check]) == []


def test_a_saved_notebook_compares_no_gradient_that_took_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its Jacobian is there if a check has kept it; to compare the gradient again doubles the wait."""
    long_tape, _, _ = wrong_tape()
    found = wp.diagnose(long_tape)
    subject = subject_of(found)

    def kinds_of(answers: list[Any]) -> list[str]:
        return [answer["question"]["type"] for answer in answers]

    timing = next(each for each in found.timings if each.step == "end-to-end check")
    timing.seconds = 2 * display.MOST_ANSWERS.seconds
    answers = kinds_of(display.saved_answers(subject, subject.checks))
    assert "jacobian" not in answers and "values" in answers
    timing.seconds = 0.1
    assert "jacobian" in kinds_of(display.saved_answers(subject, subject.checks))
    timing.seconds = 2 * display.MOST_ANSWERS.seconds
    assert "jacobian" in kinds_of(display.saved_answers(subject, subject.checks)), "it is known by now"


def test_a_trace_is_answered_by_the_tape_that_it_was_made_from_and_no_other(
    tape: wp.Tape, tmp_path: Path
) -> None:
    trace = tape.trace()
    assert live_tape_of(trace) is tape
    trace.save(tmp_path / "before.tapetrace")  # an earlier run has the same ids and counts
    assert live_tape_of(wp.trace.load_trace(tmp_path / "before.tapetrace")) is None
    (a, b) = (arg for arg in tape.records[0].args[:2])
    tape.reset()
    with tape:
        wp.launch(square, dim=3, inputs=[a], outputs=[b])
    assert live_tape_of(trace) is None
    assert live_tape_of(tape.trace()) is tape

"""The three sentences on top of a report: what was run, what is wrong by how much, what to change where."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from tapedebug.report import _assets, diff, report
from tapedebug.report._sentences import compared, sentences
from tapedebug.trace import trace_from_json
from tapedebug.trace.packing import pack
from tests.report import pages
from tests.report.pages import Page

FIXTURES = Path(__file__).parents[2] / "js" / "tests" / "fixtures"
Json = dict[str, Any]


def fixture(name: str) -> Json:
    data: Json = json.loads((FIXTURES / f"{name}.trace.json").read_text("utf-8"))
    return data


@pytest.fixture
def net() -> Json:
    """The head of a packed trace whose gradient is wrong."""
    return copy.deepcopy(pack(trace_from_json(fixture("net")))[0])


@pytest.fixture
def fine() -> Json:
    return copy.deepcopy(pack(trace_from_json(fixture("net-40-preserve")))[0])


RUN = (
    "The tape \u201cnet\u201d recorded 11 launches of 5 kernels from net.py; its reverse pass ran from loss."
)
CHANGE = (
    "At net.py:86 (launch) or net.py:29 (kernel spring_forces), give each step its own x (x[0], x[1], … "
    'instead of swapping two arrays), or record with on_overwrite="preserve".'
)


def test_a_wrong_gradient(net: Json) -> None:
    assert sentences(net) == [
        RUN,
        "The gradient of loss with respect to throw is wrong: it is off by 38 %.",
        CHANGE,
    ]


def test_a_right_gradient(fine: Json) -> None:
    assert sentences(fine)[1:] == [
        "Nothing was found to be wrong: the gradient of loss with respect to throw agrees with finite "
        "differences of the loss in float64, to a relative error of 3e-07.",
        "Nothing has to change.",
    ]


@pytest.mark.parametrize(
    ("error", "off"),
    [
        (0.0123, "off by 1.2 %"),
        (3.63, "off by 363 %"),
        (84.2, "off by 84.2 times its size"),
        ("nan", "zero or not finite where the true one is not"),
        ("inf", "zero or not finite where the true one is not"),
    ],
)
def test_how_far_it_is_off(net: Json, error: float | str, off: str) -> None:
    net["checks"] = [check for check in net["checks"] if check["launch"] is None][:1]
    net["checks"][0].update(verdict="WRONG", max_rel_error=error)
    assert sentences(net)[1].endswith(f" is wrong: it is {off}.")


def test_the_worst_of_several_gradients(net: Json) -> None:
    (pair,) = (check for check in net["checks"] if check["launch"] is None and check["verdict"] == "WRONG")
    net["checks"] += [{**pair, "input": "wind", "max_rel_error": 2.0}]
    assert sentences(net)[1] == (
        "The gradients of loss with respect to throw and wind are wrong; the worst, that of wind, "
        "is off by 200 %."
    )


def test_a_gradient_that_agrees_beside_what_is_wrong(net: Json) -> None:
    net["verdict"] = "AGREE"
    net["findings"] += [{**net["findings"][0], "severity": "warning", "rule": "late"}]
    net["checks"] = []
    _, result, change = sentences(net)
    assert result == (
        "The gradient agrees with finite differences of the loss in float64, to a relative error of 0. "
        "What else was found: 1 error and 1 warning."
    )
    assert change == f"{CHANGE} Then look at 1 more warning."


@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (
            "KINK",
            "The loss has no derivative here: its slopes on both sides differ, so no gradient is right: ",
        ),
        ("UNDECIDABLE", "The comparison cannot decide whether the gradient is right: "),
        ("NONDETERMINISTIC", "Two runs on the same values differ, so the gradient could not be compared: "),
        ("NOT CHECKED", "The gradient was not checked: "),
    ],
)
def test_what_is_neither_right_nor_wrong(fine: Json, verdict: str, said: str) -> None:
    fine["verdict"] = verdict
    fine["coverage"]["summary"] = "2 of 9 launches"
    assert sentences(fine)[1] == f"{said}2 of 9 launches."
    fine["findings"] = []
    assert sentences(fine)[2] == (
        "A diagnosis says what to change: wp.diagnose(tape, loss=loss)."
        if verdict == "NOT CHECKED"
        else "No finding says what to change."
    )


def test_names_of_tapes(net: Json) -> None:
    for name, said in (("tape", "Tape 3"), ("tape 12", "Tape 12"), ("In [4]", "The tape \u201cIn [4]\u201d")):
        net["name"] = name
        assert sentences(net)[0].startswith(f"{said} recorded 11 launches")


def test_before_and_after(net: Json, fine: Json) -> None:
    assert compared(("first", "mended"), (net, fine), (2, 0, 1), net["findings"][0]) == [
        "Two tapes are compared, before and after a change: first (11 launches, gradient WRONG) and mended "
        f"({fine['tape']['launches']} launches, gradient AGREE).",
        f"Before: {sentences(net)[1]} After: {sentences(fine)[1]}",
        "2 findings gone (the worst: overwrite of x, x_next at net.py:86), 0 new, 1 still there. "
        "Nothing is left to change.",
    ]


@pytest.mark.parametrize("redact", [False, True])
def test_they_are_in_the_file_for_readers_with_and_without_javascript(
    net: Json, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redact: bool
) -> None:
    monkeypatch.setattr(_assets, "STATIC", pages.bundle(tmp_path))
    first = trace_from_json(fixture("net"))
    page = Page(report(first, tmp_path / "one.html", redact_source=redact).read_text("utf-8"))
    assert page.payload()["sentences"] == [sentences(net)]
    assert f"Run: {RUN}" in page.texts["noscript"] and f"Change: {CHANGE}" in page.texts["noscript"]
    diff(first, first, tmp_path / "two.html", redact_source=redact)
    page = Page((tmp_path / "two.html").read_text("utf-8"))
    said = page.payload()["diff"]["sentences"]
    assert said[0].startswith("Two tapes are compared, before and after a change: ")
    assert f"Result: {said[1]}" in page.texts["noscript"]

"""The engine of a tape by name, and the objects that programs of other engines hold: tapes and arrays."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from tapedebug import TapedebugError, diagnose
from tapedebug.autograd import end_to_end, gradcheck_tape
from tapedebug.contract import is_array
from tapedebug.diagnose import diagnoses_to_json
from tapedebug.formats import Run
from tapedebug.formats.junit import junit
from tapedebug.formats.sarif import sarif
from tapedebug.panel.panel_source import subject_of, tape_row
from tapedebug.report import report
from tapedebug.trace import trace_from_json
from tapedebug.trace.recording import record
from tapedebug.visualize import visualize
from tests import stand_in_warp as warp
from tests.reference_operations import scale, square, total
from tests.wrong_tape import wrong_tape

TITLE = "NVIDIA Warp 1.19.0, cpu"


@pytest.fixture
def program():
    x = warp.array([0.5, -1.0, 2.0], requires_grad=True)
    s, loss = warp.zeros(3, requires_grad=True), warp.zeros(1, requires_grad=True)
    with warp.Tape() as tape:
        warp.launch(square, [x, s])
        warp.launch(scale, [x, 3.0])
        warp.launch(total, [s, loss])
    return tape, x, loss


def test_functions_take_the_tape_and_the_arrays_of_the_program(program):
    tape, x, loss = program
    tape.backward(loss)
    found = diagnose(tape, loss, inputs=[x])
    assert found.verdict == "WRONG"
    assert [finding.rule for finding in found.findings if finding.severity == "error"] == ["overwrite"]
    assert diagnose([tape], {loss: [1.0]}, inputs=x).verdict == "WRONG"
    assert end_to_end(tape, loss, (x,)).verdict == "WRONG"
    result = gradcheck_tape(
        tape, end_to_end=True, loss=loss, inputs=[x], raise_exception=False, show_summary=False
    )
    assert [pair.input for pair in result.pairs] == ["x"]
    assert "the input" in visualize(tape, array_labels={x: "the input"})


def test_an_array_that_is_not_on_the_tape_is_an_error(program):
    tape, _, loss = program
    with pytest.raises(TapedebugError, match=r"^diagnose: the input .* is not on this tape"):
        diagnose(tape, loss, inputs=[warp.zeros(3)])
    with pytest.raises(TypeError, match=r"^diagnose: an input must be an array .*, not 7 "):
        diagnose(tape, loss, inputs=[7])


def test_the_trace_is_called_like_the_variable_of_the_program(program):
    tape, _, _ = program
    assert diagnose(tape).trace.name == "tape"


def test_the_engine_is_named_wherever_a_tape_is_shown(program, tmp_path: Path):
    tape, _, loss = program
    tape.backward(loss)
    found = diagnose(tape)
    text = str(found)
    assert f"tape · 3 launches · {TITLE} · gradient WRONG" in text.splitlines()[0]
    assert "on_overwrite" not in text, "neither as a mode nor as a fix"
    assert found.coverage.notes[:2] == [
        "NVIDIA Warp ran the launches: 3 native",
        "native launches are compared with differences in float32",
    ]
    assert diagnoses_to_json([found])["tapes"][0]["engine"] == TITLE
    again = trace_from_json(json.loads(json.dumps(found.trace.to_json())))
    assert again.tape.engine == TITLE
    run = Run(name="train.py", file=None, root=tmp_path, traces=[found.trace], engines=[f"{TITLE}: watched"])
    results = sarif(run, {})["runs"][0]
    assert {result["properties"]["engine"] for result in results["results"]} == {TITLE}
    notes = results["invocations"][0]["toolExecutionNotifications"]
    assert [note["message"]["text"] for note in notes] == [f"{TITLE}: watched"]
    cases = ElementTree.fromstring(junit(run, [text]).encode()).iter("testcase")
    assert (next(cases)[0].text or "").partition("\n")[0] == f"{TITLE}: watched"
    assert tape_row(subject_of(tape).tape)["engine"] == TITLE


def test_a_report_names_the_engine(program, tmp_path: Path):
    tape, _, _ = program
    page = report(tape, tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"<p>Engine: {TITLE}</p>" in page


def test_our_own_engine_is_not_named():
    tape, _, _ = wrong_tape()
    trace = record(tape)
    assert trace.tape.engine == ""
    assert "engine" not in trace.to_json()["tape"]
    assert tape_row(tape)["engine"] == ""


def test_arrays_are_known_by_their_class_or_by_the_attributes_of_an_instance():
    plain = SimpleNamespace(region=object(), scalar_dtype="f4", element_shape=())
    assert not is_array(plain)
    plain.current = lambda: None
    assert is_array(plain)
    assert not is_array(SimpleNamespace())
    tape, *_ = wrong_tape()
    assert any(map(is_array, tape.operations[0].args)) and not is_array(1.0)

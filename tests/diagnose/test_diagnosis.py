"""Results of `diagnose` for any tape: verdict, coverage, text, data; it changes nothing."""

from __future__ import annotations

import copy
import io
import json
import pickle
import sys
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug.diagnose import Diagnosis
from tapedebug.diagnose.diagnosis import worst_verdict
from tapedebug.diagnose.formatting import format_diagnosis
from tapedebug.trace import trace_from_json


@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def square64(x: wp.array2d(dtype=wp.float64), y: wp.array2d(dtype=wp.float64)):
    i, j = wp.tid()
    y[i, j] = x[i, j] * x[i, j]


@wp.kernel
def put(z: wp.array(dtype=float), x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = z[i]


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


@wp.kernel
def total64(x: wp.array2d(dtype=wp.float64), loss: wp.array(dtype=wp.float64)):
    i, j = wp.tid()
    wp.atomic_add(loss, 0, x[i, j])


def floats(*values: float, requires_grad: bool = True) -> Any:
    return wp.array(list(values), dtype=float, requires_grad=requires_grad)


def zeros(count: int) -> Any:
    return wp.zeros(count, dtype=float, requires_grad=True)


def recorded(mode: str = "preserve", *, clobber: bool = True) -> tuple[Any, Any, Any]:
    x, y, z, loss = floats(1.0, 2.0, 3.0), zeros(3), floats(4.0, 5.0, 6.0, requires_grad=False), zeros(1)
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        if clobber:
            wp.launch(put, dim=3, inputs=[z], outputs=[x])
        wp.launch(total, dim=3, inputs=[y, loss])
    return tape, x, loss


def test_the_text_says_verdict_coverage_and_each_finding() -> None:
    tape, _, loss = recorded("ignore")
    tape.backward(loss)
    text = str(wp.diagnose(tape))
    lines = text.splitlines()
    assert lines[0] == "tape · 3 launches · on_overwrite='ignore' · gradient WRONG"
    assert lines[1].startswith("  coverage: 3 of 3 launches checked end to end; WRONG with respect to x")
    assert "  ✕ error · overwrite · x" in lines
    assert "        x[i] = z[i]" in lines
    assert "        wp.launch(put, dim=3, inputs=[z], outputs=[x])" in lines
    assert '    fix: give put an array of its own for x, or record with on_overwrite="preserve"' in lines
    assert max(len(line) for line in lines) <= 110


def test_a_diagnosis_is_data() -> None:
    tape, _, loss = recorded("ignore")
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    data = json.loads(json.dumps(diagnosis.to_json(), allow_nan=False))
    assert set(data) == {"schema", "verdict", "coverage", "tapes", "findings"}
    assert (data["schema"], data["verdict"]) == (1, "WRONG")
    (finding,) = data["findings"]
    assert set(finding) == {
        *(
            "tape",
            "rule",
            "severity",
            "message",
            "launches",
            "arrays",
            "location",
            "call_site",
            "evidence",
            "fix",
            "id",
        ),
    }
    assert (finding["tape"], finding["launches"], finding["evidence"]["changed"]) == (0, [0, 1], 3)
    assert data["tapes"][0]["launches"] == 3
    (check,) = diagnosis.checks
    assert (check.launch, check.input, check.output, check.verdict) == (None, "x", "loss", "WRONG")
    assert (
        trace_from_json(json.loads(json.dumps(diagnosis.trace.to_json()))).findings[0].message
        == finding["message"]
    )


def test_before_backward_the_only_scalar_result_is_the_loss_and_coverage_says_so() -> None:
    tape, x, _ = recorded()
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "AGREE"
    assert diagnosis.coverage.notes == ["backward was not called: loss, the only scalar result, is the loss"]
    assert not x.grad.numpy().any()


def test_without_any_loss_nothing_is_checked_and_coverage_says_why() -> None:
    x, y = floats(1.0, 2.0), zeros(2)
    with wp.Tape() as tape:
        wp.launch(square, dim=2, inputs=[x], outputs=[y])
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "NOT CHECKED"
    assert str(diagnosis.coverage) == (
        "0 of 1 launches checked end to end\n"
        "  - no loss is known (scalar results: none): call backward first, or pass loss=\n"
        "  - gradients were not measured: no loss is known"
    )


def test_a_loss_that_was_passed_counts() -> None:
    tape, _, loss = recorded()
    other = wp.diagnose(tape, loss=loss)
    assert (other.verdict, other.coverage.notes) == ("AGREE", [])
    seeds = {next(a for a in tape.gradients if a.shape == (1,)): wp.ones(1, dtype=float)}
    assert wp.diagnose(tape, loss=seeds).verdict == "AGREE"


def test_a_loss_must_be_a_scalar_with_a_gradient() -> None:
    tape, x, _ = recorded()
    with pytest.raises(wp.TapedebugError) as caught:
        wp.diagnose(tape, loss=x)
    assert str(caught.value) == (
        "diagnose: the loss must be a scalar float; got an array(shape=(3,), dtype=float32)\n"
        "  = hint: sum it into an array of one element, or pass loss={array: seed}"
    )
    y, bare = zeros(3), wp.zeros(1, dtype=float)
    with wp.Tape() as tape:
        wp.launch(total, dim=3, inputs=[y, bare])
    with pytest.raises(wp.TapedebugError) as caught:
        wp.diagnose(tape, loss=bare)
    assert str(caught.value) == (
        "diagnose: the loss, bare, has no gradient: requires_grad is not set\n"
        "  = hint: create it with requires_grad=True"
    )


def test_nothing_requires_a_gradient() -> None:
    x, y, loss = floats(1.0, 2.0, requires_grad=False), wp.zeros(2, dtype=float), zeros(1)
    with wp.Tape() as tape:
        wp.launch(square, dim=2, inputs=[x], outputs=[y])
        wp.launch(total, dim=2, inputs=[y, loss])
    diagnosis = wp.diagnose(tape, loss=loss)
    assert (diagnosis.verdict, diagnosis.findings) == ("NOT CHECKED", [])
    assert diagnosis.coverage.summary == "0 of 2 launches checked end to end: no input has requires_grad=True"


def test_a_custom_function_is_left_out_and_coverage_says_so() -> None:
    x, y, z, loss = floats(1.0, 2.0), zeros(2), floats(3.0, 4.0, requires_grad=False), zeros(1)
    with wp.Tape() as tape:
        wp.launch(square, dim=2, inputs=[x], outputs=[y])
        wp.launch(put, dim=2, inputs=[z], outputs=[x])
        tape.record_func(lambda: None, [y])
        wp.launch(total, dim=2, inputs=[y, loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "UNDECIDABLE"
    assert any(
        note.startswith("gradients were not measured: record 2 is a custom function")
        for note in diagnosis.coverage.notes
    )
    (finding,) = diagnosis.findings
    assert finding.severity == "info"
    assert finding.message.endswith(
        "2 of 2 elements changed value, by up to 2. The tape kept a copy of x for the adjoint."
    )


def test_float64_and_two_dimensions() -> None:
    x = wp.array([[1.0, 2.0], [3.0, 4.0]], dtype=wp.float64, requires_grad=True)
    y = wp.zeros((2, 2), dtype=wp.float64, requires_grad=True)
    loss = wp.zeros(1, dtype=wp.float64, requires_grad=True)
    with wp.Tape(on_overwrite="ignore") as tape:
        wp.launch(square64, dim=(2, 2), inputs=[x], outputs=[y])
        x.fill_(1.0)
        wp.launch(total64, dim=(2, 2), inputs=[y, loss])
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert diagnosis.verdict == "WRONG"
    (finding,) = [item for item in diagnosis.findings if item.severity == "error"]
    assert (finding.evidence["elements"], finding.evidence["changed"]) == (4, 3)
    right, wrong = np.array([2.0, 4.0, 6.0, 8.0]), np.array([2.0] * 4)
    expected = np.linalg.norm(right - wrong) / np.linalg.norm(right)
    assert finding.evidence["relative_error"]["x"] == pytest.approx(float(expected), rel=1e-12)


def test_several_tapes_are_one_diagnosis() -> None:
    tapes = []
    for mode, clobber in (("preserve", False), ("ignore", True)):
        tape, _, loss = recorded(mode, clobber=clobber)
        tape.backward(loss)
        tapes.append(tape)
    diagnosis = wp.diagnose(tapes)
    assert isinstance(diagnosis, Diagnosis)
    assert diagnosis.verdict == "WRONG"
    assert diagnosis.coverage.summary == "2 tapes: 5 of 5 launches checked end to end"
    assert [finding.severity for finding in diagnosis.findings] == ["error"]
    data = diagnosis.to_json()
    assert [(item["launches"], item["verdict"]) for item in data["tapes"]] == [(2, "AGREE"), (3, "WRONG")]
    assert [finding["tape"] for finding in data["findings"]] == [1]


def test_the_worst_verdict_counts() -> None:
    assert worst_verdict([]) == "NOT CHECKED"
    assert worst_verdict(["AGREE", "AGREE"]) == "AGREE"
    assert worst_verdict(["AGREE", "KINK", "NOT CHECKED"]) == "KINK"
    assert worst_verdict(["UNDECIDABLE", "WRONG", "AGREE"]) == "WRONG"


def test_an_interrupt_leaves_every_array_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    from tapedebug.runtime.replay.shadow import Shadow

    tape, _, loss = recorded()
    tape.backward(loss)
    arrays = list(tape.gradients)
    before = [(array.numpy().tobytes(), array.grad.numpy().tobytes()) for array in arrays]
    counter = {"calls": 0, "stop": 0}
    forward = Shadow.forward

    def interrupted(self: Any, *args: Any, **options: Any) -> Any:
        counter["calls"] += 1
        if counter["calls"] == counter["stop"]:
            raise KeyboardInterrupt
        return forward(self, *args, **options)

    monkeypatch.setattr(Shadow, "forward", interrupted)
    wp.diagnose(tape)
    for stop in range(1, counter["calls"] + 1, 3):
        counter.update(calls=0, stop=stop)
        with pytest.raises(KeyboardInterrupt):
            wp.diagnose(tape)
        assert before == [(array.numpy().tobytes(), array.grad.numpy().tobytes()) for array in arrays]
    counter.update(calls=0, stop=0)
    assert wp.diagnose(tape).verdict == "AGREE"


def test_a_loss_written_by_a_vector_kernel_and_a_trace_that_shows_values() -> None:
    tape, _, loss = recorded()
    tape.backward(loss)
    trace = wp.diagnose(tape).trace
    assert all(version.value is not None for version in trace.versions if version.written_by is not None)
    assert trace.verdict == "AGREE"
    assert trace.coverage.checked == 3


def test_a_trace_from_elsewhere_does_not_command_the_terminal() -> None:
    tape, _, loss = recorded()
    trace = wp.diagnose(tape, loss=loss).trace
    trace.name = "\x1b[2Jcleared"
    trace.findings[0].message = "one\x1b]0;title\x07\ntwo\u202e"
    trace.findings[0].arrays = ["x\x9b1m"]
    assert trace.findings[0].call_site is not None
    trace.findings[0].call_site.file = "\x1bc.py"
    text = format_diagnosis(trace)
    assert all(character.isprintable() or character == "\n" for character in text)
    assert "    one ]0;title\n    two\n" in text


def test_a_diagnosis_is_short_at_a_prompt_and_found_by_rule() -> None:
    tape, _, loss = recorded("ignore")
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert repr(diagnosis).startswith(
        "<Diagnosis of tape: WRONG, 1 error; 3 of 3 launches checked end to end; "
    )
    assert diagnosis.by_rule("overwrite", "seed") == diagnosis.findings
    assert diagnosis.by_rule("seed") == []
    assert {"overwrite", "disconnected", "nonfinite"} <= set(diagnosis.rules)
    assert "overwrite" not in wp.diagnose(tape, max_seconds=1e-9).rules


def test_a_diagnosis_can_be_copied_and_pickled_and_so_can_its_error() -> None:
    tape, _, loss = recorded("ignore")
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    for again in (pickle.loads(pickle.dumps(diagnosis)), copy.deepcopy(diagnosis)):
        assert (str(again), again.findings, again.rules) == (
            str(diagnosis),
            diagnosis.findings,
            diagnosis.rules,
        )
        assert json.dumps(again.to_json()) == json.dumps(diagnosis.to_json())
    with pytest.raises(wp.GradientError) as caught:
        diagnosis.raise_if_wrong()
    assert str(caught.value) == str(diagnosis)
    error = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(error, wp.GradientError) and isinstance(error, AssertionError)
    assert (str(error), str(error.diagnosis)) == (str(diagnosis), str(diagnosis))


@pytest.mark.parametrize(("columns", "longest"), [("80", 79), ("200", 120), ("20", 60)])
def test_prose_is_as_wide_as_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: str, longest: int
) -> None:
    tape, _, loss = recorded("ignore")
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    wide = max(len(line) for line in str(diagnosis).splitlines() if line.startswith("    launch"))
    assert wide <= 100

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(sys, "stdout", Terminal())
    lines = str(diagnosis).splitlines()
    message = [line for line in lines if line.startswith("    ") and not line.startswith("        ")]
    assert longest - 16 < max(len(line) for line in message if "/" not in line) <= longest


def test_a_rule_that_breaks_is_a_gap_and_takes_nothing_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from tapedebug.diagnose.rules.nonfinite import Nonfinite

    def broken(rule: Nonfinite, context: Any) -> list[Any]:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(Nonfinite, "check", broken)
    tape, _, loss = recorded("ignore")
    tape.backward(loss)
    diagnosis = wp.diagnose(tape)
    assert [finding.rule for finding in diagnosis.findings if finding.severity == "error"] == ["overwrite"]
    assert (
        "nonfinite was not looked for: an error in tapedebug (ZeroDivisionError: division by zero); "
        "please report it"
    ) in diagnosis.coverage.notes


def test_what_is_no_array_is_refused_by_name() -> None:
    tape, _, loss = recorded("ignore")
    tape.backward(loss)
    wanted = r"^diagnose: the loss must be an array that a recorded launch uses, not 3 \(of type int\)$"
    with pytest.raises(TypeError, match=wanted):
        wp.diagnose(tape, loss=3)
    with pytest.raises(TypeError, match=r"^diagnose: the loss must be .* not 'x' \(of type str\)$"):
        wp.diagnose(tape, loss={"x": 1.0})
    with pytest.raises(TypeError, match=r"^diagnose: an input must be .* \(of type ndarray\)$"):
        wp.diagnose(tape, loss=loss, inputs=[np.ones(2)])

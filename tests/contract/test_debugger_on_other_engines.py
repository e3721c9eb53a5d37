"""Trace, panel, checks of the mask, report and diagram of a tape of another engine: the reference engine."""

from __future__ import annotations

import gc
import json
import weakref

import numpy as np
import pytest

import tapedebug as td
from tapedebug._tape_observers import live_tapes
from tapedebug.panel.panel_source import subject_of, tape_row
from tapedebug.panel.queries import answer
from tapedebug.report import report
from tapedebug.trace import load_trace, record, trace_from_json
from tapedebug.trace.missing_capabilities import missing_capabilities
from tapedebug.visualize import visualize
from tests.reference_engine import Tape, array, zeros
from tests.reference_operations import axpy, relu, scale, square, total


def program(overwrite=True):
    x, h = array([0.5, -1.0, 2.0]), zeros(3)
    s, loss = zeros(3), zeros(1)
    with Tape() as tape:
        with tape.scope("layer"):
            relu(x, h)
            square(h, s)
        axpy(0.5, x, s)
        if overwrite:
            scale(h, 3.0)
        total(s, loss)
    tape.backward(loss)
    return tape, x, loss


def test_a_trace_has_launches_versions_and_overwrites():
    tape, _, _ = program()
    trace = record(tape, values=True)
    assert [launch.name for launch in trace.launches] == ["relu", "square", "axpy", "scale", "total"]
    assert [info.label for info in trace.arrays] == ["x", "h", "s", "loss"]
    assert [info.role for info in trace.arrays] == ["input", "intermediate", "intermediate", "output"]
    assert trace.scopes[0].name == "layer"
    lost = [version for version in trace.versions if version.status == "lost"]
    assert [(v.array, v.version, v.needed_by, v.overwritten_by) for v in lost] == [(1, 1, [1], 3)]
    assert trace.versions_of(1)[1].value.max == 2
    assert trace.versions_of(2)[2].adjoint.max == 1
    assert trace.backward.order == [4, 3, 2, 1, 0]
    assert trace.launches[0].call_site.file.endswith("test_debugger_on_other_engines.py")
    assert "np.maximum" in "\n".join(trace.kernels[0].lines)
    assert trace.environment["NumPy"] == np.__version__


def test_what_the_engine_does_not_tell_is_in_the_coverage():
    tape, _, _ = program()
    assert record(tape).coverage.notes == [
        "NumPy keeps no copies of overwritten values",
        "NumPy does not tell which lines read and write arrays",
    ]
    for launch in tape.operations:
        launch.capabilities.clear()
    assert missing_capabilities(tape)[-1] == "NumPy does not give the source of 5 of 5 launches"
    trace = record(tape, values=True)
    assert trace.kernels == []
    assert all(launch.kernel is None for launch in trace.launches)


def test_the_trace_survives_json_and_files(tmp_path):
    tape, _, _ = program()
    trace = record(tape, values="arrays")
    again = trace_from_json(json.loads(json.dumps(trace.to_json())))
    assert again == trace
    trace.save(tmp_path / "numpy.tapetrace")
    np.testing.assert_array_equal(load_trace(tmp_path / "numpy.tapetrace").values("h", 1), [0.5, 0, 2])


def test_passes_and_zeroed_gradients_are_events():
    tape, _, loss = program(overwrite=False)
    tape.backward(loss)
    tape.zero()
    events = [event for event in record(tape).events if event.array == 0]
    assert [event.kind for event in events] == ["backward", "backward", "zero"]
    assert [event.again for event in events] == [False, True, False]
    assert "norm_before" not in events[0].numbers
    assert events[1].numbers["norm_after"] == pytest.approx(2 * events[1].numbers["norm_before"])


def test_the_panel_opens_and_checks_the_mask_again():
    tape, x, _ = program()
    panel = td.TapeDebugger(tape)
    (wrong,) = panel.run()
    assert (wrong["input"], wrong["output"], wrong["verdict"]) == ("x", "loss", "WRONG")
    assert "overwritten" in wrong["message"]
    (alone,) = panel.run([[1, "x", "out"]])
    assert alone["verdict"] == "AGREE"
    tape, x, _ = program(overwrite=False)
    (right,) = td.TapeDebugger(tape).run()
    assert right["verdict"] == "AGREE"
    np.testing.assert_allclose(x.grad, [1.5, 0.5, 4.5])


def test_the_panel_shows_values_of_single_versions():
    tape, _, _ = program()
    subject = subject_of(tape)
    found = answer(subject, {"type": "values", "id": 1, "array": 1, "version": 1, "kind": "value"})
    assert not found.data.get("error"), found.data


def test_the_side_bar_lists_the_tape_for_as_long_as_it_lives():
    tape, _, _ = program()
    assert tape in live_tapes()
    row = tape_row(tape)
    assert (row["launches"], row["arrays"], row["onOverwrite"], row["backwardRuns"]) == (5, 4, "ignore", 1)
    alive = weakref.ref(tape)
    del tape
    gc.collect()
    assert alive() is None


def test_a_report_is_written(tmp_path):
    tape, _, _ = program()
    path = report(tape, path=tmp_path / "report.html", diagnose=False)
    text = path.read_text()
    assert "keeps no copies of overwritten values" in text


def test_a_diagram_is_drawn():
    tape, _, _ = program()
    text = visualize(tape)
    assert "relu" in text
    assert "the reverse pass sees other values" in text


def test_a_tape_is_displayed_as_a_panel():
    tape, _, _ = program()
    data = tape._repr_mimebundle_()
    assert data[0]["text/plain"] == f"<NumPy tape {tape.id}: 5 operations>", "without a front end, a text"

"""Representations of a tape for each kind of front end."""

import json

import pytest

import tapedebug as wp
from tapedebug.notebook import display, mimebundle
from tapedebug.panel.panel_source import subject_of
from tapedebug.trace import trace_from_json
from tests.notebook.net_trace import net_trace
from tests.trace.unpacked import unsealed


def test_a_terminal_gets_text(shell, wrong):
    tape, _, loss = wrong
    assert display.tape_bundle(tape) == ({"text/plain": repr(tape)}, {})
    diagnosis = wp.diagnose(tape, loss=loss)
    assert mimebundle(diagnosis) == ({"text/plain": str(diagnosis)}, {})


def test_a_notebook_gets_all_forms(front_end, wrong):
    tape, _, _ = wrong
    data, metadata = front_end.display_formatter.format(tape)
    assert set(data) == {"text/plain", "text/html", display.TRACE_MIME, display.WIDGET_MIME}
    assert data["text/plain"] == repr(tape)
    assert data[display.TRACE_MIME]["head"]["tape"]["id"] == tape.id
    assert [None, "x", "loss"] in metadata[display.TRACE_MIME]["mask"]
    assert json.loads(json.dumps(data)) == data
    panel = wp.notebook.latest_panel()
    assert data[display.WIDGET_MIME]["model_id"] == panel.model_id


def test_a_trace_shows_itself(front_end, wrong):
    trace = wrong[0].trace()
    data, _ = front_end.display_formatter.format(trace)
    assert data["text/plain"] == repr(trace)
    saved = unsealed(data[display.TRACE_MIME])
    assert saved["launches"] == trace.to_json()["launches"]
    assert saved["versions"] == trace.to_json()["versions"]


def test_without_widgets_there_is_the_static_form(front_end, wrong, monkeypatch):
    tape, _, _ = wrong

    def missing():
        raise ImportError("the panel needs anywidget; install it with `pip install anywidget`")

    monkeypatch.setattr("tapedebug.notebook.load_widget", missing)
    with pytest.warns(UserWarning) as caught:
        data, _ = display.tape_bundle(tape)
    assert [str(warning.message) for warning in caught] == [
        "The panel cannot be shown (the panel needs anywidget; install it with `pip install anywidget`); "
        "this is its static form."
    ]
    assert set(data) == {"text/plain", "text/html", display.TRACE_MIME}


def test_a_trace_that_is_too_large_stays_out_of_the_notebook(monkeypatch):
    monkeypatch.setattr(display, "MOST_SAVED", 1000)
    subject = subject_of(trace_from_json(net_trace()))
    data, metadata = display.bundle_of(subject, [], "text", model_id="1", mask=[])
    assert set(data) == {"text/plain", "text/html", display.WIDGET_MIME}
    assert metadata == {}
    assert "too large to keep in a notebook" in data["text/html"]


def test_the_saved_output_follows_the_checks(front_end, wrong):
    from IPython.utils.capture import capture_output

    tape, _, _ = wrong
    panel = wp.TapeDebugger(tape)
    with capture_output() as captured:
        front_end.run_cell("from IPython.display import display")
        front_end.user_ns["panel"] = panel
        front_end.run_cell("display(panel)").raise_error()
        panel.run([(1, "x", "y")])
    first, *updates = captured.outputs
    checks = updates[-1].data[display.TRACE_MIME]["head"]["checks"]
    assert [c["verdict"] for c in checks if c["launch"] == 1] == ["AGREE"]
    assert not [c for c in first.data[display.TRACE_MIME]["head"]["checks"] if c["launch"] == 1]
    assert updates[-1].metadata[display.TRACE_MIME]["mask"] == [[1, "x", "y"]]
    panel.close()


def test_a_panel_in_a_terminal_is_a_line_of_text(shell, wrong, capsys):
    tape, _, _ = wrong
    panel = wp.TapeDebugger(tape)
    shell.display_formatter.format(panel)
    assert capsys.readouterr().out == f"{panel!r}\n"
    assert repr(panel) == f"TapeDebugger({panel.trace['name']!r}, tape {tape.id}, 4 launches)"
    panel.close()


class _Program:
    """A kernel whose client takes no input, as nbclient's does not."""

    def get_parent(self):
        return {"content": {"allow_stdin": False}}


def test_a_notebook_that_a_program_runs_gets_no_live_panel(front_end, wrong):
    front_end.kernel = _Program()
    tape, _, _ = wrong
    data, metadata = front_end.display_formatter.format(tape)
    assert set(data) == {"text/plain", "text/html", display.TRACE_MIME}
    assert set(metadata[display.TRACE_MIME]) == {"mask", "answers"}
    data, _ = wp.TapeDebugger(tape).bundle()
    assert display.WIDGET_MIME not in data

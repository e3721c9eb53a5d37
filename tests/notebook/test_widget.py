"""The widget: traits both ways, runs, and what it says when something is wrong."""

import threading
import time

import pytest
import traitlets

import tapedebug as wp
from tapedebug.notebook import latest_panel
from tapedebug.panel import check_runner
from tapedebug.panel.execution_lock import execution_lock
from tests.trace.unpacked import unpacked

WHOLE = [None, "x", "loss"]


@pytest.fixture(autouse=True)
def built():
    """The widget's JavaScript is built by `make setup`; without it there is no widget to test."""
    from tapedebug.notebook import load_widget

    load_widget()


@pytest.fixture
def panel(wrong):
    # named, so that the panel can name them
    tape, x, loss = wrong  # noqa: RUF059
    panel = wp.TapeDebugger(tape)
    yield panel
    panel.close()


def press(panel, kind):
    """Send the message of a button that is pressed."""
    panel._handle_custom_msg({"type": kind}, [])


def wait(panel):
    until = time.monotonic() + 30
    while panel.running and time.monotonic() < until:
        time.sleep(0.01)
    assert not panel.running


def verdicts(panel):
    return {(c["launch"], c["input"], c["output"]): c["verdict"] for c in panel.checks}


def test_it_shows_a_tape_with_the_pairs_of_the_whole_tape_switched_on(panel):
    assert panel.trace["tape"]["launches"] == 4
    assert WHOLE in panel.mask
    assert all(launch is None for launch, _, _ in panel.mask)
    assert set(verdicts(panel).values()) == {None}
    assert panel.can_run
    assert not panel.running


def test_a_click_changes_the_traits_and_observers_hear_it(panel):
    heard = []
    panel.observe(lambda change: heard.append(change.new), "mask")
    panel.set_state({"mask": [[1, "x", "y"]], "selection": {"launch": 1}})
    assert panel.mask == [[1, "x", "y"]]
    assert panel.selection == {"launch": 1}
    assert heard == [[[1, "x", "y"]]]


def test_python_sets_the_mask_in_either_form(panel):
    panel.mask = [(1, "x", "y"), (1, "x", "y"), WHOLE]
    assert panel.mask == [[1, "x", "y"], WHOLE]
    assert panel.get_state("mask") == {"mask": [[1, "x", "y"], WHOLE]}


def test_a_mask_that_does_not_fit_is_refused_and_the_old_one_stays(panel):
    before = panel.mask
    with pytest.raises(traitlets.TraitError) as caught:
        panel.mask = [[1, "x", "speed"]]
    assert str(caught.value) == (
        "mask entry [1, 'x', 'speed']: launch 1 (square) has no array 'speed'; it has x, y"
    )
    assert panel.mask == before


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (
            "wp.TapeDebugger(7)",
            "ArgumentError: a panel shows a Tape, a Trace or a Diagnosis, not 7 (of type int)",
        ),
        ("wp.TapeDebugger(tape, mask=[(1, 'x', 'speed')])", "TraitError: mask entry [1, 'x', 'speed']"),
        ("wp.TapeDebugger(tape, mask=3)", "TraitError: a mask is a list of [launch, input, output]; not 3"),
        ("wp.TapeDebugger(tape, height='tall')", "TraitError: height is a number of CSS pixels"),
    ],
)
def test_a_refusal_is_short_and_shows_no_frame_of_other_packages(shell, wrong, capsys, code, message):
    shell.user_ns["tape"] = wrong[0]
    shell.run_cell(code)
    said = capsys.readouterr().out
    assert message in said
    # of errors of other packages, such as traitlets, IPython shows the innermost frame in any case
    assert said.count("File ") == message.startswith("TraitError")
    assert "site-packages" not in said


def test_run_fills_in_the_chosen_pairs_and_leaves_the_others(panel, wrong):
    _, x, _ = wrong
    values, gradient = x.numpy(), x.grad.numpy()
    results = panel.run([WHOLE, (1, "x", "y")])
    assert [result["verdict"] for result in results] == ["WRONG", "AGREE"]
    assert verdicts(panel)[None, "x", "loss"] == "WRONG"
    assert verdicts(panel)[1, "x", "y"] == "AGREE"
    before = {pair: verdict for pair, verdict in verdicts(panel).items() if verdict is not None}
    assert len(before) == 2
    panel.run([(3, "y", "loss")])
    assert verdicts(panel) == {**verdicts(panel), **before, (3, "y", "loss"): "AGREE"}
    assert panel.status.startswith("1 pair checked in ")
    assert panel.status.endswith(" s: 1 AGREE.")
    assert x.numpy().tolist() == values.tolist()
    assert x.grad.numpy().tolist() == gradient.tolist()


def test_the_button_runs_beside_the_notebook(panel):
    panel.mask = [(1, "x", "y")]
    press(panel, "run")
    wait(panel)
    assert verdicts(panel)[1, "x", "y"] == "AGREE"
    assert panel.progress == 1.0


def test_the_labels_of_the_panel_hold_when_variables_change(shell):
    shell.run_cell(
        "a = wp.array([1.0, 2.0], dtype=float, requires_grad=True)\n"
        "b = wp.zeros(1, dtype=float, requires_grad=True)\n"
        "with wp.Tape() as tape:\n"
        "    wp.launch(total, dim=2, inputs=[a], outputs=[b])\n"
        "tape.backward(b)\n"
        "panel = wp.TapeDebugger(tape)\n"
        "a = b = None\n"
    ).raise_error()
    panel = shell.user_ns["panel"]
    [[launch, source, target]] = panel.mask
    assert launch is None
    assert {source, target} <= {array["label"] for array in panel.trace["arrays"]}
    assert [check["verdict"] for check in panel.run()] == ["AGREE"]


def test_a_second_press_while_it_runs_is_ignored(panel, monkeypatch):
    started, go = threading.Event(), threading.Event()

    def slow(*args, **options):
        started.set()
        assert go.wait(10)
        return []

    monkeypatch.setattr("tapedebug.panel.check_runner.check_pairs", slow)
    press(panel, "run")
    assert started.wait(10)
    press(panel, "run")
    with pytest.raises(wp.TapedebugError) as caught:
        panel.run()
    assert str(caught.value) == (
        "A check of this tape is running already.\n  = hint: Wait for it, or call cancel()."
    )
    go.set()
    wait(panel)


def test_cancel_keeps_what_is_done_and_says_so(panel, monkeypatch):
    from tapedebug.autograd import check_pairs

    entered = threading.Event()

    def until_cancelled(tape, mask, *, labels, progress, cancelled, each):
        first = check_pairs(tape, mask[:1], labels=labels, each=each)
        progress(0.5)
        entered.set()
        while not cancelled():
            time.sleep(0.005)
        return first

    monkeypatch.setattr("tapedebug.panel.check_runner.check_pairs", until_cancelled)
    panel.mask = [(1, "x", "y"), WHOLE]
    press(panel, "run")
    assert entered.wait(30)
    press(panel, "cancel")
    wait(panel)
    assert panel.status == "Cancelled after 1 of 2 pairs: 1 AGREE."
    assert verdicts(panel)[1, "x", "y"] == "AGREE"
    assert verdicts(panel)[None, "x", "loss"] is None


def test_what_goes_wrong_is_in_the_status(panel, monkeypatch):
    panel.mask = []
    press(panel, "run")
    wait(panel)
    assert panel.status == "No pair is switched on.\n  = hint: Switch on a pair of the mask, then run."

    def fail(*args, **options):
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr("tapedebug.panel.check_runner.check_pairs", fail)
    panel.mask = [(1, "x", "y")]
    press(panel, "run")
    wait(panel)
    assert panel.status == "ZeroDivisionError: float division by zero"


def test_what_is_refused_after_a_run_is_said_too(panel):
    panel.mask = [(1, "x", "y")]
    press(panel, "run")
    wait(panel)
    assert panel.status.startswith("1 pair checked in ")
    panel.mask = []
    press(panel, "run")
    wait(panel)
    assert panel.status == "No pair is switched on.\n  = hint: Switch on a pair of the mask, then run."


def test_a_trace_from_elsewhere_cannot_be_checked(wrong, tmp_path):
    tape, _, _ = wrong
    tape.trace().save(tmp_path / "net.tapedebug-trace")
    panel = wp.TapeDebugger(wp.trace.load_trace(tmp_path / "net.tapedebug-trace"))
    assert not panel.can_run
    with pytest.raises(wp.TapedebugError) as caught:
        panel.run()
    assert str(caught.value) == (
        "This tape was recorded elsewhere: only its trace is here, and checks run kernels.\n"
        "  = hint: Record it again in this kernel."
    )
    panel.close()


def test_a_diagnosis_finds_its_tape(wrong):
    tape, x, loss = wrong
    panel = wp.TapeDebugger(wp.diagnose(tape, loss=loss, inputs=x))
    assert panel.can_run
    assert panel.trace["verdict"] == "WRONG"
    assert verdicts(panel)[None, "x", "loss"] == "WRONG"
    panel.close()


def test_other_things_are_refused():
    with pytest.raises(TypeError) as caught:
        wp.TapeDebugger(42)
    assert str(caught.value) == (
        "a panel shows a Tape, a Trace or a Diagnosis, not 42 (of type int); "
        "record launches with `with Tape() as tape:` and show that tape"
    )


def test_the_report_is_written(panel, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    called = panel.trace["name"].replace(" ", "-")
    press(panel, "export")
    assert panel.status == f"Report written to {tmp_path / f'tapedebug-report-{called}.html'}"
    press(panel, "export")
    assert panel.status == f"Report written to {tmp_path / f'tapedebug-report-{called}-2.html'}"
    assert "square" in (tmp_path / f"tapedebug-report-{called}.html").read_text()
    monkeypatch.setattr(type(panel), "export", lambda self: (_ for _ in ()).throw(PermissionError(13, "no")))
    press(panel, "export")
    assert panel.status == "PermissionError: [Errno 13] no"


def test_a_check_waits_for_the_running_cell(panel):
    panel.mask = [(1, "x", "y")]
    execution_lock.cell_starts()
    try:
        press(panel, "run")
        assert panel.status == "Waiting for the running cell …"
        time.sleep(0.05)
        assert panel.running
    finally:
        execution_lock.cell_ends()
    wait(panel)
    assert verdicts(panel)[1, "x", "y"] == "AGREE"


def test_a_check_says_for_which_other_check_it_waits(panel):
    panel.mask = [(1, "x", "y")]
    with execution_lock.for_check(lambda: None, "the check of tape 7 (net)"):
        press(panel, "run")
        assert panel.status == "Waiting for the check of tape 7 (net) …"
    wait(panel)
    assert verdicts(panel)[1, "x", "y"] == "AGREE"


def test_a_check_that_waits_for_another_can_be_cancelled(panel):
    panel.mask = [(1, "x", "y")]
    with execution_lock.for_check(lambda: None, "the check of tape 7 (net)"):
        press(panel, "run")
        press(panel, "cancel")
        wait(panel)
        assert panel.status == "Cancelled after 0 of 1 pair."
    press(panel, "run")
    wait(panel)
    assert verdicts(panel)[1, "x", "y"] == "AGREE"


def test_those_who_wait_for_a_check_are_told_its_tape(panel, monkeypatch):
    messages = []
    monkeypatch.setattr(
        "tapedebug.panel.check_runner.check_pairs",
        lambda *_, **__: messages.append(execution_lock.holder) or [],
    )
    panel.mask = [(1, "x", "y")]
    press(panel, "run")
    wait(panel)
    trace = panel.trace
    assert messages == [f"the check of tape {trace['tape']['id']} ({trace['name']})"]
    assert execution_lock.holder is None


def test_progress_is_told_no_faster_than_it_can_be_seen(wrong):
    messages = []
    from tapedebug.panel.panel_source import subject_of

    runner = check_runner.CheckRunner(subject_of(wrong[0]), lambda **changes: messages.append(changes))
    for step in range(1000):
        runner._progressed(step / 1000)
    assert sum("progress" in changes for changes in messages) <= 2


def test_no_heartbeat_outlives_a_run(wrong, monkeypatch):
    from tapedebug.panel.panel_source import subject_of

    beating = threading.Event()

    def report(**changes):
        if "beat" in changes:
            beating.set()
            time.sleep(0.1)

    monkeypatch.setattr(check_runner, "BETWEEN_BEATS", 0.001)
    monkeypatch.setattr(check_runner, "check_pairs", lambda *_, **__: beating.wait(10) and [])
    check_runner.CheckRunner(subject_of(wrong[0]), report).run([[1, "x", "y"]])
    assert beating.is_set()
    assert [thread for thread in threading.enumerate() if thread.name == "tapedebug beat"] == []


def test_running_a_cell_again_closes_the_panels_it_had_shown(front_end):
    from tapedebug.notebook.display import tape_bundle

    tape = wp.Tape()
    tape_bundle(tape)
    first = latest_panel()
    tape_bundle(tape)
    second = latest_panel()
    assert first.comm is not None
    front_end.parent_header = {"header": {"msg_id": "2"}, "metadata": {"cellId": "cell-1"}}
    tape_bundle(tape)
    assert (first.comm, second.comm) == (None, None)
    assert latest_panel().comm is not None
    front_end.parent_header = {"header": {"msg_id": "3"}, "metadata": {"cellId": "cell-2"}}
    third = latest_panel()
    tape_bundle(tape)
    assert third.comm is not None


def test_of_cells_without_an_id_the_newest_panels_stay_open(front_end):
    """They may have been edited and run again, which nobody tells the kernel."""
    from tapedebug.notebook import _open_panels
    from tapedebug.notebook.display import tape_bundle

    tape, shown = wp.Tape(), []

    def show(number, text):
        front_end.parent_header = {"header": {"msg_id": f"no id {number}"}, "content": {"code": text}}
        tape_bundle(tape)
        shown.append(latest_panel())

    for number in range(_open_panels.MOST_UNKNOWN + 2):
        show(number, f"tape  # {number}")
    assert [panel.comm is None for panel in shown] == [True, True] + _open_panels.MOST_UNKNOWN * [False]
    show("again", "tape  # 2")
    assert [panel.comm is None for panel in shown[:4]] == [True, True, True, False], "the same text"
    for panel in shown:
        panel.close()


def test_values_are_summarised_only_where_that_is_quick(wrong, monkeypatch):
    from tapedebug.panel import panel_source

    tape, _, _ = wrong
    assert any(version["value"] for version in panel_source.subject_of(tape).trace["versions"])
    monkeypatch.setattr(panel_source, "MOST_SUMMARISED", 16)
    assert not any(version["value"] for version in panel_source.subject_of(tape).trace["versions"])


def told_of(panel, name):
    """All values that a trait has from now on."""
    messages = []
    panel.observe(lambda change: messages.append(change.new), name)
    return messages


def test_each_result_is_told_as_soon_as_it_is_there(panel, monkeypatch):
    monkeypatch.setattr(check_runner, "BETWEEN_RESULTS", 0.0)
    panel.mask = [(1, "x", "y"), (3, "y", "loss"), WHOLE]
    messages = told_of(panel, "checks")
    press(panel, "run")
    wait(panel)
    counts = [sum(check["verdict"] is not None for check in checks) for checks in messages]
    assert counts == sorted(counts)
    assert {1, 2, 3} <= set(counts)


def test_a_result_is_not_held_back_while_a_slow_one_goes_on(panel, monkeypatch):
    from tapedebug.autograd import check_pairs

    monkeypatch.setattr(check_runner, "BETWEEN_RESULTS", 0.05)
    entered, go = threading.Event(), threading.Event()

    def slow(tape, mask, *, each, progress, **options):
        results = check_pairs(tape, mask[:2], each=each, **options)
        entered.set()
        while not go.wait(0.02):
            progress(0.5)
        return results

    monkeypatch.setattr("tapedebug.panel.check_runner.check_pairs", slow)
    panel.mask = [(1, "x", "y"), (3, "y", "loss"), WHOLE]
    press(panel, "run")
    assert entered.wait(30)
    until = time.monotonic() + 10
    while verdicts(panel).get((3, "y", "loss")) is None and time.monotonic() < until:
        time.sleep(0.01)
    assert panel.running
    assert verdicts(panel)[3, "y", "loss"] == "AGREE"
    go.set()
    wait(panel)


def test_a_pair_can_be_run_by_itself_and_the_mask_stays(panel):
    before = panel.mask
    panel._handle_custom_msg({"type": "run", "mask": [[1, "x", "y"]]}, [])
    wait(panel)
    assert panel.mask == before
    assert verdicts(panel)[1, "x", "y"] == "AGREE"
    assert verdicts(panel)[None, "x", "loss"] is None
    panel._handle_custom_msg({"type": "run", "mask": [[1, "x", "speed"]]}, [])
    assert panel.status.startswith("mask entry [1, 'x', 'speed']: launch 1 (square) has no array 'speed'")


def test_a_run_beats_also_while_it_says_nothing_else(panel, monkeypatch):
    monkeypatch.setattr(check_runner, "BETWEEN_BEATS", 0.02)
    monkeypatch.setattr("tapedebug.panel.check_runner.check_pairs", lambda *_, **__: time.sleep(0.3) or [])
    beats = told_of(panel, "beat")
    press(panel, "run")
    wait(panel)
    assert len(beats) >= 3
    time.sleep(0.1)
    count = len(beats)
    time.sleep(0.1)
    assert len(beats) == count


def test_an_error_keeps_what_is_done_and_says_so(panel, monkeypatch):
    from tapedebug.autograd import check_pairs

    def fails_later(tape, mask, *, each, **options):
        check_pairs(tape, mask[:1], each=each, **options)
        raise ZeroDivisionError("float division by zero")

    monkeypatch.setattr("tapedebug.panel.check_runner.check_pairs", fails_later)
    panel.mask = [(1, "x", "y"), WHOLE]
    press(panel, "run")
    wait(panel)
    assert panel.status == "After 1 of 2 pairs: ZeroDivisionError: float division by zero"
    assert verdicts(panel)[1, "x", "y"] == "AGREE"


def test_the_status_says_how_long_it_will_take(wrong):
    from tapedebug.panel.panel_source import subject_of

    runner = check_runner.CheckRunner(subject_of(wrong[0]), lambda **_: None)
    runner._asked = [[1, "x", "y"], [3, "y", "loss"]]
    assert runner._standing(0.5, 0.5) == "Checking 2 pairs, 0 done …"
    assert runner._standing(0.25, 4.0) == "Checking 2 pairs, 0 done, about 12 s left …"
    assert runner._standing(0.1, 60.0) == "Checking 2 pairs, 0 done, about 9 min left …"
    runner._asked = [[1, "x", "y"], [None, "x", "loss"]]
    assert runner._standing(0.1, 60.0) == "Checking 2 pairs, 0 done …"


def test_cancelling_when_nothing_runs_says_nothing(panel):
    press(panel, "cancel")
    assert panel.status == ""


def test_a_panel_is_shown_and_reported_without_making_json_of_the_trace(wrong, monkeypatch, tmp_path):
    def slow(trace):
        raise AssertionError("of 100,000 launches that takes seconds")

    monkeypatch.setattr(wp.trace.Trace, "to_json", slow)
    panel = wp.TapeDebugger(wrong[0])
    panel.run([(1, "x", "y")])
    panel.selection = {"launch": 1}
    panel.bundle()
    panel.export(tmp_path / "report.html")
    panel.refresh()
    panel.close()
    with pytest.raises(AssertionError):
        panel.trace


def test_the_tape_travels_as_bytes(panel):
    state = panel.get_state()
    assert "trace" not in state
    assert state["head"]["columns"]["launches.name"]["length"] == 4
    data = unpacked(state["head"], state["columns"])
    assert data["launches"] == panel.trace["launches"]
    assert data["versions"] == panel.trace["versions"]
    assert all(type(column) is bytes for column in state["columns"].values())

"""Messages from the kernel to the side bar and the tab, over a channel that is not a network."""

import time

import pytest

import tapedebug as wp
from tapedebug.diagnose.rules.race import Race
from tapedebug.notebook import _comm, _update_pace
from tapedebug.panel import panel_source
from tapedebug.panel.execution_lock import execution_lock
from tapedebug.panel.panel_source import tape_row
from tests.trace.unpacked import unpacked
from tests.wrong_tape import square, total


class Channel:
    """A comm as ipykernel has it."""

    def __init__(self):
        self.sent = []

    def on_msg(self, callback):
        self.hear = callback

    def on_close(self, callback):
        self.closed = callback

    def send(self, data, buffers=None):
        self.sent.append(data)
        self.buffers = buffers

    def ask(self, **question):
        """Send a question; return the answer to it."""
        number = len(self.sent) + 1000
        self.hear({"content": {"data": {**question, "request": number}}})
        [answer] = [message for message in self.sent if message.get("request") == number]
        return {key: value for key, value in answer.items() if key != "request"}


@pytest.fixture
def channel():
    channel = Channel()
    _comm.opened(channel, {})
    return channel


def test_it_says_hello_with_its_version_and_what_it_will_do_next(channel):
    [hello] = channel.sent
    assert hello == {
        "type": "hello",
        "version": wp.__version__,
        "process": _comm.PROCESS,
        "next": {"state": "off", "tape": hello["next"]["tape"], "message": hello["next"]["message"]},
    }


def test_a_tape_is_called_by_the_variable_that_holds_it_now(front_end, wrong):
    tape, other = wrong[0], wp.Tape()
    user = front_end.user_ns
    assert tape_row(tape)["name"] == ""
    user["net"] = user["_1"] = tape
    assert tape_row(tape)["name"] == "net"
    del user["net"]
    assert tape_row(tape)["name"] == ""
    panel_source._NAMES[tape] = "net"  # as a panel called it
    assert tape_row(tape)["name"] == "net"
    user["net"] = other
    assert tape_row(tape)["name"] == "", "another tape is called so now"


def test_it_lists_the_live_tapes_newest_first_and_computes_nothing(channel, wrong, monkeypatch):
    monkeypatch.setattr("tapedebug.panel.panel_source.record_with_arrays", None)
    tape, _, _ = wrong
    newer = wp.Tape()
    answer = channel.ask(type="list")
    rows = {row["tape"]: row for row in answer["tapes"]}
    assert [row["tape"] for row in answer["tapes"]] == sorted(rows, reverse=True)
    row = rows[tape.id]
    place = row.pop("madeAt")
    assert place.endswith("wrong_tape.py:" + place.rpartition(":")[2])
    assert row == {
        "tape": tape.id,
        "name": "",
        "launches": 4,
        "arrays": 5,
        "onOverwrite": "ignore",
        "engine": "",
        "backwardRuns": 1,
        "preservedBytes": 0,
        "recording": False,
        "checking": False,
        "diagnosing": False,
        "rulesLeft": None,
        "verdict": "NOT CHECKED",
        "findings": None,
        "partial": False,
    }
    assert rows[newer.id]["launches"] == 0


def test_it_counts_the_findings_of_tapes_that_were_diagnosed(channel, wrong):
    tape, _, loss = wrong
    panel = wp.TapeDebugger(wp.diagnose(tape, loss=loss))
    row = next(row for row in channel.ask(type="list")["tapes"] if row["tape"] == tape.id)
    assert row["verdict"] == "WRONG"
    assert row["findings"]["error"] == 1
    with tape:
        wp.clone(wp.ones(1, dtype=float))
    row = next(row for row in channel.ask(type="list")["tapes"] if row["tape"] == tape.id)
    assert row["findings"] is None  # what was found was about the shorter tape
    panel.close()


def test_it_hands_out_a_trace_and_runs_its_checks(channel, wrong):
    tape, _, _ = wrong
    answer = channel.ask(type="trace", tape=tape.id)
    assert answer["type"] == "trace"
    assert answer["head"]["tape"]["id"] == tape.id
    columns = dict(zip(answer["columns"], channel.buffers, strict=True))
    assert unpacked(answer["head"], columns)["versions"] == panel_source.subject_of(tape).trace["versions"]
    assert [None, "x", "loss"] in answer["mask"]
    mask = [[None, "x", "loss"], [1, "x", "y"]]
    assert channel.ask(type="run", tape=tape.id, mask=mask) == {"type": "done"}
    until = time.monotonic() + 30
    state = {}
    while state.get("running", True) and time.monotonic() < until:
        time.sleep(0.01)
        state = {}
        for message in list(channel.sent):
            if message["type"] == "state":
                assert message["tape"] == tape.id
                state.update(message["state"])
    found = {(c["launch"], c["input"], c["output"]): c["verdict"] for c in state["checks"]}
    assert found[None, "x", "loss"] == "WRONG"
    assert found[1, "x", "y"] == "AGREE"
    assert channel.ask(type="trace", tape=tape.id)["checks"] == state["checks"]


def test_questions_that_make_no_sense_get_an_answer_in_words(channel, wrong):
    tape, _, _ = wrong
    alive = ", ".join(str(live.id) for live in wp.live_tapes())
    assert channel.ask(type="trace", tape=-1) == {
        "type": "error",
        "message": f"Tape -1 no longer exists. Live tapes: {alive}.",
    }
    assert channel.ask(type="dance") == {
        "type": "error",
        "message": "The kernel's tapedebug does not know 'dance'.",
    }
    assert channel.ask(type="run", tape=tape.id, mask=[[99, "x", "y"]]) == {
        "type": "error",
        "message": (
            "mask entry [99, 'x', 'y']: there is no launch 99; this tape has 4 launches, counted from 0"
        ),
    }


def test_while_a_cell_runs_it_lists_what_goes_on_and_looks_into_nothing(channel, wrong):
    tape, _, _ = wrong
    execution_lock.cell_starts()
    try:
        with wp.Tape() as recording:
            listed = channel.ask(type="list")
            rows = {row["tape"]: row["recording"] for row in listed["tapes"]}
            assert (listed["busy"], rows[recording.id], rows[tape.id]) == (True, True, False)
            busy = {"type": "busy", "holder": "the running cell"}
            assert channel.ask(type="trace", tape=tape.id) == busy
            assert channel.ask(type="marks") == busy
    finally:
        execution_lock.cell_ends()
    assert channel.ask(type="list")["busy"] is False


def test_the_list_says_which_tapes_are_being_checked_and_by_whomever(channel, wrong, monkeypatch):
    tape, _, _ = wrong
    panel = wp.TapeDebugger(tape)
    done = []

    def until_cancelled(*args, cancelled, **options):
        while not cancelled():
            time.sleep(0.005)
        done.append(True)
        return []

    monkeypatch.setattr("tapedebug.panel.check_runner.check_pairs", until_cancelled)
    panel._start()
    [row] = [row for row in channel.ask(type="list")["tapes"] if row["tape"] == tape.id]
    assert row["checking"] is True
    panel.cancel()
    until = time.monotonic() + 10
    while panel.running and time.monotonic() < until:
        time.sleep(0.01)
    [row] = [row for row in channel.ask(type="list")["tapes"] if row["tape"] == tape.id]
    assert (row["checking"], done) == (False, [True])
    panel.close()


def test_a_tab_that_was_closed_keeps_nothing(channel, wrong, monkeypatch):
    tape, _, _ = wrong
    channel.ask(type="trace", tape=tape.id)
    [runner] = _comm_of(channel)._runners.values()
    cancelled = []
    monkeypatch.setattr(runner, "cancel", lambda: cancelled.append(True))
    assert channel.ask(type="forget", tape=tape.id) == {"type": "done"}
    assert (cancelled, _comm_of(channel)._runners) == ([True], {})
    assert channel.ask(type="forget", tape=tape.id) == {"type": "done"}


def _comm_of(channel):
    return channel.hear.__self__


def test_all_front_ends_hear_that_the_next_cell_will_be_recorded(channel):
    other = Channel()
    _comm.opened(other, {})
    assert channel.ask(type="arm", on=True) == {"type": "done"}
    try:
        messages = [message for message in other.sent if message["type"] == "next"]
        assert [message["state"] for message in messages] == ["armed"]
        third = Channel()
        _comm.opened(third, {})
        assert third.sent[0]["next"]["state"] == "armed"
    finally:
        channel.ask(type="arm", on=False)
    assert [message["state"] for message in other.sent if message["type"] == "next"] == ["armed", "off"]
    other.closed({})
    count = len(other.sent)
    channel.ask(type="arm", on=False)
    assert len(other.sent) == count


def test_a_report_is_written_and_its_place_told(channel, wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tape, _, _ = wrong
    name = channel.ask(type="trace", tape=tape.id)["head"]["name"].replace(" ", "-")
    target = tmp_path / f"tapedebug-report-{name}.html"
    assert channel.ask(type="export", tape=tape.id) == {
        "type": "done",
        "message": f"Report written to {target}",
    }
    assert target.exists()
    messages = {"type": "state", "tape": tape.id, "state": {"status": f"Report written to {target}"}}
    assert messages in channel.sent


def test_closing_the_tab_cancels_its_run(channel, wrong, monkeypatch):
    tape, _, _ = wrong
    seen = []

    def until_cancelled(*args, cancelled, **options):
        while not cancelled():
            time.sleep(0.005)
        seen.append("cancelled")
        return []

    monkeypatch.setattr("tapedebug.panel.check_runner.check_pairs", until_cancelled)
    channel.ask(type="trace", tape=tape.id)
    channel.ask(type="run", tape=tape.id, mask=[[1, "x", "y"]])
    channel.closed({})
    until = time.monotonic() + 10
    while not seen and time.monotonic() < until:
        time.sleep(0.01)
    assert seen == ["cancelled"]


def test_the_target_is_registered_with_the_kernel(front_end):
    import comm

    front_end.run_line_magic("reload_ext", "tapedebug")
    assert comm.get_comm_manager().targets["tapedebug"] is _comm.opened


def test_on_request_it_diagnoses_a_tape(channel, wrong):
    tape, x, _ = wrong
    number = len(channel.sent) + 1000
    channel.hear({"content": {"data": {"type": "diagnose", "tape": tape.id, "request": number}}})
    answers = []
    until = time.monotonic() + 30
    while not answers and time.monotonic() < until:
        time.sleep(0.01)
        answers = [message for message in list(channel.sent) if message.get("request") == number]
    assert x is not None
    [row] = [row for row in answers[0]["tapes"] if row["tape"] == tape.id]
    assert (row["verdict"], row["findings"]["error"]) == ("WRONG", 1)
    assert channel.ask(type="trace", tape=tape.id)["head"]["verdict"] == "WRONG"


def test_a_row_has_what_its_diagnosis_has_found_so_far(channel, wrong, monkeypatch):
    monkeypatch.setattr(_update_pace, "BETWEEN_UPDATES", 0.0)
    monkeypatch.setattr(_update_pace, "UPDATES", 0.0)
    tape, _, _ = wrong
    listed = []

    def stop(self, context):
        listed.append(next(row for row in channel.ask(type="list")["tapes"] if row["tape"] == tape.id))
        return before(self, context)

    before = Race.check
    monkeypatch.setattr(Race, "check", stop)
    channel.hear({"content": {"data": {"type": "diagnose", "tape": tape.id, "request": -1}}})
    until = time.monotonic() + 30
    while not any(message.get("request") == -1 for message in channel.sent) and time.monotonic() < until:
        time.sleep(0.01)
    rows = [message["row"] for message in channel.sent if message["type"] == "row"]
    assert {row["tape"] for row in rows} == {tape.id} and all(row["diagnosing"] for row in rows)
    rows = [row for row in rows if row["verdict"] != "NOT CHECKED"]  # before, inputs were compared
    assert (rows[0]["verdict"], rows[0]["findings"]["error"]) == ("WRONG", 0), "first the verdict"
    assert (rows[-1]["findings"]["error"], rows[-1]["rulesLeft"]) == (1, None), (
        "then the finding, and no rule left"
    )
    left = [row["rulesLeft"] for row in rows[:-1]]
    assert left == sorted(left, reverse=True) and left[-1] == 1
    assert listed[0]["diagnosing"] and listed[0]["findings"]["error"] == 1, "another front end that asks"
    [answer] = [message for message in channel.sent if message.get("request") == -1]
    [row] = [row for row in answer["tapes"] if row["tape"] == tape.id]
    assert not row["diagnosing"] and row["rulesLeft"] is None and row["findings"]["error"] == 1


def test_a_diagnosis_can_be_cancelled_and_leaves_what_it_found(channel, wrong, monkeypatch):
    tape, _, _ = wrong
    channel.ask(type="trace", tape=tape.id)
    with monkeypatch.context() as patch:
        sent = diagnosed(channel, tape, lambda: channel.ask(type="cancel", tape=tape.id), patch)
    [answer] = [message for message in sent if message.get("request") == -1]
    [row] = [row for row in answer["tapes"] if row["tape"] == tape.id]
    assert (row["verdict"], row["findings"]["error"], row["partial"]) == ("WRONG", 1, True)
    assert not row["diagnosing"]
    notes = channel.ask(type="trace", tape=tape.id)["head"]["coverage"]["notes"]
    assert "interrupted, and not looked for: wrong-adjoint, accumulated, stale-gradient" in notes
    sent = diagnosed(channel, tape, lambda: None, monkeypatch)
    [answer] = [message for message in sent if message.get("request") == -1]
    [row] = [row for row in answer["tapes"] if row["tape"] == tape.id]
    assert not row["partial"], "the next diagnosis is not cancelled"


def test_a_diagnosis_that_is_cancelled_while_it_waits_changes_nothing(channel, wrong):
    tape, _, _ = wrong
    before = channel.ask(type="list")["tapes"]
    with execution_lock.between_cells():  # the diagnosis waits, as for a cell
        channel.hear({"content": {"data": {"type": "diagnose", "tape": tape.id, "request": -1}}})
        assert channel.ask(type="cancel", tape=tape.id) == {"type": "done"}
        until = time.monotonic() + 30
        while not any(message.get("request") == -1 for message in channel.sent):
            assert time.monotonic() < until
            time.sleep(0.01)
    [answer] = [message for message in channel.sent if message.get("request") == -1]
    assert answer["type"] == "tapes" and answer["tapes"] == before


def test_interrupting_a_cell_that_waits_for_a_diagnosis_cancels_it(channel, wrong, monkeypatch):
    tape, _, _ = wrong
    sent = diagnosed(channel, tape, lambda: [cancel() for cancel in execution_lock._cancellers], monkeypatch)
    [answer] = [message for message in sent if message.get("request") == -1]
    [row] = [row for row in answer["tapes"] if row["tape"] == tape.id]
    assert (row["verdict"], row["partial"]) == ("WRONG", True)


def diagnosed(channel, tape, during, monkeypatch):
    """Diagnose a tape on request, call `during` before a rule, and return what was sent from then on."""
    monkeypatch.setattr(_update_pace, "BETWEEN_UPDATES", 0.0)
    monkeypatch.setattr(_update_pace, "UPDATES", 0.0)

    def stop(self, context):
        during()
        return before(self, context)

    before = Race.check
    monkeypatch.setattr(Race, "check", stop)
    start = len(channel.sent)
    channel.hear({"content": {"data": {"type": "diagnose", "tape": tape.id, "request": -1}}})
    until = time.monotonic() + 30
    while not any(message.get("request") == -1 for message in channel.sent[start:]):
        assert time.monotonic() < until
        time.sleep(0.01)
    return channel.sent[start:]


def test_an_open_tab_has_what_the_diagnosis_has_found_so_far(channel, wrong, monkeypatch):
    tape, _, _ = wrong
    assert channel.ask(type="trace", tape=tape.id)["head"]["verdict"] == "NOT CHECKED"
    sent = diagnosed(channel, tape, lambda: None, monkeypatch)
    heads = [message["head"] for message in sent if message["type"] == "trace"]
    heads = [head for head in heads if head["verdict"] != "NOT CHECKED"]  # before, inputs were compared
    assert (heads[0]["verdict"], heads[0]["findings"]) == ("WRONG", []), "first the verdict"
    assert all(head["coverage"]["partial"] for head in heads[:-1])
    assert "still being looked for: " in heads[0]["coverage"]["notes"][-1]
    assert [finding["rule"] for finding in heads[-1]["findings"]] == ["overwrite"]
    assert all(message["tape"] == tape.id for message in sent if message["type"] == "trace")
    assert "partial" not in channel.ask(type="trace", tape=tape.id)["head"]["coverage"]

    channel.hear({"content": {"data": {"type": "forget", "tape": tape.id, "request": 1}}})
    sent = diagnosed(channel, tape, lambda: None, monkeypatch)
    assert [message for message in sent if message["type"] == "trace"] == [], "the tab was closed"


def test_a_tape_that_is_opened_while_it_is_diagnosed_is_shown_with_what_was_found(
    channel, wrong, monkeypatch
):
    tape, _, _ = wrong

    def open_tape():
        channel.hear({"content": {"data": {"type": "trace", "tape": tape.id, "request": -2}}})
        busy = {"type": "busy", "holder": f"the diagnosis of tape {tape.id}"}
        assert channel.ask(type="export", tape=tape.id) == busy

    sent = diagnosed(channel, tape, open_tape, monkeypatch)
    [answer] = [message for message in sent if message.get("request") == -2]
    assert answer["head"]["verdict"] == "WRONG" and answer["head"]["coverage"]["partial"]
    assert sent.index(answer) < len(sent) - 1


def test_a_tape_that_is_opened_while_its_diagnosis_fails_is_shown_without_one(channel, wrong, monkeypatch):
    tape, _, _ = wrong

    def fail(*_, **__):
        channel.hear({"content": {"data": {"type": "trace", "tape": tape.id, "request": -2}}})
        raise wp.TapedebugError("no")

    monkeypatch.setattr(_comm, "diagnose", fail)
    sent = diagnosed(channel, tape, lambda: None, monkeypatch)
    [answer] = [message for message in sent if message.get("request") == -2]
    assert answer["head"]["verdict"] == "NOT CHECKED"
    assert sent[-1] == {"type": "error", "request": -1, "message": "no"}


def test_a_tape_whose_diagnosis_fails_is_not_being_diagnosed(channel, wrong, monkeypatch):
    tape, _, _ = wrong

    def fail(*_, **__):
        raise wp.TapedebugError("no")

    monkeypatch.setattr(_comm, "diagnose", fail)
    channel.hear({"content": {"data": {"type": "diagnose", "tape": tape.id, "request": -1}}})
    until = time.monotonic() + 30
    while not any(message.get("request") == -1 for message in channel.sent) and time.monotonic() < until:
        time.sleep(0.01)
    assert channel.sent[-1] == {"type": "error", "request": -1, "message": "no"}
    assert not tape_row(tape)["diagnosing"] and tape_row(tape)["findings"] is None


def test_a_tape_that_has_grown_is_not_checked_as_the_one_that_was_drawn(channel, wrong):
    tape, _, _ = wrong
    panel = wp.TapeDebugger(tape)
    channel.ask(type="trace", tape=tape.id)
    with tape:
        wp.clone(wp.ones(1, dtype=float))
    with pytest.raises(wp.TapedebugError) as caught:
        panel.run([(1, "x", "y")])
    assert str(caught.value) == (
        "The tape has changed since this was drawn: it had 4 launches and has 5 now.\n"
        "  = hint: Show it again."
    )
    assert channel.ask(type="trace", tape=tape.id)["head"]["tape"]["launches"] == 5
    channel.ask(type="run", tape=tape.id, mask=[[1, "x", "y"]])
    until = time.monotonic() + 30
    while {"running": False} not in [m.get("state") for m in channel.sent] and time.monotonic() < until:
        time.sleep(0.01)
    *_, done = [m["state"] for m in channel.sent if "checks" in m.get("state", {})]
    assert [c["verdict"] for c in done["checks"] if c["launch"] == 1] == ["AGREE"]
    panel.close()


def record_again(tape, x, loss):
    """Reset a tape and record on it again, as often as it was, with the gradient right this time."""
    y = wp.zeros(3, dtype=float, requires_grad=True)
    tape.reset()
    with tape:
        work = wp.clone(x)
        wp.launch(square, dim=3, inputs=[work], outputs=[y])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
        wp.copy(wp.zeros(3, dtype=float), y)


def test_a_tape_that_was_recorded_again_keeps_no_results_however_many_launches_it_has(channel, wrong):
    tape, x, loss = wrong
    panel_source.remember(tape, wp.diagnose(tape))
    assert any(check["verdict"] for check in channel.ask(type="trace", tape=tape.id)["checks"])
    launches = len(tape.records)
    record_again(tape, x, loss)
    assert len(tape.records) == launches
    again = channel.ask(type="trace", tape=tape.id)
    assert [check["verdict"] for check in again["checks"] if check["verdict"]] == []
    assert again["head"]["verdict"] == "NOT CHECKED"


def test_a_tape_that_was_recorded_again_is_not_checked_as_the_one_that_was_drawn(channel, wrong):
    tape, x, loss = wrong
    channel.ask(type="trace", tape=tape.id)
    record_again(tape, x, loss)
    answer = channel.ask(type="run", tape=tape.id, mask=[[1, "x", "y"]])
    assert answer == {"type": "done"}
    wait_until(lambda: not channel.hear.__self__._runners[tape.id].running)
    messages = [message["state"].get("status", "") for message in channel.sent if message["type"] == "state"]
    assert any(
        text.startswith("The tape was reset and recorded again since this was drawn.") for text in messages
    )


def wait_until(holds):
    for _ in range(3000):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError("it did not come to that")


def test_a_tape_that_has_grown_keeps_what_was_found_of_its_launches(channel, wrong):
    tape, _, loss = wrong
    found = channel.ask(type="trace", tape=tape.id)
    runner = channel.hear.__self__._runners[tape.id]
    done = {"verdict": "AGREE", "max_abs_error": 0.0, "max_rel_error": 0.0, "message": "", "seconds": 0.0}
    runner.learn([{"launch": 1, "input": "x", "output": "y", **done}])
    runner.learn([{**check, **done} for check in found["checks"]])
    with tape:
        wp.launch(square, dim=1, inputs=[loss], outputs=[wp.zeros(1, dtype=float)])
    checks = channel.ask(type="trace", tape=tape.id)["checks"]
    assert [check["launch"] for check in checks if check["verdict"]] == [1]

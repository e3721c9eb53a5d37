"""What the side bar and the tab hear from the kernel, over a channel that is not a network."""

import time

import pytest

import tapedebug as wp
from tapedebug.notebook import _comm
from tapedebug.notebook._gate import gate


class Channel:
    """A comm as ipykernel has it."""

    def __init__(self):
        self.sent = []

    def on_msg(self, callback):
        self.hear = callback

    def on_close(self, callback):
        self.closed = callback

    def send(self, data):
        self.sent.append(data)

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


def test_it_says_hello_with_its_version(channel):
    assert channel.sent == [{"type": "hello", "version": wp.__version__}]


def test_it_lists_the_live_tapes_newest_first_and_computes_nothing(channel, wrong, monkeypatch):
    monkeypatch.setattr("tapedebug.trace._record.record_with_arrays", None)
    tape, _, _ = wrong
    newer = wp.Tape()
    answer = channel.ask(type="list")
    rows = {row["tape"]: row for row in answer["tapes"]}
    assert [row["tape"] for row in answer["tapes"]] == sorted(rows, reverse=True)
    row = rows[tape.id]
    place = row.pop("madeAt")
    assert place.endswith("conftest.py:" + place.rpartition(":")[2])
    assert row == {
        "tape": tape.id,
        "name": "",
        "launches": 4,
        "arrays": 5,
        "onOverwrite": "ignore",
        "backwardRuns": 1,
        "preservedBytes": 0,
        "recording": False,
        "verdict": "NOT CHECKED",
        "findings": None,
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
    assert answer["trace"]["tape"]["id"] == tape.id
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
        "message": f"Tape -1 is not alive any more. Live tapes: {alive}.",
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


def test_while_a_cell_runs_it_is_busy(channel, wrong):
    tape, _, _ = wrong
    gate.cell_starts()
    try:
        assert channel.ask(type="list") == {"type": "busy"}
        assert channel.ask(type="trace", tape=tape.id) == {"type": "busy"}
    finally:
        gate.cell_ends()
    assert channel.ask(type="list")["type"] == "tapes"


def test_a_report_is_written_and_its_place_told(channel, wrong, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tape, _, _ = wrong
    assert channel.ask(type="export", tape=tape.id) == {"type": "done"}
    target = tmp_path / f"tapedebug-report-{tape.id}.html"
    assert target.exists()
    told = {"type": "state", "tape": tape.id, "state": {"status": f"Report written to {target}"}}
    assert told in channel.sent


def test_closing_the_tab_cancels_its_run(channel, wrong, monkeypatch):
    tape, _, _ = wrong
    seen = []

    def until_cancelled(*args, cancelled, **options):
        while not cancelled():
            time.sleep(0.005)
        seen.append("cancelled")
        return []

    monkeypatch.setattr("tapedebug.autograd.check_pairs", until_cancelled)
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
    assert channel.ask(type="trace", tape=tape.id)["trace"]["verdict"] == "WRONG"


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
        "  = mend: Show it again, then run."
    )
    assert channel.ask(type="trace", tape=tape.id)["trace"]["tape"]["launches"] == 5
    channel.ask(type="run", tape=tape.id, mask=[[1, "x", "y"]])
    until = time.monotonic() + 30
    while {"running": False} not in [m.get("state") for m in channel.sent] and time.monotonic() < until:
        time.sleep(0.01)
    [done] = [m["state"] for m in channel.sent if "checks" in m.get("state", {})]
    assert [c["verdict"] for c in done["checks"] if c["launch"] == 1] == ["AGREE"]
    panel.close()

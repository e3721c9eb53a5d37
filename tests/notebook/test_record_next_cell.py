"""The next cell is recorded as %%tape would, without a change to it."""

import pytest

import tapedebug as wp
from tapedebug.notebook.record_next_cell import NextCell, next_cell
from tapedebug.panel.panel_source import tape_row

SET_UP = "x = wp.ones(3, dtype=float, requires_grad=True)\ny = wp.zeros(3, dtype=float, requires_grad=True)"
LAUNCH = "wp.launch(square, dim=3, inputs=[x], outputs=[y])"


@pytest.fixture(autouse=True)
def off():
    next_cell.arm(False)
    yield
    next_cell.arm(False)


@pytest.fixture
def messages(front_end):
    heard = []
    end = next_cell.listen(lambda change: heard.append((change["state"], change["message"])))
    front_end.run_cell(SET_UP, store_history=True)
    yield heard
    end()


def newest():
    return max(wp.live_tapes(), key=lambda tape: tape.id)


def run(shell, code, **options):
    return shell.run_cell(code, store_history=True, **options)


def test_it_records_one_cell_shows_it_and_is_off_again(front_end, messages, capsys):
    before = newest().id if wp.live_tapes() else 0
    next_cell.arm(True)
    result = run(front_end, LAUNCH)
    assert result.success
    assert [state for state, _ in messages] == ["armed", "recording", "off"]
    tape = newest()
    assert tape.id > before
    assert (next_cell.tape, len(tape.records)) == (tape.id, 1)
    row = tape_row(tape)
    assert row["madeAt"] == f"In [{result.execution_count}]"
    assert "Tape" in capsys.readouterr().out  # the panel's plain form
    run(front_end, LAUNCH)
    assert newest() is tape  # one cell, no more


def test_it_can_be_left(front_end, messages):
    next_cell.arm(True)
    next_cell.arm(False)
    count = len(wp.live_tapes())
    run(front_end, LAUNCH)
    assert [state for state, _ in messages] == ["armed", "off"]
    assert len(wp.live_tapes()) == count


def test_code_of_front_ends_is_no_cell(front_end, messages):
    next_cell.arm(True)
    front_end.run_cell(LAUNCH, store_history=False)
    front_end.run_cell(LAUNCH, store_history=True, silent=True)
    front_end.run_cell("", store_history=True)
    assert next_cell.state == "armed"
    run(front_end, LAUNCH)
    assert next_cell.state == "off"


def test_a_cell_that_fails_is_a_failed_cell_and_keeps_what_it_launched(front_end, messages, capsys):
    next_cell.arm(True)
    result = run(front_end, f"{LAUNCH}\nmissing + 1")
    assert isinstance(result.error_in_exec, NameError)
    assert messages[-1] == (
        "off",
        f"That cell failed; what it had launched before is tape {next_cell.tape}.",
    )
    assert [len(tape.records) for tape in wp.live_tapes() if tape.id == next_cell.tape] == [1]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("1 + 1", "That cell launched no kernel; nothing was recorded."),
        (f"%%tape --no-panel\n{LAUNCH}", "That cell has a magic that records by itself."),
        (f"with wp.Tape() as own:\n    {LAUNCH}", "That cell makes a Tape of its own, which is in the list."),
    ],
)
def test_what_is_not_recorded_is_said(front_end, messages, cell, message):
    next_cell.arm(True)
    assert run(front_end, cell).success
    assert messages[-1] == ("off", message)


def test_a_tape_that_is_open_is_left_alone(front_end, messages):
    with wp.Tape() as outer:
        next_cell.arm(True)
        assert run(front_end, LAUNCH).success
    assert len(outer.records) == 1
    assert messages[-1][1].startswith("That cell was not recorded: cannot start recording: another tape is")


def test_cells_within_cells_are_part_of_the_one_that_the_user_ran(front_end, messages):
    front_end.user_ns["shell"] = front_end
    next_cell.arm(True)
    run(front_end, f"shell.run_cell('''{LAUNCH}''', store_history=True)\n{LAUNCH}")
    assert [len(tape.records) for tape in wp.live_tapes() if tape.id == next_cell.tape] == [2]


def test_it_does_not_end_what_it_has_not_begun():
    fresh = NextCell()
    fresh.cell_ends(None)
    assert fresh.state == "off"


def test_a_cell_that_is_recorded_again_adds_to_its_loss_and_that_is_found(front_end, messages):
    run(front_end, "loss = wp.zeros(1, dtype=float, requires_grad=True)")
    cell = "wp.launch(total, dim=3, inputs=[x], outputs=[loss])"
    severities = []
    for _ in range(2):
        next_cell.arm(True)
        run(front_end, cell)
        found = wp.diagnose(newest(), progress=False)
        severities.append([(finding.rule, finding.severity) for finding in found.findings])
    assert severities == [[], [("not-reset", "warning")]]

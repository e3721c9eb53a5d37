"""The magics, through IPython itself."""

import re

import pytest

import tapedebug as wp
from tapedebug.diagnose import Diagnosis
from tapedebug.runtime.tape.record import site_span
from tests import wrong_tape
from tests.diagnose.training_loop import line_of

CELL = """\
x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
y = wp.zeros(3, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
wp.launch(square, dim=3, inputs=[x], outputs=[y])
wp.launch(total, dim=3, inputs=[y], outputs=[loss])
"""


def run(shell, source):
    """Run a cell and return its result; raises what the cell raised."""
    result = shell.run_cell(source, store_history=True)
    result.raise_error()
    return result.result


def test_a_cell_is_recorded_and_the_tape_kept(shell, capsys):
    run(shell, "%%tape --name tape\n" + CELL)
    tape = shell.user_ns["tape"]
    assert [record.name for record in tape.records] == ["square", "total"]
    assert tape.on_overwrite == "preserve"
    assert tape.backward_calls == []
    assert "tape · 2 launches · on_overwrite='preserve'" in capsys.readouterr().out


def test_lines_are_those_of_the_whole_cell_under_its_number(shell):
    run(shell, "1 + 1")
    run(shell, "%%tape --no-panel --name tape\n" + CELL)
    trace = shell.user_ns["tape"].trace()
    sites = [launch.call_site for launch in trace.launches]
    assert [(site.file, site.line) for site in sites] == [("In [2]", 5), ("In [2]", 6)]


def test_a_kernel_defined_under_the_magic_knows_its_source(shell):
    cell = (
        "%%tape --no-panel --name tape\n"
        "@wp.kernel\n"
        "def half(x: wp.array(dtype=float), y: wp.array(dtype=float)):\n"
        "    i = wp.tid()\n"
        "    y[i] = 0.5 * x[i]\n"
        "x = wp.ones(3, dtype=float, requires_grad=True)\n"
        "y = wp.zeros(3, dtype=float, requires_grad=True)\n"
        "wp.launch(half, dim=3, inputs=[x], outputs=[y])\n"
    )
    run(shell, cell)
    kernel = shell.user_ns["tape"].trace().kernels[0]
    assert (kernel.file, kernel.line, kernel.lines[0]) == ("In [1]", 2, "@wp.kernel")
    assert shell.user_ns["y"].numpy().tolist() == [0.5, 0.5, 0.5]


def test_fields_of_structs_have_labels_and_cells_may_run_again(shell):
    define = (
        "@wp.struct\n"
        "class State:\n"
        "    q: wp.array(dtype=float)\n"
        "    scale: float\n"
        "@wp.struct\n"
        "class Body:\n"
        "    mass: float\n"
    )
    kernel = (
        "@wp.kernel\n"
        "def weigh(state: State, bodies: wp.array(dtype=Body), loss: wp.array(dtype=float)):\n"
        "    i = wp.tid()\n"
        "    wp.atomic_add(loss, 0, state.q[i] * bodies[i].mass * state.scale)\n"
    )
    make = (
        "state = State(wp.array([1.0, 2.0], dtype=float, requires_grad=True), 3.0)\n"
        "bodies = wp.array([Body(1.0), Body(2.0)], dtype=Body, requires_grad=True)\n"
        "loss = wp.zeros(1, requires_grad=True)\n"
    )
    run(shell, define)
    run(shell, kernel)
    run(shell, define)  # the kernel keeps taking instances of what is the same struct
    launch = "wp.launch(weigh, dim=2, inputs=[state, bodies], outputs=[loss])\n"
    run(shell, "%%tape --no-panel --loss loss --name tape\n" + make + launch)
    trace = shell.user_ns["tape"].trace()
    assert trace.arrays[0].label == "state.q"
    assert [arg.name for arg in trace.launches[0].args] == ["state.q", "state.scale", "bodies.mass", "loss"]
    assert shell.user_ns["bodies"].grad.numpy()["mass"].tolist() == [3, 6]


def test_loss_runs_the_reverse_pass_and_diagnoses(shell, capsys):
    run(shell, "%%tape --loss loss --name tape\n" + CELL)
    tape = shell.user_ns["tape"]
    assert len(tape.backward_calls) == 1
    assert shell.user_ns["x"].grad.numpy().tolist() == [2.0, 4.0, 6.0]
    assert "gradient AGREE" in capsys.readouterr().out


def _printed(capsys):
    """Return the output, with arrays called as in the notebook: here a test's variable holds the shell."""
    return re.sub(r"shell\._user_ns\['(\w+)'\]", r"\1", capsys.readouterr().out)


LAUNCHES = """\
wp.launch(square, dim=3, inputs=[x], outputs=[y])
wp.launch(total, dim=3, inputs=[y], outputs=[loss])
"""


def test_a_cell_that_runs_again_clears_the_gradients_of_the_run_before(shell, capsys):
    run(shell, CELL)
    for _ in range(5):
        run(shell, "%%tape --no-panel --loss loss\n" + LAUNCHES)
    said = (
        "The gradient of x (norm 7.48) was not zero. "
        "%%tape cleared it before backward, so that this run does not add to it.\n"
    )
    assert shell.user_ns["x"].grad.numpy().tolist() == [2.0, 4.0, 6.0]
    assert _printed(capsys) == 4 * said


def test_all_gradients_that_a_magic_clears_are_named(shell, capsys):
    run(shell, CELL)
    shell.user_ns["x"].grad.assign([3.0, 0.0, 4.0])
    shell.user_ns["y"].grad.assign([float("nan"), 0.0, 4.0])
    run(shell, "%%tape --no-panel --loss loss\n" + LAUNCHES)
    assert shell.user_ns["x"].grad.numpy().tolist() == [2.0, 4.0, 6.0]
    assert _printed(capsys) == (
        "The gradients of x (norm 5) and y (norm nan) were not zero. "
        "%%tape cleared them before backward, so that this run does not add to them.\n"
    )


def test_checks_above_a_cell_leave_gradients_alone(shell):
    run(shell, CELL)
    for magic in ("%%gradcheck", "%%gradcheck --end-to-end --loss loss", "%%jacobian", "%%tape --no-panel"):
        shell.user_ns["x"].grad.assign([3.0, 0.0, 4.0])
        run(shell, f"{magic}\n" + LAUNCHES)
        assert shell.user_ns["x"].grad.numpy().tolist() == [3.0, 0.0, 4.0]


def test_the_reverse_pass_of_a_cell_stands_in_that_cell(shell):
    """Not in IPython, which calls the magic."""
    run(shell, "%%tape --no-panel --loss loss --name tape\n" + CELL)
    (event,) = [e for e in shell.user_ns["tape"].tracker.log.events if e.kind == "backward"]
    span = site_span(event.site)
    assert "IPython" not in span.file and (span.line, span.function) == (1, "<module>")


def test_the_value_of_the_last_line_is_shown(shell):
    assert run(shell, "%%tape --no-panel\nwp.ones(2, dtype=float)\n40 + 2") == 42
    assert run(shell, "%%tape --no-panel\nwp.ones(2, dtype=float)") is not None
    assert run(shell, "%%tape --no-panel\nx = 1") is None


def test_an_error_reaches_the_user_and_leaves_no_tape_recording(shell):
    with pytest.raises(ZeroDivisionError):
        run(shell, "%%tape --no-panel --name tape\n" + CELL + "1 / 0\n")
    assert len(shell.user_ns["tape"].records) == 2
    assert wp.launch is not None
    run(shell, "%%tape --no-panel --name again\n" + CELL)
    assert len(shell.user_ns["again"].records) == 2


@pytest.mark.sweep
@pytest.mark.parametrize("magic", ["%%tape --loss loss", "%%gradcheck", "%%jacobian"])
@pytest.mark.parametrize("threads", [4, 1_000, 100_000])
def test_a_wrong_dim_is_an_error_that_names_it(magic, threads, shell):
    before = wp.config.check_bounds
    with pytest.raises(wp.BoundsError) as caught:
        run(shell, f"{magic}\n{CELL}".replace("square, dim=3", f"square, dim={threads}"))
    assert caught.value.message == (
        "kernel `square`: the index 3 is outside axis 0 of `x`, which has length 3, in thread 3"
    )
    assert caught.value.notes[0] == f"the launch has dim={threads}"
    assert caught.value.hint.startswith("launch with dim=3, which fits `x`, or test the index")
    assert shell.user_ns["y"].numpy().tolist() == [0, 0, 0]
    assert wp.config.check_bounds is before
    run(shell, f"{magic}\n{CELL}")


def test_a_cell_may_say_that_indices_are_not_checked(shell):
    body = "part = wp.zeros(9, dtype=float)[0:3]\nwp.launch(square, dim=4, inputs=[part], outputs=[part])"
    with pytest.raises(wp.BoundsError):
        run(shell, f"%%tape --no-panel\n{body}")
    try:
        run(shell, f"%%tape --no-panel\nwp.config.check_bounds = False\n{body}")
    finally:
        wp.config.check_bounds = None


def test_overwrite_mode_is_the_tapes(shell):
    with pytest.raises(wp.OverwriteError):
        run(
            shell,
            "%%tape --on-overwrite error --no-panel\n" + CELL + "wp.copy(x, y)\n",
        )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "--on-overwrite wran",
            "%%tape: argument --on-overwrite: invalid choice: 'wran' (choose from "
            "'preserve', 'warn', 'error', 'ignore')\n"
            "   | %%tape --on-overwrite wran\n"
            "   |                       ^^^^\n"
            "  = hint: did you mean warn? %%tape? shows the options",
        ),
        (
            "--no-panel --los loss --lose loss",
            "%%tape: unrecognized arguments: --lose loss\n"
            "   | %%tape --no-panel --los loss --lose loss\n"
            "   |                              ^^^^^^\n"
            "  = hint: did you mean --loss? %%tape? shows the options",
        ),
        (
            "--height tall",
            "%%tape: argument --height: invalid number value: 'tall'\n"
            "   | %%tape --height tall\n"
            "   |                 ^^^^\n"
            "  = hint: %%tape? shows the options",
        ),
        (
            "--name",
            "%%tape: argument --name: expected one argument\n"
            "   | %%tape --name\n"
            "   |        ^^^^^^\n"
            "  = hint: %%tape? shows the options",
        ),
        (
            "--name 'tape",
            "%%tape: no closing quotation\n   | %%tape --name 'tape\n  = hint: %%tape? shows the options",
        ),
        (
            "--height -5",
            "%%tape: argument --height: a panel has 200 CSS pixels or more; got -5\n"
            "   | %%tape --height -5\n"
            "   |        ^^^^^^^^\n"
            "  = hint: %%tape? shows the options",
        ),
        (
            "--loss loss los",
            "%%tape: unrecognized arguments: los\n"
            "   | %%tape --loss loss los\n"
            "   |                    ^^^\n"
            "  = hint: %%tape? shows the options",
        ),
        ("--name 2x", "%%tape: '2x' is not the name of a variable"),
        ("--name for", "%%tape: 'for' is not the name of a variable"),
        ("--loss loss --max-seconds -1", "%%tape: diagnose: max_seconds must be positive, not -1.0"),
        ("--panel p --no-panel", "%%tape: --panel keeps the panel that --no-panel does not open; choose one"),
        ("--as-warp", "%%tape: --as-warp says how to diagnose; name the loss: --loss ARRAY"),
        (
            "--no-panel --loss los",
            "%%tape: --loss los: there is no variable 'los'; did you mean loss?",
        ),
        ("--no-panel --loss wp", "%%tape: backward: the loss must be an array of one element; got <module"),
        ("--memory-budget lots", "%%tape: Tape: memory_budget"),
    ],
)
def test_wrong_options_are_named(shell, line, message):
    from IPython.core.error import UsageError

    with pytest.raises(UsageError) as caught:
        run(shell, f"%%tape {line}\n" + CELL)
    said = str(caught.value)
    assert said.startswith(message.split("(choose")[0])
    if "\n" in message:  # how argparse lists choices differs between versions of Python
        assert said.partition("\n")[2] == message.partition("\n")[2]


def test_a_cell_that_is_no_python_is_pointed_at_and_leaves_nothing(shell):
    from IPython.core.error import UsageError

    with pytest.raises(UsageError) as caught:
        run(shell, "%%tape --no-panel --name broken\nx = 3\nx = = 3\n")
    assert str(caught.value) == (
        "%%tape: line 3 of this cell is not Python: invalid syntax\n   | x = = 3\n   |     ^"
    )
    assert "broken" not in shell.user_ns


def test_the_help_shows_every_option(shell):
    text = shell.find_magic("tape", "cell").__doc__
    for option in ("--on-overwrite", "--name", "--loss", "--panel", "--no-panel"):
        assert option in text


def test_a_report_of_the_newest_tape(shell, tmp_path, capsys):
    run(shell, "%%tape --no-panel --loss loss\n" + CELL)
    run(shell, "%tape_report out.html")
    target = tmp_path / "out.html"
    messages = capsys.readouterr().out
    assert re.fullmatch(
        rf"Report of In \[1\] \(tape \d+, 2 launches, gradient AGREE\) written to {target} \(\d+ kB\)\n",
        messages,
    )
    run(shell, "%tape_report out.html")
    assert capsys.readouterr().out.endswith(" kB), replacing the file that was there\n")
    text = target.read_text()
    assert text.lower().startswith("<!doctype html>")
    assert "total" in text


def test_a_report_of_a_variable(shell, tmp_path, wrong):
    tape, _, loss = wrong
    diagnosis = wp.diagnose(tape, loss=loss)
    assert isinstance(diagnosis, Diagnosis)
    shell.user_ns["found"] = diagnosis
    run(shell, "%tape_report --tape found")
    run(shell, "%tape_report --tape found")
    assert sorted(path.name for path in tmp_path.glob("*.html")) == [
        "tapedebug-report-tape-2.html",
        "tapedebug-report-tape.html",
    ]


def test_a_report_is_of_the_newest_tape_with_launches_and_says_what_was_found(shell, tmp_path, wrong, capsys):
    """A tape that was made since and holds nothing is not what anybody wants to send."""
    shell.user_ns["bad"], _, _ = wrong
    shell.user_ns["empty"] = wp.Tape()
    run(shell, "%tape_report")
    (file,) = tmp_path.glob("*.html")
    number = wrong[0].id
    assert re.fullmatch(
        rf"Report of .*bad.* \(tape {number}, 4 launches, gradient WRONG\) written to {file} \(\d+ kB\)\n",
        capsys.readouterr().out,
    )
    assert "gradient WRONG." in file.read_text()
    run(shell, "%tape_report --no-diagnose again.html")
    assert "gradient WRONG." in (tmp_path / "again.html").read_text(), "it was diagnosed a moment ago"


def test_a_report_can_leave_a_tape_undiagnosed(shell, tmp_path, wrong):
    shell.user_ns["bad"], _, _ = wrong
    run(shell, "%tape_report --no-diagnose raw.html")
    assert "gradient NOT CHECKED." in (tmp_path / "raw.html").read_text()


def test_a_notebook_links_to_what_was_written(front_end, tmp_path, wrong, monkeypatch):
    from tapedebug.notebook._magic_base import Base

    shown = []
    monkeypatch.setattr(Base, "display", lambda self, what: shown.append(what._repr_html_()))
    front_end.user_ns["bad"] = wrong[0]
    run(front_end, "%tape_report --no-diagnose run.html")
    run(front_end, "%tape_diff bad bad both.html")
    assert [re.findall("href='(.*?)'", html) for html in shown] == [["run.html"], ["both.html"]]


def test_a_report_needs_something_to_report(shell):
    from IPython.core.error import UsageError

    with pytest.raises(UsageError) as caught:
        run(shell, "%tape_report --tape nothing")
    assert str(caught.value) == "%tape_report: --tape nothing: there is no variable 'nothing'"


def test_a_report_is_not_written_to_a_file_that_is_called_as_a_tape_is(shell, tmp_path, wrong):
    from IPython.core.error import UsageError

    shell.user_ns["tape"] = wrong[0]
    with pytest.raises(UsageError) as caught:
        run(shell, "%tape_report tape")
    assert str(caught.value) == (
        "%tape_report: tape would be the name of the file, and it is a variable with a Tape\n"
        "  = hint: %tape_report --tape tape, or %tape_report ./tape for a file of that name"
    )
    run(shell, "%tape_report ./tape")
    assert (tmp_path / "tape").is_file()


def test_two_tapes_are_compared_and_written_side_by_side(shell, tmp_path, wrong, capsys):
    tape, _, loss = wrong
    shell.user_ns["before"] = wp.diagnose(tape, loss=loss, progress=False)
    run(shell, "%%tape --no-panel --loss loss --name after\n" + CELL)
    found = run(shell, "%tape_diff before after")
    assert type(found).__name__ == "Diff"
    same = found.before.name == found.after.name
    assert found.names == (("before", "after") if same else (found.before.name, found.after.name))
    shell.user_ns["then"] = shell.user_ns["before"]
    assert run(shell, "%tape_diff before then").names == ("before", "then"), "one name for two says nothing"
    assert list(tmp_path.glob("*.html")) == []
    run(shell, "%tape_diff before after diff.html --redact-source")
    names = " and ".join(found.names)
    assert f"Comparison of {names} written to {tmp_path / 'diff.html'} (" in capsys.readouterr().out
    assert "wp.tid()" not in (tmp_path / "diff.html").read_text()


def test_a_trace_file_is_compared_too(shell, tmp_path, wrong):
    wrong[0].trace().save(tmp_path / "old.tapedebug-trace")
    shell.user_ns["now"] = wrong[0]
    assert run(shell, "%tape_diff old.tapedebug-trace now") is not None


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("before", "%tape_diff: the following arguments are required: AFTER\n   | %tape_diff before\n"),
        ("nothing nowhere", "%tape_diff: nothing is neither a variable nor a file"),
        ("wp wp", "%tape_diff: "),
        ("broken.tapedebug-trace wp", "%tape_diff: "),
    ],
)
def test_what_can_not_be_compared_is_a_message(shell, tmp_path, line, message):
    from IPython.core.error import UsageError

    (tmp_path / "broken.tapedebug-trace").write_text("no trace")
    with pytest.raises(UsageError) as caught:
        run(shell, f"%tape_diff {line}")
    assert str(caught.value).startswith(message)


def test_a_loss_that_a_cell_does_not_reset_is_a_finding_when_it_runs_again(shell):
    run(shell, CELL)
    for _ in range(6):
        run(shell, "%%tape --no-panel --loss loss --name tape\n" + LAUNCHES)
    (finding,) = wp.diagnose(shell.user_ns["tape"], shell.user_ns["loss"], progress=False).findings
    line = line_of("wp.atomic_add(loss, 0, y[i])", wrong_tape.__file__)
    assert (finding.rule, finding.severity, finding.location.line) == ("not-reset", "warning", line)
    loss = finding.arrays[0]
    assert finding.message == (
        f"{loss} held 84 when the recording began: an earlier recording of the same launches had left it "
        f"there. Launch 1 (total) adds to it at wrong_tape.py:{line}: {loss} ends at 98, and this recording "
        "alone gives 14."
    )
    assert finding.fix == f"put {loss}.zero_() into the cell, before its launches"
    run(shell, "%%tape --no-panel --loss loss --name tape\nloss.zero_()\n" + LAUNCHES)
    assert wp.diagnose(shell.user_ns["tape"], shell.user_ns["loss"], progress=False).findings == []
    assert shell.user_ns["loss"].numpy().tolist() == [14.0]


def test_inputs_that_the_cell_itself_overwrites_are_told_when_it_runs_again(shell):
    run(shell, CELL)
    cell = (
        "%%tape --no-panel --loss loss --name tape\nloss.zero_()\n"
        "wp.launch(square, dim=3, inputs=[x], outputs=[y])\n"
        "wp.launch(total, dim=3, inputs=[y], outputs=[loss])\n"
        "wp.launch(square, dim=3, inputs=[y], outputs=[x])\n"
    )

    def messages():
        found = wp.diagnose(shell.user_ns["tape"], shell.user_ns["loss"], progress=False)
        return [finding for finding in found.findings if finding.rule == "not-reset"]

    run(shell, cell)
    assert messages() == []
    run(shell, cell)
    (finding,) = messages()
    x = finding.arrays[0]
    line = line_of("y[i] = x[i] * x[i]", wrong_tape.__file__)
    assert finding.severity == "info"
    assert finding.message == (
        f"{x} held what an earlier recording of the same launches had left there when the recording began. "
        f"Launch 3 (square) writes it at wrong_tape.py:{line}, so each run of the cell starts from other "
        f"values: this one changes {x} by up to 4.3e+07."
    )
    assert finding.fix == (
        "nothing has to change if each run of the cell continues from the one before; otherwise set "
        f"{x} in the cell, before its launches"
    )
    run(shell, cell.replace("loss.zero_()", "loss.zero_(); x.assign([1.0, 2.0, 3.0])"))
    assert messages() == []


def test_a_loop_in_one_cell_goes_on_as_in_a_script(shell):
    run(shell, CELL)
    loop = (
        "for _ in range(3):\n    loss.zero_()\n    with wp.Tape() as tape:\n"
        "        wp.launch(square, dim=3, inputs=[x], outputs=[y])\n"
        "        wp.launch(total, dim=3, inputs=[y], outputs=[loss])\n"
        "        wp.launch(square, dim=3, inputs=[y], outputs=[x])\n"
    )
    run(shell, loop)
    found = wp.diagnose(shell.user_ns["tape"], shell.user_ns["loss"], progress=False)
    assert [finding for finding in found.findings if finding.rule == "not-reset"] == []


def test_two_cells_that_add_to_one_loss_are_no_cell_that_runs_again(shell):
    run(shell, CELL.replace("wp.launch(total", "wp.launch(square, dim=3, inputs=[x], outputs=[y])  # (total"))
    run(shell, "other = wp.array([2.0, 3.0, 4.0], dtype=float, requires_grad=True)")
    run(shell, "%%tape --no-panel --loss loss\nwp.launch(total, dim=3, inputs=[x], outputs=[loss])")
    second = (
        "%%tape --no-panel --loss loss --name tape\nwp.launch(total, dim=3, inputs=[other], outputs=[loss])"
    )

    def messages():
        found = wp.diagnose(shell.user_ns["tape"], shell.user_ns["loss"], progress=False)
        return [finding.severity for finding in found.findings if finding.rule == "not-reset"]

    run(shell, second)
    assert messages() == []
    run(shell, second)
    assert messages() == ["warning"]


def test_the_id_of_a_cell_tells_it_from_others_whatever_its_text(front_end, capsys):
    run(front_end, CELL)
    cell = "%%tape --no-panel --loss loss --name tape\n" + LAUNCHES

    def messages(message, id, text):
        front_end.parent_header = {"header": {"msg_id": message}, "metadata": {"cellId": id}}
        run(front_end, text)
        found = wp.diagnose(front_end.user_ns["tape"], front_end.user_ns["loss"], progress=False)
        return [finding.evidence["because"] for finding in found.findings if finding.rule == "not-reset"]

    assert messages("2", "a", cell) == []
    assert messages("3", "a", cell + "edited = True\n") == ["cell"]
    assert messages("4", "b", cell) == ["again"]


def test_the_limit_of_a_diagnosis_is_a_number(shell):
    run(shell, "%%tape --no-panel --name tape --loss loss --max-seconds 60\n" + CELL)
    assert shell.user_ns["tape"].trace().backward.loss is not None


@pytest.mark.parametrize(
    "code",
    [
        "wp.launch(square, dim=3, inputs=[1.0])",
        "wp.array([1.0, 'a'], dtype=float)",
        "wp.autograd.gradcheck('square', dim=3, inputs=[x], outputs=[y])",
        "wp.diagnose(tape, loss='loss')",
        "wp.diagnose(3)",
        "wp.report('tape', 'report.html')",
    ],
)
def test_tracebacks_end_in_the_users_code(shell, code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(shell, "%%tape --no-panel --name tape --loss loss\n" + CELL)
    capsys.readouterr()
    error = shell.run_cell(code).error_in_exec
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert code in shown
    assert shown.rstrip().endswith(str(error))
    assert "/tapedebug/" not in shown
    assert error.__traceback__.tb_next.tb_next is not None  # where debuggers go on to


def test_verbose_tracebacks_have_all_frames(shell, capsys):
    mode = shell.InteractiveTB.mode
    try:
        run(shell, "%xmode Verbose")
        shell.run_cell("wp.array([1.0, 'a'], dtype=float)")
    finally:
        shell.InteractiveTB.set_mode(mode)
    assert "/tapedebug/runtime/memory/" in re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)


OVERWRITES = """\
x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
y = wp.zeros(3, dtype=float, requires_grad=True)
z = wp.ones(3, dtype=float, requires_grad=True)
loss = wp.zeros(1, dtype=float, requires_grad=True)
work = wp.clone(x)
wp.launch(square, dim=3, inputs=[work], outputs=[y])
wp.copy(work, z)
wp.launch(total, dim=3, inputs=[y], outputs=[loss])
"""
WATCHED = "%%tape --loss loss --name tape --panel panel --on-overwrite ignore\n" + OVERWRITES


def test_a_panel_shows_the_tape_at_once_and_findings_as_they_come(front_end, monkeypatch):
    from tapedebug.notebook import _update_pace, _widget, magics

    monkeypatch.setattr(_update_pace, "BETWEEN_UPDATES", 0.0)
    monkeypatch.setattr(_update_pace, "UPDATES", 0.0)
    shown = []
    before = magics.diagnose

    def diagnose(tape, *args, **kwargs):
        panel = front_end.user_ns["panel"]
        assert (panel.verdict, len(panel.head["arrays"])) == ("NOT CHECKED", 5), "it is shown by now"
        panel.observe(lambda _: shown.append((panel.verdict, [each["rule"] for each in panel.findings])))
        return before(tape, *args, **kwargs)

    monkeypatch.setattr(magics, "diagnose", diagnose)
    run(front_end, WATCHED)
    panel = front_end.user_ns["panel"]
    assert isinstance(panel, _widget.TapeDebugger)
    assert ("WRONG", []) in shown and ("WRONG", ["overwrite"]) in shown
    assert panel.verdict == "WRONG" and [each["rule"] for each in panel.findings] == ["overwrite"]
    assert not panel.head["coverage"].get("partial")
    assert not [note for note in panel.head["coverage"]["notes"] if "being looked for" in note]


def test_a_diagnosis_that_is_interrupted_leaves_its_panel_what_it_found(front_end, monkeypatch):
    from tapedebug.diagnose.rules.race import Race

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Race, "check", stop)
    with pytest.raises(KeyboardInterrupt):
        run(front_end, WATCHED)
    panel = front_end.user_ns["panel"]
    assert panel.verdict == "WRONG" and [each["rule"] for each in panel.findings] == ["overwrite"]
    left = "race, wrong-adjoint, accumulated, stale-gradient"
    assert f"interrupted, and not looked for: {left}" in panel.head["coverage"]["notes"]

"""Magics, Python keywords and the command line have one set of names; help and completion come from it."""

import argparse
import inspect

import pytest

import tapedebug as wp
from tapedebug.autograd import gradcheck_tape, jacobian
from tapedebug.diagnose import diagnose
from tapedebug.notebook._completion import candidates
from tapedebug.notebook._report_magics import ReportMagics
from tapedebug.notebook.magics import TapeMagics, by_name
from tapedebug.report import diff, report

OWN = {
    "%%tape": {"name", "panel", "no_panel", "height"},
    "%%gradcheck": {"name", "result"},
    "%%jacobian": {"name", "result", "launch"},
    "%tape_report": {"file", "tape"},
    "%tape_diff": {"before", "after", "file"},
}
"""Options without a keyword: the places for storing and showing things."""

FUNCTIONS = {
    "%%tape": [wp.Tape, diagnose],
    "%%gradcheck": [gradcheck_tape, wp.Tape],
    "%%jacobian": [jacobian, wp.Tape],
    "%tape_report": [report],
    "%tape_diff": [diff],
}


@pytest.fixture
def magics(shell):
    return by_name(TapeMagics(shell), ReportMagics(shell))


def actions(magic):
    return magic.parser._actions


def test_every_option_is_a_keyword_of_the_same_name(magics):
    assert set(magics) == set(OWN)
    for name, magic in magics.items():
        known = {}
        for function in FUNCTIONS[name]:
            known.update(inspect.signature(function).parameters)
        for action in actions(magic):
            if action.dest in OWN[name]:
                continue
            assert action.dest in known, f"{name} {action.option_strings}"
            flags = {f"--{action.dest.replace('_', '-')}", f"--no-{action.dest.replace('_', '-')}"}
            assert set(action.option_strings) <= flags
            default = known[action.dest].default
            assert action.default == default or action.dest in {"on_overwrite", "raise_exception", "loss"}


def test_every_keyword_that_text_can_say_is_an_option(magics):
    left = {
        "%%gradcheck": {"tape", "show_summary", "check_sparse_nnz", "executor", "progress"},
        "%%jacobian": {"function", "dim", "inputs", "outputs", "device", "max_blocks", "block_dim",
                       "metadata", "restore_inputs", "progress"},
        "%tape_report": {"obj", "path"},
        "%%tape": set(),
    }  # fmt: skip
    for name, without in left.items():
        options = {action.dest for action in actions(magics[name])}
        assert set(inspect.signature(FUNCTIONS[name][0]).parameters) - without <= options, name


def test_the_command_line_has_the_same_names_and_choices(magics):
    from tapedebug.cli import parser

    [commands] = [a for a in parser()._actions if isinstance(a, argparse._SubParsersAction)]
    line = {a.dest: a for command in commands.choices.values() for a in command._actions if a.option_strings}
    ours = {action.dest: action for magic in magics.values() for action in actions(magic)}
    shared = {name for name in line if name in ours}
    assert {"on_overwrite", "as_warp"} <= shared
    for name in shared:
        assert line[name].option_strings == ours[name].option_strings, name
        if line[name].choices is not None:
            assert set(line[name].choices) == set(ours[name].choices), name


def test_help_shows_every_option_in_the_words_of_the_docstring(magics):
    for name, magic in magics.items():
        text = magic.__doc__
        assert "Examples::" in text, name
        for action in actions(magic):
            for option in action.option_strings:
                assert option in text, f"{name} {option}"
            assert action.help, f"{name} {action.dest} has no help"
    assert "The largest step of the sweep" in " ".join(magics["%%gradcheck"].__doc__.split())
    assert "See gradcheck" not in magics["%%gradcheck"].__doc__


def complete(shell, line):
    _, found = shell.complete(None, line, len(line))
    return found


def test_the_shell_completes_options_and_values(shell):
    assert complete(shell, "%%tape --on") == ["--on-overwrite"]
    assert complete(shell, "%%tape --on-overwrite w") == ["warn"]
    assert set(complete(shell, "%%tape --on-overwrite ")) >= {"preserve", "warn", "error", "ignore"}
    assert complete(shell, "%%gradcheck --max-in") == ["--max-inputs-per-var"]
    assert complete(shell, "%%jacobian --mode ta") == ["tangent"]


def test_the_shell_completes_names(shell, wrong, tmp_path):
    tape, x, loss = wrong
    shell.user_ns.update(
        tape=tape, throw=x, loss=loss, found=wp.diagnose(tape, loss=loss, progress=False), n=3
    )
    assert complete(shell, "%%tape --loss l") == ["loss"]
    assert set(complete(shell, "%%tape --loss ")) >= {"loss", "throw"}
    assert "n" not in complete(shell, "%%tape --loss ")
    assert set(complete(shell, "%tape_report --tape ")) >= {"found", "tape"}
    assert complete(shell, "%%gradcheck --whitelist-kernels squ") == ["square"]


def test_the_shell_completes_files(shell, tmp_path):
    (tmp_path / "net.html").write_text("")
    (tmp_path / "net.txt").write_text("")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.tapedebug-trace").write_text("")
    assert set(complete(shell, "%tape_report n")) >= {"net.html", "notes/"}
    assert "net.txt" not in complete(shell, "%tape_report n")
    assert complete(shell, "%tape_report notes/") == ["notes/a.tapedebug-trace"]


def test_what_was_given_is_not_offered_again(magics, shell):
    found = candidates(magics["%%tape"].parser, "%%tape --loss loss -", "-", shell.user_ns)
    assert "--loss" not in found
    assert "--panel" in found
    assert candidates(magics["%%tape"].parser, "%%tape ", "", shell.user_ns)
    assert candidates(magics["%tape_report"].parser, "%tape_report /no/such/fol", "/no/such/fol", {}) == []

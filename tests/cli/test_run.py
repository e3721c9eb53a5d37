"""`tapedebug run`: what it prints, what it writes and how it ends, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._tape_retention import TapeRetention
from tapedebug.cli import main
from tapedebug.diagnose import Diagnosis, diagnose
from tapedebug.trace import load_trace
from tests import forked
from tests.processes import ROOT


@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])


HEAD = """
import sys
import tapedebug as wp

@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]

@wp.kernel
def put(z: wp.array(dtype=float), x: wp.array(dtype=float)):
    i = wp.tid()
    x[i] = z[i]

@wp.kernel
def total(x: wp.array(dtype=float), loss: wp.array(dtype=float)):
    wp.atomic_add(loss, 0, x[wp.tid()])

def record(clobber, **options):
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    z = wp.array([4.0, 5.0, 6.0], dtype=float)
    y = wp.zeros_like(x)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape(**options)
    with tape:
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        if clobber:
            wp.launch(put, dim=3, inputs=[z], outputs=[x])
        wp.launch(total, dim=3, inputs=[y], outputs=[loss])
    tape.backward(loss)
    return tape, x
"""


def run(
    tmp_path: Path, body: str, *options: str, args: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "script.py"
    script.write_text(HEAD + textwrap.dedent(body), encoding="utf-8")
    return command(tmp_path, "run", *options, "script.py", *args)


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return forked.run(["-m", "tapedebug", *arguments], folder, dict(os.environ, PYTHONPATH=str(ROOT)))


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(HEAD.splitlines(), start=1) if text in line)


def test_a_clean_script_ends_with_0_and_says_what_was_covered(tmp_path: Path) -> None:
    done = run(tmp_path, "record(False)\nprint('done', sys.argv, __name__)", args=("--json", "7"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "done ['script.py', '--json', '7'] __main__"
    assert lines[2] == "script.py · tape 1 · 2 launches · on_overwrite='preserve' · gradient AGREE"
    assert lines[3].startswith("  coverage: 2 of 2 launches checked end to end; agrees to ")
    assert lines[4] == "  no findings"
    assert lines[-1] == "tapedebug: 1 tape diagnosed: 0 errors, 0 warnings, 0 infos"
    assert "\x1b" not in done.stdout
    assert done.stderr == ""


def test_a_wrong_gradient_ends_with_1_and_names_the_lines(tmp_path: Path) -> None:
    done = run(tmp_path, "record(True, on_overwrite='ignore')", "--json", "out.json")
    assert done.returncode == 1
    assert "  ✕ error · overwrite · x\n" in done.stdout
    assert f"    kernel at script.py:{line_of('x[i] = z[i]')}, in put\n        x[i] = z[i]\n" in done.stdout
    assert f"    launched at script.py:{line_of('wp.launch(put')}, in record\n" in done.stdout
    data = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert set(data) == {"schema", "verdict", "coverage", "tapes", "findings"}
    assert (data["schema"], data["verdict"], len(data["tapes"])) == (1, "WRONG", 1)
    (finding,) = data["findings"]
    assert finding["rule"] == "overwrite"
    assert finding["severity"] == "error"
    assert finding["launches"] == [0, 1]
    assert finding["arrays"] == ["x"]
    assert finding["location"] == {
        "file": str(tmp_path / "script.py"),
        "line": line_of("x[i] = z[i]"),
        "column": 4,
        "function": "put",
    }
    assert finding["call_site"]["line"] == line_of("wp.launch(put")
    assert finding["evidence"]["relative_error"]["x"] > 0.1
    assert data["coverage"]["launches"] == data["coverage"]["checked"] == 3


def test_the_mode_of_tapes_can_be_set_from_outside(tmp_path: Path) -> None:
    assert run(tmp_path, "record(True)").returncode == 0
    assert run(tmp_path, "record(True)", "--on-overwrite", "ignore").returncode == 1
    done = run(tmp_path, "record(True)", "--on-overwrite", "error")
    assert done.returncode == 2
    assert "OverwriteError: launch 1 (put" in done.stderr
    assert done.stderr.count("File ") == 2, "the script's two frames, and none of ours"


def test_trace_and_report_are_written(tmp_path: Path) -> None:
    pytest.importorskip("tapedebug.report")
    if not (ROOT / "tapedebug" / "static" / "report.js").exists():
        pytest.skip("the front end is not built")
    done = run(tmp_path, "record(True); record(False)", "--trace", "a.trace", "--report", "a.html")
    assert done.returncode == 0, done.stderr
    assert [len(load_trace(tmp_path / name).launches) for name in ("a.trace", "a-2.trace")] == [3, 2]
    page = (tmp_path / "a.html").read_text(encoding="utf-8")
    assert "script.py" in page
    assert done.stdout.count("wrote ") == 3


def test_a_script_that_fails_shows_its_own_traceback_and_ends_with_2(tmp_path: Path) -> None:
    done = run(tmp_path, "record(True)\ndef inner():\n    return 1 / 0\ninner()")
    assert done.returncode == 2
    assert done.stderr.startswith("Traceback (most recent call last):\n  File ")
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")
    assert "tapedebug/" not in done.stderr.replace(str(tmp_path), "")
    assert done.stderr.count("File ") == 2
    assert "The tape kept a copy of x" in " ".join(done.stdout.split())
    assert done.stdout.endswith(
        "tapedebug: 1 tape diagnosed: 0 errors, 0 warnings, 1 info; the script failed (ZeroDivisionError)\n"
    )


def test_a_syntax_error_is_shown_as_python_shows_it(tmp_path: Path) -> None:
    done = run(tmp_path, "def broken(:\n")
    assert done.returncode == 2
    assert done.stderr.lstrip().startswith("File ")
    assert done.stderr.endswith("SyntaxError: invalid syntax\n")
    assert "_script.py" not in done.stderr


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(0)", 0, ""),
        ("sys.exit(3)", 2, ""),
        ("sys.exit('no data')", 2, "no data\n"),
    ],
)
def test_sys_exit_is_respected(tmp_path: Path, body: str, status: int, error: str) -> None:
    done = run(tmp_path, body)
    assert (done.returncode, done.stderr) == (status, error)


def test_a_script_without_a_tape_is_told_so(tmp_path: Path) -> None:
    done = run(tmp_path, "print('hello')", "--json", "out.json")
    assert done.returncode == 0
    assert "no tape was recorded: nothing to check\n" in done.stdout
    data = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert (data["verdict"], data["tapes"], data["findings"]) == ("NOT CHECKED", [], [])
    assert data["coverage"] == {
        "summary": "no tape was recorded",
        "launches": 0,
        "checked": 0,
        "notes": ["no tape was recorded: nothing to check"],
    }


def shown(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The tapes that were diagnosed."""
    return [line.split(" · ")[1] for line in done.stdout.splitlines() if " launches · " in line]


def test_of_a_training_loop_the_first_two_and_the_last_two_tapes_are_diagnosed(tmp_path: Path) -> None:
    done = run(tmp_path, "for _ in range(1600): record(True)", "--json", "out.json")
    assert done.returncode == 0
    assert shown(done) == ["tape 1", "tape 2", "tape 1599", "tape 1600"]
    message = (
        "1600 tapes were recorded; diagnosed: 1, 2 (the first two with their launches); "
        "1,599, 1,600 (the last two)"
    )
    assert f"{message}\n" in done.stdout
    data = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert data["coverage"]["notes"] == [message]
    assert len(data["tapes"]) == 4


def test_a_tape_that_is_reset_and_used_again_counts_as_many(tmp_path: Path) -> None:
    body = """
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros_like(x)
    z = wp.array([4.0, 5.0, 6.0], dtype=float)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape(on_overwrite="ignore")
    for step in range(6):
        x.assign([1.0, 2.0, step])
        loss.zero_()
        with tape:
            wp.launch(square, dim=3, inputs=[x], outputs=[y])
            wp.launch(put, dim=3, inputs=[z], outputs=[x])
            wp.launch(total, dim=3, inputs=[y], outputs=[loss])
        tape.backward(loss)
        tape.reset()
    """
    done = run(tmp_path, body, "--json", "out.json")
    assert done.returncode == 1
    assert shown(done) == ["tape 1", "tape 2", "tape 5", "tape 6"]
    data = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    errors = [item for item in data["findings"] if item["severity"] == "error"]
    assert done.stdout.count("  ✕ error · overwrite · x · as on script.py · tape 1\n") == 3
    assert done.stdout.count("That puts the") == 1
    consumed = np.array([8.0, 10.0, 12.0])
    for step, (finding, tape) in zip((0, 1, 4, 5), zip(errors, data["tapes"], strict=True), strict=True):
        right = np.array([2.0, 4.0, 2.0 * step])
        expected = float(np.linalg.norm(consumed - right) / np.linalg.norm(right))
        assert finding["evidence"]["relative_error"]["x"] == pytest.approx(expected, rel=1e-6)
        assert tape["verdict"] == "WRONG"


def test_what_can_not_be_written_or_run_is_refused_before_anything_runs(tmp_path: Path) -> None:
    missing = command(tmp_path, "run", "nothing.py")
    assert (missing.returncode, missing.stderr) == (2, "tapedebug: the script nothing.py does not exist\n")
    folder = command(tmp_path, "run", ".")
    assert (folder.returncode, folder.stderr) == (2, "tapedebug: the script . is a folder\n")
    done = run(tmp_path, "print('ran')", "--json", "no/where/out.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"tapedebug: --json: the folder {tmp_path / 'no' / 'where'} does not exist\n"
    done = run(tmp_path, "print('ran')", "--report", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"tapedebug: --report: {tmp_path} is a folder, not a file\n"


def test_the_script_may_change_the_folder(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    done = run(
        tmp_path, "import os; record(True, on_overwrite='ignore'); os.chdir('other')", "--json", "out.json"
    )
    assert done.returncode == 1
    assert (tmp_path / "out.json").exists()
    assert "        x[i] = z[i]\n" in done.stdout


def test_help_and_version() -> None:
    shown = command(ROOT, "run", "--help")
    assert shown.returncode == 0
    for option in (
        "--report FILE.html",
        "--trace FILE",
        "--json FILE",
        "--on-overwrite MODE",
        "SCRIPT",
        "ARGS",
    ):
        assert option in shown.stdout
    version = command(ROOT, "--version")
    assert version.stdout.startswith("tapedebug 0.")
    assert command(ROOT).returncode == 2


def test_an_evaluation_loop_does_not_hold_its_tapes(tmp_path: Path) -> None:
    body = """
    import gc, weakref
    seen = []
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    for _ in range(100):
        y = wp.zeros_like(x)
        tape = wp.Tape()
        with tape:
            wp.launch(square, dim=2, inputs=[x], outputs=[y])
        seen.append(weakref.ref(tape))
    gc.collect()
    print("alive", sum(ref() is not None for ref in seen))
    """
    done = run(tmp_path, body)
    assert done.returncode == 0, done.stderr
    alive = int(next(line for line in done.stdout.splitlines() if line.startswith("alive")).split()[1])
    assert alive <= 40
    assert "100 tapes were recorded; diagnosed: 1, 2 (" in done.stdout
    assert "no loss is known" in done.stdout


BAD = """
    @wp.kernel
    def root(x: wp.array(dtype=float), y: wp.array(dtype=float)):
        i = wp.tid()
        y[i] = wp.sqrt(x[i])

    for step in range(12):
        x = wp.array([1.0, 0.0 if BAD else 2.0], dtype=float, requires_grad=True)
        y = wp.zeros_like(x)
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            wp.launch(root, dim=2, inputs=[x], outputs=[y])
            wp.launch(total, dim=2, inputs=[y], outputs=[loss])
        tape.backward(loss)
    """


def test_a_tape_that_goes_bad_is_kept_with_its_neighbours(tmp_path: Path) -> None:
    done = run(tmp_path, BAD.replace("BAD", "step == 5"))
    assert done.returncode == 1
    assert shown(done) == ["tape 1", "tape 2", "tape 5", "tape 6", "tape 7", "tape 11", "tape 12"]
    assert done.stdout.count("✕ error · nonfinite · x") == 1
    assert (
        "12 tapes were recorded; diagnosed: 1, 2 (the first two with their launches); 5, 7 (beside one that "
        "is not finite); 6 (the first that is not finite); 11, 12 (the last two). The gradients of 1 were "
        "not finite\n"
    ) in done.stdout


def test_of_tapes_that_stay_bad_the_first_is_kept(tmp_path: Path) -> None:
    done = run(tmp_path, BAD.replace("BAD", "step >= 4"))
    assert shown(done) == ["tape 1", "tape 2", "tape 4", "tape 5", "tape 6", "tape 11", "tape 12"]
    assert "6 (not finite)" in done.stdout
    assert done.stdout.endswith(" The gradients of 8 were not finite\n" + done.stdout.splitlines()[-1] + "\n")


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT")
def test_what_an_interrupted_program_has_recorded_is_diagnosed(tmp_path: Path) -> None:
    body = """
    import os, signal
    for step in range(1000):
        record(True, on_overwrite="ignore")
        if step == 500:
            os.kill(os.getpid(), signal.SIGINT)
    """
    done = run(tmp_path, body, "--json", "out.json")
    assert done.returncode == 2
    assert done.stderr.endswith("KeyboardInterrupt\n")
    assert shown(done) == ["tape 1", "tape 2", "tape 500", "tape 501"]
    assert done.stdout.endswith(
        "tapedebug: 4 tapes diagnosed: 4 errors, 0 warnings, 0 infos; the script failed (KeyboardInterrupt)\n"
        f"wrote {tmp_path / 'out.json'}\n"
    )
    assert json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["verdict"] == "WRONG"


def test_a_tape_that_failed_while_it_was_recorded_is_shown_as_far_as_it_came(tmp_path: Path) -> None:
    body = """
    x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    y = wp.zeros_like(x)
    with wp.Tape():
        wp.launch(square, dim=3, inputs=[x], outputs=[y])
        wp.launch(square, dim=3, inputs=[x], outputs=["y"])
    """
    done = run(tmp_path, body)
    assert done.returncode == 2
    assert "script.py · tape 1 · 1 launch · on_overwrite='preserve' · gradient NOT CHECKED\n" in done.stdout
    assert "no loss is known" in done.stdout


def test_an_interrupt_of_the_diagnosis_keeps_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(HEAD + "for _ in range(9):\n    record(False)\n", encoding="utf-8")
    runs = []

    def interrupted(tapes: list[wp.Tape], **options: bool) -> Diagnosis:
        runs.append(tapes)
        if len(runs) > 1:
            raise KeyboardInterrupt
        return diagnose(tapes, **options)

    monkeypatch.setattr(sys.modules["tapedebug.diagnose"], "diagnose", interrupted)
    assert main(["run", str(script)]) == 2
    assert [len(run) for run in runs] == [2, 2]
    text = capsys.readouterr().out
    assert "interrupted: 2 tapes were not diagnosed\n" in text
    assert text.endswith("2 tapes diagnosed: 0 errors, 0 warnings, 0 infos; the diagnosis was interrupted\n")


def test_ctrl_c_before_the_first_comparison_is_no_traceback(tmp_path: Path) -> None:
    """The modules of the diagnosis load after the program, for a tenth of a second and more."""
    body = """
    class Stop:
        def find_spec(self, name, path, target=None):
            if name == "tapedebug.diagnose._diagnose":
                sys.meta_path.remove(self)
                raise KeyboardInterrupt

    record(True, on_overwrite="ignore")
    sys.meta_path.insert(0, Stop())
    """
    (tmp_path / "script.py").write_text(HEAD + textwrap.dedent(body), encoding="utf-8")
    done = subprocess.run(  # not a forked process, which has the modules
        [sys.executable, "-m", "tapedebug", "run", "script.py"],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.endswith(
        "interrupted: 1 tape was not diagnosed\n"
        "tapedebug: 0 tapes diagnosed: 0 errors, 0 warnings, 0 infos; the diagnosis was interrupted\n"
    )


def test_an_interrupt_of_a_rule_keeps_the_verdicts_and_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tapedebug.diagnose.rules.race import Race

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Race, "check", stop)
    script = tmp_path / "script.py"
    script.write_text(HEAD + "record(True, on_overwrite='ignore')\nrecord(False)\n", encoding="utf-8")
    assert main(["run", str(script)]) == 2
    text = capsys.readouterr().out
    assert "gradient WRONG" in text and "gradient AGREE" in text
    assert "interrupted, and not looked for: race, wrong-adjoint" in text
    assert "interrupted, and not looked for: nonfinite, " in text, (
        "of the second tape only the verdict is known"
    )
    assert text.endswith("2 tapes diagnosed: 1 error, 0 warnings, 0 infos; the diagnosis was interrupted\n")


def test_in_one_process_settings_come_back(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    text = "wp.config.quiet = True\nassert wp.config.on_overwrite == 'ignore'\nassert wp.config.check_bounds"
    script.write_text(HEAD + text, encoding="utf-8")
    before = {name: getattr(wp.config, name) for name in type(wp.config).__slots__}
    for _ in range(2):
        assert main(["run", "--on-overwrite", "ignore", "--check-bounds", str(script)]) == 0
        assert {name: getattr(wp.config, name) for name in type(wp.config).__slots__} == before


def test_a_long_loop_over_the_same_buffers_leaves_nothing_on_the_tapes_that_are_kept() -> None:
    """Each kept tape is told of everything that is written over its arrays, thousands of times."""
    x = wp.zeros(4, dtype=float, requires_grad=True)
    halves = [x[0:2], x[2:4], x]
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    sizes = []
    with TapeRetention() as recorder:
        tape = wp.Tape()
        for step in range(300):
            with tape:
                for half in halves:
                    wp.launch(total, dim=2, inputs=[half], outputs=[loss])
            tape.backward(loss)
            for half in halves:
                half.fill_(float(step))
            tape.reset()
            if step in (10, 299):
                trackers = [item.tape.tracker for item in recorder._retained()][:2]
                sizes.append(
                    [
                        (
                            len(t.outside),
                            [len(ledger.liveins) for ledger in t.ledgers.values()],
                            t.livein_bytes,
                        )
                        for t in trackers
                    ]
                )
    assert sizes[0] == sizes[1]
    assert len(recorder.tapes) == 4


def test_tapes_of_many_kinds_do_not_fill_memory(tmp_path: Path) -> None:
    body = """
    import gc, weakref
    seen = []
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    for step in range(60):
        y = wp.zeros_like(x)
        loss = wp.zeros(1, dtype=float, requires_grad=True)
        with wp.Tape() as tape:
            for _ in range(step):
                wp.launch(square, dim=2, inputs=[x], outputs=[y])
            wp.launch(total, dim=2, inputs=[y], outputs=[loss])
        tape.backward(loss)
        seen.append(weakref.ref(tape))
    del tape
    gc.collect()
    print("alive", sum(ref() is not None for ref in seen))
    """
    done = run(tmp_path, body)
    assert "alive 13\n" in done.stdout, "twelve that are shown, and the one that may not be over"
    assert "They have more than 8 different sequences of launches" in done.stdout


@pytest.mark.sweep
@pytest.mark.parametrize("options", [(), ("--check-bounds",), ("--as-warp",)])
@pytest.mark.parametrize("threads", [4, 1_000, 100_000])
def test_a_wrong_dim_ends_a_script_with_its_place(
    options: tuple[str, ...], threads: int, tmp_path: Path
) -> None:
    body = f"x = wp.zeros(3, dtype=float)\nwp.launch(square, dim={threads}, inputs=[x, x])"
    if "--as-warp" in options:
        body = "import warp\n" + body
    done = run(tmp_path, body, *options)
    assert done.returncode == 2
    launched = len(HEAD.splitlines()) + len(body.splitlines())
    assert done.stderr == (
        "Traceback (most recent call last):\n"
        f'  File "{tmp_path / "script.py"}", line {launched}, in <module>\n'
        f"    wp.launch(square, dim={threads}, inputs=[x, x])\n"
        "tapedebug._errors.BoundsError: kernel `square`: the index 3 is outside axis 0 of `x`, which has "
        "length 3, in thread 3\n"
        f"  --> {tmp_path / 'script.py'}:{line_of('y[i] = x[i] * x[i]')}, in square\n"
        "   |     y[i] = x[i] * x[i]\n"
        "   |            ^^^^\n"
        f"  = note: the launch has dim={threads}\n"
        "  = note: nothing of the launch is left: arrays and tape are as they were before it\n"
        "  = hint: launch with dim=3, which fits `x`, or test the index before it is used (`if i < n:`)\n"
    )


@pytest.mark.parametrize("how", ["--no-check-bounds", "script"])
def test_bounds_are_not_checked_where_the_user_says_so(how: str, tmp_path: Path) -> None:
    body = """
    whole = wp.zeros(9, dtype=float)
    part = whole[0:3]
    wp.launch(square, dim=4, inputs=[part, part])
    print("went on")
    """
    if how == "script":
        body = "wp.config.check_bounds = False\n" + textwrap.dedent(body)
    done = run(tmp_path, body, *([how] if how != "script" else []))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("went on\n")


@pytest.mark.skipif(sys.platform == "win32", reason="the signal of a crash")
def test_a_crash_shows_the_line_of_the_launch(tmp_path: Path) -> None:
    body = "x = wp.zeros(3, dtype=float)\nwp.launch(put_far, dim=1, inputs=[x])"
    far = """
    @wp.kernel
    def put_far(x: wp.array(dtype=float)):
        x[wp.int64(1) << wp.int64(44)] = 1.0
    """
    done = run(tmp_path, textwrap.dedent(far) + body, "--no-check-bounds")
    assert done.returncode < 0
    assert "Segmentation fault" in done.stderr
    assert re.search(r'script.py", line \d+ in <module>', done.stderr)


def test_what_stands_at_the_place_of_an_output_stays_what_it_is(tmp_path: Path) -> None:
    names = {"--report": "out.html", "--trace": "out.tapetrace", "--json": "out.json"}
    (tmp_path / "kept").mkdir()
    for name in names.values():
        final = tmp_path / "kept" / name
        final.touch()
        final.chmod(0o600)
        (tmp_path / name).symlink_to(final)
    options = [word for pair in names.items() for word in pair]
    done = run(tmp_path, "record(False)", *options)
    assert (done.returncode, done.stderr) == (0, "")
    for name in names.values():
        assert (tmp_path / name).is_symlink()
        found = (tmp_path / "kept" / name).stat()
        assert (found.st_mode & 0o777, found.st_size > 0) == (0o600, True)


def test_several_traces_go_into_the_same_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cat", "pipe"], cwd=tmp_path, stdout=subprocess.PIPE) as reader:
        held = os.open(tmp_path / "pipe", os.O_WRONLY)
        done = run(tmp_path, "record(False)\nrecord(True)", "--trace", str(tmp_path / "pipe"))
        os.close(held)
        assert reader.stdout is not None
        content = reader.stdout.read()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count(f"wrote {tmp_path / 'pipe'}\n") == 2
    assert content.count(b"trace.json") == 4  # each archive names it twice
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pipe", "script.py"]


def test_what_a_program_leaves_is_finalized_and_written_out(tmp_path: Path) -> None:
    """Also objects in cycles, and files that only another module or a cycle refers to."""
    (tmp_path / "helper.py").write_text(
        "def f(): pass\nf.me = f\nf.stream = open('of_helper.txt', 'w')\nf.stream.write('helper')\n", "utf-8"
    )
    program = """
import atexit, weakref, helper

class Named:
    def __init__(self, name):
        self.name, self.me = name, self
    def __del__(self):
        print("finalized", self.name)

in_cycle = Named("in a cycle")
alone = Named("alone")
alone.me = None
stream = open("of_program.txt", "w")
stream.write("program")
atexit.register(lambda: print("at exit", in_cycle.name))
def uses(): return alone, in_cycle, stream
"""
    output = _output_of_process(program, tmp_path)
    lines = [line for line in output.splitlines() if line.startswith(("at exit", "finalized"))]
    assert lines[0] == "at exit in a cycle"
    assert sorted(lines[1:]) == ["finalized alone", "finalized in a cycle"]
    assert (tmp_path / "of_program.txt").read_text(encoding="utf-8") == "program"
    assert (tmp_path / "of_helper.txt").read_text(encoding="utf-8") == "helper"


def test_a_process_with_a_thread_ends_as_usual(tmp_path: Path) -> None:
    program = """
import threading, time

def work():
    while True:
        len(known)
        time.sleep(0.001)

known = [1]
threading.Thread(target=work, daemon=True).start()
"""
    _output_of_process(program, tmp_path)


def _output_of_process(program: str, folder: Path) -> str:
    """Return what `tapedebug run` of a program prints in a process of its own, which succeeds."""
    path = folder / "program.py"
    path.write_text(HEAD + program, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tapedebug", "run", str(path)],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout

"""`tapedebug run` on programs that import NVIDIA Warp: from then on it is watched, and never imported here.

The tests with `fake_warp` need no Warp: a package of that name, and a stand-in for the watcher.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tapedebug import _processor_limit
from tapedebug._errors import TapedebugError
from tapedebug._import_hook import AfterImport
from tapedebug.cli import CONTINUED, main
from tests.processes import ROOT

PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
{{before}}
from tests.reference_engine import Tape, array, zeros
from tests.reference_operations import scale, square, total

x, s, loss = array([0.5, -1.0, 2.0]), zeros(3), zeros(1)
with Tape() as tape:
    square(x, s)
    total(s, loss)
tape.backward(loss)
{{after}}
"""


class Watcher:
    """A stand-in for `tapedebug.watch`, which notes when it watches."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.refusal = ""
        self.not_covered: list[str] = []
        self.seconds = 0.0

    @contextmanager
    def watch_warp(self) -> Iterator[Watcher]:
        if self.refusal:
            raise TapedebugError(self.refusal, hint="install another one")
        self.log.append("watching")
        yield self
        self.log.append("done")


@pytest.fixture
def watcher(monkeypatch: pytest.MonkeyPatch) -> Watcher:
    found = Watcher()
    module: Any = types.ModuleType("tapedebug.watch")
    module.watch_warp = found.watch_warp
    monkeypatch.setitem(sys.modules, "tapedebug.watch", module)
    return found


@pytest.fixture
def fake_warp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package `warp` as the only one, with what `tapedebug run` looks at."""
    package = tmp_path / "site" / "warp"
    (package / "_src").mkdir(parents=True)
    (package / "__init__.py").write_text("import warp._src\nready = True\n", encoding="utf-8")
    (package / "_src" / "__init__.py").write_text("", encoding="utf-8")
    # `tapedebug run` replaces the first folder by that of the program
    monkeypatch.setattr(sys, "path", ["", str(package.parent), *sys.path])
    before = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == "warp"}
    for name in before:
        del sys.modules[name]
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "warp"]:
        del sys.modules[name]
    sys.modules.update(before)


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def run(*options: str, before: str = "", after: str = "", text: str = PROGRAM) -> tuple[int, str, str]:
        (tmp_path / "train.py").write_text(text.format(before=before, after=after), encoding="utf-8")
        capsys.readouterr()
        status = main(["run", *options, str(tmp_path / "train.py")])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run


# ------------------------------------------------------------------------------------------ the import hook


def test_the_hook_calls_back_when_the_module_has_run_and_leaves_its_loader_as_it_was(fake_warp: Path) -> None:
    seen = []
    with AfterImport("warp", lambda module: seen.append(module.ready)):
        assert seen == []
        import warp

        assert seen == [True]
        assert "exec_module" not in vars(warp.__loader__)
        assert warp.__spec__.loader is warp.__loader__
    assert not any(isinstance(finder, AfterImport) for finder in sys.meta_path)


def test_a_module_that_is_loaded_already_is_seen_at_once(fake_warp: Path) -> None:
    import warp

    seen = []
    with AfterImport("warp", seen.append):
        assert seen == [warp]


def test_looking_for_the_module_is_no_import(fake_warp: Path) -> None:
    import importlib.util

    seen = []
    with AfterImport("warp", seen.append):
        assert importlib.util.find_spec("warp") is not None
        assert seen == []
        import warp

        assert seen == [warp]


def test_an_import_after_the_end_is_not_seen(fake_warp: Path) -> None:
    import importlib.util

    seen: list[Any] = []
    with AfterImport("warp", seen.append):
        spec = importlib.util.find_spec("warp")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert seen == []


# ------------------------------------------------------------------------------------------ `tapedebug run`


def test_a_program_without_warp_is_not_watched(watcher: Watcher, fake_warp: Path, run: Run) -> None:
    status, out, err = run()
    assert (status, err) == (0, "")
    assert watcher.log == []
    assert "warp" not in sys.modules
    assert out.lstrip().startswith("NumPy ")


def test_warp_is_watched_from_its_import_to_the_end_of_the_program(
    watcher: Watcher, fake_warp: Path, run: Run
) -> None:
    watcher.not_covered = ["the launch of blur at train.py:9 is not covered: a graph is being captured"]
    after = "def late():\n    import warp\n    print('ready', warp.ready)\nlate()"
    status, out, err = run(after=after)
    assert (status, err) == (0, "")
    assert watcher.log == ["watching", "done"]
    lines = out.splitlines()
    assert lines[0] == "ready True"
    assert lines[-2] == watcher.not_covered[0]


def test_as_warp_watches_nothing(watcher: Watcher, fake_warp: Path, run: Run) -> None:
    status, _, err = run("--as-warp", before="import warp as wp\nprint(wp.zeros)")
    assert (status, err) == (0, "")
    assert watcher.log == []


def test_our_engine_in_place_of_warp_for_a_block_is_not_watched(
    watcher: Watcher, fake_warp: Path, run: Run
) -> None:
    body = "import tapedebug\nwith tapedebug.as_warp():\n    import warp\n    warp.zeros(1, dtype=float)"
    assert run(before=body)[0] == 0
    assert watcher.log == []


def test_a_warp_that_cannot_be_watched_runs_and_the_reason_is_the_only_message(
    watcher: Watcher, fake_warp: Path, run: Run, tmp_path: Path
) -> None:
    watcher.refusal = "NVIDIA Warp 1.2 cannot be watched: 1.10 to 1.19 can"
    status, out, err = run(text="import warp\nprint('ran')\n")
    assert status == 2
    assert out.splitlines()[:3] == ["ran", "", "no tape was recorded: nothing to check"]
    assert err == (
        "  = hint: NVIDIA Warp 1.2 cannot be watched: 1.10 to 1.19 can; "
        f"`tapedebug run --as-warp {tmp_path / 'train.py'}` runs the program on this engine\n"
    )


def test_a_program_that_failed_is_not_told_where_launches_are_recorded(
    watcher: Watcher, fake_warp: Path, run: Run
) -> None:
    status, _, err = run(text="import warp\nraise ValueError('of the program')\n")
    assert status == 2
    assert "ValueError: of the program" in err
    assert "hint" not in err


def test_a_program_without_a_tape_is_told_where_launches_are_recorded(
    watcher: Watcher, fake_warp: Path, run: Run
) -> None:
    status, _, err = run(text="import warp\n")
    assert (status, err) == (
        0,
        "  = hint: no launch was recorded: launches of NVIDIA Warp are diagnosed inside `with wp.Tape():`\n",
    )


def test_an_error_inside_warp_ends_the_program_and_the_watching(
    watcher: Watcher, fake_warp: Path, run: Run
) -> None:
    status, _, err = run(text="import warp\nwarp.nothing\n")
    assert status == 2
    assert "AttributeError: module 'warp' has no attribute 'nothing'" in err
    assert watcher.log[-1] == "done" or not any(isinstance(f, AfterImport) for f in sys.meta_path)


def test_options_of_our_engine_are_named_as_without_effect(
    watcher: Watcher, fake_warp: Path, run: Run
) -> None:
    _, _, err = run("--on-overwrite", "ignore", before="import warp")
    assert err == (
        "  = hint: --on-overwrite: no effect on NVIDIA Warp, only on tapedebug's own engine (--as-warp)\n"
    )


@pytest.mark.parametrize("number", ["0", "-1", "soon", "nan"])
def test_a_time_limit_is_a_positive_number(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", f"--max-seconds={number}", "train.py"])
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.endswith(f"argument --max-seconds: a positive number of seconds; got '{number}'")


def test_a_time_limit_ends_the_diagnosis(run: Run) -> None:
    status, out, _ = run("--max-seconds", "1e-9")
    assert status == 0
    assert "NOT CHECKED" in out or "not diagnosed: --max-seconds 1e-09 is over" in out


def test_the_program_limits_its_diagnosis(
    watcher: Watcher, fake_warp: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    status, out, _ = run(before="import warp")
    assert status == 0
    assert CONTINUED not in out
    for name in "TIMES", "LEAST", "LONGEST_TIMES", "LONGEST_LEAST":
        monkeypatch.setattr(_processor_limit, name, 1e-9)
    status, out, _ = run(before="import warp")
    assert status == 0
    assert "NOT CHECKED" in out
    assert CONTINUED in out
    assert CONTINUED not in run("--max-seconds", "100", before="import warp")[1]

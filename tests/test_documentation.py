"""Commands of README and of the documentation's first page, run as a reader would type them."""

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from scripts import finding_pages
from tapedebug.cli import main
from tests import forked
from tests.processes import ROOT

PAGES = [
    "docs/start/first-bug.md",
    "docs/random.md",
    "docs/native.md",
    "docs/numba.md",
    "docs/structs.md",
    "docs/generic.md",
]


def blocks(page: str) -> str:
    """The Python of a page as one script, without what only a notebook understands."""
    found = re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), re.S | re.M)
    return "\n".join(block for block in found if not block.startswith("%"))


def promised(script: str) -> list[str]:
    """The numbers that `print(…)  # […]` says will appear, in order."""
    return re.findall(r"^print\(.*\)\s+# (\[.*\])$", script, re.M)


@pytest.mark.parametrize("page", PAGES)
def test_examples_print_what_they_promise(page: str, tmp_path: Path) -> None:
    script = blocks(page)
    path = tmp_path / "example.py"
    path.write_text(script, encoding="utf-8")
    done = run_in(tmp_path, str(path))
    assert (done.returncode, done.stderr) == (0, "")
    wanted = promised(script)
    assert wanted, "the page shows no output to compare with"
    lines = done.stdout.splitlines()
    assert [line for line in lines if line in wanted] == wanted, done.stdout
    assert any("gradient AGREE" in line for line in lines), "the diagnosis that the page ends with"


def readme(section: str, language: str) -> str:
    """The first block of a language below a heading of the README."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(rf"^```{language}\n(.*?)^```", page[page.index(f"## {section}") :], re.S | re.M)
    assert found is not None
    return found[1]


def run_in(folder: Path, *command: str) -> "subprocess.CompletedProcess[str]":
    """Run Python as somebody would who saved the files of a page in a folder."""
    return forked.run(command, folder, {**os.environ, "PYTHONPATH": str(ROOT)})


def test_the_first_example_of_the_readme_is_right_by_default(tmp_path: Path) -> None:
    script = readme("A first example", "python")
    (tmp_path / "first.py").write_text(script, encoding="utf-8")
    done = run_in(tmp_path, "first.py")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == promised(script) == ["[2. 4. 6.]"]


def test_the_first_example_of_the_readme_is_wrong_as_warp_records_it(tmp_path: Path) -> None:
    """The README shows what the command prints; "…" stands for lines that it leaves out."""
    (tmp_path / "first.py").write_text(readme("A first example", "python"), encoding="utf-8")
    command, _, shown = readme("A first example", "console").partition("\n")
    assert command.startswith("$ tapedebug run ")
    done = run_in(tmp_path, "-m", *command.split()[1:])
    assert (done.returncode, done.stderr) == (1, "")
    rest = done.stdout
    for part in re.split(r"^…\n", shown, flags=re.M):
        assert part in rest, rest
        rest = rest[rest.index(part) + len(part) :]


CELLS = """
from IPython.core.interactiveshell import InteractiveShell
import sys

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "tapedebug")
script, cell = (open(name, encoding="utf-8").read() for name in sys.argv[1:])
shell.run_cell(script[: script.index("x = wp.array")], store_history=True).raise_error()
for run in range(3):
    for source in (cell, "print(x.grad.numpy())", cell.replace(" --on-overwrite ignore", "")):
        shell.run_cell(source, store_history=True).raise_error()
"""


def test_the_cell_of_the_readme_is_red_however_often_it_runs_and_green_when_values_are_preserved(
    tmp_path: Path,
) -> None:
    (tmp_path / "first.py").write_text(readme("A first example", "python"), encoding="utf-8")
    (tmp_path / "cell.py").write_text(readme("In a notebook", "python"), encoding="utf-8")
    (tmp_path / "run.py").write_text(CELLS, encoding="utf-8")
    done = run_in(tmp_path, "run.py", "first.py", "cell.py")
    assert (done.returncode, done.stderr) == (0, "")
    seen = re.findall(
        r"gradient (?:WRONG|AGREE)$|^  \S (?:error|warning|info) · .*|^\[.*\]$", done.stdout, re.M
    )
    red = ["gradient WRONG", "  ✕ error · overwrite · x", "[ -2.  -8. -18.]"]
    assert seen == 3 * [*red, "gradient AGREE", "  i info · overwrite · x"]


def test_the_check_of_the_readme_prints_what_it_shows(tmp_path: Path) -> None:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    section = page[page.index("## Checks of gradients") :]
    found = re.search(r"```python\n(.*?)```\s+```\n(.*?)```", section, re.S)
    assert found is not None
    path = tmp_path / "energies.py"
    path.write_text(found[1], encoding="utf-8")
    done = run_in(tmp_path, str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.replace(f"{tmp_path}/", "") == found[2]


def test_the_page_about_debugging_prints_what_it_promises(tmp_path: Path) -> None:
    script = blocks("docs/debugging.md")
    path = tmp_path / "example.py"
    path.write_text(script, encoding="utf-8")
    done = run_in(tmp_path, str(path))
    assert (done.returncode, done.stderr) == (0, "")
    wanted = re.findall(r"^# prints: (.*)$|^print\(.*\)  # (.*)$", script, re.M)
    assert len(wanted) == 7
    assert done.stdout.splitlines() == ["".join(pair) for pair in wanted]


def test_the_example_of_a_python_operation_prints_what_it_promises(tmp_path: Path) -> None:
    page = (ROOT / "docs/tape.md").read_text(encoding="utf-8")
    section = page[page.index("## Python operations") :]
    found = re.search(r"```python\n(.*?)```\s+```text\n(.*?)```", section, re.S)
    assert found is not None
    path = tmp_path / "solver.py"
    path.write_text(found[1], encoding="utf-8")
    done = run_in(tmp_path, str(path))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == found[2]


def test_the_page_about_options_of_checks_prints_what_it_promises(tmp_path: Path) -> None:
    page = (ROOT / "docs/check-options.md").read_text(encoding="utf-8")
    path = tmp_path / "example.py"
    path.write_text(blocks("docs/check-options.md"), encoding="utf-8")
    done = run_in(tmp_path, str(path))
    assert (done.returncode, done.stderr) == (0, "")
    wanted = re.findall(r"^print\(.*\)\n# (.*)$|^```\n(d Re w.*)\n```$", page, re.M)
    assert len(wanted) == 3
    assert done.stdout.splitlines() == ["".join(pair) for pair in wanted]


@pytest.mark.parametrize("torch", [False, True])
def test_the_page_about_arrays_prints_what_it_promises(torch: bool, tmp_path: Path) -> None:
    """Its blocks about PyTorch run where that is installed."""
    if torch:
        pytest.importorskip("torch")
    page = (ROOT / "docs/arrays.md").read_text(encoding="utf-8")
    script = (
        blocks("docs/arrays.md")
        if torch
        else re.sub(r"^import torch\n.*", "", blocks("docs/arrays.md"), flags=re.S | re.M)
    )
    path = tmp_path / "example.py"
    path.write_text(script, encoding="utf-8")
    done = run_in(tmp_path, str(path))
    assert (done.returncode, done.stderr) == (0, "")
    wanted = promised(script)
    assert len(wanted) == page.count("  # [") - 2 * (not torch)
    assert [line for line in done.stdout.splitlines() if line in wanted] == wanted


def test_the_page_about_reading_checks_shows_what_is_printed(tmp_path: Path) -> None:
    page = (ROOT / "docs/reading-checks.md").read_text(encoding="utf-8")
    first, second, third = re.findall(r"^```python\n(.*?)^```", page, re.S | re.M)
    output = re.findall(r"^```\n(Input .*?)^```", page, re.S | re.M)[0]
    path = tmp_path / "springs.py"
    third = third.replace("springs.png", str(tmp_path / "s.png"))
    headless = "import matplotlib; matplotlib.use('Agg')"
    path.write_text(f"{first}\n{second}\n{headless}\n{third}", encoding="utf-8")
    pytest.importorskip("matplotlib")
    done = run_in(tmp_path, str(path))
    assert (done.returncode, done.stderr) == (0, "")
    error_bar = re.compile(r"± \S+;")  # its digits depend on the processor
    printed, shown = (
        error_bar.sub("± …;", text.replace(str(path), "springs.py")).splitlines()
        for text in (done.stdout, output)
    )
    assert printed == shown
    assert (tmp_path / "s.png").stat().st_size > 0


def test_every_link_of_readme_and_contributing_leads_somewhere() -> None:
    for page in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / page).read_text(encoding="utf-8")
        for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
            assert (ROOT / target).exists(), f"{page} links to {target}"


def test_every_page_is_in_the_table_of_contents() -> None:
    docs = ROOT / "docs"
    for page in docs.rglob("*.md"):
        folder = next(folder for folder in page.parents if (folder / "index.md").exists())
        listed = (folder / "index.md").read_text(encoding="utf-8")
        name = page.relative_to(folder).with_suffix("").as_posix()
        assert name == "index" or re.search(rf"^{name}$", listed, re.M), page.name


def test_every_rule_has_a_page() -> None:
    from tapedebug.diagnose.registry import RULES

    pages = {page.stem for page in (ROOT / "docs" / "findings").glob("*.md")} - {"index"}
    assert pages == {rule.code for rule in RULES}


def test_the_list_of_rules_says_what_their_classes_say() -> None:
    text = finding_pages.INDEX.read_text(encoding="utf-8")
    assert finding_pages.index(text) == text, "`python -m scripts.finding_pages` writes it anew"


@pytest.mark.parametrize("page", finding_pages.pages(), ids=lambda page: page.stem)
def test_the_page_of_a_finding_shows_what_is_printed_and_its_fix_works(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(finding_pages, "started", forked.run)
    text, rule = finding_pages.text_of(page), finding_pages.rule_of(page)
    parts = finding_pages.parts_of(text)
    shown = finding_pages.output(page)
    assert parts["output"] == shown, "`python -m scripts.finding_pages` writes the pages anew"
    if page == finding_pages.FIRST:
        return  # its fix is a program of its own, which another test runs
    assert text.startswith(f"# {rule}\n")
    if "! warning" in shown or "✕ error" in shown:
        changed = finding_pages.fixed(text)
        assert changed != parts["program"], "the page has no fix"
        *flags, name = shlex.split(parts["arguments"])
        (tmp_path / name).write_text(changed, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
        main(["run", *flags, name])
        printed, complaints = capsys.readouterr()
        assert not complaints.strip()
        assert not re.search(rf"^  [✕!] \w+ · {rule}\b", printed, re.M), printed
        assert "0 errors, 0 warnings" in printed, printed


def test_every_page_of_a_finding_has_a_program() -> None:
    pages = {page.stem for page in (ROOT / "docs" / "findings").glob("*.md")} - {"index"}
    shown = {page.stem for page in finding_pages.pages()}
    assert pages - shown == {"wrong-adjoint"}  # only an error of the engine shows it


def test_no_page_says_that_an_index_has_the_package() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    wrong = re.compile(r"pip install '?tapedebug\b")
    assert [page.name for page in pages if wrong.search(page.read_text(encoding="utf-8"))] == []


def test_every_notebook_is_in_the_list() -> None:
    page = (ROOT / "docs" / "notebooks" / "index.md").read_text(encoding="utf-8")
    listed = re.findall(r"\(([\w-]+\.ipynb)\)", page)
    assert sorted(listed) == sorted(book.name for book in (ROOT / "notebooks").glob("*.ipynb"))


def test_the_page_of_a_finding_shows_its_picture() -> None:
    folder = ROOT / "docs" / "findings"
    for page in finding_pages.pages():
        if page != finding_pages.FIRST:
            assert f"](pictures/{page.stem}.webp)" in finding_pages.text_of(page), page.name
            assert (folder / "pictures" / f"{page.stem}.webp").exists(), "`make pictures` makes it"
    pictures = [*folder.glob("pictures/*"), *(ROOT / "docs" / "start").glob("*.webp")]
    assert {path.name for path in pictures if path.stat().st_size > 300_000} == set()

"""Write the pages of `docs/findings/`: `python -m scripts.finding_pages`.

The list of rules comes from their classes. A page shows its smallest program, the command that runs it and
what that prints of its finding, and in a `diff` block the change that removes the finding. A test runs both
(`tests/test_documentation.py`).
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tapedebug.diagnose.registry import RULES

ROOT = Path(__file__).resolve().parents[1]
FIRST = ROOT / "docs" / "start" / "first-bug.md"
INDEX = ROOT / "docs" / "findings" / "index.md"
PARTS = re.compile(
    r"^```python\n(?P<program>.*?)^```$.*?^```console\n\$ tapedebug run (?P<arguments>[^\n]*)\n```$.*?"
    r"^```text\n(?P<output>.*?)^```$",
    re.S | re.M,
)
CLEARED = {"MALLOC_PERTURB_": "255", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
"""Makes glibc clear new blocks, as they often are: what `wp.empty` holds is then the same each time."""


def pages() -> list[Path]:
    """The pages that have a program: those of the rules, and the first of all."""
    rules = sorted((ROOT / "docs" / "findings").glob("*.md"))
    return [FIRST, *(page for page in rules if PARTS.search(text_of(page)))]


def text_of(page: Path) -> str:
    """The text of a page."""
    return page.read_text(encoding="utf-8")


def rule_of(page: Path) -> str:
    """The rule whose finding a page shows."""
    return "overwrite" if page == FIRST else page.stem


def parts_of(text: str) -> re.Match[str]:
    """Program, command and output of a page."""
    found = PARTS.search(text)
    assert found is not None, "a page has a block of Python, one of the console and one of text"
    return found


def fixed(text: str) -> str:
    """The program of a page, changed as its `diff` block says; the same text if there is none."""
    program = parts_of(text)["program"]
    block = re.search(r"^```diff\n(.*?)^```$", text, re.S | re.M)
    for hunk in block[1].split("@@\n") if block else ():
        lines = hunk.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] == sign) for sign in "-+")
        assert program.count(old) == 1, f"the program has no line {old!r}, or several"
        program = program.replace(old, new)
    return program


def run(program: str, arguments: str, *options: str) -> str:
    """Return the output of `tapedebug run` for a program."""
    *flags, name = shlex.split(arguments)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).write_text(program, encoding="utf-8")
        environment = {**os.environ, **CLEARED, "PYTHONPATH": str(ROOT)}
        done = started(["-m", "tapedebug", "run", *options, *flags, name], Path(folder), environment)
    if done.stderr.strip():
        raise RuntimeError(f"{name}: {done.stderr}")
    return done.stdout


def started(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments in a folder."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def finding(rule: str, printed: str) -> str:
    """The verdict of the tape with the first finding of a rule, and this finding; empty if there is none."""
    for tape in re.split(r"\n(?=\S+ · tape \d)", printed):
        first, *findings = tape.split("\n\n")
        for item in findings:
            if re.match(rf"  \S+ \w+ · {rule}\b", item):
                return f"{first.splitlines()[0]}\n\n{item.rstrip()}\n"
    return ""


def output(page: Path) -> str:
    """Return the text that the program of a page prints about its finding."""
    parts = parts_of(text_of(page))
    shown = finding(rule_of(page), run(parts["program"], parts["arguments"]))
    assert shown, f"{page.name}: the program has no such finding"
    return shown


def index(text: str) -> str:
    """The page with all rules: its table and its table of contents are made from the classes."""
    only = {rule.code: " (only with `--as-warp`)" if rule.warp_only else "" for rule in RULES}
    rows = "".join(
        f"| [{rule.code}]({rule.code}.md) | {rule.title}{only[rule.code]} | {rule.severity} |\n"
        for rule in RULES
    )
    head = "| rule | reports | worst severity |\n| --- | --- | --- |\n"
    text = re.sub(r"^\| rule \| reports .*?\n(?=\n)", lambda _: head + rows, text, flags=re.S | re.M)
    toctree = "".join(f"{rule.code}\n" for rule in RULES)
    return re.sub(r"(?<=:maxdepth: 1\n\n).*?(?=^```$)", lambda _: toctree, text, flags=re.S | re.M)


def main() -> int:
    """Rewrite the pages; return the exit status."""
    INDEX.write_text(index(text_of(INDEX)), encoding="utf-8")
    with ThreadPoolExecutor(2) as workers:
        for page, shown in workers.map(lambda page: (page, output(page)), pages()):
            text = text_of(page)
            begin, end = parts_of(text).span("output")
            if text[begin:end] != shown:
                page.write_text(text[:begin] + shown + text[end:], encoding="utf-8")
                print(f"{page.relative_to(ROOT)}: written")
    return 0


if __name__ == "__main__":
    sys.exit(main())

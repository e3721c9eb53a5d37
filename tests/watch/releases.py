"""Tests of watching with other releases of Warp: `python -m tests.watch.releases [1.10 …]`.

Installs the newest patch of each minor release from `session.OLDEST` to the newest one into an environment of
its own in `build/warp`, runs `tests/watch` in it, stores the counts, and writes a table into the page about
watching: `make warp-releases`. `--write` only writes the table.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tapedebug.watch.session import NEWEST, OLDEST

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path(__file__).with_suffix(".json")
PAGE = ROOT / "docs" / "watching.md"
BEGIN = "<!-- releases: written by `make warp-releases` -->\n"
END = "<!-- end of the releases -->\n"
COUNTS = ("passed", "skipped", "failed")
OWN = "tests/watch/test_releases.py"
"""The tests of the table, which is written afterwards."""


def minor(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version."""
    return tuple(int(part) for part in text.split(".")[:2])


def releases() -> list[str]:
    """Return the minor releases from the oldest to the newest that watching is tested with."""
    (major, first), (_, last) = minor(OLDEST), minor(NEWEST)
    return [f"{major}.{number}" for number in range(first, last + 1)]


def install(wanted: str, folder: Path) -> Path:
    """Make an environment with this project and a release of Warp, unless there is one.

    Args:
        wanted: What pip is asked for, such as `warp-lang==1.10.*`.
        folder: The folder of the environment.

    Returns:
        Its Python.
    """
    python = folder / "bin" / "python"
    if not python.exists():
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
        packages = ["--editable", ".[test]", "torch", wanted]
        environment = os.environ | {"SKIP_JUPYTER_BUILDER": "1"}
        subprocess.run(
            [*uv, "pip", "install", "--quiet", "--python", str(python), *packages],
            check=True,
            cwd=ROOT,
            env=environment,
        )
    return python


def version_of(python: Path) -> str:
    """Return the version of Warp in an environment."""
    code = "import importlib.metadata; print(importlib.metadata.version('warp-lang'))"
    return subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def run(python: Path, folder: Path) -> dict[str, Any]:
    """Run the tests of watching in an environment; print and return the counts."""
    environment = os.environ | {"WARP_CACHE_PATH": str(folder / "kernels")}
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/watch", "--deselect", OWN],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    (folder / "tests.log").write_text(done.stdout, encoding="utf-8")
    found = counts_of(done.stdout)
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return {"warp": version_of(python), "date": f"{datetime.now(UTC):%Y-%m-%d}", **found, "failures": failed}


def counts_of(output: str) -> dict[str, int]:
    """Return the counts of pytest's last line; a module that cannot be imported counts as one that failed."""
    last = (output.strip().splitlines() or [""])[-1]
    found = {word: int(number) for number, word in re.findall(r"(\d+) (passed|skipped|failed|error)", last)}
    found["failed"] = found.get("failed", 0) + found.pop("error", 0)
    if not found.get("passed"):
        found["failed"] = max(1, found["failed"])
    return {word: found.get(word, 0) for word in COUNTS}


def load() -> dict[str, Any]:
    """Return the stored counts by minor release."""
    return dict(json.loads(RESULTS.read_text(encoding="utf-8"))) if RESULTS.exists() else {}


def table(results: dict[str, Any]) -> str:
    """Return the stored counts as a table."""
    lines = ["| warp-lang | Passed | Skipped | Failed | Run |", "| --- | ---: | ---: | ---: | --- |"]
    for found in sorted(results.values(), key=lambda each: minor(each["warp"])):
        counts = " | ".join(str(found[word]) for word in COUNTS)
        lines.append(f"| {found['warp']} | {counts} | {found['date']} |")
    return "\n".join(lines) + "\n"


def write() -> None:
    """Write the table to its page."""
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}{table(load())}{END}{rest.partition(END)[2]}", encoding="utf-8")


def main(names: Sequence[str]) -> int:
    """Run the releases that are named, or all and the newest one; return the exit status."""
    chosen = list(names) or [*releases(), "newest"]
    status = 0
    for name in chosen if names != ["--write"] else ():
        folder = ROOT / "build" / "warp" / name
        python = install("warp-lang" if name == "newest" else f"warp-lang=={name}.*", folder)
        version = version_of(python)
        key = ".".join(version.split(".")[:2])
        if name == "newest" and key in chosen:
            continue
        print(f"warp-lang {version} …", flush=True)
        found = run(python, folder)
        print("  " + ", ".join(f"{found[word]} {word}" for word in COUNTS), *found["failures"], sep="\n    ")
        status |= bool(found["failed"])
        RESULTS.write_text(
            json.dumps(load() | {key: found}, indent=1, sort_keys=True) + "\n", encoding="utf-8"
        )
        write()
    write()
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

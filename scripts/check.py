"""Lint, types and the tests near what changed, in two minutes: `make check`.

Changed is what differs from the commit where this branch left `main`, uncommitted and new files included; on
`main` itself what is not committed, or else the last commit. Python tests run nearest first (`near_tests`)
until the time is over. The end of the output says what was left out; `make test` runs everything.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from scripts.near_tests import RINGS, ImportGraph, Selection, near_tests

ROOT = Path(__file__).resolve().parents[1]
SECONDS = 120
RESERVE = 15
"""Seconds at the end in which no test begins: one may take some seconds, and the summary follows."""
MOST = 60
"""Test modules that are collected at most: two minutes are not enough for more."""
PYTHON = sys.executable
LINT = {
    "ruff check": (PYTHON, "-m", "ruff", "check", "-q", "."),
    "ruff format": (PYTHON, "-m", "ruff", "format", "-q", "--check", "."),
}
TYPES = {"mypy": (PYTHON, "-m", "mypy")}
JAVASCRIPT = {"tsc": ("npm", "run", "--silent", "types"), "biome": ("npm", "run", "--silent", "lint")}


def git(*arguments: str) -> str:
    """The output of a git command, empty if it fails."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def base_of(head: str, fork: str, dirty: bool) -> str:
    """The commit to compare with.

    Args:
        head: The current commit.
        fork: The commit where this branch left `main`; empty if there is no `main`.
        dirty: Whether something is not committed.
    """
    if fork and fork != head:
        return fork
    return "HEAD" if dirty else "HEAD~1"


def changed_files(base: str) -> list[str]:
    """Paths of files that differ from a commit, and of new files that git does not ignore."""
    changed = git("diff", "--name-only", "--diff-filter=d", base).splitlines()
    return sorted({*changed, *git("ls-files", "--others", "--exclude-standard").splitlines()})


def left_out(selection: Selection, chosen: list[str], tests: int) -> list[str]:
    """Sentences about the tests that a selection does not contain."""
    counts = {
        f"near, but not among the {len(chosen)} nearest": len(selection.near) - len(chosen),
        f"more than {RINGS} imports away": tests - len(selection.near),
    }
    lines = [f"test modules {where}: {count}" for where, count in counts.items() if count]
    lines += (
        f"of these, {count} import {module}, which imports what changed, as nearly everything does"
        for module, count in selection.hubs.items()
        if count
    )
    if selection.unread:
        lines.append(f"files that no Python test imports or names: {', '.join(selection.unread)}")
    return [*lines, "browser tests, documentation, packaging"]


def _run(command: tuple[str, ...], folder: Path) -> tuple[int, str, float]:
    """Exit status, output and seconds of a command."""
    begun = time.monotonic()
    done = subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, done.stdout, time.monotonic() - begun


def main() -> int:
    """Run what is near; return 1 if anything failed."""
    begun = time.time()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", help="compare with this commit")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"start no test later (default {SECONDS})"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes that run tests (default 2)")
    parser.add_argument(
        "--list", action="store_true", help="print the test modules and their distances, run nothing"
    )
    options = parser.parse_args()

    head = git("rev-parse", "HEAD")
    fork = git("merge-base", "HEAD", "main") or git("merge-base", "HEAD", "origin/main")
    base = options.base or base_of(head, fork, bool(git("status", "--porcelain")))
    changed = changed_files(base)
    print(f"changed since {git('log', '-1', '--format=%h %s', base)}: {len(changed)} files")
    graph = ImportGraph(ROOT)
    selection = near_tests(graph, changed)
    chosen = list(selection.near)[:MOST]
    if options.list:
        print(*(f"{selection.near[path]} {path}" for path in selection.near), sep="\n")
        return 0

    python = any(path.endswith((".py", ".toml")) for path in changed)
    script = any(path.startswith(("js/", "tests/browser/")) for path in changed)
    steps = {name: (command, ROOT) for name, command in (LINT | (TYPES if python else {})).items()}
    if script:
        steps |= {name: (command, ROOT / "js") for name, command in JAVASCRIPT.items()}
        steps["vitest"] = (("npx", "vitest", "run", "--changed", base, "--passWithNoTests"), ROOT / "js")
    failed = []
    with ThreadPoolExecutor(1) as pool:  # beside the tests: together they take as long as two processors need
        running: dict[str, Future[tuple[int, str, float]]] = {
            name: pool.submit(_run, *step) for name, step in steps.items()
        }
        until = begun + options.seconds - RESERVE
        pytest = [PYTHON, "-m", "pytest", "-q", "-rfE", "-p", "scripts.time_limit", f"--until={until:.0f}"]
        spread = ["-n", str(options.workers), "--dist", "load", "--maxschedchunk", "4"]  # nearest first
        print(f"pytest: the {len(chosen)} nearest of {len(graph.tests)} test modules", flush=True)
        if subprocess.run([*pytest, *spread, *chosen], cwd=ROOT, check=False).returncode not in (0, 5):
            failed.append("pytest")
        for name, future in running.items():
            status, output, seconds = future.result()
            print(f"{name}: {'passed' if status == 0 else 'failed'} ({seconds:.0f} s)")
            if status != 0:
                failed.append(name)
                print(output)
    print("left out:")
    print(*(f"  {line}" for line in left_out(selection, chosen, len(graph.tests))), sep="\n")
    if not script:
        print("  tsc, biome and vitest: no JavaScript changed")
    print(f"{'failed: ' + ', '.join(failed) if failed else 'passed'} ({time.time() - begun:.0f} s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

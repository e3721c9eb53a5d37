"""Run modules of Warp's tests, each in a process of its own, and keep the results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.warp_suite.redirect import installed_tests

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "build" / "warp-suite.json"
"""The outcome of every test, which a run that was stopped goes on from."""
CACHE = ROOT / "build" / "warp-suite-cache"
"""The folder of compiled kernels."""
SILENT = 90.0
"""Seconds without a line of the log after which the running test is stopped."""
STARTING = 10
"""The import of a module may take this many times as long."""
PER_MODULE = 900.0
"""Seconds after which the remaining tests of a module are not run."""

Outcome = dict[str, Any]


def modules_of(folder: Path, parts: Sequence[str] = ("", "matrix")) -> list[str]:
    """Return the names of the test modules in a folder and in these folders of it."""
    return [
        ".".join(filter(None, ("warp.tests", part, path.stem)))
        for part in parts
        for path in sorted((folder / part).glob("test_*.py"))
    ]


def process(module: str, log: Path, folder: Path | None, *options: str) -> subprocess.Popen[bytes]:
    """Start the process of one module."""
    redirected = [] if folder is None else ["--tests", str(folder)]
    output = log.with_suffix(".txt").open("ab")
    with output:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.warp_suite.one", module, str(log), *redirected, *options],
            cwd=ROOT,
            env=os.environ
            | {"PYTHONPATH": str(ROOT), "TAPEDEBUG_CACHE_DIR": str(ROOT / "build" / "warp-suite-cache")},
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def lines_of(log: Path) -> list[dict[str, Any]]:
    """Return the lines of a log; the last one may have been cut off."""
    found = []
    for line in log.read_text(encoding="utf-8").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def outcomes(module: str, folder: Path, silent: float = SILENT) -> dict[str, Outcome]:
    """Run the tests of a module, and return the outcome of each.

    A test that ends the process, or takes longer than `silent` seconds, has failed; the tests after it run in
    a new process. The key `import` has the error of a module that cannot be imported.
    """
    done: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as scratch:
        began = time.monotonic()
        for attempt in range(20):
            log, skip = Path(scratch, f"{attempt}.jsonl"), Path(scratch, "skip")
            log.touch()
            skip.write_text("\n".join(done), encoding="utf-8")
            running = process(module, log, folder, "--skip", str(skip))
            how = _wait(running, log, silent, began + PER_MODULE - time.monotonic())
            ended = False
            last = None
            for line in lines_of(log):
                event = line.pop("event", "")
                if event == "import":
                    return {"import": line}
                ended = ended or event == "end"
                if event == "start":
                    last = line["test"]
                elif "test" in line:
                    done[line.pop("test")] = line
            if ended:
                return done
            if last is None or last in done:
                # Nothing was running: the process ended between tests, or before the first.
                return done | {"import": {"kind": how, "message": _tail(log)}} if last is None else done
            done[last] = {"outcome": "fail", "kind": how, "message": _tail(log)}
            if time.monotonic() - began > PER_MODULE:
                return done
    return done


def _tail(log: Path) -> str:
    text = log.with_suffix(".txt").read_text(encoding="utf-8", errors="replace").strip()
    return "\n".join(text.splitlines()[-4:])[-600:]


def _wait(running: subprocess.Popen[bytes], log: Path, silent: float, limit: float) -> str:
    """Wait for a process; return how it ended: `Ended` (status), `Crashed` (signal) or `TimedOut`."""
    size, changed, began = -1, time.monotonic(), time.monotonic()
    while running.poll() is None:
        now = time.monotonic()
        if log.stat().st_size != size:
            size, changed = log.stat().st_size, now
        patience = silent if size else STARTING * silent  # an empty log: the module is being imported
        if now - changed > patience or now - began > limit:
            os.killpg(running.pid, 9)
            running.wait()
            return "TimedOut"
        time.sleep(0.1)
    return "Crashed" if running.returncode < 0 else "Ended"


def names_on_warp(module: str) -> list[str]:
    """Return the tests of a module as Warp itself lists them: some modules cannot be imported here."""
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch, "list.jsonl")
        log.touch()
        process(module, log, None, "--list").wait()
        return next((line["tests"] for line in lines_of(log) if line.get("event") == "list"), [])


def load(path: Path = RESULTS) -> dict[str, dict[str, Outcome]]:
    """Return the outcomes that are kept, by module and test."""
    if not path.exists():
        return {}
    found: dict[str, dict[str, Outcome]] = json.loads(path.read_text(encoding="utf-8"))
    return found


def run(modules: Iterable[str], path: Path = RESULTS) -> Iterator[tuple[str, dict[str, Outcome]]]:
    """Run modules, keep the results after each, and yield them."""
    folder = installed_tests()
    for module in modules:
        found = outcomes(module, folder)
        if "import" in found:
            error = found.pop("import")
            for name in names_on_warp(module) or [f"{module} (all)"]:
                found.setdefault(name, {"outcome": "fail", "import": True, **error})
        known = load(path)
        known[module] = found
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(known, indent=0, sort_keys=True), encoding="utf-8")
        yield module, found

"""Run scenario programs on NVIDIA Warp and compare: `python -m tests.scenarios.on_warp [NAME …] [--write]`.

Each program that says `import warp as wp`, or does so when its import is exchanged, is run twice:
`tapedebug run --as-warp` runs it on tapedebug's engine, and `tapedebug run` on Warp itself, watched. The
results are stored in `on_warp.json`; `--write` writes the table `docs/watched-scenarios.md` from them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.scenarios import harness
from tests.scenarios.agreement import PAGE, RESULTS, Results, Row, load, page

AS_WARP, WATCHED = "as_warp", "watched"
FEW = 4
"""The largest number of programs for which Warp's headers are not precompiled."""
IMPORT = re.compile(r"^(import|from) tapedebug\b", re.MULTILINE)
KEPT = ("element", "wrong", "right")
"""The numbers of a gradient that are stored."""


def source_on_warp(program: harness.Program) -> str:
    """Return the source of a program, with `tapedebug` in its imports exchanged for `warp`."""
    return IMPORT.sub(r"\1 warp", program.path.read_text("utf-8")).replace("tapedebug.optim", "warp.optim")


def measure(program: harness.Program) -> Row:
    """Run a program both ways, each in a process of its own, and return both results."""
    row: Row = {"name": program.name}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, program.path.name)
        path.write_text(source_on_warp(program), "utf-8")
        for mode in (WATCHED, AS_WARP):
            row[mode] = _in_child(path, mode)
    return row


def _in_child(path: Path, mode: str) -> Row:
    """Run a program in a child of this process, which has imported Warp already."""
    target = path.with_suffix(f".{mode}.json")
    sys.stdout.flush()
    child = os.fork()
    if not child:
        try:
            target.write_text(json.dumps(_outcome(path, mode)), "utf-8")
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    found: Row = (
        json.loads(target.read_text("utf-8")) if target.exists() else {"failed": "it ended the process"}
    )
    return found


def _outcome(path: Path, mode: str) -> Row:
    """Return what `tapedebug run` says of a program."""
    from tapedebug.cli import main

    os.chdir(path.parent)
    target = path.with_suffix(".found.json")
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        status = main(["run", *(["--as-warp"] if mode == AS_WARP else []), "--json", str(target), path.name])
    if status == 2 or not target.exists():
        return {"failed": _last_error(errors.getvalue())}
    data = json.loads(target.read_text("utf-8"))
    return {
        "verdicts": [tape["verdict"] for tape in data["tapes"]],
        "findings": [_finding(item) for item in data["findings"]],
    }


def _last_error(text: str) -> str:
    lines = [line for line in text.splitlines() if re.match(r"[\w.]+(Error|Exception)\b", line)]
    return lines[-1] if lines else (text.strip().splitlines() or ["no result"])[-1]


def _finding(item: Row) -> Row:
    """Return what is compared of a finding."""
    location, call = item.get("location") or {}, item.get("call_site") or {}
    gradients = item.get("evidence", {}).get("gradients")
    if not isinstance(gradients, dict):
        gradients = {}
    return {
        "tape": item["tape"],
        "rule": item["rule"],
        "severity": item["severity"],
        "kernel": location.get("function", ""),
        "line": location.get("line", 0),
        "call": call.get("line", 0),
        "arrays": item["arrays"],
        "gradients": {
            label: {key: numbers[key] for key in KEPT if key in numbers}
            for label, numbers in gradients.items()
            if isinstance(numbers, dict)
        },
    }


def measure_all(names: Sequence[str]) -> None:
    """Run programs both ways and store the results."""
    import warp

    import tapedebug.diagnose
    import tapedebug.watch  # noqa: F401  # children need not load them again

    warp.config.quiet = True
    warp.init()
    known: Results = load()
    known["warp"] = warp.config.version
    programs = {program.name: program for program in harness.programs()}
    if len(names) > FEW:
        _precompile_headers()
    for name in names:
        known["programs"][name] = measure(programs[name])
        RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")
        print(name, known["programs"][name][WATCHED].get("failed", ""), flush=True)


def _precompile_headers() -> None:
    """Compile a kernel: Warp then has its headers precompiled, for all children of this process."""
    import warp as wp

    @wp.kernel
    def nothing(x: wp.array(dtype=float)):  # type: ignore[valid-type]
        x[wp.tid()] = 0.0

    was, wp.config.cache_kernels = wp.config.cache_kernels, False
    try:
        wp.load_module(nothing.module)
    finally:
        wp.config.cache_kernels = was


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="measure these programs")
    parser.add_argument("--all", action="store_true", help="measure every program")
    parser.add_argument("--write", action="store_true", help="write the page from the stored results")
    options = parser.parse_args()
    names = [program.name for program in harness.programs()] if options.all else options.names
    if names:
        measure_all(names)
    if options.write:
        PAGE.write_text(page(load()), encoding="utf-8")


if __name__ == "__main__":
    main()

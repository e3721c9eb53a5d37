"""The page about Warp's unit tests on this engine: a table of modules, and a line for each failure."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from tests.warp_suite.reasons import BEHAVIOUR, CLASSES, first_line, reason

ROOT = Path(__file__).parents[2]
SUMMARY = Path(__file__).parent / "results.json"
"""The results in the form that the page needs."""
PAGE = ROOT / "docs" / "warp-unit-tests.md"

Results = Mapping[str, Mapping[str, Mapping[str, Any]]]

HEAD = """# Warp's own unit tests on this engine

<!-- written by `make warp-suite`; the judgements are in tests/warp_suite/judgements.py -->

The unit tests in the package `warp-lang` {version} run with `import warp` redirected to tapedebug, as `tapedebug run --as-warp` does. Each module of tests runs in a process of its own, on the CPU; nothing of Warp is copied. A name that this engine does not have fails the tests that use it, not the import of their module; a kernel that cannot be compiled fails the tests that launch it.

**{passed} of {behaviour} tests of behaviour pass: {rate:.1f} %.** If the {design} that are judged "by design" counted as failures, too, it would be {strict:.1f} %. In all, {total} tests of {modules} modules were run, and {passed} pass. The others, by reason: {counts}.

Tests of behaviour are those that pass, and those that fail by {gaps}. The others, in the columns on the right, ask for the words of Warp's messages, for its internals, for CUDA, or for what is not rebuilt here; programs that need these keep Warp as their engine and are [watched](watching.md).
"""


def summary(results: Results) -> str:
    """Return what the page needs of the results, as JSON."""
    found: dict[str, Any] = {}
    for module, tests in sorted(results.items()):
        passed = sum(each["outcome"] == "pass" for each in tests.values())
        failures = []
        for test, outcome in sorted(tests.items()):
            if outcome["outcome"] == "fail":
                kind, sentence = reason(test, outcome)
                name = test.removeprefix(f"{module}.")
                failures.append([name, kind, sentence or _plain(first_line(outcome))])
        skipped = sum(each["outcome"] == "skip" for each in tests.values())
        found[module.removeprefix("warp.tests.")] = {"pass": passed, "skip": skipped, "fail": failures}
    return json.dumps({"version": _version(), "modules": found}, indent=0, ensure_ascii=False) + "\n"


def _version() -> str:
    try:
        return metadata.version("warp-lang")
    except metadata.PackageNotFoundError:  # the stand-in of a test
        return "stand-in"


def _plain(text: str) -> str:
    """Return the first line of an error without addresses and folders, which differ from run to run."""
    text = re.sub(r"0x[0-9a-f]+", "0x…", text)
    return re.sub(r"(/[\w.\-]+)+/", "", text)


def page(stored: str) -> str:
    """Return the page, from what `summary` stored."""
    data = json.loads(stored)
    modules = data["modules"]
    kinds = Counter(kind for each in modules.values() for _, kind, _ in each["fail"])
    passed = sum(each["pass"] for each in modules.values())
    skipped = sum(each["skip"] for each in modules.values())
    behaviour = passed + sum(kinds[kind] for kind in BEHAVIOUR)
    counts = [f"{words} ({kinds[kind]})" for kind, words in CLASSES.items() if kinds[kind]]
    text = HEAD.format(
        version=data["version"],
        passed=passed,
        behaviour=behaviour,
        rate=100 * passed / max(behaviour, 1),
        design=kinds["design"],
        strict=100 * passed / max(behaviour + kinds["design"], 1),
        total=behaviour + sum(kinds[kind] for kind in CLASSES if kind not in BEHAVIOUR) + skipped,
        modules=len(modules),
        counts="; ".join([*counts, f"skipped by the test itself ({skipped})"]),
        gaps=", ".join(CLASSES[kind].split(":")[0] for kind in BEHAVIOUR),
    )
    return text + _table(modules) + _failures(modules)


COLUMNS = {
    "language": "language",
    "arrays": "arrays, values",
    "names": "names",
    "fault": "open",
    "time": "time",
    "wording": "wording",
    "design": "by design",
    "internal": "internal",
    "absent": "not rebuilt",
    "cuda": "CUDA",
}


def _table(modules: Mapping[str, Any]) -> str:
    shown = list(COLUMNS)
    lines = [
        "\n## Modules\n",
        f"| module | run | pass | {' | '.join(COLUMNS.values())} | skipped |",
        f"| --- | {' | '.join(['---:'] * (len(shown) + 3))} |",
    ]
    for name, each in modules.items():
        kinds = Counter(kind for _, kind, _ in each["fail"])
        numbers = [
            each["pass"] + len(each["fail"]),
            each["pass"],
            *(kinds[kind] for kind in shown),
            each["skip"],
        ]
        lines.append(f"| {name} | {' | '.join(str(number or '') for number in numbers)} |")
    return "\n".join(lines) + "\n"


def _failures(modules: Mapping[str, Any]) -> str:
    lines = ["\n## Each failure\n"]
    for kind, words in CLASSES.items():
        found = [
            (name, test, why)
            for name, each in modules.items()
            for test, its, why in each["fail"]
            if its == kind
        ]
        if found:
            lines += [f"### {words[0].upper()}{words[1:]}\n", "| test | why |", "| --- | --- |"]
            lines += [f"| {name}.{test.split('.')[-1]} | {_cell(why)} |" for name, test, why in found]
            lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    text = text.replace("`", "'").replace("|", "\\|").replace("<", "&lt;")
    return re.sub(r"([*_\[\]{}$\\])", r"\\\1", text)


def ranking(results: Results) -> str:
    """Return the reasons of failures with their counts, largest first."""
    found: Counter[tuple[str, str]] = Counter()
    example: dict[tuple[str, str], str] = {}
    for tests in results.values():
        for test, outcome in tests.items():
            if outcome["outcome"] == "fail":
                kind, sentence = reason(test, outcome)
                key = kind, sentence or _plain(first_line(outcome, 110))
                found[key] += 1
                example.setdefault(key, test.removeprefix("warp.tests."))
    total = Counter(kind for kind, _ in found.elements())
    lines = [", ".join(f"{kind} {count}" for kind, count in total.most_common())]
    lines += [
        f"{count:4d} {kind:9s} {why}   [{example[kind, why]}]" for (kind, why), count in found.most_common()
    ]
    return "\n".join(lines)

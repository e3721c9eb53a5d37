"""The page of watched programs: measurements, kept as data, and judgements by hand, written as Markdown."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
from collections.abc import Iterable
from pathlib import Path

from tests.programs import differences
from tests.programs.catalog import BY_NAME, PROGRAMS, Program
from tests.programs.judgements import JUDGEMENTS
from tests.programs.process import ROOT, result_of, store, stored

RESULTS = Path(__file__).parent / "results.json"
PAGE = ROOT / "docs" / "watched-programs.md"


def measure(program: Program, *, watched: bool = False) -> dict:
    """Run a program in a process and a folder of its own; return its result, or the reason for none.

    Args:
        program: The program.
        watched: Watch it, and diagnose its tapes.
    """
    return result_of("tests.programs.one", [program.name], ["watched"] * watched)


def measure_all(names: Iterable[str]) -> None:
    """Measure programs with warm kernel caches, and store the results.

    The first watched run compiles what tapedebug needs. The program runs twice alone and twice watched after
    that; the row has the shorter times, and the results of the last run.
    """
    known = load()
    known["machine"] = machine()
    for name in names:
        program = BY_NAME[name]
        measure(program)  # compiles the kernels
        first = measure(program, watched=True)
        plain, watched = measure(program), measure(program, watched=True)
        again = measure(program), measure(program, watched=True)
        known["programs"][name] = row(*map(shorter, (plain, watched), again), first)
        known["programs"][name]["measured"] = today()
        store(RESULTS, known)
        print(name, known["programs"][name].get("verdict"), known["programs"][name].get("failed", ""))


def shorter(one: dict, other: dict) -> dict:
    """Return the results of the second of two runs, with the time of the shorter one; those of one that failed."""
    if "failed" in one or "failed" in other:
        return one if "failed" in one else other
    return other | {"seconds": min(one["seconds"], other["seconds"])}


def today() -> str:
    """Return the date and the load of the machine, in words."""
    load = os.getloadavg()[1]
    return f"{datetime.date.today():%Y-%m-%d}, load {load:.0f} on {os.cpu_count()} processors"


def row(plain: dict, watched: dict, first: dict) -> dict:
    """Return what the table needs of the runs of a program: alone, watched, and watched for the first time."""
    if "failed" in plain or "failed" in watched:
        return {"failed": plain.get("failed") or watched.get("failed")}
    operations = watched["operations"]
    return {
        "tapes": watched["tapes"],
        "mirrored": operations.get("mirrored", 0),
        "native": operations.get("native", 0),
        "other": operations.get("other", 0),
        "not_covered": len(watched["not_covered"]) + len(watched["gaps"]),
        "verdict": watched.get("verdict", "no tape"),
        "late": "time was up" in watched.get("text", ""),
        "findings": [
            {
                "rule": finding["rule"],
                "severity": finding["severity"],
                "message": finding["message"].splitlines()[0],
                "kernel": (finding.get("location") or {}).get("function", ""),
            }
            for finding in watched.get("findings", [])
        ],
        "plain_seconds": round(plain["seconds"], 2),
        "watched_seconds": round(watched["seconds"], 2),
        "first_seconds": round(first.get("seconds", 0.0), 2) or None,
        "max_seconds": watched.get("max_seconds"),
    }


def load() -> dict:
    """Return the stored results."""
    return {"machine": "", "programs": {}} | stored(RESULTS)


def machine() -> str:
    """Return a sentence about machine and versions."""
    packages = sorted({program.package for program in PROGRAMS} | {"torch"})
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    return (
        f"{os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}, {versions}"
    )


def loud(program: dict) -> list[dict]:
    """Return the errors and warnings of a program, each rule and kernel once."""
    seen = {}
    for finding in program.get("findings", []):
        if finding["severity"] != "info":
            seen.setdefault((finding["rule"], finding["kernel"]), finding)
    return list(seen.values())


def judgement(name: str, finding: dict) -> str | None:
    """Return the judgement of a loud finding."""
    return JUDGEMENTS.get(
        (name, finding["rule"], finding["kernel"]), JUDGEMENTS.get((name, finding["rule"], ""))
    )


def page(results: dict) -> str:
    """Return the page as Markdown."""
    programs = [
        (program, results["programs"][program.name])
        for program in PROGRAMS
        if program.name in results["programs"]
    ]
    lines = [
        "# Watched programs",
        "",
        "This page shows what `tapedebug.watch_warp()` finds in programs that other people wrote. Each comes from a",
        "package that pip installs, and runs on NVIDIA Warp's own CPU engine, unchanged.",
        "",
        f"Measured with {results['machine']}. Graph captures are turned off, because launches inside one are not",
        "covered. A block that would only be captured then runs, and its pass leaves gradients: those of `ball` are",
        "(0, -4.97, -0.40) when its own check of gradients begins, which adds to them and to those of its states. It",
        "prints (0, 41.1, 3.50) for (0, -4.96, -0.40); with a capture, or with zeroed gradients, (0, -4.97, -0.40). That",
        "is no error of the example. Rows without * are programs of the package. The others, marked with *, are a few lines in",
        "`tests/programs/drivers` that call public functions of the package, as its documentation or its tests do.",
        "",
        "- **Launches**: kernel launches on the tapes. *Mirrored* ones run on this project's compiler as well, *native*",
        "  ones on Warp alone. Of many tapes with the same launches the first two and the last two are counted.",
        "- **Not covered**: parts of the program that were not recorded, each once; the diagnosis names them.",
        "- **Verdict**: of the gradients that the program consumed, the worst of its tapes. NOT CHECKED: no loss is",
        "  known (`tile_matmul` never calls `backward`), or the time limit was too short. † marks programs whose",
        "  diagnosis left out something for lack of time; its coverage names what.",
        "- **Time**: processor time of the watched program with its diagnosis, over that of the program alone, with",
        "  the kernels of both cached; imports included in both. **First**: the same when only Warp's kernels are",
        "  cached, and tapedebug compiles those that it needs.",
        "- **Measured**: the date, and the load of the machine. The diagnosis had the",
        "  [time limit of `tapedebug run`](command-line.md#the-time-of-a-diagnosis), and each time is the shorter",
        "  one of two runs.",
        "",
        "| Program | Package | Launches | Mirrored | Native | Not covered | Verdict | Loud findings | Time | First |"
        " Measured |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- | --- | ---: | ---: | --- |",
    ]
    for program, found in programs:
        name = program.name + " \\*" * (program.file is not None)
        if "failed" in found:
            lines.append(f"| {name} | {program.package} | | | | | *{found['failed']}* | | | | |")
            continue
        kinds = ", ".join(sorted({finding["rule"] for finding in loud(found)})) or "none"
        ratio = found["watched_seconds"] / max(found["plain_seconds"], 0.01)
        first = found.get("first_seconds")
        slower = f"{first / max(found['plain_seconds'], 0.01):.1f} ×" if first else ""
        lines.append(
            f"| {name} | {program.package} | {found['mirrored'] + found['native']} | {found['mirrored']} |"
            f" {found['native']} | {found['not_covered']} | {found['verdict']}{' †' * found.get('late', False)} |"
            f" {kinds} | {ratio:.1f} × | {slower} | {found.get('measured', '')} |"
        )
    lines += [
        "",
        "## Every loud finding, judged by hand",
        "",
        "An error or a warning is loud. Each was checked by hand: with differences of the loss, and where it is true,",
        "with a change of a copy of the program. [Found in the wild](found-in-the-wild.md) has the details of errors.",
        "",
        "| Program | Finding | Kernel | Judgement |",
        "| --- | --- | --- | --- |",
    ]
    for program, found in programs:
        for finding in loud(found):
            text = judgement(program.name, finding)
            lines.append(
                f"| {program.name} | {finding['rule']} | `{finding['kernel']}` | {text} |".replace("`` ", "")
            )
    lines += differences.section(stored(differences.RESULTS))
    lines += [
        "",
        "## How to make this page",
        "",
        "`make programs` installs the packages into an environment of their own, measures every program and writes",
        "the page. `python -m tests.programs --write` writes it again from the measurements that are stored.",
        "`python -m tests.programs.differences NAME …` compares the results of both engines.",
        "",
    ]
    return "\n".join(lines)

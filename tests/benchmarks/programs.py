"""Real programs, whole: on Warp, on this engine, with the diagnosis, and watched on Warp.

    make bench-programs
    python -m tests.benchmarks.programs quickstart fluid_checkpoint --rounds 5

Each way is a process of its own, from the start of Python to its end: `python PROGRAM`, the same with this
engine in place of Warp, `tapedebug run --as-warp PROGRAM` and `tapedebug run PROGRAM`. Ways take turns, first
with caches of kernels that are empty (cold), then with those of the cold run (warm). The table has medians of
processor time, which other work on the machine disturbs least.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.benchmarks import notebook_programs, page
from tests.benchmarks.engines import ROOT
from tests.benchmarks.processes import Clocks, clocked
from tests.benchmarks.timing import columns, duration, load, machine
from tests.programs.catalog import BY_NAME, Program

KEPT = Path(__file__).with_name("programs.json")
TIMEOUT = 900.0
"""Seconds after which a process is stopped."""
WARP, HERE, DIAGNOSED, WATCHED = "Warp", "here", "diagnosed", "watched"
WAYS = (WARP, HERE, DIAGNOSED, WATCHED)
WORST, MEDIAN = 3.0, 1.2
"""The goals: a run with its diagnosis over Warp alone, both warm, in the worst and in the middle row."""
AS_WARP = """\
import runpy, sys, tapedebug
sys.argv = sys.argv[1:]
sys.path.insert(0, sys.argv[0].rpartition("/")[0])
with tapedebug.as_warp():
    runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""The program that runs another one on this engine, without a diagnosis."""


@dataclass(frozen=True)
class Notebook:
    """A notebook of this project, as a program for Warp."""

    stem: str
    arguments: str = ""
    package: str = "notebook"

    @property
    def name(self) -> str:
        """The name in the table."""
        return self.stem

    def script(self, folder: Path) -> Path:
        """Write the program to a file in `folder`, and return the file."""
        path = folder / f"{self.stem.replace('-', '_')}.py"
        text = notebook_programs.program(ROOT / "notebooks" / f"{self.stem}.ipynb")
        path.write_text(text, encoding="utf-8")
        return path


@dataclass(frozen=True)
class Packaged:
    """A program of a package, or a driver of `tests/programs` that calls one."""

    program: Program

    @property
    def name(self) -> str:
        """The name in the table."""
        return self.program.name

    @property
    def package(self) -> str:
        """The package that pip installs."""
        return self.program.package

    @property
    def arguments(self) -> str:
        """The command line."""
        return self.program.arguments

    def script(self, folder: Path) -> Path:
        """Return the file of the program; modules are run as files, without the packages around them."""
        if self.program.file is not None:
            return self.program.file
        top, *inner = self.program.target.split(".")
        spec = importlib.util.find_spec(top)
        if spec is None or spec.origin is None:
            raise SystemExit(f"{self.program.package} is not installed: `make bench-programs` installs it")
        return Path(spec.origin).parent.joinpath(*inner).with_suffix(".py")


SMALL = "--headless --device cpu --width 512 --height 256"
ROWS: dict[str, Notebook | Packaged] = {
    row.name: row
    for row in (
        *(Packaged(BY_NAME[name]) for name in ("fluid_checkpoint", "fluid_checkpoint_custom_backward")),
        Packaged(Program("warp-lang", "warp.examples.core.example_raymarch", SMALL)),
        *(
            Packaged(BY_NAME[name])
            for name in ("sph_density", "sph_interpolate", "sph_laplacian", "nvalchemi_coulomb")
        ),
        *(
            Notebook(stem)
            for stem in (
                "before-after", "custom-gradients", "diffusion", "dynamic-loops", "jacobians-and-masks",
                "kernels", "nan-hunt", "overwrites", "quickstart", "root-causes", "watch_warp",
            )
        ),
    )
}  # fmt: skip
"""The programs, by name: those of packages whose kernels both engines run, and the notebooks."""


def command(way: str, script: Path, arguments: Sequence[str], result: Path) -> list[str]:
    """Return the command that runs a program one way; a diagnosis is written to `result` as JSON."""
    program = [str(script), *arguments]
    run = [sys.executable, "-m", "tapedebug", "run", "--json", str(result)]
    return {
        WARP: [sys.executable, *program],
        HERE: [sys.executable, "-c", AS_WARP, *program],
        DIAGNOSED: [*run, "--as-warp", *program],
        WATCHED: [*run, *program],
    }[way]


def measure(row: Notebook | Packaged, rounds: int, ways: Sequence[str] = WAYS) -> dict[str, Any]:
    """Run a program cold and then `rounds` times warm, each way in turn; return what the table needs."""
    found: dict[str, Any] = {"package": row.package, "failed": {}, "verdict": {}}
    seconds: dict[str, dict[str, list[Clocks]]] = {way: {"cold": [], "warm": []} for way in ways}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = row.script(folder)
        for number in range(rounds + 1):
            for way in ways[:: -1 if number % 2 else 1]:
                if way in found["failed"]:
                    continue
                cache, result = folder / f"cache-{way}", folder / f"{way}.json"
                result.unlink(missing_ok=True)
                words = command(way, script, row.arguments.split(), result)
                try:
                    done, clocks = clocked(words, cache, folder, TIMEOUT)
                except subprocess.TimeoutExpired:
                    found["failed"][way] = f"stopped after {TIMEOUT:.0f} s"
                    continue
                # Status 1 is that of a wrong gradient, and of Python where tapedebug itself fails.
                if done.returncode not in ((0, 1) if result.exists() else (0,)):
                    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
                    found["failed"][way] = lines[-1] if lines else f"exit status {done.returncode}"
                    continue
                seconds[way]["warm" if number else "cold"].append(clocks)
                if result.exists():
                    found["verdict"][way] = json.loads(result.read_text(encoding="utf-8"))["verdict"]
    for part, kept in (("used", 1), ("wall", 0)):
        found[part] = {
            way: {
                state: round(statistics.median(clocks[kept] for clocks in times), 3)
                for state, times in states.items()
                if times
            }
            for way, states in seconds.items()
        }
    return found


def ratio(found: dict[str, Any], way: str, state: str = "warm", part: str = "used") -> float | None:
    """Return the time of a way over that of Warp alone, in the same state; None if one has none."""
    own, warp = (found[part].get(each, {}).get(state) for each in (way, WARP))
    return own / warp if own and warp else None


HEAD = (
    "Program", "From", "Warp", "here", "÷", "diagnosed", "÷", "watched", "÷",
    "Warp, cold", "diagnosed, cold", "÷", "Verdict",
)  # fmt: skip


def rows(programs: dict[str, dict[str, Any]]) -> Iterator[tuple[str, ...]]:
    """Return the lines of the table: seconds of processor time, and ratios to Warp alone."""

    def seconds(found: dict[str, Any], way: str, state: str = "warm") -> str:
        failed = found["failed"].get(way)
        known = found["used"].get(way, {}).get(state)
        return "fails" if failed else duration(known) if known else ""

    def over(found: dict[str, Any], way: str, state: str = "warm") -> str:
        known = ratio(found, way, state)
        return f"{known:.2f}" if known else ""

    for name, found in programs.items():
        verdict = found["verdict"].get(DIAGNOSED) or ("" if DIAGNOSED in found["failed"] else "no tape")
        yield (
            name, found["package"], seconds(found, WARP),
            seconds(found, HERE), over(found, HERE),
            seconds(found, DIAGNOSED), over(found, DIAGNOSED),
            seconds(found, WATCHED), over(found, WATCHED),
            seconds(found, WARP, "cold"), seconds(found, DIAGNOSED, "cold"), over(found, DIAGNOSED, "cold"),
            verdict,
        )  # fmt: skip


def goals(programs: dict[str, dict[str, Any]]) -> list[tuple[str, float, float, bool]]:
    """Return the goals, each with what was measured and its bound, and whether it holds.

    A diagnosis that fails, also in one of several runs, misses a goal of its own, and its times do not count.
    """
    failed = [name for name, found in programs.items() if DIAGNOSED in found["failed"]]
    known = {name: ratio(found, DIAGNOSED) for name, found in programs.items() if name not in failed}
    ratios = {name: value for name, value in known.items() if value}
    kept = []
    if ratios:
        worst = max(ratios, key=ratios.__getitem__)
        middle = statistics.median(ratios.values())
        kept = [
            (
                f"with its diagnosis ÷ Warp, warm: worst ({worst})",
                ratios[worst],
                WORST,
                ratios[worst] <= WORST,
            ),
            ("with its diagnosis ÷ Warp, warm: median", middle, MEDIAN, middle <= MEDIAN),
        ]
    if failed:
        kept.append((f"diagnoses that fail ({', '.join(failed)})", float(len(failed)), 0.0, False))
    return kept


def section(kept: dict[str, Any]) -> str:
    """Return the text of the page about the stored measurements."""
    versions = ", ".join(f"{name} {version}" for name, version in kept["machine"]["versions"].items())
    bounds = [
        (name, f"{value:.2f}", f"≤ {bound:.2f}", "holds" if holds else "MISSED")
        for name, value, bound, holds in goals(kept["programs"])
    ]
    return "\n\n".join(
        [
            f"{kept['machine']['cores']} cores ({kept['machine']['processor']}), Python "
            f"{kept['machine']['python']}, {versions}; load {kept['load'][0]} at the start and "
            f"{kept['load'][1]} at the end of the last programs that were measured; medians of "
            f"{kept['rounds']} warm runs, and one cold run.",
            page.markdown(HEAD, rows(kept["programs"])),
            page.markdown(("goal", "measured", "bound", ""), bounds),
        ]
    )


def stored() -> dict[str, Any]:
    """Return the stored measurements."""
    known: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
    return known


def write(kept: dict[str, Any]) -> None:
    """Store measurements beside those of other programs, and put the table on the page."""
    before = stored().get("programs", {})
    rows = {name: kept["programs"].get(name) or before.get(name) for name in ROWS}
    kept = kept | {"programs": {name: row for name, row in rows.items() if row}}
    KEPT.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    text = page.replaced(page.PAGE.read_text(encoding="utf-8"), section(kept), page.markers("programs"))
    page.PAGE.write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; with `--check`, exit status 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="PROGRAM", help=f"some of: {', '.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=3, help="warm runs of each way")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument(
        "--write", action="store_true", help="write the table of the documentation (full runs)"
    )
    parser.add_argument("--check", action="store_true", help="exit with 1 if a goal is missed")
    options = parser.parse_args(arguments)
    if options.write and not {WARP, DIAGNOSED} <= set(options.ways):
        parser.error(f"--write needs {WARP} and {DIAGNOSED}; cells of the other ways are left empty")
    unknown = set(options.names) - set(ROWS)
    if unknown:
        parser.error(f"no program {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    kept: dict[str, Any] = {"machine": machine(), "rounds": options.rounds, "load": [load()], "programs": {}}
    for name in options.names or ROWS:
        kept["programs"][name] = measure(ROWS[name], options.rounds, options.ways)
        line = next(rows({name: kept["programs"][name]}))
        print("  ".join(line), kept["programs"][name]["failed"] or "", flush=True)
        if options.write:
            write(kept | {"load": [*kept["load"], load()]})
    kept["load"].append(load())
    print(columns([HEAD, *rows(kept["programs"])]))
    missed = 0
    for name, value, bound, holds in goals(kept["programs"]):
        missed += not holds
        print(f"{name}: {value:.2f} (≤ {bound:.2f}) {'holds' if holds else 'MISSED'}")
    return 1 if missed and options.check else 0


if __name__ == "__main__":
    sys.exit(main())

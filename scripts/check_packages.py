"""Check what is installed from: `python scripts/check_packages.py FOLDER` (`make packaging`).

Builds the sdist and the wheel of the tracked files in isolation, installs each into a bare environment
without Node.js on the PATH, and uses what was installed. Then runs a few tests with the oldest dependencies
that `pyproject.toml` allows, on the lowest Python of PYTHONS that is on this machine, and with the newest on
the highest; with `--all` (`make packaging PACKAGING_ARGS=--all`) with both on each of them.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13")
RESOLUTIONS = {"oldest": "lowest-direct", "newest": "highest"}
NODE = ("node", "nodejs", "npm", "npx", "corepack", "jlpm", "yarn")

# a few of each room, and all that meets a dependency whose versions differ
TESTS = (
    "tests/lang/test_rules.py",
    "tests/lang/test_structs.py",
    "tests/compiler/test_calls.py",
    "tests/compiler/test_custom.py",
    "tests/compiler/test_errors.py",
    "tests/compiler/test_masked_access.py",
    "tests/compiler/test_numba_functions.py",
    "tests/runtime/test_array.py",
    "tests/runtime/test_interpreted.py",
    "tests/runtime/test_launch.py",
    "tests/runtime/test_tape.py",
    "tests/cli/test_traces.py",
    "tests/autograd/test_plots.py",
    "tests/notebook/test_display.py",
    "tests/optim",
    "tests/visualize/test_visualize.py",
    "tests/pytest_plugin",
)
SELECTION = ("-k", "not test_rules or rules-vec3d", "-m", "not slow")

SCRIPT = """
import tapedebug as wp

@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]

@wp.kernel
def negate(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = -x[i]

x = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
y = wp.zeros_like(x)
with wp.Tape() as tape:
    wp.launch(square, dim=3, inputs=[x], outputs=[y])
    wp.launch(negate, dim=3, inputs=[y], outputs=[x])
tape.backward(grads={y: wp.ones(3, dtype=float)})
"""


class CheckFailed(Exception):
    """Something is not as it should be; the message says what."""


@dataclass
class Place:
    """A folder in which one check works: its commands, their environment, and the log of what they print."""

    folder: Path
    path: str
    """The PATH of its commands."""

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)
        self.log = self.folder / "log.txt"
        self.environment = {
            name: value
            for name, value in os.environ.items()
            if name not in ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONHOME")
        } | {
            "PATH": self.path,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "TAPEDEBUG_CACHE_DIR": str(self.folder / "cache"),
            # what this user has installed elsewhere is not to be found
            "PYTHONNOUSERSITE": "1",
            "JUPYTER_CONFIG_DIR": str(self.folder / "jupyter"),
            "JUPYTER_DATA_DIR": str(self.folder / "jupyter"),
        }

    def run(self, *command: str | Path, where: Path | None = None, status: int = 0) -> str:
        """Run a command that ends with `status`, and return its output."""
        done = subprocess.run(
            [str(word) for word in command],
            cwd=where or self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        shown = " ".join(str(word) for word in command)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {shown}\n{done.stdout}\n")
        if done.returncode != status:
            raise CheckFailed(
                f"`{shown}` ended with {done.returncode} instead of {status}\n{tail(done.stdout)}"
            )
        return done.stdout


def tail(text: str, lines: int = 40) -> str:
    """The last lines of a text."""
    return "\n".join(text.rstrip().splitlines()[-lines:])


# ------------------------------------------------------------------ the machine


def path_without_node(folder: Path, path: str) -> str:
    """Fill a folder with links to the programs on a PATH, but for Node's, and return it."""
    folder.mkdir(parents=True)
    for place in filter(os.path.isdir, path.split(os.pathsep)):
        for program in os.scandir(place):
            link = folder / program.name
            if program.name not in NODE and not link.is_symlink():
                link.symlink_to(Path(place).absolute() / program.name)
    return str(folder)


def interpreter(version: str) -> str | None:
    """The Python of a version such as "3.12" on this machine: uv's, the PATH's or pyenv's; None if absent."""
    return next((found for found in _candidates(version) if _is_python(found, version)), None)


def _candidates(version: str) -> Iterator[str]:
    yield sys.executable
    yield _said([*UV, "python", "find", "--no-python-downloads", "--no-project", version])
    yield shutil.which(f"python{version}") or ""
    prefix = _said(["pyenv", "prefix", _said(["pyenv", "latest", version])])
    yield str(Path(prefix, "bin", "python")) if prefix else ""


def _said(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _is_python(program: str, version: str) -> bool:
    code = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    return bool(program) and _said([program, "-c", code]) == version


UV = (sys.executable, "-m", "uv")


# ------------------------------------------------------------------ the checks


def copy_sources(place: Path) -> None:
    """Copy what git tracks, as it is in this folder now: nothing that was built here, nothing left behind."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place / name)


def build(place: Place, source: Path, dist: Path) -> None:
    """Build an sdist from the sources, and a wheel from the sdist."""
    place.run(*UV, "build", "--python", sys.executable, "--out-dir", dist, source)


def use_installed(place: Place, installer: str, package: Path) -> None:
    """Install a package with pip or uv into an environment that has nothing else, and use it as users do."""
    bare = place.folder / "venv"
    if installer == "pip":
        place.run(sys.executable, "-m", "venv", bare)
        place.run(bare / "bin" / "pip", "install", "--no-compile", f"{package}[lab]")
    else:
        place.run(*UV, "venv", "-q", "--python", sys.executable, bare)
        place.run(*UV, "pip", "install", "-q", "--python", bare / "bin" / "python", f"{package}[lab]")
    place.run(bare / "bin" / "python", "-c", "import tapedebug; print(tapedebug.__version__)")
    script = place.folder / "first.py"
    script.write_text(SCRIPT)
    report = place.folder / "report.html"
    printed = place.run(
        bare / "bin" / "tapedebug", "run", "--on-overwrite", "ignore", "--report", report, script, status=1
    )
    if "gradient WRONG" not in printed or not report.exists():
        raise CheckFailed(f"`tapedebug run` did not find the bug of first.py\n{tail(printed)}")
    listed = place.run(bare / "bin" / "jupyter", "labextension", "list")
    require_extension(listed, bare)


def require_extension(listed: str, prefix: Path) -> None:
    """Raise if `jupyter labextension list` does not show ours, enabled and sound, below `prefix`."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", listed)
    _, found, own = plain.partition(str(prefix / "share" / "jupyter" / "labextensions"))
    if not found or not re.search(r"^\s*tapedebug v\S+ +enabled +OK\b", own, re.M):
        raise CheckFailed(f"`jupyter labextension list` does not show tapedebug\n{tail(plain)}")


def test_with(place: Place, python: str, resolution: str, source: Path, wheel: Callable[[], Path]) -> None:
    """Run the tests of TESTS with the oldest or the newest dependencies.

    Args:
        place: The folder to work in.
        python: The interpreter.
        resolution: The strategy by which uv chooses versions.
        source: The folder of the sources.
        wheel: Waits for the wheel, which is built meanwhile, and returns its path.
    """
    locked, venv = place.folder / "requirements.txt", place.folder / "venv"
    place.run(
        *UV, "pip", "compile", "-q", "--python", python, "--only-binary", ":all:", "--resolution", resolution,
        "--extra", "test", source / "pyproject.toml", "-o", locked,
    )  # fmt: skip
    place.run(*UV, "venv", "-q", "--python", python, venv)
    install = (*UV, "pip", "install", "-q", "--python", venv / "bin" / "python")
    place.run(*install, "-r", locked)
    place.run(*install, "--no-deps", wheel())
    place.run(
        venv / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *SELECTION, *TESTS,
        where=source,
    )  # fmt: skip


def combinations(found: Sequence[str], *, every: bool) -> list[tuple[str, str]]:
    """Return the dependencies to test ("oldest" or "newest") with the Python to test them on.

    Args:
        found: The versions of Python on this machine, in ascending order.
        every: Whether to test both on each of them.
    """
    if every:
        return [(words, version) for version in found for words in RESOLUTIONS]
    return [("oldest", found[0]), ("newest", found[-1])]


# ------------------------------------------------------------------ running them


def run_all(jobs: dict[str, Callable[[], None]], workers: int) -> list[str]:
    """Run jobs side by side, print how each ended and when, and return the names of those that failed.

    They begin in their order: a job may wait for one before it.
    """
    failed = []

    def timed(job: Callable[[], None]) -> float:
        begun = time.perf_counter()
        job()
        return time.perf_counter() - begun

    with ThreadPoolExecutor(workers) as pool:
        waiting = {pool.submit(timed, job): name for name, job in jobs.items()}
        for future in as_completed(waiting):
            name = waiting[future]
            try:
                print(f"passed: {name} ({future.result():.0f} s)", flush=True)
            except CheckFailed as error:
                failed.append(name)
                print(f"FAILED: {name}\n{error}", flush=True)
    return failed


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description="check what tapedebug is installed from")
    parser.add_argument("folder", type=Path, help="where to work; what is there is removed first")
    parser.add_argument("--jobs", type=int, default=2, help="how many checks run side by side (default: 2)")
    parser.add_argument(
        "--all", action="store_true", help="test the oldest and the newest dependencies on each Python"
    )
    given = parser.parse_args(arguments)
    folder = given.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    bare = path_without_node(folder / "bin", os.environ["PATH"])
    source, dist = folder / "source", folder / "dist"
    copy_sources(source)

    built: Future[None] = Future()

    def build_both() -> None:
        try:
            build(Place(folder / "build", bare), source, dist)
        except BaseException as error:
            built.set_exception(CheckFailed("there is nothing to install: the build failed"))
            raise error
        built.set_result(None)

    def package(pattern: str) -> Path:
        built.result()
        [path] = dist.glob(pattern)
        return path

    own = "{}.{}".format(*sys.version_info[:2])
    pythons = {version: interpreter(version) for version in sorted({own, *PYTHONS}, key=_ordered)}
    for version, python in pythons.items():
        if python is None:
            print(
                f"absent: Python {version} is not on this machine, and nothing was tested with it", flush=True
            )
    here = {version: python for version, python in pythons.items() if python is not None}
    jobs: dict[str, Callable[[], None]] = {"sdist and wheel, built in isolation": build_both}
    for words, version in combinations(list(here), every=given.all):
        jobs[f"{words} dependencies on Python {version}"] = lambda v=version, w=words: test_with(
            Place(folder / f"{w}-{v}", bare), here[v], RESOLUTIONS[w], source, lambda: package("*.whl")
        )
    for kind, pattern, installer in (("wheel", "*.whl", "pip"), ("sdist", "*.tar.gz", "uv")):
        jobs[f"the {kind}, installed by {installer} and used in a bare environment"] = (
            lambda k=kind, p=pattern, i=installer: use_installed(Place(folder / k, bare), i, package(p))
        )
    failed = run_all(jobs, given.jobs + 1)  # those that test wait for the build most of its time
    if failed:
        print(f"{len(failed)} failed: {'; '.join(failed)} (logs below {given.folder})", flush=True)
    elif not given.all:
        print("not tested: the other combinations (`make packaging PACKAGING_ARGS=--all`)", flush=True)
    return 1 if failed else 0


def _ordered(version: str) -> tuple[int, ...]:
    """The key by which versions are in ascending order."""
    return tuple(map(int, version.split(".")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

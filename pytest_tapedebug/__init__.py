"""A pytest plugin: a check of gradients that fails leaves an HTML report, and the test names it.

pytest loads this with every session of the environment, so that nothing of tapedebug is imported here until
a test uses it.
"""

from __future__ import annotations

import array
import hashlib
import re
import reprlib
import traceback
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

LONGEST = 120  # characters of a file name
FOLDER = "tapedebug-reports"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option and the setting for the folder of reports."""
    words = f"folder for reports of gradient checks that fail (default: {FOLDER} in pytest's cache)"
    parser.getgroup("tapedebug").addoption("--tapedebug-reports", metavar="DIR", default=None, help=words)
    parser.addini("tapedebug_reports", words + "; relative to the ini-file", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Fix the folder while the directory is the user's: workers of pytest-xdist begin in another one."""
    _tell_arrays_apart()
    given = config.getoption("--tapedebug-reports")
    if given:
        config.option.tapedebug_reports = str(config.invocation_params.dir / given)


def _tell_arrays_apart() -> None:
    """Let pytest show our arrays in assertions.

    The reprlib of Python 3.11 and of early releases of 3.12 takes everything that is called `array` for one
    of the standard library's, and fails at its `typecode`; later ones look, as this does.
    """
    theirs = reprlib.Repr.repr_array
    if theirs.__module__ != "reprlib":
        return

    def repr_array(self: reprlib.Repr, x: Any, level: int) -> str:
        return theirs(self, x, level) if isinstance(x, array.array) else self.repr_instance(x, level)

    reprlib.Repr.repr_array = repr_array  # type: ignore[method-assign]


@pytest.fixture
def assert_gradients() -> Callable[..., Any]:
    """`tapedebug.autograd.assert_gradients`, for tests that do without the import."""
    from tapedebug.autograd import assert_gradients

    return assert_gradients


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Write a report for each check that failed in this phase of a test."""
    report = yield
    if report.when == "setup":
        _forget(item)
    if call.excinfo is None or not report.failed:
        return report
    for number, result in enumerate(_results(call.excinfo.value)):
        try:
            path = _file(item, report.when, number)
            path.parent.mkdir(parents=True, exist_ok=True)
            result.to_html(path)
        except Exception as error:  # what goes wrong here must not hide what went wrong there
            report.sections.append(("gradients", f"no report was written: {error}"))
            continue
        report.sections.append(("gradients", f"{_headline(result)}\nreport: {path}"))
        item.user_properties.append(("tapedebug_report", str(path)))  # JUnit XML takes those of the item
        _attach(item.config, report, path)
    return report


# ------------------------------------------------------------------ what failed


def _results(error: BaseException) -> list[Any]:
    """The results of the checks that made a test fail, each once."""
    found = {id(result): result for result in _carried(error, set())}
    return list(found.values())


def _carried(error: BaseException, seen: set[int]) -> Iterator[Any]:
    if id(error) in seen:
        return
    seen.add(id(error))
    result = getattr(error, "result", None)
    if hasattr(result, "to_html"):
        yield result
    elif isinstance(error, AssertionError):
        yield from _asserted(error)
    for inner in getattr(error, "exceptions", ()):  # of a group
        yield from _carried(inner, seen)
    hidden = None if error.__suppress_context__ else error.__context__
    for cause in (error.__cause__, hidden):
        if cause is not None:
            yield from _carried(cause, seen)


def _asserted(error: AssertionError) -> Iterator[Any]:
    """Yield the false results that a plain `assert result` may mean: those in variables of its frame."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for value in list(frames[-1].f_locals.values()) if frames else ():
        kind = type(value)
        if kind.__module__.startswith("tapedebug.") and hasattr(kind, "to_html") and not value:
            yield value


def _headline(result: Any) -> str:
    failing = getattr(result, "failing", None)
    if failing is None:
        return str(result.conclusion())
    return f"{failing.subject}: d {failing.output} / d {failing.input} is {failing.verdict}"


# ------------------------------------------------------------------ where it goes


def _file(item: pytest.Item, when: str | None, number: int) -> Path:
    phase = "" if when == "call" else f"-{when}"
    again = "" if number == 0 else f"-{number + 1}"
    return _folder(item.config) / f"{_clean(item.nodeid)}{phase}{again}.html"


def _forget(item: pytest.Item) -> None:
    """Remove what a former run of this test left: a report in the folder is one of the last run."""
    folder = _folder(item.config, made=False)
    if not folder.is_dir():
        return
    mine = re.compile(rf"{re.escape(_clean(item.nodeid))}(-setup|-teardown)?(-\d{{1,3}})?\.html")
    for path in folder.iterdir():
        if mine.fullmatch(path.name):
            path.unlink(missing_ok=True)


def _clean(nodeid: str) -> str:
    """A file name for a test, which no other test has."""
    name = re.sub(r"[^\w.\-\[\]]+", "_", nodeid.replace("::", "--")).strip("_.") or "test"
    if name == nodeid.replace("::", "--") and len(name) <= LONGEST:
        return name
    return f"{name[:LONGEST]}-{hashlib.sha256(nodeid.encode()).hexdigest()[:8]}"


def _folder(config: pytest.Config, *, made: bool = True) -> Path:
    """Return the folder of reports; one in the cache is created if `made`."""
    given = config.getoption("--tapedebug-reports")
    if given:
        return Path(given)
    named = config.getini("tapedebug_reports")
    if named:
        return Path((config.inipath.parent if config.inipath is not None else config.rootpath) / named)
    cache: pytest.Cache | None = getattr(config, "cache", None)
    if cache is None:
        return config.rootpath / FOLDER
    return cache.mkdir(FOLDER) if made else config.rootpath / config.getini("cache_dir") / "d" / FOLDER


def _attach(config: pytest.Config, report: Any, path: Path) -> None:
    """A link in the page of pytest-html, where that is there."""
    if not config.pluginmanager.hasplugin("html"):
        return
    from pytest_html import extras

    report.extras = [*getattr(report, "extras", []), extras.url(path.as_uri(), name="gradients")]

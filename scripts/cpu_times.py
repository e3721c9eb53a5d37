"""A pytest plugin: list the tests that take most processor time, with that of the processes they start.

python -m pytest -p scripts.cpu_times --cpu 20 --cpu-log build/cpu-times.tsv

Processor time hardly depends on what else the machine does: lists of different days can be compared.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

NAME = "cpu"
_begun = pytest.StashKey[float]()
_seconds = pytest.StashKey[dict[str, float]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu", type=int, default=0, metavar="N", help="list the N tests with most CPU seconds")
    parser.addoption("--cpu-log", type=Path, help="write the CPU seconds of each test to this file")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_seconds] = {}


def cpu_seconds() -> float:
    """Processor time of this process and of all that it has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    forked = sys.modules.get("tests.forked")  # its programs are no children of this process
    others: float = forked.Spent.seconds if forked else 0.0
    return time.process_time() + children.ru_utime + children.ru_stime + others


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    item.stash[_begun] = cpu_seconds()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add a test's time to its last report: xdist sends reports, and nothing else, to the main process."""
    report = yield
    if call.when == "teardown":
        report.user_properties.append((NAME, cpu_seconds() - item.stash[_begun]))
    return report


class _Total:
    """Collects times where reports arrive: in the only process, or in xdist's main one."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == NAME and report.when == "teardown":
                self.seconds[report.nodeid] = float(value)  # type: ignore[arg-type]


def pytest_sessionstart(session: pytest.Session) -> None:
    session.config.pluginmanager.register(_Total(session.config.stash[_seconds]))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    seconds = config.stash[_seconds]
    ordered = sorted(seconds, key=seconds.__getitem__, reverse=True)
    log = config.getoption("--cpu-log")
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text("".join(f"{seconds[name]:.3f}\t{name}\n" for name in ordered), encoding="utf-8")
    most = config.getoption("--cpu")
    if most and seconds:
        terminalreporter.section(f"CPU seconds: {sum(seconds.values()):.0f} in {len(seconds)} tests")
        for name in ordered[:most]:
            terminalreporter.line(f"{seconds[name]:8.2f} {name}")

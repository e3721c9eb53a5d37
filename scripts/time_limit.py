"""A pytest plugin: starts no test after a point in time, and lists the modules with tests that it left out.

python -m pytest -p scripts.time_limit --until "$(( $(date +%s) + 60 ))"
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

REASON = "left out: the time was over"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--until", type=float, default=float("inf"), help="start no test later (seconds since 1970)"
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > item.config.getoption("--until"):
        pytest.skip(REASON)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    left = Counter(
        report.nodeid.partition("::")[0]
        for report in terminalreporter.stats.get("skipped", ())
        if REASON in str(report.longrepr)
    )
    if left:
        terminalreporter.section("left out: the time was over")
        for path, count in left.items():
            terminalreporter.line(f"{count:6} tests of {path}")

"""Run the tests of one module: `python -m tests.warp_suite.one MODULE LOG [--tests FOLDER]`.

Each line of the log is a JSON object. `run` starts this module in a process of its own, which may crash: the
log then ends with the line of the test that was running.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
import unittest
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO
from unittest import case

from tests.warp_suite.redirect import redirect

Error = tuple[type[BaseException], BaseException, TracebackType]


class _Expecting(case._AssertRaisesContext):
    """`assertRaises`, which notes on an error of another class which one was expected."""

    def __exit__(self, exc_type: Any, exc_value: Any, tb: Any) -> bool:
        done = bool(super().__exit__(exc_type, exc_value, tb))
        if exc_value is not None and not done:
            kinds = self.expected if isinstance(self.expected, tuple) else (self.expected,)
            exc_value.expected_kinds = [kind.__name__ for kind in kinds]
        return done


case._AssertRaisesContext = _Expecting  # type: ignore[attr-defined,misc]


class Log(unittest.TestResult):
    """A result that writes a line when a test starts, and one when it has ended."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.stream = stream
        self.outcomes: dict[str, dict[str, Any]] = {}
        self.began = 0.0

    def write(self, **line: object) -> None:
        """Write one line, at once: the next test may end the process."""
        self.stream.write(json.dumps(line) + "\n")
        self.stream.flush()

    def startTest(self, test: unittest.TestCase) -> None:
        super().startTest(test)
        self.began = time.perf_counter()
        self.write(test=test.id(), event="start")

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        outcome = self.outcomes.pop(test.id(), {"outcome": "pass"})
        self.write(test=test.id(), seconds=round(time.perf_counter() - self.began, 2), **outcome)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        super().addError(test, err)
        self.failed(test, err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        super().addFailure(test, err)
        self.failed(test, err)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.failed(test, err)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        super().addSkip(test, reason)
        self.outcomes[test.id()] = {"outcome": "skip", "message": reason}

    def failed(self, test: unittest.TestCase, err: Error) -> None:
        """Keep the first error of a test; one of a whole class is written at once."""
        found = {"outcome": "fail", **described(err)}
        if isinstance(test, unittest.TestCase):
            self.outcomes.setdefault(test.id(), found)
        else:
            self.write(test=test.id(), **found)


def described(err: Error) -> dict[str, object]:
    """Return the type, message and place of an error as data."""
    kind, error, trace = err
    frames = [f"{Path(each.filename).name}:{each.lineno} {each.line}" for each in traceback.extract_tb(trace)]
    found: dict[str, object] = {"kind": kind.__name__, "message": str(error)[:2000], "frames": frames[-6:]}
    if hasattr(error, "expected_kinds"):
        found["expected"] = error.expected_kinds
    return found


def tests_of(suite: unittest.TestSuite | unittest.TestCase) -> Iterator[unittest.TestCase]:
    """Yield the tests of a suite, and of the suites in it."""
    if isinstance(suite, unittest.TestCase):
        yield suite
        return
    for each in suite:
        yield from tests_of(each)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module")
    parser.add_argument("log", type=Path)
    parser.add_argument("--tests", type=Path, help="the folder of the tests; without it Warp runs them")
    parser.add_argument("--list", action="store_true", help="only write the names of the tests")
    parser.add_argument("--skip", type=Path, help="a file with the names of tests that are not run")
    options = parser.parse_args()
    if options.tests is not None:
        redirect(options.tests, options.module)
    with options.log.open("a", encoding="utf-8") as stream:
        log = Log(stream)
        try:
            __import__(options.module)
        except BaseException as error:
            log.write(event="import", **described((type(error), error, error.__traceback__)))  # type: ignore[arg-type]
            return
        loaded = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[options.module])
        skipped = set(options.skip.read_text(encoding="utf-8").split()) if options.skip else set()
        chosen = [test for test in tests_of(loaded) if test.id() not in skipped]
        if options.list:
            log.write(event="list", tests=sorted({test.id() for test in chosen}))
            return
        unittest.TestSuite(chosen).run(log)
        log.write(event="end")


if __name__ == "__main__":
    main()

"""Parsing from several threads: CPython 3.11.7's own `ast.parse` fails here."""

import ast
import gc
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tapedebug._syntax import parsed

TEXT = "def f(x):\n" + "    y = ((x + 1) * (x + 2)) * sin(x[i])\n" * 20


class Slow:
    """Garbage whose finaliser lets another thread run, in the middle of whatever collected it."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        time.sleep(0)


@pytest.fixture
def eager_collector() -> Iterator[None]:
    before, interval = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(50)
    sys.setswitchinterval(1e-5)
    yield
    gc.set_threshold(*before)
    sys.setswitchinterval(interval)


def mismatches(parse: Callable[[str], object]) -> int:
    failures: list[SystemError] = []

    def work() -> None:
        for _ in range(40):
            Slow()
            try:
                parse(TEXT)
            except SystemError as error:
                failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(failures)


@pytest.mark.usefixtures("eager_collector")
def test_threads_parse_at_once() -> None:
    assert mismatches(parsed) == 0


@pytest.mark.usefixtures("eager_collector")
@pytest.mark.skipif(sys.version_info[:3] > (3, 11, 7), reason="mended in CPython 3.11.8")
def test_threads_parse_at_once_can_fail() -> None:
    assert mismatches(ast.parse) > 0

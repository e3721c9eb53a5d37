"""What all tests share."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator

import pytest


def pytest_configure() -> None:
    """Hear SIGINT, which jobs in the background of a shell and those of many CI systems start out ignoring.

    Tests interrupt themselves and their children, who inherit an ignored signal, but not a handler.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def quick_collections() -> Iterator[None]:
    """Keep what earlier modules left out of `gc.collect`, which after ten thousand tests takes a second.

    For modules that collect hundreds of times, and do not ask whether something is gone: what was set aside
    and dies meanwhile still holds on to what it refers to.
    """
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()

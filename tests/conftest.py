"""What all tests share."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


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

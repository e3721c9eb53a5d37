"""What all tests share."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def _not_to_be_looked_through_again() -> None:
    """Set aside what earlier modules keep: after ten thousand tests each `gc.collect` would take a second."""
    gc.collect()
    gc.freeze()

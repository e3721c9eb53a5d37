"""The versions, processor and settings with which a result or a report was made."""

from __future__ import annotations

import platform
from functools import cache

import numpy as np


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    import tapedebug

    return (
        ("tapedebug", tapedebug.__version__),
        ("python", platform.python_version()),
        ("numpy", np.__version__),
        ("platform", platform.platform(terse=True)),
    )


def environment() -> dict[str, str]:
    """The versions that a report should name."""
    return dict(_versions())

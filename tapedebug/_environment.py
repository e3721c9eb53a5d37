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
    """Return the versions, processor and settings that a report names."""
    return dict(_versions())

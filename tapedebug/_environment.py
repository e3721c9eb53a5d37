"""The versions, processor and settings with which a result or a report was made."""

from __future__ import annotations

import platform
from functools import cache

import numpy as np


def _platform() -> str:
    """Return the system, processor and C library, without the process that `platform.platform` starts."""
    if platform.system() != "Linux":
        return platform.platform(terse=True)
    return "-".join(["Linux", platform.release(), platform.machine(), "with", "".join(platform.libc_ver())])


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    import tapedebug

    return (
        ("tapedebug", tapedebug.__version__),
        ("python", platform.python_version()),
        ("numpy", np.__version__),
        ("platform", _platform()),
    )


def environment() -> dict[str, str]:
    """Return the versions, processor and settings that a report names."""
    return dict(_versions())

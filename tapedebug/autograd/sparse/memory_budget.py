"""Whether there is memory for a Jacobian: one that does not fit would end the process, not the call."""

from __future__ import annotations

import os
from pathlib import Path

from tapedebug._errors import GradcheckError

MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> float:
    """Bytes that may still be used; infinite where nobody says."""
    return min(_of_machine(), _of_group())


def _of_machine() -> float:
    try:
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024.0 * int(line.split()[1])
        return float(os.sysconf("SC_PAGE_SIZE")) * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError, AttributeError):
        return float("inf")


def _of_group() -> float:
    """What a container may still use."""
    try:
        return float((CGROUP / "memory.max").read_text()) - float((CGROUP / "memory.current").read_text())
    except (OSError, ValueError):  # no cgroups, or "max": no limit
        return float("inf")


def require_memory(what: str, needed: float, hint: str) -> None:
    """Refuse what would not fit into memory.

    Args:
        what: A sentence begins with it: "jacobian: d y / d x (…) as a dense array".
        needed: In bytes.
        hint: What to do instead.

    Raises:
        GradcheckError: It does not fit.
    """
    free = available_memory()
    if needed > free:
        raise GradcheckError(
            f"{what} takes {_gibibytes(needed)} of memory, of which {_gibibytes(free)} are free", hint=hint
        )


def _gibibytes(size: float) -> str:
    return f"{max(size, 0) / 2**30:.3g} GiB"

"""Raises an error for a Jacobian that does not fit into memory, before it ends the process."""

from __future__ import annotations

from pathlib import Path

from tapedebug._errors import GradcheckError

CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> float:
    """Return the bytes that this process may still use."""
    import psutil

    return min(float(psutil.virtual_memory().available), _available_to_container())


def _available_to_container() -> float:
    """Return what is left of a container's limit, which psutil does not read; infinite without one."""
    try:
        return float((CGROUP / "memory.max").read_text()) - float((CGROUP / "memory.current").read_text())
    except (OSError, ValueError):  # no cgroups, or "max": no limit
        return float("inf")


def require_memory(what: str, needed: float, hint: str) -> None:
    """Raise an error if something would not fit into memory.

    Args:
        what: The start of the message: "jacobian: d y / d x (…) as a dense array".
        needed: The required memory in bytes.
        hint: The suggested alternative.

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

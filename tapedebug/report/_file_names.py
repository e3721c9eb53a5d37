"""Default file names of reports: the tape's name, numbered if the file exists."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

LONGEST = 60
"""Largest number of characters of a tape's name in a file name."""


def unused_path(name: str, folder: Path | None = None) -> Path:
    """Return an unused path for the report of a tape.

    Args:
        name: The tape's name, any text: ``"net"`` gives ``tapedebug-report-net.html``, then
            ``tapedebug-report-net-2.html``.
        folder: The folder; by default the working directory, and then the path is relative.
    """
    called = re.sub(r"[^\w.]+", "-", name[:LONGEST]).strip("-.") or "tape"
    for number in count(1):
        again = "" if number == 1 else f"-{number}"
        path = (folder or Path()) / f"tapedebug-report-{called}{again}.html"
        if not path.exists() and not path.is_symlink():
            return path
    raise AssertionError("unreachable")

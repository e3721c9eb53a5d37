"""Limit BLAS to one thread while a check runs.

Its products are small. Several threads gain nothing there, and where others want the processors each product
waits for a thread that does not run, for tens of milliseconds.
"""

from __future__ import annotations

import sys
from threading import Lock
from typing import Any


class _OneThread:
    """While at least one check runs, in any thread, what NumPy and SciPy call uses one thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._checks = 0
        self._found: tuple[bool, Any] | None = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._checks += 1
            if self._checks == 1:
                self._limit = self._libraries().limit(limits=1)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._checks -= 1
            if self._checks == 0:
                self._limit.restore_original_limits()

    def _libraries(self) -> Any:
        """Return the loaded libraries; they are searched again when SciPy has loaded its own."""
        with_scipy = "scipy.linalg" in sys.modules
        if self._found is None or self._found[0] != with_scipy:
            from threadpoolctl import ThreadpoolController  # 8 ms, which launches do not need

            self._found = with_scipy, ThreadpoolController().select(user_api="blas")
        return self._found[1]


one_thread = _OneThread()

"""Limit BLAS to one thread while a check runs.

The products of a check are small, so that several threads gain nothing. On a busy machine each product would
wait tens of milliseconds for a thread that is not scheduled.
"""

from __future__ import annotations

import sys
from threading import Lock
from typing import Any


class _OneThread:
    """Context that limits the BLAS of NumPy and SciPy to one thread while at least one check runs."""

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
        """Return the loaded BLAS libraries; search again once SciPy has loaded its own."""
        with_scipy = "scipy.linalg" in sys.modules
        if self._found is None or self._found[0] != with_scipy:
            from threadpoolctl import ThreadpoolController  # 8 ms, which launches do not need

            self._found = with_scipy, ThreadpoolController().select(user_api="blas")
        return self._found[1]


one_thread = _OneThread()

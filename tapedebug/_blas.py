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
        self._found: tuple[bool, list[Any]] | None = None
        self._limited: list[tuple[Any, int]] = []  # libraries, with the number of threads that they had

    def __enter__(self) -> None:
        with self._lock:
            self._checks += 1
            if self._checks == 1:
                threads = [(library, library.num_threads) for library in self._libraries()]
                self._limited = [(library, count) for library, count in threads if count > 1]
                for library, _ in self._limited:
                    library.set_num_threads(1)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._checks -= 1
            if self._checks == 0:
                for library, count in self._limited:
                    library.set_num_threads(count)

    def _libraries(self) -> list[Any]:
        """Return the loaded BLAS libraries; search again once SciPy has loaded its own."""
        with_scipy = "scipy.linalg" in sys.modules
        if self._found is None or self._found[0] != with_scipy:
            from threadpoolctl import ThreadpoolController  # 8 ms, which launches do not need

            self._found = with_scipy, ThreadpoolController().select(user_api="blas").lib_controllers
        return self._found[1]


one_thread = _OneThread()

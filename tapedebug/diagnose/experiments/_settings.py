"""Settings of the process that a diagnosis changes for a moment, put back whatever happens."""

from __future__ import annotations

import gc
from types import TracebackType

import numpy as np


class SettingsKept:
    """Afterwards NumPy warns of what it warned of before, and the garbage collector runs if it did.

    A block that changes such a setting puts it back at its end; but Ctrl-C may come just then.
    """

    def __enter__(self) -> None:
        self._numpy = np.geterr()
        self._collecting = gc.isenabled()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        np.seterr(**self._numpy)
        if self._collecting:
            gc.enable()

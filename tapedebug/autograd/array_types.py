"""Array types that this whole room shares."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]
Indices = np.ndarray[Any, np.dtype[np.int64]]

Checkpoint = Callable[[], None]
"""Called between evaluations: may raise to cancel, may report progress."""

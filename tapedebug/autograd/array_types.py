"""Types shared by the modules of `autograd`: arrays of numbers, arguments of launches, callbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from tapedebug.contract import Array
    from tapedebug.lang.types import ArrayType, IndexedArrayType
    from tapedebug.runtime.device import Device
    from tapedebug.runtime.memory.array import array

Values = np.ndarray[Any, Any]
Floats = np.ndarray[Any, np.dtype[np.float64]]
Bools = np.ndarray[Any, np.dtype[np.bool_]]
Indices = np.ndarray[Any, np.dtype[np.int64]]

Selection: TypeAlias = "int | slice | Indices | Bools | tuple[int | slice | Indices | Bools | None, ...]"
"""An index into a NumPy array."""

EngineArray: TypeAlias = "array"
"""An array of this project's own engine; `contract.Array` is one of any engine."""

ValueType: TypeAlias = "type | ArrayType | IndexedArrayType"
"""The type of an argument of a kernel: a scalar, vector or struct class, or that of an array."""

LaunchDim: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
"""The dimensions of a launch: a number of threads, or one to four sizes."""

DeviceLike: TypeAlias = "Device | str | None"
"""A device or its name; None is the current one."""

Loss: TypeAlias = "Array | Mapping[Any, Any]"
"""The objective of a reverse pass: an array of one element, or arrays with the adjoints to start from."""

Checkpoint = Callable[[], None]
"""A function called between evaluations; it may raise to cancel, and may report progress."""

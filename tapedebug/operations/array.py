"""Arrays of a program in host memory, as the debugger's contract describes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapedebug._float_types import is_float
from tapedebug.contract import Values
from tapedebug.operations.memory import Memory, Region


class HostArray:
    """An array that NumPy can view; all attributes of `contract.Array` are derived from the view.

    Args:
        values: A view of the program's memory, of the array's shape plus that of one element.
        region: The allocation that contains the view.
        requires_grad: The program computes a gradient of it, in `region.gradients`.
        element_ndim: The number of trailing axes that are one element: 1 for an array of vectors.
        dtype_name: The data type as users write it; by default NumPy's name.
    """

    def __init__(
        self,
        values: Values,
        region: Region,
        requires_grad: bool = False,
        element_ndim: int = 0,
        dtype_name: str = "",
    ) -> None:
        low, high = np.lib.array_utils.byte_bounds(values) if values.size else (region.address,) * 2
        axes = values.ndim - element_ndim
        self.region = region
        self.start, self.stop = low - region.address, high - region.address
        self.offset = int(values.ctypes.data) - region.address if values.size else self.start
        self.shape, self.element_shape = values.shape[:axes], values.shape[axes:]
        self.strides = values.strides[:axes]
        self.scalar_dtype: np.dtype[Any] = values.dtype
        self.dtype_name = dtype_name or values.dtype.name
        self.is_contiguous = bool(values.flags.c_contiguous)
        self.requires_grad = requires_grad
        self.values = values

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def is_float(self) -> bool:
        """True if the values have derivatives."""
        return is_float(self.scalar_dtype)

    @property
    def gradient(self) -> Values | None:
        """A view of the program's gradient of this array; None if it has none."""
        if not self.requires_grad or self.region.gradients is None:
            return None
        return Memory({self.region: self.region.gradients}).view(self)

    def current(self) -> Values:
        """Return a copy of the values that the program's memory holds now."""
        return self.values.copy()

    def current_gradient(self) -> Values | None:
        """Return a copy of the gradient that the program's memory holds now; None if there is none."""
        gradient = self.gradient
        return None if gradient is None else gradient.copy()

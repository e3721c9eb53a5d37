"""Matrices that `jacobian` returns: arrays or SciPy's, filled from entries, rows or columns."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapedebug._errors import TapedebugError
from tapedebug.autograd.array_types import Floats, Indices
from tapedebug.autograd.sparse.memory_budget import require_memory
from tapedebug.autograd.sparse.pattern import Pattern
from tapedebug.autograd.subjects.program import Port
from tapedebug.lang.types import numpy_dtype
from tapedebug.runtime.memory.array import new

NO_PLACES: Indices = np.zeros(0, np.int64)
MOST_STORED_ENTRIES = 1 << 24
"""Entries of a sparse Jacobian up to which those that were not evaluated are stored one by one."""
BYTES_PER_ENTRY = 24
"""Bytes of an entry of a sparse matrix while it is collected: row, column, value."""
Rectangle = tuple[Indices, Indices]
"""Rows and columns that are evaluated, at all of their crossings."""


def require_scipy() -> Any:
    """Return the module `scipy.sparse`.

    Raises:
        TapedebugError: SciPy is not installed.
    """
    try:
        import scipy.sparse
    except ImportError:
        raise TapedebugError(
            "jacobian: sparse=True needs scipy, which is not installed",
            hint="pip install scipy, or leave sparse out for dense arrays",
        ) from None
    return scipy.sparse


class DenseJacobian:
    """A dense Jacobian: an array of the input's element type, NaN where nothing was evaluated.

    Args:
        source, target: Ports of the input and of the output.
        rectangles: The parts that are evaluated.
    """

    def __init__(self, source: Port, target: Port, rectangles: Sequence[Rectangle]) -> None:
        shape = target.size, source.size // source.components
        # Memory that is not written stays unmapped, so that a sparse matrix costs only its written pages.
        self.array = new(shape, source.array.dtype, zeroed=True)
        self.matrix: Floats = self.array.region.data.view(numpy_dtype(source.array.dtype)).reshape(
            target.size, source.size
        )
        self.whole = _is_whole(rectangles, target.size, source.size)
        self.rectangles = rectangles

    def zeros(self) -> None:
        """Set the evaluated entries to zero and all others to NaN."""
        if not self.whole:
            self.unset()
            for rows, columns in self.rectangles:
                self.matrix[np.ix_(rows, columns)] = 0

    def unset(self) -> None:
        """Set all entries to NaN."""
        self.matrix[...] = np.nan

    def entries(self, rows: Indices, columns: Indices, values: Floats, cache: dict[Any, Any]) -> None:
        """Set single entries, except those that were not requested.

        Args:
            rows: The rows, ascending.
            columns: The columns, ascending within a row.
            values: The entries.
            cache: The cache of the pattern.
        """
        if self.whole:
            self.matrix[rows, columns] = values
            return
        for mine in _inside(self.rectangles, rows, columns, self.matrix.shape):
            self.matrix[rows[mine], columns[mine]] = values[mine]

    def block(self, rows: Indices, columns: Indices, values: Floats) -> None:
        """Set a block."""
        if self.whole and len(columns) == self.matrix.shape[1]:
            self.matrix[rows] = values
        else:
            self.matrix[np.ix_(rows, columns)] = values

    def result(self) -> Any:
        """The array."""
        return self.array


class SparseJacobian:
    """A Jacobian of scalars by scalars as a `scipy.sparse.csr_array`.

    Args:
        source, target: Ports of the input and of the output.
        rectangles: The parts that are evaluated.

    Attributes:
        pattern: The entries that may be nonzero, if known.
    """

    whole = False

    def __init__(self, source: Port, target: Port, rectangles: Sequence[Rectangle]) -> None:
        self.shape = target.size, source.size
        self.rectangles = rectangles
        # SciPy has no sparse matrices of float16.
        self.dtype = np.promote_types(numpy_dtype(source.array.dtype), np.float32)
        self.parts: list[tuple[Indices, Indices, Floats]] = []
        self.unknown = not _is_whole(rectangles, *self.shape)
        self.traced = True
        self.stored = 0
        self.cache: dict[Any, Any] = {}
        self.pattern: Pattern | None = None

    def zeros(self) -> None:
        """Store nothing: entries that are not stored are zero."""

    def unset(self) -> None:
        """Store nothing, as no entry is known yet."""

    def entries(self, rows: Indices, columns: Indices, values: Floats, cache: dict[Any, Any]) -> None:
        """Set single entries, as `DenseJacobian.entries`; those that were not requested are NaN."""
        self.cache = cache
        if self.unknown:
            asked = np.zeros(len(rows), bool)
            for mine in _inside(self.rectangles, rows, columns, self.shape):
                asked[mine] = True
            values = np.where(asked, values, np.nan)
        self.parts.append((rows, columns, values))

    def block(self, rows: Indices, columns: Indices, values: Floats) -> None:
        """Set a block, storing only its nonzero entries."""
        self.traced = False
        i, j = np.nonzero(values)
        self.stored += len(i)
        require_memory(
            f"jacobian: a sparse matrix of {self.shape[0]} × {self.shape[1]}, of which {self.stored} "
            "entries and more are not zero,",
            float(BYTES_PER_ENTRY * self.stored),  # again, when the blocks are put together
            "ask for fewer rows with max_outputs_per_var, or for entries with input_output_mask",
        )
        self.parts.append((rows[i], columns[j], values[i, j]))

    def _not_asked(self) -> tuple[Indices, Indices]:
        """Return the entries that were not evaluated and are not known to be zero."""
        if self.pattern is None and self.shape[0] * self.shape[1] > MOST_STORED_ENTRIES:
            raise TapedebugError(
                f"jacobian: sparse=True would have to store NaN for most of {self.shape[0]} × "
                f"{self.shape[1]} entries: they were not evaluated, and where they are zero is unknown",
                hint="ask for all entries, or leave sparse out for dense arrays",
            )
        if self.pattern is None:
            i, j = (places.ravel() for places in np.indices(self.shape))
        else:
            i, j = self.pattern.rows, self.pattern.columns
        asked = np.zeros(len(i), bool)
        for mine in _inside(self.rectangles, i, j, self.shape):
            asked[mine] = True
        return i[~asked], j[~asked]

    def result(self) -> Any:
        """The sparse matrix."""
        sparse = require_scipy()
        if self.unknown and not self.traced:
            i, j = self._not_asked()
            self.parts.append((i, j, np.full(len(i), np.nan)))
        rows, columns, values = self.parts[0] if self.parts else (NO_PLACES, NO_PLACES, np.zeros(0))
        if len(self.parts) > 1:
            rows, columns, values = (np.concatenate(part) for part in zip(*self.parts, strict=True))
            order = np.lexsort((columns, rows))
            rows, columns, values = rows[order], columns[order], values[order]
        with np.errstate(over="ignore"):
            stored = values.astype(self.dtype)
        of, like = self.cache.get("csr", (None, None))
        if of is not rows:
            starts, places = self._structure(rows, columns)
            like = sparse.csr_array((stored, places, starts), shape=self.shape)
            like.data = like.data[:0].copy()
            self.cache["csr"] = rows, like
        found = copy.copy(like)  # the constructor checks its arguments, which takes longer than small tapes
        found.data, found.indices, found.indptr = stored, like.indices.copy(), like.indptr.copy()
        return found

    def _structure(self, rows: Indices, columns: Indices) -> tuple[Any, Any]:
        """Return the offsets at which the rows begin, and the columns of the entries."""
        small: Any = np.int32 if max(*self.shape, len(rows)) < 2**31 else np.int64
        starts = np.zeros(self.shape[0] + 1, small)
        np.cumsum(np.bincount(rows, minlength=self.shape[0]), out=starts[1:])
        return starts, columns.astype(small)


def _is_whole(rectangles: Sequence[Rectangle], height: int, width: int) -> bool:
    return any(len(rows) == height and len(columns) == width for rows, columns in rectangles)


def _inside(
    rectangles: Sequence[Rectangle], rows: Indices, columns: Indices, shape: tuple[int, int]
) -> list[Indices]:
    """Return for each rectangle the entries in it."""
    found = []
    for tall, wide in rectangles:
        in_rows, in_columns = np.zeros(shape[0], bool), np.zeros(shape[1], bool)
        in_rows[tall], in_columns[wide] = True, True
        found.append(np.flatnonzero(in_rows[rows] & in_columns[columns]))
    return found

"""`array1d` to `array4d`: arrays and annotations with a fixed number of dimensions."""

from __future__ import annotations

from tapedebug.runtime.memory.array import array


class array1d(array, by_program=False):
    """An array, or an annotation, of one dimension."""

    __slots__ = ()
    _ndim_wanted = 1


class array2d(array, by_program=False):
    """An array, or an annotation, of two dimensions."""

    __slots__ = ()
    _ndim_wanted = 2


class array3d(array, by_program=False):
    """An array, or an annotation, of three dimensions."""

    __slots__ = ()
    _ndim_wanted = 3


class array4d(array, by_program=False):
    """An array, or an annotation, of four dimensions."""

    __slots__ = ()
    _ndim_wanted = 4

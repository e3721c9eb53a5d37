"""Copies between indexed arrays and contiguous ones, as kernels, so that tapes record and reverse them."""
# mypy: disable-error-code="valid-type, no-untyped-def, no-untyped-call, untyped-decorator, var-annotated"

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from tapedebug.lang import types
from tapedebug.lang.builtins import BUILTINS
from tapedebug.runtime.launch.launch import launch
from tapedebug.runtime.memory.held_arrays import keep_alive, may_hold
from tapedebug.runtime.memory.indexed import indexedarray
from tapedebug.runtime.memory.struct_fields import leaves

if TYPE_CHECKING:
    from tapedebug.runtime.memory.array import array

tid = BUILTINS["tid"]


def gather(source: indexedarray, dest: array) -> None:
    """Copy the selected elements to a contiguous array."""
    if may_hold(source.kernel_type):  # kernels do not store arrays in elements
        for part, into in zip(leaves(source.data), leaves(dest), strict=True):
            gather(indexedarray(part, source.indices), into)
        keep_alive(dest)
        return
    launch(_kernels(source.dtype, source.ndim)[0], source.shape, [source], [dest])


def scatter(source: array, dest: indexedarray) -> None:
    """Copy a contiguous array to the selected elements."""
    if may_hold(dest.kernel_type):
        for part, into in zip(leaves(source), leaves(dest.data), strict=True):
            scatter(part, indexedarray(into, dest.indices))
        keep_alive(dest.data)
        return
    launch(_kernels(dest.dtype, dest.ndim)[1], dest.shape, [source], [dest])


@functools.cache
def _kernels(dtype: Any, ndim: int) -> tuple[Any, Any]:
    from tapedebug.compiler.decorators import kernel

    index: Any = {1: _one, 2: _two, 3: _three, 4: _four}[ndim]
    pair: tuple[Any, Any] = index(kernel, types.IndexedArrayType(dtype, ndim), types.ArrayType(dtype, ndim))
    return pair


def _one(kernel: Any, chosen: Any, plain: Any) -> Any:
    @kernel
    def gather(indexed: chosen, out: plain):
        i = tid()
        out[i] = indexed[i]

    @kernel
    def scatter(values: plain, indexed: chosen):
        i = tid()
        indexed[i] = values[i]

    return gather, scatter


def _two(kernel: Any, chosen: Any, plain: Any) -> Any:
    @kernel
    def gather(indexed: chosen, out: plain):
        i, j = tid()
        out[i, j] = indexed[i, j]

    @kernel
    def scatter(values: plain, indexed: chosen):
        i, j = tid()
        indexed[i, j] = values[i, j]

    return gather, scatter


def _three(kernel: Any, chosen: Any, plain: Any) -> Any:
    @kernel
    def gather(indexed: chosen, out: plain):
        i, j, k = tid()
        out[i, j, k] = indexed[i, j, k]

    @kernel
    def scatter(values: plain, indexed: chosen):
        i, j, k = tid()
        indexed[i, j, k] = values[i, j, k]

    return gather, scatter


def _four(kernel: Any, chosen: Any, plain: Any) -> Any:
    @kernel
    def gather(indexed: chosen, out: plain):
        i, j, k, m = tid()
        out[i, j, k, m] = indexed[i, j, k, m]

    @kernel
    def scatter(values: plain, indexed: chosen):
        i, j, k, m = tid()
        indexed[i, j, k, m] = values[i, j, k, m]

    return gather, scatter

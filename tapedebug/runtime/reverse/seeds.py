"""Check the seeds of `Tape.backward`: the loss and the incoming gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tapedebug._errors import TapeError
from tapedebug._float_types import is_float
from tapedebug.lang import types
from tapedebug.runtime.launch.plan import has_gradient
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.struct_fields import by_field
from tapedebug.runtime.parallel import parallel_memcpy
from tapedebug.runtime.reverse.borrowed_seed import BorrowedSeed, may_borrow
from tapedebug.runtime.tape.tracker import Tracker

SMALL = 4096
"""Bytes up to which an array of the right type and shape is copied at once: that takes as long as to look for
memory that can be reused."""

Values = np.ndarray[Any, Any]
Seeds = dict[array, Values]
SeedMap = dict[array, Values | BorrowedSeed]
"""Seeds, some of which may be borrowed from the caller."""


def checked_seeds(
    tracker: Tracker, loss: Any, grads: Mapping[Any, Any] | None, spare: SeedMap, known: array | None = None
) -> SeedMap:
    """Return the incoming gradients of a reverse pass in the arrays' own dtypes; large ones may be borrowed.

    Args:
        tracker: The tracker of the tape.
        loss: As given to `Tape.backward`.
        grads: As given to `Tape.backward`.
        spare: Memory of earlier seeds that may be reused.
        known: A loss that has been checked.

    Raises:
        TapeError: They do not fit the tape.
    """
    if (loss is not None or grads) and not tracker.records:
        raise TapeError(
            "backward: nothing was recorded on this tape",
            hint="run the launches inside `with tape:` first",
        )
    if grads and type(grads) is not dict and not isinstance(grads, Mapping):
        given = type(grads).__name__
        raise TapeError(
            f"backward: grads must be a dictionary from arrays to their adjoints; got a {given}",
            hint="pass grads={array: adjoint}",
        )
    seeds: SeedMap = {}
    if loss is not None:
        if loss is not known or not known._requires_grad:
            _check_loss(tracker, loss)
        kept = _memory(loss, loss.shape, spare)
        kept.fill(1)
        seeds[loss] = kept
    for a, gradient in _by_field(tracker, grads) if grads else ():
        last = spare.get(a) if type(a) is array else None
        if type(last) is BorrowedSeed and last.is_still(gradient, tracker) and has_gradient(a):
            seeds[a] = last  # checked before: a pass that is repeated
            continue
        if not isinstance(a, array) or not has_gradient(a):
            given = f"an array{a._facts()} without a gradient" if isinstance(a, array) else repr(a)
            raise TapeError(
                f"backward: the keys of grads are arrays with requires_grad; got {given}",
                hint="create the array with requires_grad=True and a float dtype",
            )
        _check_on_tape(tracker, a, "a key of grads")
        seeds[a] = _seed_values(tracker, a, gradient, spare)
    return seeds


def _by_field(tracker: Tracker, grads: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """Yield seeds by array; for an array of structs, by those of its fields that the tape uses."""
    for key, gradient in grads.items():
        if not isinstance(key, array) or not types.is_struct(key.dtype):
            yield key, gradient
            continue
        _check_on_tape(tracker, key, "a key of grads")
        for a, part in by_field({key: gradient}, "backward: the seed"):
            if tracker.uses(a):
                yield a, part


def _memory(a: array, shape: tuple[int, ...], spare: SeedMap) -> Values:
    """Return memory for a copy of the seed of an array."""
    kept = spare.get(a)
    if isinstance(kept, np.ndarray) and kept.shape == shape:
        return kept
    return np.empty(shape, types.numpy_dtype(a.dtype))


def _seed_values(tracker: Tracker, a: array, gradient: Any, spare: SeedMap) -> Values | BorrowedSeed:
    same = type(gradient) is array and gradient.dtype is a.dtype and gradient.shape == a.shape
    if same and gradient.stop - gradient.start < SMALL:
        copied: Values = gradient._numpy_view().copy()
        return copied
    last = spare.get(a)
    wanted = a.shape + types.value_shape(a.dtype)
    values = gradient._numpy_view() if isinstance(gradient, array) else np.asarray(gradient)
    if values.shape != wanted or not (values.dtype.kind in "iu" or is_float(values.dtype)):
        raise TapeError(
            f"backward: the seed of the array{a._facts()} has shape {values.shape}, dtype {values.dtype}",
            hint=f"pass values of shape {wanted}, such as ones_like(array)",
        )
    if isinstance(gradient, array) and may_borrow(gradient, types.numpy_dtype(a.dtype), tracker):
        return BorrowedSeed(gradient)
    if values.nbytes < parallel_memcpy.LARGE and not isinstance(last, np.ndarray):
        return values.astype(types.numpy_dtype(a.dtype), order="C")
    kept = _memory(a, wanted, spare)
    parallel_memcpy.copy(kept, values)
    return kept


def _check_loss(tracker: Tracker, loss: Any) -> None:
    if not isinstance(loss, array):
        raise TapeError(
            f"backward: the loss must be an array of one element; got {loss!r} ({type(loss).__name__})",
            hint="let a kernel write the loss into zeros(1, requires_grad=True)",
        )
    if loss.size != 1 or types.components(loss.dtype) != 1 or types.is_struct(loss.dtype):
        raise TapeError(
            f"backward: the loss must be a scalar; got an array{loss._facts()}",
            hint="sum it into an array of one element, or pass grads={array: seed}",
        )
    if not types.is_float(loss.dtype):
        raise TapeError(
            f"backward: the loss must be a float; got an array{loss._facts()}", hint="use dtype=float"
        )
    if not loss.requires_grad:
        raise TapeError(
            f"backward: the loss array{loss._facts()} has no gradient: requires_grad is not set",
            hint="create it with requires_grad=True",
        )
    _check_on_tape(tracker, loss, "the loss")


def _check_on_tape(tracker: Tracker, a: array, what: str) -> None:
    if not tracker.uses(a):
        raise TapeError(
            f"backward: {what}, an array{a._facts()}, is not on this tape: none of its "
            f"{len(tracker.records)} records uses it",
            hint="launch what computes it inside `with tape:`",
        )

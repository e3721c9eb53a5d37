"""Differentiable arrays, and the input-output pairs that a mask selects from them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.autograd.subjects.program import Port
from tapedebug.contract import is_array

if TYPE_CHECKING:
    from tapedebug.contract import Array


Mask = Iterable[Any] | None
"""Pairs of input and output; see `tapedebug.autograd.subjects.masks`. None for all pairs."""


REQUIRES_GRAD = "set requires_grad=True on the arrays whose gradients are wanted, and name them"
NOTHING = (
    ("the tape is empty", "the tape is empty", "run the launches inside `with tape:`"),
    ("mask is empty", "the mask is empty", "name a pair, or leave input_output_mask out"),
    ("no thread runs", "no thread runs", "pass dim=len(array), or its shape"),
    (
        "enable_backward=False",
        "there is no adjoint",
        "define the kernel with enable_backward=True; check_forward_ad=True, check_backward_ad=False checks "
        "its tangent",
    ),
    ("requires_grad=False", "", REQUIRES_GRAD),
    ("is on the blacklist", "", "leave some kernel to check"),
    ("a NumPy array", "", "pass wp.array(values, dtype=float, requires_grad=True) in its place"),
    ("is empty", "no array holds anything", "pass arrays that hold something"),
    ("a copy, not", "", "end_to_end=True checks copies, too, by the gradient of a loss"),
)
"""Text of a note → the reason why nothing was checked (if it is not `requires_grad`), and the hint."""


def why_nothing(notes: Iterable[str]) -> tuple[str, str]:
    """Return the reason why there was nothing to check, from the notes (may be empty), and the hint."""
    text = "\n".join(notes)
    return next(((why, hint) for part, why, hint in NOTHING if part in text), ("", REQUIRES_GRAD))


def port(index: int, name: str, array: Array, *, field: bool = False) -> Port:
    """Return the port of an array, or of an array that is a field of a struct."""
    shape = (*array.shape, *array.element_shape)
    return Port(index, name, array, shape, math.prod(array.element_shape), field=field)


def obstacle(name: str, value: object) -> str | None:
    """Return the reason why `value` has no derivatives; None if it has, or if it is not an array."""
    if isinstance(value, np.ndarray):
        return f"{name} is a NumPy array, which has no gradient"
    if not is_array(value):
        return None
    if not value.is_float:
        return f"{name} holds {value.dtype_name}, which has no derivatives"
    if not value.requires_grad:
        return f"{name} has requires_grad=False"
    if value.size == 0:
        return f"{name} is empty"
    return None


def differentiable(
    named: Iterable[tuple[int, str, Any]],
    notes: list[str],
    fields: Collection[str] = (),
    *,
    integers: bool = True,
) -> list[Port]:
    """Return the ports of the arrays with derivatives; reasons why others have none are added to `notes`.

    Args:
        named: (place, name, value) of each argument, or field of one.
        notes: The list to which reasons are added.
        fields: The names that are fields.
        integers: True to add notes on integer arrays too.
    """
    ports = []
    for index, name, value in named:
        reason = obstacle(name, value)
        if reason is not None and (integers or not is_array(value) or value.is_float):
            notes.append(f"not checked: {reason}")
        elif reason is None and is_array(value):
            ports.append(port(index, name, value, field=name in fields))
    return ports

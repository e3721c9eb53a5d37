"""Which arrays can be differentiated, and which input-output pairs a mask chooses of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tapedebug._errors import GradcheckError
from tapedebug.autograd.program import Pairs, Port
from tapedebug.lang.types import components, is_float, value_shape

Mask = Iterable[Any] | None
"""Pairs of input and output, each by name or by index; all of them where None."""


def is_array(value: Any) -> bool:
    """Whether `value` is one of our arrays."""
    from tapedebug.runtime.array import array

    return isinstance(value, array)


def port(index: int, name: str, array: Any, *, in_place: bool = False) -> Port:
    """The port of an array."""
    return Port(
        index, name, array, (*array.shape, *value_shape(array.dtype)), components(array.dtype), in_place
    )


def obstacle(name: str, value: Any) -> str | None:
    """Why derivatives of or by `value` can not be asked; None where they can, or where it is no array."""
    if not is_array(value):
        return None
    if not is_float(value.dtype):
        return f"{name} holds {value.dtype.__name__}, which has no derivatives"
    if not value.requires_grad:
        return f"{name} has requires_grad=False"
    if value.size == 0:
        return f"{name} is empty"
    return None


def differentiable(
    named: Iterable[tuple[int, str, Any]], notes: list[str], *, quiet: bool = False
) -> list[Port]:
    """The ports of those arrays that have derivatives; the reasons why others have not go to `notes`."""
    ports = []
    for index, name, value in named:
        reason = obstacle(name, value)
        if reason is not None:
            if not quiet and "no derivatives" not in reason:
                notes.append(f"not checked: {reason}")
        elif is_array(value):
            ports.append(port(index, name, value))
    return ports


def choose_pairs(
    subject: str,
    inputs: Sequence[Port],
    outputs: Sequence[Port],
    mask: Mask,
    names: tuple[Sequence[str], Sequence[str]],
) -> Pairs:
    """All pairs, or those of `mask`.

    Args:
        subject: For messages: "kernel square".
        inputs: What can be differentiated by.
        outputs: What can be differentiated.
        mask: Pairs of input and output, each by name or by index.
        names: All names of inputs and of outputs, differentiable or not, in order.

    Raises:
        GradcheckError: The mask names what there is not.
    """
    pairs = Pairs()
    if mask is None:
        # An array that is written in place is an input and an output under one name.
        pairs.chosen = [(i, o) for i in inputs for o in outputs]
        return pairs
    for entry in mask:
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            raise GradcheckError(
                f"{subject}: an entry of the input-output mask is a pair (input, output); got {entry!r}",
                mend='write ("x", "y") or (0, 0)',
            )
        if not all(isinstance(key, str | int) for key in entry):
            raise GradcheckError(
                f"{subject}: inputs and outputs in a mask are names or indices; got {entry!r}"
            )
        source = _find(subject, "input", entry[0], inputs, names[0])
        target = _find(subject, "output", entry[1], outputs, names[1])
        if source is None or target is None:
            missing = entry[0] if source is None else entry[1]
            pairs.notes.append(
                f"not checked: {entry!r} was asked for, "
                f"but {missing!r} is not an array with requires_grad=True"
            )
        elif (source, target) not in pairs.chosen:
            pairs.chosen.append((source, target))
    return pairs


def _find(
    subject: str, kind: str, key: str | int, ports: Sequence[Port], names: Sequence[str]
) -> Port | None:
    known = key in names if isinstance(key, str) else 0 <= key < len(names)
    if not known:
        listed = ", ".join(f"{i}: {name}" for i, name in enumerate(names)) or "none"
        raise GradcheckError(
            f"{subject}: the input-output mask names the {kind} {key!r}; the {kind}s are {listed}",
            mend=f"name one of them, or give its index among the {kind}s",
        )
    name = key if isinstance(key, str) else names[key]
    return next((p for p in ports if p.name == name), None)

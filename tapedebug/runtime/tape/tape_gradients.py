"""`Tape.gradients`: the gradients of the arrays and structs on a tape."""

from __future__ import annotations

from typing import Any

from tapedebug._errors import ArrayError
from tapedebug.lang.struct_types import is_struct
from tapedebug.runtime.launch.plan import has_gradient
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.tracker import Tracker


class Gradients(dict[array, array]):
    """`Tape.gradients`: for each array on the tape that requires a gradient, the gradient."""

    def __init__(self, tracker: Tracker) -> None:
        super().__init__({a: _gradient(a) for a in tracker.states if has_gradient(a)})
        self._ledgers = tracker.ledgers

    def __missing__(self, key: Any) -> Any:
        if is_struct(type(key)):
            return self._of_fields(key)
        if isinstance(key, array) and has_gradient(key) and key.buffer in self._ledgers:
            return _gradient(key)
        described = f"the array{key._facts()}" if isinstance(key, array) else repr(key)
        why = (
            "it has no requires_grad"
            if isinstance(key, array) and not key.requires_grad
            else "it is not on the tape"
        )
        raise KeyError(f"the tape has no gradient of {described}: {why}")

    def _of_fields(self, key: Any) -> Any:
        """Return a struct like `key` that holds the gradients of its arrays; None if an array has none."""
        found = type(key)()
        for name in type(key).fields:
            field = getattr(key, name)
            if is_struct(type(field)):
                setattr(found, name, self._of_fields(field))
            elif isinstance(field, array) and has_gradient(field):
                setattr(found, name, self[field])
        return found


def _gradient(a: array) -> array:
    gradient = a.grad
    if gradient is None:
        raise ArrayError(f"the array{a._facts()} has no gradient", hint="create it with requires_grad=True")
    return gradient

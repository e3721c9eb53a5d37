"""One call of a function that launches kernels, recorded on a tape of its own for another library."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapedebug._errors import LaunchError
from tapedebug.lang import types
from tapedebug.runtime.launch.python_operation import not_recording
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.tape.tape import Tape


class ArrayFunction:
    """A function of arrays that launches kernels, with what its signature says about them.

    Args:
        function: The function.
        name: Its name in messages.
        caller: The function of this package that wraps it, for messages.

    Attributes:
        function: The function.
        name: Its name in messages.
    """

    def __init__(self, function: Callable[..., Any], name: str, caller: str) -> None:
        self.function, self.name, self._caller = function, name, caller
        self._dtypes = _annotated(function)

    def error(self, message: str, hint: str) -> LaunchError:
        """Return an error that names the function."""
        return LaunchError(f"{self._caller} of {self.name}: {message}", hint=hint)

    def names(self, count: int, keys: Sequence[str]) -> list[str]:
        """Return the names of the arguments of a call with `count` values, the last ones by keyword."""
        try:
            parameters = [*inspect.signature(self.function).parameters.values()]
        except (TypeError, ValueError):
            parameters = []
        own = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        placed = count - len(keys)
        return [*own[:placed], *(f"args[{number}]" for number in range(len(own), placed)), *keys]

    def dtype(self, name: str) -> Any:
        """Return the type of the elements that the annotation of a parameter asks for, or None."""
        return self._dtypes.get(name)


def _annotated(function: Callable[..., Any]) -> Mapping[str, Any]:
    """Return the types of elements that the annotations of a function ask for."""
    try:
        hints = inspect.get_annotations(function, eval_str=True)
    except Exception:  # names that only a type checker knows, or an object without annotations
        hints = getattr(function, "__annotations__", {})
    dtypes = {name: getattr(hint, "dtype", None) for name, hint in hints.items()}
    return {name: dtype for name, dtype in dtypes.items() if dtype not in (None, Any)}


class RecordedCall:
    """One call of a function of arrays.

    Args:
        owner: The function.
        values: Its arguments: arrays that belong to this call, and other values.
        keys: The names of the last arguments, which are passed by keyword.
        differentiable: Record a tape, for `pull`.

    Attributes:
        outputs: The arrays that the function returned.
        single: It returned one array, not a tuple.

    Raises:
        LaunchError: The function returned something else than arrays; or, if the call is differentiable, an
            array of floats without a gradient, or one that no launch has written.
    """

    def __init__(
        self, owner: ArrayFunction, values: Sequence[object], keys: Sequence[str], *, differentiable: bool
    ) -> None:
        self._owner = owner
        self._tape = Tape("preserve") if differentiable else None
        placed = len(values) - len(keys)
        args, kwargs = values[:placed], dict(zip(keys, values[placed:], strict=True))
        with not_recording():
            if self._tape is None:
                found = owner.function(*args, **kwargs)
            else:
                with self._tape:
                    found = owner.function(*args, **kwargs)
        self.single = isinstance(found, array)
        several = [found] if self.single else found
        self.outputs: list[array] = list(several) if isinstance(several, tuple | list) else []
        self._check(found)

    def _check(self, found: object) -> None:
        if not self.outputs or not all(isinstance(a, array) for a in self.outputs):
            kind = (
                type(found).__name__
                if not self.outputs
                else ", ".join(type(a).__name__ for a in self.outputs)
            )
            raise self._owner.error(f"it returned {kind}", "return an array, or a tuple of arrays")
        if self._tape is None:
            return
        written = {record.args[p].buffer for record in self._tape.records for p in record.plan.written}
        for number, a in enumerate(self.outputs):
            what = "the array that it returned" if self.single else f"array {number} that it returned"
            if not types.is_float(a.dtype):
                continue
            if not a.requires_grad:
                raise self._owner.error(
                    f"{what} has no requires_grad, so that its gradient would be lost",
                    "create it with requires_grad=True",
                )
            if a.buffer not in written:
                raise self._owner.error(
                    f"{what} was written by no launch, so that its gradient would be lost",
                    "compute it in a kernel; return an argument as a copy: wp.clone(x)",
                )

    def pull(self, adjoints: Sequence[array | None]) -> None:
        """Replace the gradients of the arguments by those for these adjoints of the outputs."""
        assert self._tape is not None
        self._tape.zero()
        seeds = {a: seed for a, seed in zip(self.outputs, adjoints, strict=True) if seed is not None}
        if seeds:
            self._tape.backward(grads=seeds)

"""Struct arguments of checks: each array and number in them becomes an argument, as `state.q`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tapedebug._errors import GradcheckError
from tapedebug.autograd.subjects.pairs import obstacle
from tapedebug.contract import is_array
from tapedebug.lang.types import Struct
from tapedebug.runtime.launch.argument_flattening import check_and_flatten, named_parts

if TYPE_CHECKING:
    from tapedebug.compiler.kernel import Kernel


def listed(caller: str, what: str, given: object) -> list[Any]:
    """The arguments of a call: a sequence of them, or the only one.

    Raises:
        GradcheckError: They are given in another form.
    """
    if given is None:
        return []
    if is_array(given) or isinstance(given, Struct):
        return [given]
    if isinstance(given, Mapping | str) or not isinstance(given, Iterable):
        raise GradcheckError(
            f"{caller}: {what} is a list of arguments, in order; got {type(given).__name__}",
            hint=f"pass {what}=[…]",
        )
    return list(given)


def flat_call(kernel: Kernel, inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The arguments of a kernel, structs and indexed arrays taken apart.

    Raises:
        LaunchError: They do not fit the kernel.
    """
    if kernel.flat:
        return list(inputs), list(outputs)
    args = check_and_flatten(kernel, (*inputs, *outputs))
    split = sum(param.declared < len(inputs) for param in kernel.params)
    return list(args[:split]), list(args[split:])


def named_values(name: str, value: object) -> list[tuple[str, Any]]:
    """An argument of a Python function, taken apart: structs, lists and dictionaries of arrays too."""
    if isinstance(value, dict):
        entries = [
            (f"{name}.{key}" if isinstance(key, str) and key.isidentifier() else f"{name}[{key!r}]", inner)
            for key, inner in value.items()
        ]
    elif isinstance(value, list | tuple):
        entries = [(f"{name}[{i}]", inner) for i, inner in enumerate(value)]
    else:
        return named_parts(name, value)
    found = [part for label, inner in entries for part in named_values(label, inner)]
    return found if any(is_array(inner) for _, inner in found) else [(name, value)]


def arrays_in(given: object) -> list[Any]:
    """The arrays of one or several arguments: of structs and arrays of structs, the float fields."""
    several = given if isinstance(given, list | tuple) else [given]
    found: list[Any] = []
    for value in several:
        parts = [inner for _, inner in named_parts("", value)]
        whole = len(parts) == 1 and parts[0] is value
        found += parts if whole else [a for a in parts if is_array(a) and obstacle("", a) is None]
    return found

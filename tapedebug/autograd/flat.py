"""Struct arguments of checks: every array and number in them is an argument of its own, such as `state.q`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tapedebug._errors import GradcheckError
from tapedebug.autograd.pairs import Mask, is_array, obstacle
from tapedebug.runtime._flatten import check_and_flatten, named_parts

Named = tuple[int, str, Any]


def flat_call(kernel: Any, inputs: Sequence[Any], outputs: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The arguments of a kernel, structs and indexed arrays taken apart.

    Raises:
        LaunchError: They do not fit the kernel.
    """
    if kernel.flat:
        return list(inputs), list(outputs)
    args = check_and_flatten(kernel, (*inputs, *outputs))
    split = sum(param.declared < len(inputs) for param in kernel.params)
    return list(args[:split]), list(args[split:])


def flat_named(named: Iterable[Named]) -> list[Named]:
    """Arguments of a Python function as (index, name, value), taken apart; parts keep the index."""
    return [(index, part, inner) for index, name, value in named for part, inner in named_parts(name, value)]


def arrays_in(given: Any) -> list[Any]:
    """The arrays of one or several arguments: of structs and arrays of structs, the float fields."""
    several = given if isinstance(given, list | tuple) else [given]
    found: list[Any] = []
    for value in several:
        parts = [inner for _, inner in named_parts("", value)]
        whole = len(parts) == 1 and parts[0] is value
        found += parts if whole else [a for a in parts if is_array(a) and obstacle("", a) is None]
    return found


def whole_structs(kernel: Any, mask: Mask, named_in: Sequence[Named], named_out: Sequence[Named]) -> Mask:
    """A mask in which declared arguments (by name, or by their place in the call) stand for all their parts.

    Args:
        kernel: The kernel.
        mask: As the user gave it.
        named_in: The flat inputs.
        named_out: The flat outputs.

    Raises:
        GradcheckError: There is no argument at a place that the mask names.
    """
    if mask is None or kernel.flat:
        return mask
    found: list[Any] = []
    for entry in mask:
        if not isinstance(entry, tuple | list) or len(entry) != 2:
            found.append(entry)
            continue
        sources, targets = _parts(kernel, entry[0], named_in), _parts(kernel, entry[1], named_out)
        found += [(source, target) for source in sources for target in targets]
    return found


def _parts(kernel: Any, key: Any, named: Sequence[Named]) -> list[Any]:
    """The names of the flat arguments that a key of a mask means; the key itself where it means none."""
    owners = {param.name: param.declared for param in kernel.params}
    if isinstance(key, str):
        inside = (f"{key}.", f"{key}[")
        parts = {name: value for _, name, value in named if name == key or name.startswith(inside)}
    elif isinstance(key, int):
        declared = list(dict.fromkeys(owners[name] for _, name, _ in named))
        if not 0 <= key < len(declared):
            listed = ", ".join(f"{i}: {kernel.signature[p].name}" for i, p in enumerate(declared))
            raise GradcheckError(
                f"kernel {kernel.key}: the input-output mask names the argument {key}; "
                f"those there are {listed or 'none'}",
                mend="give a place among these, or a name, such as "
                f"{next((name for _, name, _ in named), 'none')!r}",
            )
        parts = {name: value for _, name, value in named if owners[name] == declared[key]}
    else:
        return [key]
    floats = [name for name, value in parts.items() if is_array(value) and obstacle(name, value) is None]
    return floats or list(parts) or [key]

"""How the arguments of launches become slots: small functions written for each kernel, made once.

A loop over arguments, with a question for each, costs more than what it does. So a kernel of three arrays
and a number gets functions of four arguments, as `dataclasses` and `namedtuple` write theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from struct import Struct
from typing import Any

Packer = Callable[[Any], bytes]
"""Checks a number or vector, and gives its slots."""

WRITTEN = f"{__file__} (written)"
"""Where functions stand that are written here: among our own frames, in a file that there is not."""

_FOUR = Struct("=4q")
_KNOWN: dict[int | tuple[int, ...], tuple[tuple[int, ...], int, bytes]] = {}
_MOST = 4096
_WHOLE = {count: (int,) * count for count in range(1, 5)}


def kinds_of(params: Sequence[Any]) -> Callable[..., tuple[Any, ...]]:
    """A function of the arguments of a kernel: what plans are kept under.

    It raises AttributeError or TypeError where they do not fit the kernel; not wherever they do not.

    Args:
        params: The kernel's parameters, flat.
    """
    names = _names(params)
    kinds = [f"{a}._kind" if p.is_array else f"{a}.__class__" for a, p in zip(names, params, strict=True)]
    return _function(f"{', '.join(names)}: ({''.join(kind + ',' for kind in kinds)})")


@cache
def _function(text: str) -> Callable[..., tuple[Any, ...]]:
    code = compile(f"lambda {text}", WRITTEN, "eval")
    made: Callable[..., tuple[Any, ...]] = eval(code, {"__name__": __name__})
    return made


def packing(packers: Sequence[Packer | None], tail: bytes) -> Callable[..., bytes]:
    """A function of the packed sizes of a launch and its arguments: their slots.

    Args:
        packers: For each argument None, where it is an array, or what packs it.
        tail: What comes last.
    """
    names = _names(packers)
    given: dict[str, Any] = {"__name__": __name__, "join": b"".join, "tail": tail}
    parts = []
    for name, packer in zip(names, packers, strict=True):
        parts.append(f"{name}._packed" if packer is None else f"pack_{name}({name})")
        given[f"pack_{name}"] = packer
    text = f"lambda {', '.join(['sizes', *names])}: join(({', '.join(['sizes', *parts, 'tail'])}))"
    made: Callable[..., bytes] = eval(compile(text, WRITTEN, "eval"), given)
    return made


def _names(params: Sequence[Any]) -> list[str]:
    return [f"a{number}" for number in range(len(params))]


def known_dims(dim: Any) -> tuple[tuple[int, ...], int, bytes] | None:
    """What `dims` made of the same sizes earlier."""
    try:
        found = _KNOWN.get(dim)
    except TypeError:  # a list, perhaps
        return None
    # What equals an integer need not be one: 2.0 must be refused.
    if found is None or dim.__class__ is int:
        return found
    return found if dim.__class__ is tuple and (*map(type, dim),) == _WHOLE[len(dim)] else None


def dims(sizes: tuple[int, ...]) -> tuple[tuple[int, ...], int, bytes]:
    """Sizes of a launch, none of them negative: they, their product, and their slots."""
    threads = 1
    for n in sizes:
        threads *= n
    made = sizes, threads, _FOUR.pack(*sizes, *(1,) * (4 - len(sizes)))
    if len(_KNOWN) >= _MOST:
        _KNOWN.clear()
    _KNOWN[sizes] = made
    if len(sizes) == 1:
        _KNOWN[sizes[0]] = made
    return made

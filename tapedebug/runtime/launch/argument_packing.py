"""Pack launch arguments into slots, with functions that are generated for each kernel.

With loops in place of them, launches take 1.2 times as long (`runtime.generated_functions`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

from tapedebug.runtime.generated_functions import function_from_text

Packer = Callable[[Any], bytes]
"""A function that checks a number or vector and returns its slots."""

_PROBE = b"tapedebug"
HEADER = bytes.__basicsize__ - 1
"""Offset of the content of a bytes object in CPython: arguments are passed by its address, without a copy."""

if ctypes.string_at(id(_PROBE) + HEADER, len(_PROBE)) != _PROBE:  # pragma: no cover - another Python
    raise ImportError("tapedebug needs CPython: bytes objects are not laid out as expected")


def address_of(packed: bytes) -> int:
    """Return the address of the content of a bytes object, valid while it lives."""
    return id(packed) + HEADER


Dims = tuple[tuple[int, ...], int, bytes]
"""The sizes of a launch, their product, and their slots."""

KNOWN: dict[Any, Dims] = {}
"""Cached results of `dims` by the tuple of sizes; a single size is also a key by itself."""

_FOUR = Struct("=4q")
_MOST = 4096
_REMEMBERED = 256
"""Maximum number of cached values of one parameter."""
_WHOLE = {count: (int,) * count for count in range(1, 5)}


class Remembering:
    """A packer that caches the slots of numbers, because checking and rounding a number takes longer.

    Args:
        pack: The function that checks a number and returns its slots.
        usual: The class of the numbers that are cached.
    """

    __slots__ = ("_pack", "known", "usual")

    def __init__(self, pack: Packer, usual: type) -> None:
        self.known: dict[Any, bytes] = {}
        self._pack, self.usual = pack, usual

    def __call__(self, value: Any) -> bytes:
        """Return the slots of a number."""
        usual, known = value.__class__ is self.usual, self.known
        found = known.get(value) if usual else None
        if found is None:
            found = self._pack(value)
            if usual and (value or self.usual is int):  # 0.0 and -0.0 are equal but have different bits
                if len(known) >= _REMEMBERED:
                    known.clear()
                known[value] = found
        return found


class PackingText:
    """The expressions that generated functions pack the arguments of a launch with.

    Args:
        packers: For each argument its packer, or None for an array.
        args: Arguments of the kinds that are packed.
        tail: The bytes after the arguments.

    Attributes:
        names: The names that the arguments must have: `a0`, `a1`, …; the packed sizes must be `sizes`.
        fits: True if the arguments are of the same kinds as `args`.
        slots: The slots. May raise AttributeError, TypeError or ValueError if they do not fit the kernel.
        values: The global names of the expressions.
    """

    def __init__(self, packers: Sequence[Packer | None], args: Sequence[Any], tail: bytes) -> None:
        self.names = [f"a{number}" for number in range(len(packers))]
        values: dict[str, Any] = {"join": b"".join, "tail": tail}
        parts, tests = [], []
        for name, packer, a in zip(self.names, packers, args, strict=True):
            values |= {f"pack_{name}": packer, f"kind_{name}": a._kind if packer is None else a.__class__}
            if packer is None:
                parts.append(f"{name}._packed")
                tests.append(f"{name}._kind == kind_{name}")
                continue
            tests.append(f"{name}.__class__ is kind_{name}")
            if isinstance(packer, Remembering) and packer.usual is a.__class__:
                values[f"known_{name}"] = packer.known.get
                parts.append(f"known_{name}({name}) or pack_{name}({name})")
            else:
                parts.append(f"pack_{name}({name})")
        self.fits = " and ".join(tests) or "True"
        self.slots = f"join(({', '.join(['sizes', *parts, 'tail'])}))"
        self.values = values


def packing(
    packers: Sequence[Packer | None], args: Sequence[Any], tail: bytes
) -> tuple[Callable[[bytes, tuple[Any, ...]], bytes], Callable[[bytes, tuple[Any, ...]], bytes | None]]:
    """Return two functions that map the packed sizes of a launch and its arguments to the slots.

    Both take the arguments in one tuple: to pass them one by one costs another tuple, and a slower call. The
    second returns None if the arguments are of other kinds than `args`. Both raise what `PackingText` says.
    """
    text = PackingText(packers, args, tail)

    def made(name: str, result: str) -> Callable[..., Any]:
        lines = f"def {name}(sizes, args):", f"({', '.join([*text.names, ''])}) = args", f"return {result}"
        return function_from_text(name, "\n    ".join(lines) + "\n", text.values)

    return made("packed", text.slots), made("fitted", f"{text.slots} if {text.fits} else None")


def known_dims(dim: Any) -> Dims | None:
    """Return the cached result of `dims` for these sizes, or None."""
    if dim.__class__ is list:
        dim = (*dim,)
    try:
        found = KNOWN.get(dim)
    except TypeError:  # unhashable
        return None
    if found is None or found[0] is dim or dim.__class__ is int:
        return found
    # A value that equals an integer need not be one: 2.0 must be rejected. (As `is_sizes`, without a call.)
    return found if dim.__class__ is tuple and (*map(type, dim),) == _WHOLE[len(dim)] else None


def is_sizes(dim: Any) -> bool:
    """Return True for a tuple of one to four integers."""
    return dim.__class__ is tuple and (*map(type, dim),) == _WHOLE.get(len(dim))


def dims(sizes: tuple[int, ...]) -> Dims:
    """Return the non-negative sizes of a launch, their product and their slots; cache the result."""
    threads = 1
    for n in sizes:
        threads *= n
    made = sizes, threads, _FOUR.pack(*sizes, *(1,) * (4 - len(sizes)))
    if len(KNOWN) >= _MOST:
        KNOWN.clear()
    KNOWN[sizes] = made
    if len(sizes) == 1:
        KNOWN[sizes[0]] = made
    return made

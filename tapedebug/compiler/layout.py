"""The layout of packed launch arguments: 8-byte slots that all variants of a kernel share."""

from __future__ import annotations

from functools import cached_property
from itertools import count
from struct import Struct

from tapedebug._dataclass import dataclass
from tapedebug.compiler.params import Param
from tapedebug.lang import types as t

DIMS = 4
"""Slots of the launch's axes, padded with 1."""


@dataclass(frozen=True)
class Layout:
    """The slots of a kernel's arguments.

    In order: the four axes of the launch (`q`); each parameter (an array as its pointer `Q`, shape `q`, and
    strides `q` in scalars; a number or vector as `q` or `d` a component); then one adjoint pointer (`Q`) for
    each array parameter.
    """

    params: tuple[Param, ...]

    @cached_property
    def _plan(self) -> tuple[str, tuple[int, ...], tuple[int | None, ...]]:
        codes, values, adjoints = ["q" * DIMS], [], []
        at = DIMS
        for param in self.params:
            values.append(at)
            if param.is_array:
                code = "Q" + "q" * (2 * param.type.ndim)
            else:
                code = ("d" if t.is_float(param.type) else "q") * t.components(param.type)
            codes.append(code)
            at += len(code)
        for param in self.params:
            adjoints.append(at if param.is_array else None)
            at += param.is_array
        codes.append("Q" * sum(p.is_array for p in self.params))
        return "=" + "".join(codes), tuple(values), tuple(adjoints)

    @cached_property
    def struct(self) -> Struct:
        """Packs all slots."""
        return Struct(self._plan[0])

    @property
    def print_buffer(self) -> int:
        """The slot of the print buffer's address, after all others."""
        return self.struct.size // 8

    @property
    def values(self) -> tuple[int, ...]:
        """The first slot of each parameter: for an array, its pointer."""
        return self._plan[1]

    @property
    def adjoints(self) -> tuple[int | None, ...]:
        """The slot of each parameter's adjoint pointer; None of what is not an array."""
        return self._plan[2]

    @cached_property
    def dots(self) -> tuple[int | None, ...]:
        """The slot of each parameter's tangent pointer, after all others: in tangents of adjoints only."""
        return self._after(self.size // 8)

    @cached_property
    def adjoint_dots(self) -> tuple[int | None, ...]:
        """The slot of the pointer to the tangent of each parameter's adjoint; after `dots`."""
        return self._after(self.size // 8 + self.arrays)

    @property
    def epoch(self) -> int:
        """The slot after the print buffer's: the epoch of a tracked launch, and afterwards what it found."""
        return self.print_buffer + 1

    @cached_property
    def access_tags(self) -> tuple[int | None, ...]:
        """The slot of the pointer to each parameter's tags, after `epoch`: in tracked variants only."""
        return self._after(self.epoch + 1)

    @cached_property
    def tracked(self) -> Struct:
        """The slots after all others of tracked variants: print buffer, epoch, pointers to tags."""
        return Struct(f"=QQ{self.arrays}Q")

    def _after(self, slot: int) -> tuple[int | None, ...]:
        numbers = count(slot)
        return tuple(next(numbers) if param.is_array else None for param in self.params)

    @property
    def arrays(self) -> int:
        """The number of parameters that are arrays."""
        return sum(param.is_array for param in self.params)

    @property
    def size(self) -> int:
        """Bytes of all slots but those of `dots` and `adjoint_dots`."""
        return self.struct.size

    def shape(self, param: int, axis: int) -> int:
        """The slot of the length of an array's axis."""
        return self.values[param] + 1 + axis

    def stride(self, param: int, axis: int) -> int:
        """The slot of the stride of an array's axis, in scalars."""
        return self.values[param] + 1 + int(self.params[param].type.ndim) + axis

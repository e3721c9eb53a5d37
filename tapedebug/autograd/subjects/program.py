"""The program under check: a launch, a recorded function or a whole tape, on private memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from tapedebug.autograd.array_types import Floats, Indices

if TYPE_CHECKING:
    from tapedebug.autograd.subjects.write_sites import WriteSite

Place = int | str
"""How a Jacobian is found: the place of the argument, or the name of a field of a struct."""

IN_PLACE = " (in place)"
"""Ends the name of an output that is checked as an input, too."""


@dataclass(frozen=True, eq=False)
class Port:
    """An array through which derivatives go in or come out, or some of its entries.

    A mask such as `[("x[3:5]", "y"), ("x[0]", "y[0]")]` makes ports that are restricted to `only` some
    entries; several ports then have one array. A program takes and gives the values, adjoints and tangents of
    *whole* arrays, (size,) for each port; a selection of rows and columns of a Jacobian must be among
    `positions`, as in `Probes.of(port)`.

    Attributes:
        index: Where the argument that it is, or is a field of, stands among the inputs, or among the outputs.
        name: Parameter name, or label.
        array: The array itself.
        shape: Of its values, components last.
        components: Scalars in one element.
        in_place: It is an output that is also read, checked as an input though not named as one.
        only: Flat positions of the scalars that a mask restricts it to, sorted; None: all of them.
        label: Its name in tables and masks: "x", or "x[3:5]" where it is restricted.
        field: It is a field of a struct.
        written: Of an output, where it is written.
    """

    index: int
    name: str
    array: Any
    shape: tuple[int, ...]
    components: int = 1
    in_place: bool = False
    only: Indices | None = None
    label: str = ""
    field: bool = False
    written: WriteSite | None = None

    def __post_init__(self) -> None:
        if not self.label or self.only is None:
            object.__setattr__(self, "label", self.name)

    @property
    def place(self) -> Place:
        """Its side of the key of a Jacobian."""
        return self.name if self.field else self.index

    @property
    def positions(self) -> Indices:
        """Flat positions of the scalars that are asked for."""
        return np.arange(self.size) if self.only is None else self.only

    @property
    def value_type(self) -> type:
        """The class of its elements in the kernel language; `float` for arrays of other engines."""
        found: type = getattr(self.array, "dtype", float)
        return found

    @property
    def rounding(self) -> float:
        """The relative spacing of its floating-point numbers."""
        return float(np.finfo(self.array.scalar_dtype).eps)

    @property
    def size(self) -> int:
        """The number of scalars that it holds."""
        return math.prod(self.shape)


class Program(Protocol):
    """Something that can be run forward in float64 and backward in float32 and float64, on private memory."""

    @property
    def subject(self) -> str:
        """Its name in messages."""
        ...

    @property
    def launch(self) -> int | None:
        """Index of the launch on its tape, None where it is not one launch of a tape."""
        ...

    @property
    def inputs(self) -> Sequence[Port]:
        """The ports by which derivatives can be taken."""
        ...

    @property
    def outputs(self) -> Sequence[Port]:
        """The ports of which derivatives can be taken."""
        ...

    @property
    def kernels(self) -> Sequence[Any]:
        """The kernels of its launches."""
        ...

    def values(self, port: Port) -> Floats:
        """The values of an input, (size,) float64."""
        ...

    def evaluate(self, changes: Mapping[Port, Floats], *, single: bool = False) -> dict[Port, Floats]:
        """Run forward with some inputs replaced, in float64 (`single`: as the user's program, in float32).

        Returns:
            All outputs, (size,) float64 each.
        """
        ...

    def pull(
        self,
        seeds: Mapping[Port, Floats],
        *,
        at: Mapping[Port, Floats] | None = None,
        double: bool = False,
        preserved: bool = False,
    ) -> dict[Port, Floats]:
        """Run backward from adjoints of outputs, as the user's program would.

        Args:
            seeds: Adjoints of outputs, (size,) each.
            at: Inputs to replace before the forward pass that precedes.
            double: Use the float64 twin of the adjoint.
            preserved: Let adjoints see the values of the forward pass, whatever `on_overwrite` the tape has.

        Returns:
            The adjoints of all inputs, (size,) float64 each.
        """
        ...

    def pull_rounded(self, seeds: Mapping[Port, Floats]) -> dict[Port, Floats]:
        """`pull` of the float64 twin with each result rounded as much as in float32, but not in the same way.

        How far it is off the twin itself is what rounding does inside of the launches.
        """
        ...

    def push(
        self,
        tangents: Mapping[Port, Floats],
        *,
        at: Mapping[Port, Floats] | None = None,
        double: bool = True,
    ) -> dict[Port, Floats]:
        """Run forward with tangents of inputs, (size,) each; those of the others are zero.

        Args:
            tangents: Tangents of inputs.
            at: Inputs to replace before.
            double: Use the float64 twins.

        Returns:
            The tangents of all outputs, (size,) float64 each.
        """
        ...

    def evaluate_many(
        self, changes: Mapping[Port, Floats], *, single: bool = False, dtype: DTypeLike | None = np.float64
    ) -> dict[Port, Floats]:
        """`evaluate` for several displaced inputs: (count, size) in and out, run by run the same.

        Args:
            changes: Values of inputs, (count, size) each; all others are as in every other run.
            single: As for `evaluate`.
            dtype: Of the result; None leaves it as it is in memory: float64 of twins, else the array's own.
        """
        ...

    def pull_many(
        self,
        seeds: Mapping[Port, Floats],
        *,
        wanted: Sequence[Port] | None = None,
        double: bool = False,
        preserved: bool = False,
        dtype: DTypeLike | None = np.float64,
    ) -> dict[Port, Floats]:
        """`pull` for several seeds: (count, size) in and out, the same to the bit.

        Args:
            seeds: Adjoints of outputs, (count, size) of any float dtype; those of other outputs are zero.
            wanted: The inputs whose adjoints are returned; all where None.
            double: As for `pull`.
            preserved: As for `pull`.
            dtype: Of the result, as for `evaluate_many`.
        """
        ...

    def push_many(
        self, tangents: Mapping[Port, Floats], *, double: bool = True, dtype: DTypeLike | None = np.float64
    ) -> dict[Port, Floats]:
        """`push` for several tangents: (count, size) in and out, the same to the bit.

        Args:
            tangents: Of inputs, (count, size) each; those of other inputs are zero.
            double: As for `push`.
            dtype: Of the result, as for `evaluate_many`.
        """
        ...


def distinct(ports: Sequence[Port]) -> list[Port]:
    """One port for each array."""
    return list({id(port.array): port for port in reversed(ports)}.values())[::-1]


@dataclass
class Pairs:
    """The input-output pairs that were asked for, and why others were left out."""

    chosen: list[tuple[Port, Port]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def inputs(self) -> list[Port]:
        """The inputs, each once, in order; an array may stand for several (see `Port`)."""
        return list(dict.fromkeys(i for i, _ in self.chosen))

    def outputs(self, of: Port | None = None) -> list[Port]:
        """The outputs (paired with the input `of`), each once, in order."""
        return list(dict.fromkeys(o for i, o in self.chosen if of is None or i is of))

"""The program under check: a launch, a recorded function or a whole tape, on private memory."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from tapedebug._dataclass import dataclass
from tapedebug._float_types import float_info
from tapedebug.autograd.array_types import Floats, Indices

if TYPE_CHECKING:
    from tapedebug.autograd.subjects.write_sites import WriteSite

Place = int | str
"""The key of a Jacobian's side: the index of the argument, or the name of a field of a struct."""

IN_PLACE = " (in place)"
"""Suffix of the name of an output that is also checked as an input."""


@dataclass(frozen=True, eq=False)
class Port:
    """An array by which, or of which, derivatives are taken, or some of its entries.

    A mask such as `[("x[3:5]", "y"), ("x[0]", "y[0]")]` creates ports that are restricted to `only` some
    entries; several ports then refer to one array. A program takes and returns the values, adjoints and
    tangents of *whole* arrays, (size,) for each port; selected rows and columns of a Jacobian must be among
    `positions`, as in `Probes.of(port)`.

    Attributes:
        index: Index of the argument, or of the struct argument, among the inputs or the outputs.
        name: Parameter name, or label.
        array: The array itself.
        shape: Shape of its values, components last.
        components: Number of scalars in one element.
        in_place: True for an output that is also read, and is checked as an input although not named as one.
        only: Flat positions of the scalars that a mask restricts it to, sorted; None for all of them.
        label: Its name in tables and masks: "x", or "x[3:5]" if it is restricted.
        field: True for a field of a struct.
        written: For an output, where it is written.
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
        """Flat positions of the selected scalars."""
        return np.arange(self.size) if self.only is None else self.only

    @property
    def value_type(self) -> type:
        """The class of its elements in the kernel language; `float` for arrays of other engines."""
        found: type = getattr(self.array, "dtype", float)
        return found

    @property
    def rounding(self) -> float:
        """The relative spacing of its floating-point numbers."""
        return float(float_info(self.array.scalar_dtype).eps)

    @property
    def size(self) -> int:
        """The number of its scalars."""
        return math.prod(self.shape)


class Program(Protocol):
    """A program that runs forward in float64, and backward in float32 and float64, on private memory."""

    @property
    def subject(self) -> str:
        """Its name in messages."""
        ...

    @property
    def launch(self) -> int | None:
        """Index of the launch on its tape; None if it is not one launch of a tape."""
        ...

    @property
    def is_narrow(self) -> bool:
        """True if parts of its float64 run compute in float32: small displacements vanish there."""
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
        """Run forward with some inputs replaced, in float64 (`single`: in float32, like the user's program).

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
        """Run backward from adjoints of outputs, like the user's program.

        Args:
            seeds: Adjoints of outputs, (size,) each.
            at: Inputs to replace before the preceding forward pass.
            double: Use the float64 twin of the adjoint.
            preserved: Let adjoints read the values of the forward pass, whatever the tape's `on_overwrite`.

        Returns:
            The adjoints of all inputs, (size,) float64 each.
        """
        ...

    def pull_rounded(self, seeds: Mapping[Port, Floats]) -> dict[Port, Floats]:
        """Run `pull` of the float64 twin with each result rounded as much as in float32, but differently.

        The difference from the twin itself is the effect of rounding inside the launches.
        """
        ...

    def push(
        self,
        tangents: Mapping[Port, Floats],
        *,
        at: Mapping[Port, Floats] | None = None,
        double: bool = True,
    ) -> dict[Port, Floats]:
        """Run forward with tangents of inputs, (size,) each; other inputs have zero tangents.

        Args:
            tangents: Tangents of inputs.
            at: Inputs to replace first.
            double: Use the float64 twins.

        Returns:
            The tangents of all outputs, (size,) float64 each.
        """
        ...

    def evaluate_many(
        self, changes: Mapping[Port, Floats], *, single: bool = False, dtype: DTypeLike | None = np.float64
    ) -> dict[Port, Floats]:
        """Run `evaluate` for several displaced inputs: (count, size) in and out, each row as in a single run.

        Args:
            changes: Values of inputs, (count, size) each; other inputs are not replaced.
            single: As for `evaluate`.
            dtype: Dtype of the result; None for that in memory: float64 for twins, else the array's own.
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
        """Run `pull` for several seeds: (count, size) in and out, bit-equal to single runs.

        Args:
            seeds: Adjoints of outputs, (count, size) of any float dtype; those of other outputs are zero.
            wanted: The inputs whose adjoints are returned; None for all.
            double: As for `pull`.
            preserved: As for `pull`.
            dtype: Dtype of the result, as for `evaluate_many`.
        """
        ...

    def push_many(
        self, tangents: Mapping[Port, Floats], *, double: bool = True, dtype: DTypeLike | None = np.float64
    ) -> dict[Port, Floats]:
        """Run `push` for several tangents: (count, size) in and out, bit-equal to single runs.

        Args:
            tangents: Tangents of inputs, (count, size) each; those of other inputs are zero.
            double: As for `push`.
            dtype: Dtype of the result, as for `evaluate_many`.
        """
        ...


def distinct(ports: Sequence[Port]) -> list[Port]:
    """Return one port for each array."""
    return list({id(port.array): port for port in reversed(ports)}.values())[::-1]


@dataclass
class Pairs:
    """The input-output pairs to check, and the reasons why others were left out."""

    chosen: list[tuple[Port, Port]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def inputs(self) -> list[Port]:
        """Return the inputs, each once, in order; several may refer to one array (see `Port`)."""
        return list(dict.fromkeys(i for i, _ in self.chosen))

    def outputs(self, of: Port | None = None) -> list[Port]:
        """Return the outputs (those paired with the input `of`), each once, in order."""
        return list(dict.fromkeys(o for i, o in self.chosen if of is None or i is of))

"""What a check runs: a launch, a recorded function or a whole tape, on private memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from tapedebug.autograd.differences import Floats
from tapedebug.lang.types import numpy_dtype


@dataclass(frozen=True, eq=False)
class Port:
    """An array through which derivatives go in or come out.

    Attributes:
        index: Where it stands among the inputs, or among the outputs.
        name: Parameter name, or label.
        array: The array itself.
        shape: Of its values, components last.
        components: Scalars in one element.
        in_place: It is an output that is also read, checked as an input though not named as one.
    """

    index: int
    name: str
    array: Any
    shape: tuple[int, ...]
    components: int = 1
    in_place: bool = False

    @property
    def rounding(self) -> float:
        """The relative spacing of its floating-point numbers."""
        return float(np.finfo(numpy_dtype(self.array.dtype)).eps)

    @property
    def size(self) -> int:
        """How many scalars it holds."""
        return int(np.prod(self.shape, dtype=np.int64))


class Program(Protocol):
    """Something that can be run forward in float64 and backward in float32 and float64, on private memory."""

    @property
    def subject(self) -> str:
        """What it is called in messages."""
        ...

    @property
    def launch(self) -> int | None:
        """Index of the launch on its tape, None where it is not one launch of a tape."""
        ...

    @property
    def inputs(self) -> Sequence[Port]:
        """What derivatives can be taken by."""
        ...

    @property
    def outputs(self) -> Sequence[Port]:
        """What derivatives can be taken of."""
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


@dataclass
class Pairs:
    """The input-output pairs that were asked for, and why others were left out."""

    chosen: list[tuple[Port, Port]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def inputs(self) -> list[Port]:
        """The inputs, each once, in order."""
        return list(dict.fromkeys(i for i, _ in self.chosen))

    def outputs(self, of: Port | None = None) -> list[Port]:
        """The outputs (paired with the input `of`), each once, in order."""
        return list(dict.fromkeys(o for i, o in self.chosen if of is None or i is of))

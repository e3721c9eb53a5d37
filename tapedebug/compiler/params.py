"""The parameters of a kernel."""

from __future__ import annotations

from typing import Any

from tapedebug._dataclass import dataclass
from tapedebug.lang.types import ArrayType


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of a kernel: its name, type (array, scalar or vector) and place.

    `owner` is the place of the declared parameter that it is a part of (`compiler.flatten`); None where it
    is one itself.
    """

    name: str
    type: Any
    index: int
    owner: int | None = None

    @property
    def declared(self) -> int:
        """The place of the declared parameter."""
        return self.index if self.owner is None else self.owner

    @property
    def is_array(self) -> bool:
        """True if the parameter is an array."""
        return isinstance(self.type, ArrayType)

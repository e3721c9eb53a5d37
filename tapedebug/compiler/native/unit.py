"""A native function: its snippets and signature, and the frame through which kernels call it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from tapedebug._dataclass import dataclass
from tapedebug.lang import types as t

FORWARD, ADJOINT, REPLAY = "forward", "adjoint", "replay"
COMMENTS = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.DOTALL)


@dataclass(frozen=True)
class Snippets:
    """The snippets that a user gave to `func_native`.

    Attributes:
        forward: The body of the function.
        adjoint: What adjoints run; None where there is no gradient, empty where none is meant to flow.
        replay: What adjoints run where they need the result again; None for the body.
    """

    forward: str
    adjoint: str | None = None
    replay: str | None = None

    def of(self, variant: str) -> str:
        """The snippet of a variant, which there must be."""
        text = {FORWARD: self.forward, ADJOINT: self.adjoint, REPLAY: self.replay}[variant]
        assert text is not None
        return text

    @property
    def variants(self) -> Iterator[str]:
        """The variants for which there is a snippet."""
        yield FORWARD
        if self.adjoint:  # an empty one is run nowhere
            yield ADJOINT
        if self.replay is not None:
            yield REPLAY

    def mentions(self, variant: str, name: str) -> bool:
        """True if a snippet has a name in its code; pasted names (`##`) count as any name."""
        code = COMMENTS.sub(" ", self.of(variant))
        return "##" in code or re.search(rf"\b{re.escape(name)}\b", code) is not None


@dataclass(frozen=True)
class Word:
    """One word of a frame.

    Attributes:
        name: The parameter; `"ret"` for the result.
        kind: `"value"`, `"array"`, `"adjoint"` (of a value), `"array_adjoint"`, `"seed"` or `"result"`.
        component: Of a value with components.
        scalar: The type of what it holds; None for a pointer.
    """

    name: str
    kind: str
    component: int = 0
    scalar: type[t.Scalar] | None = None


@dataclass(frozen=True)
class Signature:
    """The parameters of a native function and its result, in the types of the kernel language."""

    name: str
    parameters: tuple[tuple[str, Any], ...]
    result: Any = None
    references: tuple[str, ...] = ()
    """The parameters by reference: the words of their values hold those after a call, too."""

    @property
    def arrays(self) -> list[str]:
        """The parameters that are arrays."""
        return [name for name, kind in self.parameters if isinstance(kind, t.ArrayType)]

    @property
    def result_size(self) -> int:
        """The number of components of the result."""
        return 0 if self.result is None else t.components(self.result)

    @property
    def referred(self) -> list[tuple[str, int]]:
        """The parameters by reference, each with its components."""
        return [
            (name, place)
            for name, kind in self.parameters
            if name in self.references
            for place in range(t.components(kind))
        ]

    def words(self, variant: str) -> list[Word]:
        """The frame of a variant: its arguments, then adjoints and seeds, or results."""
        found: list[Word] = []
        for name, kind in self.parameters:
            found += [Word(name, "array")] if isinstance(kind, t.ArrayType) else _parts(name, "value", kind)
        if variant != ADJOINT:
            return found + (_parts("ret", "result", self.result) if self.result is not None else [])
        for name, kind in self.parameters:
            if t.is_float(kind):
                array = isinstance(kind, t.ArrayType)
                found += [Word(name, "array_adjoint")] if array else _parts(name, "adjoint", kind)
        if self.result is not None and t.is_float(self.result):
            found += _parts("ret", "seed", self.result)
        return found


class ForeignFunction(Protocol):
    """A function that the kernel language only calls: of C, or of Numba."""

    @property
    def name(self) -> str:
        """The function's name."""

    @property
    def signature(self) -> Signature:
        """The parameters and the results."""

    @property
    def snippets(self) -> Snippets:
        """Its variants."""

    @property
    def is_numba(self) -> bool:
        """True if Numba compiles it."""

    @property
    def raises(self) -> bool:
        """True if it can raise an exception."""

    @property
    def narrows(self) -> bool:
        """True if its float64 twin rounds results to float32."""

    def symbol(self, variant: str, *, f64: bool = False) -> str:
        """Return the symbol of a variant, which is called with a frame."""

    def value_symbol(self, variant: str, place: int, *, f64: bool = False) -> str:
        """Return the symbol of one result of a variant, which is called with numbers."""

    def called(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return its results in Python."""

    def read(self, variant: str) -> frozenset[str]:
        """Return the arrays that a variant may read."""

    def written(self, variant: str) -> frozenset[str]:
        """Return the arrays that a variant may write to."""

    def mentioned(self, variant: str) -> frozenset[str]:
        """Return the arrays that a variant names."""


def _parts(name: str, word: str, kind: Any) -> list[Word]:
    return [Word(name, word, k, t.scalar_of(kind)) for k in range(t.components(kind))]

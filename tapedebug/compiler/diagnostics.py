"""Messages of running kernels: the words that they leave in the print buffer, and their meaning.

Generated code writes the number of a diagnostic, its thread and its values; everything else is known from the
source when the kernel is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._source import Span
from tapedebug.lang import types as t
from tapedebug.lang.lowering import SHORT_FLOATS

MOST = 128
"""Values that one diagnostic may have."""

ASSERT, BOUNDS, EXPECT, PRINT, PRINTF = "assert", "bounds", "expect", "print", "printf"
PAUSE = "breakpoint"
RAISED = "raised"
"""An exception that a function of Numba's raised: an `assert` whose first operand is where it stands."""
TOUCH = "touch"
"""An access; tracked variants report its conflicts with other threads (`compiler.access_tags`)."""
FATAL = frozenset({ASSERT, BOUNDS, RAISED})
"""Remarks that end the launch."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A value of a diagnostic: its type, what the source calls it, and how it is formatted."""

    type: Any
    name: str = ""
    format: str = ""


Piece = str | Shown


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """A message that one place in the source can emit.

    Attributes:
        kind: `"print"`, `"printf"`, `"expect"`, `"assert"`, `"raised"`, `"bounds"`, `"breakpoint"` or
            `"touch"`.
        span: The place in the source.
        arguments: What is printed, or an assertion's message: pieces of text and values for each argument.
        operands: Of an assertion, an expectation or a bound, the values that explain it.
        text: Of a `printf` its format, of a bound what is indexed, of an expectation what is expected, of an
            access its kind and parameter.
        notes: How a call came there.
        separator: Of a `print`, what stands between its arguments.
        end: And what after them.
    """

    kind: str
    span: Span
    arguments: tuple[tuple[Piece, ...], ...] = ()
    operands: tuple[Shown, ...] = ()
    text: str = ""
    notes: tuple[str, ...] = ()
    separator: str = " "
    end: str = "\n"

    @property
    def values(self) -> list[Shown]:
        """All values, in the order in which they stand in the print buffer."""
        pieces = [piece for argument in self.arguments for piece in argument]
        return [piece for piece in pieces if isinstance(piece, Shown)] + list(self.operands)

    def read(self, words: np.ndarray[Any, Any]) -> list[Any]:
        """The values as NumPy and we have them, from the words of the print buffer (int64)."""
        left = iter(range(len(words)))

        def number(kind: type[t.Scalar]) -> Any:
            k = next(left)
            stored = t.float32 if kind in SHORT_FLOATS else kind
            return kind.numpy.type(words[k : k + 1].view(stored.numpy)[0])

        found = []
        for value in self.values:
            scalar = t.scalar_of(value.type)
            numbers = [number(scalar) for _ in range(t.components(value.type))]
            found.append(value.type(*numbers) if t.is_compound(value.type) else numbers[0])
        return found

    def formatted(self, words: np.ndarray[Any, Any]) -> str:
        """The text of the arguments."""
        left = iter(self.read(words))
        if self.kind == PRINTF:
            return self.text % tuple(_c_number(value, next(left)) for value in self.values)
        return self.separator.join("".join(_pieces(pieces, left)) for pieces in self.arguments) + self.end

    def operand_values(self, words: np.ndarray[Any, Any]) -> list[str]:
        """The operands by name, each in one line: `x[i] is 2.0`."""
        values = self.read(words)[len(self.values) - len(self.operands) :]
        return [
            f"{o.name} is {v!r}" if isinstance(v, t.Compound) else f"{o.name} is {shown(v)}"
            for o, v in zip(self.operands, values, strict=True)
        ]


def _pieces(pieces: tuple[Piece, ...], values: Iterator[Any]) -> Iterator[str]:
    for piece in pieces:
        yield piece if isinstance(piece, str) else shown(next(values), piece.format)


def shown(value: Any, format: str = "") -> str:
    """A value as Python's print shows it, in as many digits as its type has; or as a format says."""
    if format:
        return f"{value.item() if isinstance(value, np.generic) else value:{format}}"
    return str(value)


def _c_number(of: Shown, value: Any) -> Any:
    """A value for a conversion of `printf`: `%u` and `%x` show negative integers as unsigned ones."""
    number = value.item()
    return number % 2 ** (8 * value.itemsize) if of.format == "unsigned" else number

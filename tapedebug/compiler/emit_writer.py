"""The writer of generated text: lines with their spans, names, constants."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._source import Span
from tapedebug.compiler.access_tags import AccessTagging
from tapedebug.compiler.access_trace import TraceInfo
from tapedebug.compiler.diagnostics import Diagnostic
from tapedebug.compiler.generated_source import Line
from tapedebug.compiler.ir import Function, Op, Value
from tapedebug.compiler.layout import Layout
from tapedebug.lang import types as t
from tapedebug.lang.lowering import SHORT_FLOATS, ShortFloat


@dataclass
class Writer:
    """The state of emitting one function; the parts of the emitter build on it."""

    function: Function
    layout: Layout
    f64: bool
    strided: bool
    guarded: bool
    checked: bool
    tagging: AccessTagging | None
    lines: list[Line] = field(default_factory=list)
    indent: int = 0
    names: dict[Value, str] = field(default_factory=dict)
    numbers: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    span: Span | None = None
    counted: set[int] = field(default_factory=set)
    stacks: list[str] = field(default_factory=list)
    counters: set[Value] = field(default_factory=set)
    used: set[Value] = field(default_factory=set)
    slots: dict[int, dict[int, int]] = field(default_factory=dict)
    diagnostics: dict[Diagnostic, int] = field(default_factory=dict)
    always: set[int] = field(default_factory=set)
    tagged: int = 0
    tracing: TraceInfo | None = None
    columns: dict[int, int] = field(default_factory=dict)

    @contextmanager
    def _suite(self, indent: int = 1) -> Iterator[None]:
        """Indented lines, with a `pass` where there would be none."""
        self.indent += indent
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self._line("pass")
        self.indent -= indent

    def _code(self, kind: type[t.Scalar]) -> str:
        """The type of a value; one of 16 bits is held as the float32 of the same value."""
        if kind in SHORT_FLOATS or kind is t.float32:
            return "f64" if self.f64 else "f32"
        return kind.code

    def _short(self, kind: type[t.Scalar]) -> ShortFloat | None:
        """The functions of a type whose values are rounded to 16 bits, which the float64 twin does not do."""
        return None if self.f64 else SHORT_FLOATS.get(kind)

    def _stored(self, kind: type[t.Scalar]) -> str:
        """The type of what memory holds: of a float of 16 bits, these bits."""
        return self._code(kind) if self._short(kind) is None else "u16"

    def _line(self, text: str) -> None:
        self.lines.append(Line("    " * self.indent + text, self.span))

    def _name(self, value: Value) -> str:
        name = self.names.get(value)
        if name is None:
            hint = re.sub(r"[^0-9A-Za-z_]", "", value.hint.replace(".", "_")) or "v"
            stem = hint if not hint[0].isdigit() else f"v{hint}"
            self.numbers[stem] += 1
            name = self.names[value] = f"{stem}_{self.numbers[stem]}"
        return name

    def _linear(self) -> str:
        """The thread's number."""
        axes = self.function.axes
        return "t" if axes == 1 else f"(first + t{axes - 1})"

    def _param(self, index: int) -> str:
        name = self.function.params[index].name
        plain = re.sub(r"[^0-9A-Za-z_]", "", name.replace(".", "_"))
        return (
            name if plain == name else f"{plain}_p{index}_"
        )  # two names may differ in their other letters only

    def _text(self, value: Value) -> str:
        op = value.op
        if op is None:
            return self._name(value)
        match op.kind:
            case "const":
                return self._constant(op.data[0], value.type)
            case "thread":
                return "t" if self.function.axes == 1 else f"t{op.data[0]}"
            case "argument":
                return f"{self._param(op.data[0])}_a{op.data[1]}"
            case "extent":
                return f"{self._param(op.data[0])}_n{op.data[1]}"
            case "place":
                return "place"
        return self._name(value)

    def _constant(self, number: object, kind: type[t.Scalar]) -> str:
        if kind is t.bool:
            return str(bool(number))
        if kind is t.int64:
            return str(number)
        if isinstance(number, float) and self._short(kind) is not None:
            with np.errstate(over="ignore"):
                number = float(kind(number))
        if isinstance(number, float) and not math.isfinite(number):
            shown = "nan" if math.isnan(number) else ("inf" if number > 0 else "-inf")
        else:
            shown = repr(number)
        return f"{self._code(kind)}({shown})"

    def _name_of(self, op: Op) -> str:
        assert op.result is not None
        return self._name(op.result)

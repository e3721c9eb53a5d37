"""Messages of kernels in generated text: prints, and tests that end the launch."""

from __future__ import annotations

from collections.abc import Sequence

from tapedebug.compiler.diagnostics import BOUNDS, FATAL, Diagnostic, Shown
from tapedebug.compiler.emit_memory import MemoryWriter
from tapedebug.compiler.ir import DIAGNOSTICS, Op, Value
from tapedebug.lang import types as t

OUTSIDE = (Shown(t.int64, "index"), Shown(t.int64, "length"))


class DiagnosticWriter(MemoryWriter):
    """Emits diagnostics, and the bounds checks of checked variants."""

    def _uses_print_buffer(self) -> bool:
        """True if the text needs the print buffer."""
        kinds = DIAGNOSTICS - {"pause"} | {"inside"} | ({"offset"} if self.checked else set())
        return self.tagging is not None or any(op.kind in kinds for op in self.function.ops())

    def _diagnostic(self, op: Op) -> None:
        (diagnostic,) = op.data
        match op.kind:
            case "print":
                self._leave(diagnostic, op.args)
            case "assert":
                self._line(f"if not {self._text(op.args[0])}:")
                with self._suite():
                    self._leave(diagnostic, op.args[1:])
            case "pause":
                self._line("breakpoint()")
            case "bounds_check":
                self._bounds_check(diagnostic, op.args[0], self._text(op.args[1]))

    def _inside(self, op: Op) -> None:
        """End the probe if an index is out of bounds; the checked variant reports which one, and where."""
        index, length = map(self._text, op.args)
        self._line(f"if ({index} < 0) | ({index} >= {length}):")
        with self._suite():
            self._line("failure_message(print_buffer, 0, 0, 0)")
            for stack in self.stacks:
                self._line(f"stack_free({stack})")
            self._line("return")

    def _bounds_check(
        self, diagnostic: Diagnostic, value: Value, length: str, others: Sequence[Value] = ()
    ) -> None:
        """End the launch where an index is outside; one that counts from the end is shown as written.

        `others` are told, too.
        """
        index, written = self._text(value), value
        if value.op is not None and value.op.kind == "from_end":
            written = value.op.args[0]
        self._line(f"if ({index} < 0) | ({index} >= {length}):")
        with self._suite():
            reported = [self._text(written), length, *map(self._text, others)]
            self._record(diagnostic, [("i64", number) for number in reported])

    def _check(self, op: Op) -> None:
        """Test the indices of an element before its place is computed."""
        param = op.data[0]
        assert op.span is not None
        for axis, value in enumerate(op.args):
            name = self.function.params[param].name
            diagnostic = Diagnostic(BOUNDS, op.span, operands=OUTSIDE, text=f"axis {axis} of `{name}`")
            # A variant that reports says which element it would have been.
            others = op.args if self.tagging is not None and self.tagging.report else ()
            self._bounds_check(diagnostic, value, f"{self._param(param)}_n{axis}", others)

    def _leave(self, diagnostic: Diagnostic, values: tuple[Value, ...]) -> None:
        self._record(diagnostic, [(self._code(v.type), self._text(v)) for v in values])

    def _record(self, diagnostic: Diagnostic, values: list[tuple[str, str]]) -> None:
        number = self.diagnostics.setdefault(diagnostic, len(self.diagnostics))
        fatal = diagnostic.kind in FATAL
        call = "failure_message" if fatal else "print_message"
        self._line(f"message = {call}(print_buffer, {number}, {self._linear()}, {len(values)})")
        for k, (code, value) in enumerate(values):
            self._line(f"put_{code}(print_buffer, message{f' + {k}' if k else ''}, {value})")
        if fatal:
            for stack in self.stacks:
                self._line(f"stack_free({stack})")
            self._line("return")

"""Messages of kernels in generated text: prints, and tests that end the launch."""

from __future__ import annotations

from collections.abc import Sequence

from tapedebug.compiler.diagnostics import BOUNDS, FATAL, Diagnostic, Shown
from tapedebug.compiler.emit_memory import MemoryWriter
from tapedebug.compiler.ir import DIAGNOSTICS, Op, Value
from tapedebug.lang import types as t

OUTSIDE = (Shown(t.int64, "index"), Shown(t.int64, "length"))


class DiagnosticWriter(MemoryWriter):
    """Emits remarks, and the tests of indices in checked variants."""

    def _speaks(self) -> bool:
        """Whether the text needs the journal."""
        kinds = DIAGNOSTICS - {"pause"} | {"inside"} | ({"offset"} if self.checked else set())
        return self.stamping is not None or any(op.kind in kinds for op in self.function.ops())

    def _remark(self, op: Op) -> None:
        (remark,) = op.data
        match op.kind:
            case "print":
                self._leave(remark, op.args)
            case "assert":
                self._line(f"if not {self._text(op.args[0])}:")
                with self._suite():
                    self._leave(remark, op.args[1:])
            case "pause":
                self._line("breakpoint()")
            case "bounds_check":
                self._within(remark, op.args[0], self._text(op.args[1]))

    def _inside(self, op: Op) -> None:
        """End the probe where an index is outside; the checked variant says which it is, and where."""
        index, length = map(self._text, op.args)
        self._line(f"if ({index} < 0) | ({index} >= {length}):")
        with self._suite():
            self._line("fail(journal, 0, 0, 0)")
            for stack in self.stacks:
                self._line(f"stack_free({stack})")
            self._line("return")

    def _within(self, remark: Diagnostic, value: Value, length: str, others: Sequence[Value] = ()) -> None:
        """End the launch where an index is outside; one that counts from the end is shown as written.

        `others` are told, too.
        """
        index, written = self._text(value), value
        if value.op is not None and value.op.kind == "from_end":
            written = value.op.args[0]
        self._line(f"if ({index} < 0) | ({index} >= {length}):")
        with self._suite():
            told = [self._text(written), length, *map(self._text, others)]
            self._record(remark, [("i64", number) for number in told])

    def _check(self, op: Op) -> None:
        """Test the indices of an element before its place is computed."""
        param = op.data[0]
        assert op.span is not None
        for axis, value in enumerate(op.args):
            name = self.function.params[param].name
            remark = Diagnostic(BOUNDS, op.span, operands=OUTSIDE, text=f"axis {axis} of `{name}`")
            # A variant that reports says which element it would have been.
            others = op.args if self.stamping is not None and self.stamping.report else ()
            self._within(remark, value, f"{self._param(param)}_n{axis}", others)

    def _leave(self, remark: Diagnostic, values: tuple[Value, ...]) -> None:
        self._record(remark, [(self._code(v.type), self._text(v)) for v in values])

    def _record(self, remark: Diagnostic, values: list[tuple[str, str]]) -> None:
        number = self.remarks.setdefault(remark, len(self.remarks))
        fatal = remark.kind in FATAL
        self._line(
            f"said = {'fail' if fatal else 'tell'}(journal, {number}, {self._linear()}, {len(values)})"
        )
        for k, (code, value) in enumerate(values):
            self._line(f"put_{code}(journal, said{f' + {k}' if k else ''}, {value})")
        if fatal:
            for stack in self.stacks:
                self._line(f"stack_free({stack})")
            self._line("return")

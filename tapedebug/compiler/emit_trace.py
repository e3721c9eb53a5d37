"""Emit traces: the position of each accessed element, for the sparsity of derivatives."""

from __future__ import annotations

from tapedebug.compiler.access_trace import LOG, NEEDED, ROOM, TABLE, THREAD_BITS
from tapedebug.compiler.emit_access_tags import AccessTagWriter
from tapedebug.compiler.ir import Op


class TraceWriter(AccessTagWriter):
    """Emits the records of a traced variant (`compiler.access_trace`)."""

    def _trace_prologue(self) -> None:
        if self.tracing is None:
            return
        first = self.layout.size // 8
        self._line(f"table = ptr_i64(args, {first + TABLE})")
        self._line(f"log = ptr_i64(args, {first + LOG})")
        self._line(f"room = args[{first + ROOM}]")
        self._line("traced = 0")
        self.columns = self.tracing.columns

    def _trace_epilogue(self) -> None:
        if self.tracing is not None:
            self._line(f"args[{self.layout.size // 8 + NEEDED}] = traced")

    def _trace(self, op: Op) -> None:
        assert self.tracing is not None
        (number,) = op.data
        component = self.tracing.sites[number].component
        place = self._text(op.args[0]) + (f" + {component}" if component else "")
        column = self.columns.get(number)
        if column is not None:
            width = len(self.columns)
            row = f"{self._linear()} * {width}" if width > 1 else self._linear()
            self._line(f"table[{row}{f' + {column}' if column else ''}] = {place} + 1")
            return
        self._line("if traced < room:")
        with self._suite():
            self._line(f"log[2 * traced] = {number << THREAD_BITS} + {self._linear()}")
            self._line(f"log[2 * traced + 1] = {place}")
        self._line("traced = traced + 1")

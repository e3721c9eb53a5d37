"""The source line that writes an output, and the line that called its launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tapedebug._dataclass import dataclass
from tapedebug._source import Span, display_file
from tapedebug.autograd.subjects.program import Port
from tapedebug.lang.types import is_float

if TYPE_CHECKING:
    from tapedebug.compiler.kernel import Kernel
    from tapedebug.runtime.tape.tape import Tape


@dataclass(frozen=True)
class WriteSite:
    """The place in a kernel that writes a value, and the call of its launch.

    Attributes:
        line: The first place in the kernel that writes it; None where the kernel's source is not known.
        further: Lines of further places that do.
        called: Where the launch was called; None for a kernel that is checked alone.
        launch: The launch, where that is not the subject of the check itself: "launch 2 (square)".
        dead: Of a recorded function, what a launch writes and a later one reads, though it has no gradient.
    """

    line: Span | None = None
    further: tuple[int, ...] = ()
    called: Span | None = None
    launch: str = ""
    dead: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Return what is printed below a message: the line with a caret, and the call."""
        lines = []
        if self.line is not None:
            where = f"{display_file(self.line.file)}:{self.line.line}, in {self.line.function}"
            if self.further:
                where += f" (written also at line{'s' * (len(self.further) > 1)} "
                where += f"{', '.join(map(str, self.further))})"
            lines += [f"  --> {where}", *(f"   | {line}" for line in self.line.caret().splitlines())]
        called = self.call()
        return [*lines, f"  = note: {called}"] if called else lines

    def call(self) -> str:
        """`launch 2 (square) was called at sim.py:40, in step`; empty where nothing is known of it."""
        if self.called is None:
            return ""
        where = f"{display_file(self.called.file)}:{self.called.line}, in {self.called.function}"
        return f"{self.launch or 'the launch'} was called at {where}"


def write_site(kernel: Kernel, name: str, called: Span | None = None, launch: str = "") -> WriteSite:
    """The places in which a kernel writes the parameter `name`."""
    param = next((p.index for p in kernel.params if p.name == name), None)
    spans = [a.span for a in kernel.analysis.accesses if a.param == param and a.kind in ("write", "atomic")]
    first = next(iter(spans), None)
    others = {span.line for span in spans} - ({first.line} if first else set())
    return WriteSite(first, tuple(sorted(others)), called, launch)


def placed(kernel: Kernel, ports: Sequence[Port], called: Span | None = None) -> list[Port]:
    """Outputs of a kernel, with where they are written."""
    return [replace(port, written=write_site(kernel, port.name, called)) for port in ports]


def placed_by_tape(tape: Tape, ports: Sequence[Port]) -> list[Port]:
    """Outputs of a recorded function, each with the place of the last launch that writes it."""
    found = []
    dead = tuple(_dead(tape))
    for port in ports:
        writers = [
            (record, p)
            for record in tape.records
            for p in record.writes
            if record.kernel is not None and record.args[p].region is port.array.region
        ]
        found_by = None
        if writers:
            record, p = writers[-1]
            launch = f"launch {record.index} ({record.kernel.key})"
            found_by = write_site(record.kernel, record.param_name(p), record.call_site, launch)
            found_by = replace(found_by, dead=dead)
        found.append(replace(port, written=found_by))
    return found


def _dead(tape: Tape) -> Iterator[str]:
    """Arrays without a gradient that pass numbers from one launch to another: none gets through them."""
    written: dict[int, str] = {}
    for record in tape.records:
        for p in sorted(record.reads):
            name = written.pop(id(record.args[p].region), None)
            if name is not None:
                yield name
        for p in sorted(record.writes):
            array = record.args[p]
            if is_float(array.dtype) and not array.requires_grad:
                written[id(array.region)] = f"{record.param_name(p)} of launch {record.index} ({record.name})"

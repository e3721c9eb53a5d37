"""Marks beside the lines of notebook cells: reads, writes, overwrites and findings."""

from __future__ import annotations

import weakref
from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from tapedebug import _shell
from tapedebug._dataclass import dataclass
from tapedebug.diagnose.rules.overwrite import Overwrite as OverwriteRule
from tapedebug.notebook._cell_sources import CellSource, cells
from tapedebug.panel.panel_source import called, diagnosis_of
from tapedebug.trace.recording import record_with_arrays, recording_of

if TYPE_CHECKING:
    from tapedebug.runtime import Tape
    from tapedebug.trace import Finding, Trace
    from tapedebug.trace.model import FunctionInfo, KernelInfo, Launch, Version

    Part: TypeAlias = KernelInfo | FunctionInfo

MOST_TAPES = 8
"""Largest number of examined tapes, the newest first; a program may create one in each step."""
MOST_LAUNCHES = 20_000
"""Largest number of launches of an undiagnosed tape for which a trace is made only for the marks."""

SIGNS = {"error": "✕", "warning": "!", "info": "i"}

Mark = dict[str, Any]
"""``kind`` (read, write, overwrite, lost-read, finding), ``severity``, ``text``, ``title``, and the
target of a click: ``launch``, ``finding``."""

ByPlace = dict[tuple[str, int], list[Mark]]

_MADE: weakref.WeakKeyDictionary[Tape, tuple[Any, ByPlace]] = weakref.WeakKeyDictionary()


def cell_marks(tapes: Iterable[Tape]) -> list[dict[str, Any]]:
    """Return the marked cells; each cell has the marks of the newest tape that refers to it.

    A cell is identified by the executed text: a front end shows its marks only while the cell still has that
    text.
    """
    found: dict[Any, dict[str, Any]] = {}
    newest = [tape for tape in sorted(tapes, key=lambda tape: -tape.id) if tape.operations][:MOST_TAPES]
    for tape in newest:
        here: dict[Any, dict[str, Any]] = {}
        for (file, line), marks in sorted(_made(tape).items()):
            cell = cells.find(file)
            if cell is None or (cell.id or cell.number) in found:
                continue
            at = here.setdefault(cell.id or cell.number, _entry(cell, tape))
            if 0 < cell.line_of(line) <= len(cell.lines):
                at["lines"].append({"line": cell.line_of(line), "marks": marks})
        found.update(here)
    return list(found.values())


def _entry(cell: CellSource, tape: Tape) -> dict[str, Any]:
    return {
        "cell": cell.id,
        "count": cell.number,
        "source": cell.source,
        "tape": tape.id,
        "name": called(tape),
        "lines": [],
    }


def _made(tape: Tape) -> ByPlace:
    """Return the marks of a tape by file and line, cached."""
    diagnosis = diagnosis_of(tape)
    key = (recording_of(tape), len(tape.operations), len(tape.reverse_passes), id(diagnosis))
    kept = _MADE.get(tape)
    if kept is None or kept[0] != key:
        if diagnosis is None and len(tape.operations) > MOST_LAUNCHES:
            return {}
        trace = diagnosis.trace if diagnosis is not None else _recorded(tape)
        kept = _MADE[tape] = (key, marks_of(trace))
    return kept[1]


def _recorded(tape: Tape) -> Trace:
    return _shell.in_namespace(lambda: record_with_arrays(tape)).trace


# ------------------------------------------------------------------------ the marks of a trace


@dataclass
class Overwrite:
    """The overwrites of needed values by launches of one kernel through one of its parameters."""

    version: Version
    label: str
    times: int = 1

    @property
    def lost(self) -> bool:
        return self.version.status == "lost"


class TraceMarks:
    """A trace arranged by source lines."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.marks: ByPlace = defaultdict(list)
        self.strange: set[str] = set()
        self.marked: set[int] = set()
        """Findings that the mark of an overwrite already shows."""
        self.first: dict[int, int] = {}
        for launch in trace.launches:
            if launch.kernel is not None:
                self.first.setdefault(launch.kernel, launch.index)
        self.writers: dict[tuple[int, str], Overwrite] = {}
        self.readers: dict[tuple[int, str], Overwrite] = {}
        self.copies: dict[tuple[str, int], Overwrite] = {}
        for version in trace.versions:
            if version.status in ("lost", "preserved") and version.overwritten_by is not None:
                self._overwritten(version, trace.launches[version.overwritten_by])

    def _overwritten(self, version: Version, writer: Launch) -> None:
        label = self.trace.arrays[version.array].label
        if writer.kernel is not None:
            for name in self._names(writer, version.array, writes=True):
                _count(self.writers, (writer.kernel, name), version, label)
        elif writer.call_site is not None:
            _count(self.copies, (writer.call_site.file, writer.call_site.line), version, label)
        if version.status != "lost":
            return
        for index in version.needed_by[:MOST_TAPES]:
            reader = self.trace.launches[index]
            if reader.kernel is not None:
                for name in self._names(reader, version.array, writes=False):
                    _count(self.readers, (reader.kernel, name), version, label)

    def _names(self, launch: Launch, array: int, *, writes: bool) -> list[str]:
        """Return the names of the arguments of a launch that are in the memory of an array."""
        info = self.trace.arrays[array]
        names = []
        for arg in launch.args:
            if arg.array is None or not (arg.writes if writes else arg.reads):
                continue
            other = self.trace.arrays[arg.array]
            same = other.buffer == info.buffer and other.start < info.stop and info.start < other.stop
            if arg.array == array or same:
                names.append(arg.name)
        return names

    def by_place(self) -> ByPlace:
        """Return all marks; those of one line in the order reads, writes, findings."""
        parts: list[Part] = [part for kernel in self.trace.kernels for part in kernel.parts]
        sound = [part for part in parts if _is_in_its_cell(part)]
        for kernel in self.trace.kernels:
            self._kernel(kernel, sound)
        # a cell number may belong to another text, if code ran that is not in the history
        self.strange = {part.file for part in parts} - {part.file for part in sound}
        for place, what in self.copies.items():
            if place[0] in self.strange:
                continue
            launch = what.version.overwritten_by
            self.marks[place].append(self._write("", what, launch, self._finding(what)))
        for finding in self.trace.findings:
            if finding.id not in self.marked:
                self._finding_mark(finding)
        return dict(self.marks)

    def _kernel(self, kernel: KernelInfo, sound: list[Part]) -> None:
        """Add the marks of a kernel, also in the functions that it calls."""
        launch = self.first.get(kernel.id)
        seen: set[tuple[str, int, str, bool]] = set()
        for access in sorted(kernel.accesses, key=lambda a: (a.line, a.kind != "read", a.column)):
            file = access.file or kernel.file
            name = kernel.params[access.param].name
            key = (file, access.line, name, access.kind == "read")
            if key in seen or not any(_holds(part, file, access.line) for part in sound):
                continue
            seen.add(key)
            if access.kind == "read":
                mark = self._read(name, self.readers.get((kernel.id, name)), launch)
            else:
                what = self.writers.get((kernel.id, name))
                mark = self._write(name, what, launch, self._finding(what) if what else None)
            here = self.marks[file, access.line]
            if all(mark["text"] != other["text"] for other in here):  # two kernels may call one function
                here.append(mark)

    def _read(self, name: str, what: Overwrite | None, launch: int | None) -> Mark:
        if what is None:
            return _mark("read", f"reads {name}", f"reads {name}", launch)
        version = what.version
        by = self._launch(version.overwritten_by)
        text = f"reads {name} ✕ {by} overwrites it"
        needer = self._launch(version.needed_by[0] if version.needed_by else None)
        title = f"the adjoint of {needer} needs these values of {what.label}; {by} overwrites them first"
        finding = self._finding(what)
        return self._with(finding, _mark("lost-read", text, title, version.needed_by[0], "error"))

    def _write(self, name: str, what: Overwrite | None, launch: int | None, finding: Finding | None) -> Mark:
        if what is None:
            return _mark("write", f"writes {name}", f"writes {name}", launch)
        version = what.version
        needer = self._launch(version.needed_by[0] if version.needed_by else None)
        again = f", {what.times}×" if what.times > 1 else ""
        begin = f"writes {name or what.label}"
        where = self._launch(version.overwritten_by)
        title = f"{where} writes {what.label} over values that the adjoint of {needer} needs"
        if not what.lost:
            kept = "the tape kept a copy"
            text = f"{begin}, overwrites what {needer} needs{again}; {kept}"
            return _mark("overwrite", text, f"{title}; {kept}", version.overwritten_by)
        text = f"{begin} ✕ overwrites what {needer} needs{again}"
        return self._with(finding, _mark("overwrite", text, title, version.overwritten_by, "error"))

    def _finding(self, what: Overwrite) -> Finding | None:
        """Return the finding about an overwrite: of those about its array, the one that names its launch."""
        about = [f for f in self.trace.findings if f.rule == OverwriteRule.code and what.label in f.arrays]
        by = what.version.overwritten_by
        return next((f for f in about if by in f.launches), about[0] if about else None)

    def _with(self, finding: Finding | None, mark: Mark) -> Mark:
        if finding is not None:
            self.marked.add(finding.id)
            fix = f"\n→ {finding.fix}" if finding.fix else ""
            text = mark["text"].replace(SIGNS["error"], SIGNS[finding.severity])
            title = f"{finding.message}{fix}"
            mark.update(finding=finding.id, severity=finding.severity, text=text, title=title)
        return mark

    def _finding_mark(self, finding: Finding) -> None:
        places = [place for place in (finding.location, finding.call_site) if place is not None]
        place = next((p for p in places if p.file not in self.strange and cells.find(p.file)), None)
        if place is None:
            return
        arrays = f" · {', '.join(finding.arrays[:3])}" if finding.arrays else ""
        fix = f"\n→ {finding.fix}" if finding.fix else ""
        launch = finding.launches[0] if finding.launches else None
        text = f"{SIGNS[finding.severity]} {finding.rule}{arrays}"
        mark = _mark("finding", text, f"{finding.message}{fix}", launch, finding.severity)
        mark["finding"] = finding.id
        self.marks[place.file, place.line].append(mark)

    def _launch(self, index: int | None) -> str:
        return "a later launch" if index is None else f"{self.trace.launches[index].name} (launch {index})"


def _is_in_its_cell(part: Part) -> bool:
    cell = cells.find(part.file)
    return cell is not None and cell.holds(part.line, part.lines)


def _holds(part: Part, file: str, line: int) -> bool:
    return part.file == file and 0 <= line - part.line < len(part.lines)


def marks_of(trace: Trace) -> ByPlace:
    """Return the marks of a trace by file and line."""
    return TraceMarks(trace).by_place()


def _mark(kind: str, text: str, title: str, launch: int | None, severity: str | None = None) -> Mark:
    return {
        "kind": kind,
        "severity": severity,
        "text": text,
        "title": title,
        "launch": launch,
        "finding": None,
    }


def _count(known: dict[Any, Overwrite], key: object, version: Version, label: str) -> None:
    """Count an overwrite; the first lost one represents all."""
    what = known.get(key)
    if what is None:
        known[key] = Overwrite(version, label)
    elif version.status == what.version.status:
        what.times += 1
    elif version.status == "lost":
        known[key] = Overwrite(version, label)

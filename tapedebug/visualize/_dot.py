"""A trace as Graphviz DOT text: launches are grey boxes with a port per array argument, arrays ellipses."""

from __future__ import annotations

from dataclasses import field

from tapedebug._dataclass import dataclass
from tapedebug.trace import Argument, Launch, Sequence, Trace, without_numbers
from tapedebug.visualize._fold import Folded, fold
from tapedebug.visualize._marks import MOST, find_marks
from tapedebug.visualize._options import Options
from tapedebug.visualize._text import quoted, text

GREEN = "#c8e6c9"
GREY = "#e0e0e0"
ORANGE = "#e65100"
RED = "#c62828"
BOX = "#d5d5d5"
CUT = "✂"
SENTENCE = 200
"""Largest number of characters of an explanation."""


@dataclass(slots=True)
class _Cluster:
    """A box around launches: a scope, or a repeated sequence."""

    label: str
    style: str
    clusters: dict[tuple[str, int], _Cluster] = field(default_factory=dict)
    nodes: list[str] = field(default_factory=list)


class _Drawing:
    def __init__(self, trace: Trace, options: Options) -> None:
        self.trace = trace
        self.options = options
        self.folded: Folded = fold(trace, simplify=options.simplify_graph, most=options.most_launches)
        self.marks = find_marks(trace, self.folded)
        self.lost = {(v.array, v.version): v for v in trace.versions if v.status in ("lost", "preserved")}
        self.runs_of: dict[int, list[int]] = {}
        for number, run in enumerate(self.folded.runs):
            for index in range(run.first, run.first + run.length):
                self.runs_of.setdefault(index, []).append(number)
        self.hidden = self._hidden()
        self.edges: dict[str, str] = {}

    def _hidden(self) -> set[int]:
        """Return the groups of arrays that are left out: read-only ones, if that option is set."""
        if not self.options.hide_readonly_arrays:
            return set()
        written = {
            self.folded.group[arg.array]
            for launch in self.trace.launches
            for arg in launch.args
            if arg.array is not None and arg.writes
        }
        tracked = {self.folded.group[array] for array in (*self.options.inputs, *self.options.outputs)}
        return set(self.folded.members) - written - tracked

    def dot(self) -> str:
        lines = [
            f"digraph {quoted(self.trace.name or 'tape')} {{",
            f'  graph [rankdir={self.options.graph_direction}, fontname="Helvetica", compound=true];',
            '  node [fontname="Helvetica", fontsize=11];',
            '  edge [fontname="Helvetica", fontsize=9, arrowsize=0.7, color="#555555"];',
        ]
        body = self._launches()
        lines += self._arrays()
        lines += body
        lines += [f"  {edge}{attributes};" for edge, attributes in self.edges.items()]
        lines += self._legend()
        lines.append("}")
        return "\n".join(lines) + "\n"

    # ------------------------------------------------------------------ arrays

    def _arrays(self) -> list[str]:
        used = {
            self.folded.group[arg.array]
            for launch in self.trace.launches  # also the folded ones, which may read other arrays
            for arg in launch.args
            if arg.array is not None and _has_port(arg)
        }
        for info in self.trace.arrays:
            if info.parent is not None and self.folded.group[info.id] in used:
                parent = self.folded.group[info.parent]
                used.add(parent)
                edge = f"a{parent} -> a{self.folded.group[info.id]}"
                if parent != self.folded.group[info.id] and parent not in self.hidden:
                    self.edges[edge] = ' [style=dashed, arrowhead=none, label="view"]'
        return [self._array(group) for group in sorted(used - self.hidden)]

    def _array(self, group: int) -> str:
        members = self.folded.members[group]
        infos = [self.trace.arrays[member] for member in members]
        info, cut = infos[0], group in self.marks.cut
        fill = GREEN if any(info.requires_grad for info in infos) else GREY
        attributes = ["shape=ellipse", f'fillcolor="{fill}"']
        kind = f"{info.dtype}[{', '.join(map(str, info.shape))}]"
        rows = [f"<B>{text(self._label(members))}</B>", _small(kind)]
        lost, kept = self.marks.lost.get(group, 0), self.marks.kept.get(group, 0)
        found = self.marks.of_nodes.get(group, [])
        if lost or kept or found or cut:
            attributes += [f'color="{RED if lost or kept or found else ORANGE}"', "penwidth=2.5"]
        if lost or kept:
            rows.append(_small(f"overwritten ×{lost}" if lost else f"overwritten ×{kept}, copies kept", RED))
        if cut:
            rows.append(_small(f"{CUT} gradient ends here", ORANGE))
        elif group in self.marks.zero:
            rows.append(_small("gradient 0", ORANGE))
        rows += [_small(words, RED) for words in found[:MOST]]
        if any(member in self.options.inputs or member in self.options.outputs for member in members):
            attributes.append("peripheries=2")
        dashed = kept and not lost and not found
        attributes += [f'style="{"filled,dashed" if dashed else "filled"}"', f"label=<{'<BR/>'.join(rows)}>"]
        return f"  a{group} [{', '.join(attributes)}];"

    def _label(self, members: list[int]) -> str:
        for tracked in (self.options.inputs, self.options.outputs):
            for member in members:
                if tracked.get(member):
                    return str(tracked[member])
        labels = list(dict.fromkeys(self._one_label(member) for member in members))
        if len(labels) <= 2:
            return " / ".join(labels)
        if not any(member in self.options.labels for member in members):
            return _series(labels)
        series: dict[str, list[str]] = {}
        for label in labels:
            series.setdefault(without_numbers(label), []).append(label)
        return " / ".join(_series(each) for each in series.values())

    def _one_label(self, array: int) -> str:
        return self.options.labels.get(array) or self.trace.arrays[array].label

    # ---------------------------------------------------------------- launches

    def _launches(self) -> list[str]:
        top = _Cluster("", "")
        for launch in self.folded.launches:
            cluster = top
            for key, label, style in self._path(launch):
                cluster = cluster.clusters.setdefault(key, _Cluster(label, style))
            cluster.nodes.append(self._launch(launch))
            self._connect(launch)
        return self._cluster_lines(top, "  ", [0])

    def _path(self, launch: Launch) -> list[tuple[tuple[str, int], str, str]]:
        """Return the boxes around a launch, outermost first; a repetition is inside its enclosing scopes."""
        scopes = [] if self.options.ignore_graph_scopes else self._scopes(launch.scope)
        path: list[tuple[tuple[str, int], str, str]] = [
            (("scope", scope), self.trace.scopes[scope].name, "rounded") for scope in scopes
        ]
        for number in self.runs_of.get(launch.index, ()):  # outer ones first
            run = self.folded.runs[number]
            last = run.first + run.length * run.count - 1
            inside = [
                place
                for place, ((kind, of), _, _) in enumerate(path)
                if not (self._holds_scope(of, run.first, last) if kind == "scope" else True)
            ]
            around = inside[0] if inside else len(path)
            inner = [of for (kind, of), _, _ in path[around:] if kind == "scope"]
            path.insert(around, (("run", number), self._run_label(run, inner), "rounded,bold"))
            if self._merges(run, inner):
                del path[around + 1]
        return path

    def _holds_scope(self, scope: int, first: int, last: int) -> bool:
        """True if a scope contains these launches."""
        return self.trace.scopes[scope].first <= first and self.trace.scopes[scope].last >= last

    def _scopes(self, scope: int | None) -> list[int]:
        found: list[int] = []
        while scope is not None:
            found.insert(0, scope)
            scope = self.trace.scopes[scope].parent
        return found

    def _merges(self, run: Sequence, inner: list[int]) -> bool:
        """True if one round of the repetition is exactly one scope, so that one box shows both."""
        if not inner:
            return False
        scope = self.trace.scopes[inner[0]]
        return scope.first == run.first and scope.last == run.first + run.length - 1

    def _run_label(self, run: Sequence, inner: list[int]) -> str:
        if not self._merges(run, inner):
            return f"repeated ×{run.count}"
        first = self.trace.scopes[inner[0]].name
        last = self.trace.launches[run.first + run.length * (run.count - 1)]
        names = [self.trace.scopes[scope] for scope in self._scopes(last.scope)]
        for scope in names:
            if scope.first == last.index and scope.name != first:
                return f"{first} … {scope.name}: repeated ×{run.count}"
        return f"{first}: repeated ×{run.count}"

    def _launch(self, launch: Launch) -> str:
        dim = f"[{', '.join(map(str, launch.dim))}]" if launch.dim else ""
        count = len(self.folded.stands_for[launch.index])
        which = f"×{count:,}" if self.folded.summary and count > 1 else f"#{launch.index}"
        rows = [f'<B>{text(launch.name)}</B> <FONT POINT-SIZE="9">{text(dim)} {which}</FONT>']
        if launch.index in self.marks.disabled:
            rows.append(_small(f"{CUT} no backward pass: gradient ends here", ORANGE))
        found = self.marks.of_launches.get(launch.index, [])
        rows += [_small(words, RED) for words in found[:MOST]]
        ports = [
            f'<TD PORT="p{number}" BGCOLOR="white">{text(arg.name)}</TD>'
            for number, arg in enumerate(launch.args)
            if _has_port(arg)
        ]
        row = f"<TR>{''.join(ports)}</TR>" if ports else ""
        border = RED if found else ORANGE if launch.index in self.marks.disabled else ""
        frame = f'BORDER="2" COLOR="{border}"' if border else 'BORDER="0"'
        title = f'<TR><TD COLSPAN="{max(1, len(ports))}">{"<BR/>".join(rows)}</TD></TR>'
        table = (
            f'<TABLE {frame} CELLBORDER="1" CELLSPACING="0" CELLPADDING="4" BGCOLOR="{BOX}">'
            f"{title}{row}</TABLE>"
        )
        return f"l{launch.index} [shape=plain, label=<{table}>];"

    def _connect(self, launch: Launch) -> None:
        """Add the edges of a drawn launch and of the launches folded into it, which may read other arrays."""
        for index in self.folded.stands_for.get(launch.index, [launch.index]):
            for number, arg in enumerate(self.trace.launches[index].args):
                if arg.array is None or not _has_port(arg) or self.folded.group[arg.array] in self.hidden:
                    continue
                array, port = f"a{self.folded.group[arg.array]}", f"l{launch.index}:p{number}"
                if arg.reads or not arg.writes:
                    red = arg.needed and (arg.array, arg.read_version) in self.lost
                    self._edge(f"{array} -> {port}", red=red)
                if arg.writes:
                    before = self.lost.get((arg.array, (arg.write_version or 0) - 1))
                    self._edge(
                        f"{port} -> {array}", red=before is not None and before.overwritten_by == index
                    )

    def _edge(self, edge: str, *, red: bool) -> None:
        if red:
            self.edges[edge] = f' [color="{RED}", penwidth=1.8]'
        else:
            self.edges.setdefault(edge, "")

    # ------------------------------------------------------------------ legend

    def _legend(self) -> list[str]:
        """Return the legend of the marks that are used; empty if there are none."""
        marks = self.marks
        rows = []
        if marks.lost:
            rows.append((GREEN, RED, "overwritten after it was read: the reverse pass sees other values"))
        if marks.kept:
            rows.append(
                (GREEN, RED, "dashed: overwritten after it was read; the reverse pass sees the copies")
            )
        if marks.cut or marks.disabled:
            rows.append((GREY, ORANGE, f"{CUT} on the way to the loss, but lets no gradient through"))
        if marks.zero:
            rows.append(
                (GREEN, "#000000", "gradient 0: on the way to the loss, and all of its gradient is zero")
            )
        if marks.found:
            rows.append((BOX, RED, "✕ error, ! warning: what the diagnosis found"))
        notes = list(self.options.notes)
        if self.folded.summary:
            notes.append(
                f"{len(self.trace.launches):,} launches are too many to be drawn one by one: "
                "a box stands for all of a line, ×n"
            )
        return [_legend_label(rows, notes)] if rows or notes else []

    def _cluster_lines(self, cluster: _Cluster, indent: str, counter: list[int]) -> list[str]:
        lines = [indent + node for node in cluster.nodes]
        for inner in cluster.clusters.values():
            counter[0] += 1
            lines += [
                f"{indent}subgraph cluster_{counter[0]} {{",
                f'{indent}  graph [label=<{text(inner.label)}>, style="{inner.style}", color="#9e9e9e", '
                "fontsize=11];",
                *self._cluster_lines(inner, indent + "  ", counter),
                f"{indent}}}",
            ]
        return lines


def _series(labels: list[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]} … {labels[-1]} (×{len(labels)})"


def _has_port(arg: Argument) -> bool:
    """True for arrays; fields of a struct that the kernel does not access have no port."""
    return arg.array is not None and (arg.reads or arg.writes or "." not in arg.name)


def _small(words: str, colour: str = "") -> str:
    return f'<FONT POINT-SIZE="9"{f" COLOR={quoted(colour)}" if colour else ""}>{text(words)}</FONT>'


def to_dot(trace: Trace, options: Options | None = None) -> str:
    """Return `trace` as DOT text."""
    return _Drawing(trace, options or Options()).dot()


def _legend_label(rows: list[tuple[str, str, str]], notes: list[str]) -> str:
    """Return the label of a graph: a table of swatches (fill, border) with words, and sentences below."""
    lines = [
        f'<TR><TD BGCOLOR="{fill}" BORDER="2" COLOR="{border}" WIDTH="22"></TD>'
        f'<TD ALIGN="LEFT">{text(words, SENTENCE)}</TD></TR>'
        for fill, border, words in rows
    ]
    lines += [f'<TR><TD COLSPAN="2" ALIGN="LEFT">{text(note, SENTENCE)}</TD></TR>' for note in notes]
    table = f'<TABLE BORDER="0" CELLSPACING="3" CELLPADDING="2">{"".join(lines)}</TABLE>'
    return f"  label=<{table}>; labelloc=b; labeljust=l; fontsize=10;"

"""A trace as Graphviz DOT text: launches are grey boxes with a port an array argument, arrays ellipses."""

from __future__ import annotations

from dataclasses import dataclass, field

from tapedebug.trace import Launch, Sequence, Trace
from tapedebug.visualize._fold import Folded, fold
from tapedebug.visualize._options import Options

GREEN = "#c8e6c9"
GREY = "#e0e0e0"
BOX = "#d5d5d5"
RED = "#c62828"
LONGEST = 80


def text(value: str) -> str:
    """`value` inside an HTML-like label: nothing in it can end the label, open a tag or start a new line."""
    if len(value) > LONGEST:
        value = value[: LONGEST - 1] + "…"
    value = "".join(c if c.isprintable() else " " for c in value)
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        value = value.replace(character, entity)
    return value or " "


def quoted(value: str) -> str:
    """`value` as a quoted DOT string, taken literally: backslashes would begin escapes."""
    if len(value) > LONGEST:
        value = value[: LONGEST - 1] + "…"
    value = "".join(c if c.isprintable() else " " for c in value)
    # Graphviz decodes entities in quoted text too, so that "&lt;" in a name would turn into "<".
    value = (
        value.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace("\\", "\\\\")
        .replace('"', '\\"')
    )
    return f'"{value}"'


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
        self.folded: Folded = fold(trace, simplify=options.simplify_graph)
        self.lost = {(v.array, v.version): v for v in trace.versions if v.status in ("lost", "preserved")}
        self.hidden = self._hidden()
        self.edges: dict[str, str] = {}

    def _hidden(self) -> set[int]:
        """Groups of arrays that are left out: read-only ones, if that was asked for."""
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
        lines.append("}")
        return "\n".join(lines) + "\n"

    # ------------------------------------------------------------------ arrays

    def _arrays(self) -> list[str]:
        used = {
            self.folded.group[arg.array]
            for launch in self.folded.launches
            for arg in launch.args
            if arg.array is not None
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
        requires_grad = any(info.requires_grad for info in infos)
        attributes = ["shape=ellipse", f'fillcolor="{GREEN if requires_grad else GREY}"']
        style = "filled"
        info = infos[0]
        kind = f"{info.dtype}[{', '.join(map(str, info.shape))}]"
        rows = [f"<B>{text(self._label(members))}</B>", f'<FONT POINT-SIZE="9">{text(kind)}</FONT>']
        lost, kept = self._overwritten(members)
        if lost or kept:
            attributes += [f'color="{RED}"', "penwidth=2.5"]
            style = "filled" if lost else "filled,dashed"
            what = (f"overwritten ×{lost}",) if lost else (f"overwritten ×{kept}, copies kept",)
            rows += [f'<FONT POINT-SIZE="9" COLOR="{RED}">{text(word)}</FONT>' for word in what]
        if any(member in self.options.inputs or member in self.options.outputs for member in members):
            attributes.append("peripheries=2")
        attributes += [f'style="{style}"', f"label=<{'<BR/>'.join(rows)}>"]
        return f"  a{group} [{', '.join(attributes)}];"

    def _overwritten(self, members: list[int]) -> tuple[int, int]:
        statuses = [version.status for (array, _), version in self.lost.items() if array in members]
        return statuses.count("lost"), statuses.count("preserved")

    def _label(self, members: list[int]) -> str:
        for tracked in (self.options.inputs, self.options.outputs):
            for member in members:
                if tracked.get(member):
                    return str(tracked[member])
        labels = list(dict.fromkeys(self._one_label(member) for member in members))
        if len(labels) > 2:
            return f"{labels[0]} … {labels[-1]} (×{len(labels)})"
        return " / ".join(labels)

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
        """The boxes around a launch, outermost first; a repetition is inside the scopes that hold it."""
        scopes = [] if self.options.ignore_graph_scopes else self._scopes(launch.scope)
        path: list[tuple[tuple[str, int], str, str]] = [
            (("scope", scope), self.trace.scopes[scope].name, "rounded") for scope in scopes
        ]
        for number, run in enumerate(self.folded.runs):
            if run.first <= launch.index < run.first + run.length:
                last = run.first + run.length * run.count - 1
                around = sum(
                    self.trace.scopes[scope].first <= run.first and self.trace.scopes[scope].last >= last
                    for scope in scopes
                )
                path.insert(around, (("run", number), self._run_label(run, scopes[around:]), "rounded,bold"))
                if self._merges(run, scopes[around:]):
                    del path[around + 1]
        return path

    def _scopes(self, scope: int | None) -> list[int]:
        found: list[int] = []
        while scope is not None:
            found.insert(0, scope)
            scope = self.trace.scopes[scope].parent
        return found

    def _merges(self, run: Sequence, inner: list[int]) -> bool:
        """Is one round of the repetition just one scope? Then one box shows both."""
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
        title = f'<B>{text(launch.name)}</B> <FONT POINT-SIZE="9">{text(dim)} #{launch.index}</FONT>'
        ports = [
            f'<TD PORT="p{number}" BGCOLOR="white">{text(arg.name)}</TD>'
            for number, arg in enumerate(launch.args)
            if arg.array is not None
        ]
        row = f"<TR>{''.join(ports)}</TR>" if ports else ""
        table = (
            f'<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="4" BGCOLOR="{BOX}">'
            f'<TR><TD COLSPAN="{max(1, len(ports))}">{title}</TD></TR>{row}</TABLE>'
        )
        return f"l{launch.index} [shape=plain, label=<{table}>];"

    def _connect(self, launch: Launch) -> None:
        """Edges of a drawn launch, and of the launches that it stands for: they may read other arrays."""
        for index in self.folded.stands_for.get(launch.index, [launch.index]):
            for number, arg in enumerate(self.trace.launches[index].args):
                if arg.array is None or self.folded.group[arg.array] in self.hidden:
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


def to_dot(trace: Trace, options: Options | None = None) -> str:
    """Return `trace` as DOT text."""
    return _Drawing(trace, options or Options()).dot()

"""Diagrams: the documents' picture, repetition folded with its data flow, and labels that stay text."""

from __future__ import annotations

import re
import shutil
import time

import pytest

from tapedebug.trace import (
    Argument,
    ArrayInfo,
    KernelInfo,
    Launch,
    ParamInfo,
    Scope,
    TapeInfo,
    Trace,
    Version,
    sequences_of,
)
from tapedebug.visualize import GraphvizError, Options, render_svg, to_dot

HOSTILE = "</script><img src=x onerror=alert(1)>\"'\\N\n&amp;{}|"


class TraceMaker:
    """Makes traces for pictures: arrays by name, launches that read and write them."""

    def __init__(self) -> None:
        self.trace = Trace(name="tape", tape=TapeInfo(id=0, on_overwrite="preserve", launches=0))
        self.current: dict[str, Version] = {}

    def array(self, label: str, *, requires_grad: bool = True) -> ArrayInfo:
        for info in self.trace.arrays:
            if info.label == label:
                return info
        number = len(self.trace.arrays)
        info = ArrayInfo(
            id=number,
            label=label,
            dtype="float32",
            shape=[4],
            requires_grad=requires_grad,
            buffer=number,
            start=0,
            stop=16,
        )
        self.trace.arrays.append(info)
        self.current[label] = Version(array=number, version=0, written_by=None)
        self.trace.versions.append(self.current[label])
        return info

    def launch(self, name: str, reads: list[str], writes: list[str], scope: int | None = None) -> None:
        index = len(self.trace.launches)
        args = []
        for label in reads:
            info = self.array(label)
            version = self.current[label]
            version.reads.append(index)
            args.append(
                Argument(name=f"in_{len(args)}", array=info.id, reads=True, read_version=version.version)
            )
        args.append(Argument(name="scale", value=2.0))
        for label in writes:
            info = self.array(label)
            old = self.current[label]
            old.overwritten_by = index
            new = self.current[label] = Version(array=info.id, version=old.version + 1, written_by=index)
            self.trace.versions.append(new)
            args.append(
                Argument(name=f"out_{len(args)}", array=info.id, writes=True, write_version=new.version)
            )
        self.trace.launches.append(
            Launch(index=index, kind="kernel", kernel=None, name=name, dim=[4], args=args, scope=scope)
        )

    def scope(self, name: str, first: int, last: int, parent: int | None = None) -> None:
        number = len(self.trace.scopes)
        self.trace.scopes.append(Scope(id=number, name=name, parent=parent, first=first, last=last))
        for launch in self.trace.launches[first : last + 1]:
            launch.scope = number


def loop(rounds: int, *, swap: bool) -> Trace:
    maker = TraceMaker()
    x = "x"
    maker.launch("start", ["throw"], ["x"])
    for number in range(rounds):
        following = ("x_next" if x == "x" else "x") if swap else f"x{number + 1}"
        maker.launch("forces", [x], ["force"])
        maker.launch("integrate", [x, "force"], [following])
        x = following
    maker.launch("miss", [x], ["loss"])
    for number in range(rounds):
        maker.scope(f"step {number}", 1 + 2 * number, 2 + 2 * number)
    return maker.trace


def edges(dot: str) -> set[tuple[str, str]]:
    """Edges between labels: `x -> forces.in_0`."""
    names = {}
    for match in re.finditer(r"^ *([al]\d+) \[.*?<B>(.*?)</B>", dot, re.MULTILINE):
        names[match[1]] = match[2]
    found = set()
    for tail, head in re.findall(r"^ *([al]\d+)(?::p\d+)? -> ([al]\d+)", dot, re.MULTILINE):
        found.add((names[tail], names[head]))
    return found


def documents_example() -> tuple[TraceMaker, str]:
    """The example of the documents, "Visualizing Computation Graphs"."""
    maker = TraceMaker()
    maker.array("a", requires_grad=False)
    maker.array("c", requires_grad=False)
    maker.launch("add", ["b", "e"], ["a"])
    maker.launch("add", ["a", "b"], ["c"])
    maker.launch("add", ["c", "a"], ["result"])
    maker.scope("Adder", 1, 1)
    maker.scope("Custom Scope", 1, 1, parent=0)
    return maker, to_dot(maker.trace, Options(simplify_graph=False))


def test_the_documents_example_has_its_launches_ports_arrays_and_scopes() -> None:
    maker, dot = documents_example()
    assert dot.startswith('digraph "tape" {\n  graph [rankdir=LR')
    assert dot.count("[shape=plain") == 3
    assert dot.count("<TD PORT=") == 9
    assert dot.count("shape=ellipse") == 5
    ellipses = {match[2]: match[1] for match in re.finditer(r'fillcolor="(#\w+)".*?<B>(\w+)</B>', dot)}
    green, grey = "#c8e6c9", "#e0e0e0"
    assert ellipses == {"a": grey, "c": grey, "b": green, "e": green, "result": green}
    assert edges(dot) == {
        ("b", "add"),
        ("e", "add"),
        ("add", "a"),
        ("a", "add"),
        ("add", "c"),
        ("c", "add"),
        ("add", "result"),
    }
    outer = dot.index("<Adder>")
    inner = dot.index("<Custom Scope>")
    assert outer < inner < dot.index("l1 [")
    assert "Adder" not in to_dot(maker.trace, Options(ignore_graph_scopes=True))


@pytest.mark.parametrize("swap", [True, False])
def test_a_loop_is_drawn_once_and_keeps_its_data_flow(swap: bool) -> None:
    dot = to_dot(loop(40, swap=swap))
    assert dot.count("[shape=plain") == 4
    assert dot.count("step 0 … step 39: repeated ×40") == 1
    carried = "x / x_next" if swap else "x1 … x40 (×40)"
    assert {("start", "x"), ("x", "forces"), ("x", "integrate")} <= edges(dot) or swap
    assert {
        ("throw", "start"),
        (carried, "forces"),
        (carried, "integrate"),
        ("force", "integrate"),
        ("integrate", carried),
        (carried, "miss"),
        ("miss", "loss"),
    } <= edges(dot)


def test_a_chain_that_does_not_repeat_is_not_folded() -> None:
    maker = TraceMaker()
    for number, name in enumerate("abcabacb"):
        maker.launch(name, [f"x{number}"], [f"x{number + 1}"])
    dot = to_dot(maker.trace)
    assert dot.count("[shape=plain") == 8
    assert dot.count("shape=ellipse") == 9


def test_read_only_arrays_are_hidden_unless_tracked() -> None:
    trace = loop(2, swap=True)
    throw = next(info.id for info in trace.arrays if info.label == "throw")
    assert "<B>throw</B>" in to_dot(trace)
    assert "<B>throw</B>" not in to_dot(trace, Options(hide_readonly_arrays=True))
    tracked = to_dot(trace, Options(hide_readonly_arrays=True, inputs={throw: "initial throw"}))
    assert re.search(r"peripheries=2.*<B>initial throw</B>", tracked)


def test_overwritten_arrays_are_red_in_colour_and_in_words() -> None:
    trace = loop(2, swap=True)
    x = next(version for version in trace.versions if version.overwritten_by == 4)
    x.status = "lost"
    x.needed_by = [1]
    trace.launches[1].args[0].needed = True
    dot = to_dot(trace, Options(simplify_graph=False))
    assert re.search(r'color="#c62828", penwidth=2.5, style="filled".*overwritten ×1<', dot)
    assert '  a1 -> l1:p0 [color="#c62828", penwidth=1.8];' in dot
    assert '  l4:p3 -> a1 [color="#c62828", penwidth=1.8];' in dot
    x.status = "preserved"
    assert re.search(r'style="filled,dashed".*overwritten ×1, copies kept<', to_dot(trace))
    x.status = "harmless"
    assert "#c62828" not in to_dot(trace)


def test_directions_and_empty_tapes() -> None:
    assert "rankdir=TB" in to_dot(loop(1, swap=True), Options(graph_direction="TB"))
    empty = to_dot(Trace(name="", tape=TapeInfo(id=0, on_overwrite="preserve", launches=0)))
    assert empty.startswith('digraph "tape" {')
    assert empty.endswith("}\n")


def hostile_trace() -> Trace:
    maker = TraceMaker()
    maker.launch(HOSTILE, [HOSTILE], ["y" * 500])
    maker.scope(HOSTILE, 0, 0)
    maker.trace.launches[0].args[0].name = HOSTILE
    maker.trace.name = HOSTILE
    maker.trace.arrays[0].dtype = HOSTILE
    return maker.trace


def test_hostile_names_stay_text_in_dot() -> None:
    dot = to_dot(hostile_trace())
    assert "<img" not in dot
    assert "</script>&lt;img" not in dot
    assert "y" * 81 not in dot
    assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;" in dot


@pytest.mark.skipif(shutil.which("dot") is None, reason="the dot program is not installed")
def test_graphviz_draws_it_and_hostile_names_stay_text() -> None:
    svg = render_svg(to_dot(loop(3, swap=True)))
    assert svg.count("<ellipse") == 4
    assert "repeated ×3" in svg
    drawn = render_svg(to_dot(hostile_trace()))
    assert "<img" not in drawn
    assert "onerror=alert(1)" in drawn
    with pytest.raises(GraphvizError, match=r"^Graphviz could not draw this graph: Error: .*syntax error"):
        render_svg("digraph {")


def test_without_graphviz_the_error_names_both_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tapedebug.visualize._render._with_graphviz", lambda dot, kind: None)
    monkeypatch.setattr("tapedebug.visualize._render._with_pygraphviz", lambda dot, kind: None)
    with pytest.raises(GraphvizError) as caught:
        render_svg("digraph {}")
    assert str(caught.value) == (
        "drawing a graph needs Graphviz, and none was found\n"
        "  = hint: install the `dot` program (apt-get install graphviz) and `pip install graphviz`, "
        "or `pip install pygraphviz`, which brings its own"
    )


def test_ten_thousand_launches_fold_within_a_second() -> None:
    trace = loop(5000, swap=True)
    started = time.process_time()
    trace.sequences = sequences_of(trace)
    dot = to_dot(trace)
    assert time.process_time() - started < 2  # 0.3 s; processor time, for the machine may be busy
    assert dot.count("[shape=plain") == 4


def test_the_kernel_list_is_not_needed() -> None:
    trace = loop(1, swap=True)
    trace.kernels.append(
        KernelInfo(
            id=0,
            name="k",
            file="k.py",
            line=1,
            lines=[],
            params=[ParamInfo(name="x", type="float32", array=False)],
        )
    )
    assert to_dot(trace) == to_dot(loop(1, swap=True))

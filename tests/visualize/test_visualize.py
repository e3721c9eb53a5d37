"""`Tape.visualize`, with the arguments of the documents, on real tapes."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import tapedebug as wp


@wp.kernel
def add(a: wp.array(dtype=float), b: wp.array(dtype=float), c: wp.array(dtype=float)):
    tid = wp.tid()
    c[tid] = a[tid] + b[tid]


def documents_tape() -> tuple[Any, dict[str, Any]]:
    """The documents' example, "Visualizing Computation Graphs"."""
    tape = wp.Tape()
    a = wp.array([2.0], dtype=wp.float32)
    b = wp.array([3.0], dtype=wp.float32, requires_grad=True)
    c = wp.array([4.0], dtype=wp.float32)
    d = c
    e = wp.array([5.0], dtype=wp.float32, requires_grad=True)
    result = wp.zeros(1, dtype=wp.float32, requires_grad=True)
    with tape:
        wp.launch(add, dim=1, inputs=[b, e], outputs=[a])
        with wp.ScopedTimer("Adder", print=False):
            tape.record_scope_begin("Custom Scope")
            wp.launch(add, dim=1, inputs=[a, b], outputs=[c])
            tape.record_scope_end()
        wp.launch(add, dim=1, inputs=[d, a], outputs=[result])
    return tape, {"a": a, "b": b, "c": c, "e": e, "result": result}


def test_the_documents_example_runs_as_it_stands(tmp_path: Path) -> None:
    tape, arrays = documents_tape()
    path = tmp_path / "tape.dot"
    dot = tape.visualize(
        filename=str(path), array_labels={array: f"<{name}>" for name, array in arrays.items()}
    )
    assert path.read_text(encoding="utf-8") == dot
    for name in arrays:
        assert f"<B>&lt;{name}&gt;</B>" in dot
    assert dot.count('fillcolor="#c8e6c9"') == 3
    assert dot.count('fillcolor="#e0e0e0"') == 2
    assert dot.index("<Adder>") < dot.index("<Custom Scope>")


@wp.kernel
def grow(a: wp.array(dtype=float), b: wp.array(dtype=float)):
    tid = wp.tid()
    b[tid] = 2.0 * a[tid]


def chain(scopes: list[str | None], **options: Any) -> str:
    """Launches in a row, each in a scope of this name (neighbours of one name share it), as DOT."""
    arrays = [wp.ones(2, dtype=float, requires_grad=True) for _ in range(len(scopes) + 1)]
    tape = wp.Tape()
    with tape:
        for index, name in enumerate(scopes):
            if name is not None and (index == 0 or scopes[index - 1] != name):
                tape.record_scope_begin(name)
            wp.launch(grow, dim=2, inputs=[arrays[index]], outputs=[arrays[index + 1]])
            if name is not None and (index + 1 == len(scopes) or scopes[index + 1] != name):
                tape.record_scope_end()
    return tape.visualize(**options)


def boxes(dot: str) -> list[str]:
    """The titles of the boxes around launches, in order, and of the launches themselves."""
    return [
        found[1] or found[2]
        for found in re.finditer(
            r'label=<([^<>]*)>, style="rounded|<B>(grow)</B> <FONT POINT-SIZE="9">\[2\] [#×]', dot
        )
    ]


LOOP = "step 0 … step 2: repeated ×3"


@pytest.mark.parametrize("most", [300, 1], ids=["one by one", "by line"])
@pytest.mark.parametrize(
    ("scopes", "shown"),
    [
        ([None, "Custom Scope", None], ["grow", "grow", "Custom Scope", "grow"]),
        (["one", None, None, None], ["one", "grow", "repeated ×3", "grow"]),
        ([*["inner"] * 4, None], ["grow", "inner", "repeated ×4", "grow"]),
        (["forces", "motion"] * 3, ["repeated ×3", "forces", "grow", "motion", "grow"]),
        (["forces", "motion"], ["forces", "grow", "motion", "grow"]),
        (["step 0", "step 1", "step 2"], [LOOP, "grow"]),
        (["step 0", "last"], ["step 0", "grow", "last", "grow"]),
        (["step 0", "step 0", "step 1", "step 1", "step 2", "step 2"], [LOOP, "grow", "grow"]),
        (
            ["step 0", "step 0", "step 0", "step 1", "step 1"],
            ["step 0", "repeated ×3", "grow", "step 1", "repeated ×2", "grow"],
        ),
    ],
)
def test_a_scope_of_the_users_is_never_folded_away(
    scopes: list[str | None], shown: list[str], most: int
) -> None:
    drawn = boxes(chain(scopes, most_launches=most))
    if most == 300:
        assert drawn == shown
    for name in {re.sub(r"\d", "", scope) for scope in scopes if scope is not None}:
        assert any(name in box for box in drawn), name


def test_scopes_inside_scopes_keep_their_names() -> None:
    tape = wp.Tape()
    x, y, z = (wp.ones(2, dtype=float, requires_grad=True) for _ in range(3))
    with tape:
        for outer in ("warm up", "main"):
            tape.record_scope_begin(outer)
            for step in range(3):
                tape.record_scope_begin(f"step {step}")
                wp.launch(grow, dim=2, inputs=[x], outputs=[y])
                wp.launch(grow, dim=2, inputs=[y], outputs=[z])
                tape.record_scope_end()
            tape.record_scope_end()
    dot = tape.visualize()
    assert boxes(dot) == [
        *("warm up", "step 0 … step 2: repeated ×3", "grow", "grow"),
        *("main", "step 0 … step 2: repeated ×3", "grow", "grow"),
    ]


def test_labels_of_the_users_are_kept_where_arrays_become_one_node() -> None:
    arrays = [wp.ones(2, dtype=float, requires_grad=True) for _ in range(6)]
    tape = wp.Tape()
    with tape:
        for before, after in pairwise(arrays):
            wp.launch(grow, dim=2, inputs=[before], outputs=[after])
    names = ["start", "prepared", "state 1", "state 2", "state 3", "answer"]
    dot = tape.visualize(array_labels=dict(zip(arrays, names, strict=True)))
    assert "<B>prepared / state 1 … state 3 (×3) / answer</B>" in dot


def test_a_file_that_is_called_a_picture_is_one(tmp_path: Path) -> None:
    tape, _ = documents_tape()
    begins = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG", "SVG": b"<?xml", "dot": b"digraph"}
    begins |= {"gv": b"digraph", "txt": b"digraph", "": b"digraph"}
    for kind, begin in begins.items():
        path = tmp_path / (f"t.{kind}" if kind else "t")
        dot = tape.visualize(path)
        assert dot.startswith("digraph"), "the text is returned, whatever is written"
        assert path.read_bytes().startswith(begin), kind
    assert b"Custom Scope" in (tmp_path / "t.svg").read_bytes()


def test_a_picture_without_graphviz_is_an_error_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for way in ("_with_graphviz", "_with_pygraphviz"):
        monkeypatch.setattr(f"tapedebug.visualize._render.{way}", lambda dot, kind: None)
    tape, _ = documents_tape()
    with pytest.raises(wp.TapedebugError, match="drawing a graph needs Graphviz, and none was found"):
        tape.visualize(tmp_path / "t.svg")
    assert list(tmp_path.iterdir()) == []
    assert tape.visualize(tmp_path / "t.dot").startswith("digraph")


def test_names_come_from_the_variables_of_the_program() -> None:
    tape, _ = documents_tape()
    dot = tape.visualize()
    for name in ("a", "b", "c", "e", "result"):
        assert f"<B>{name}</B>" in dot


def test_of_several_names_the_longest_is_taken_unless_told_otherwise() -> None:
    short = wp.array([1.0], dtype=float, requires_grad=True)
    a_much_longer_name = short
    out = wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(add, dim=1, inputs=[short, a_much_longer_name], outputs=[out])
    assert "<B>a_much_longer_name</B>" in tape.visualize()
    assert "<B>short</B>" in tape.visualize(choose_longest_node_name=False)


def test_tracked_arrays_stay_and_have_their_names() -> None:
    tape, arrays = documents_tape()
    assert "<B>e</B>" not in tape.visualize(hide_readonly_arrays=True)
    dot = tape.visualize(
        hide_readonly_arrays=True,
        track_inputs=[arrays["e"]],
        track_input_names=["first"],
        track_outputs=[arrays["result"]],
        track_output_names=["last"],
        graph_direction="TB",
        ignore_graph_scopes=True,
    )
    assert "<B>first</B>" in dot
    assert "<B>last</B>" in dot
    assert "<B>b</B>" not in dot
    assert "rankdir=TB" in dot
    assert "Adder" not in dot


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    tape, arrays = documents_tape()
    with pytest.raises(ValueError, match=r"^visualize: graph_direction is one of LR, RL, TB, BT; got 'up'$"):
        tape.visualize(graph_direction="up")
    with pytest.raises(ValueError, match=r"^visualize: track_input_names has 2 names for 1 tracked arrays$"):
        tape.visualize(track_inputs=[arrays["e"]], track_input_names=["one", "two"])
    with pytest.raises(FileNotFoundError):
        tape.visualize(tmp_path / "no" / "folder.dot")


def test_a_trace_is_drawn_like_its_tape() -> None:
    tape, _ = documents_tape()
    trace = tape.trace(name="tape")
    assert wp.visualize.visualize(trace, array_labels={"a": "renamed"}).count("<B>renamed</B>") == 1


def test_arrays_that_are_none_are_refused() -> None:
    tape, _ = documents_tape()
    for options, message in (
        ({"track_inputs": [3]}, "visualize: arrays to label or to track are arrays; got int 3"),
        ({"array_labels": {"a": "b"}}, "visualize: arrays to label or to track are arrays; got str 'a'"),
        (
            {"array_labels": ["a"]},
            "visualize: array_labels is a dictionary of arrays and their names; got list ['a']",
        ),
    ):
        with pytest.raises(TypeError) as caught:
            tape.visualize(**options)
        assert str(caught.value) == message
    with pytest.raises(
        TypeError, match="^visualize: in a trace arrays are known by their labels; got int 3$"
    ):
        wp.visualize.visualize(tape.trace(), track_inputs=[3])


def test_one_array_may_be_tracked_without_a_list() -> None:
    tape, arrays = documents_tape()
    assert tape.visualize(track_inputs=arrays["e"]).count("peripheries=2") == 1
    assert wp.visualize.visualize(tape.trace(), track_inputs="e").count("peripheries=2") == 1


def test_tracked_arrays_that_are_not_on_the_tape_are_told() -> None:
    tape, arrays = documents_tape()
    other = wp.zeros(3)
    dot = tape.visualize(
        track_inputs=[arrays["e"], other], track_input_names=["e", "gone"], track_outputs=[other]
    )
    assert "track_inputs: gone is not on this tape" in dot
    assert "track_outputs: array 0 is not on this tape" in dot

"""Names are found in variables without running anybody's code, and without looking forever."""

from __future__ import annotations

import importlib
import sys
from types import SimpleNamespace
from typing import Any

from tapedebug._names import find_names
from tapedebug._source import Span
from tapedebug.trace._labels import choose_labels
from tapedebug.trace.call_sites import argument_texts


class Thing:
    """An object whose name is looked for."""


class Trap:
    """Whatever it is asked, it makes the test fail."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"__getattr__({name!r}) was called")

    @property
    def __class__(self) -> Any:
        raise AssertionError("its class was asked for")

    @property
    def value(self) -> Any:
        raise AssertionError("a property was read")

    def __eq__(self, other: object) -> bool:
        raise AssertionError("compared")

    def __hash__(self) -> int:
        raise AssertionError("hashed")

    def __iter__(self) -> Any:
        raise AssertionError("iterated")


def names_of(*things: Thing) -> list[list[str]]:
    found = find_names(Thing, id, [id(thing) for thing in things], sys._getframe(1))
    return [found.get(id(thing), []) for thing in things]


def test_plain_variables_come_first_then_what_is_inside() -> None:
    x, inner, deep = Thing(), Thing(), Thing()
    state = SimpleNamespace(q=inner, parts=[deep, x])
    table = {"a": inner, 3: deep}
    assert names_of(x, inner, deep) == [
        ["x", "state.parts[1]"],
        ["inner", "state.q", "table['a']"],
        ["deep", "table[3]", "state.parts[0]"],
    ]
    assert state is not None
    assert table is not None


def test_nobodys_code_is_run() -> None:
    trap, traps, hidden = Trap(), [Trap()], Thing()
    trap.__dict__["held"] = hidden
    assert names_of(hidden) == [["hidden", "trap.held"]]
    assert traps is not None


def test_names_with_underscores_are_nobodys_and_a_missing_thing_has_none() -> None:
    _private = Thing()
    assert names_of(_private, Thing()) == [[], []]


def test_a_large_program_is_not_searched_forever() -> None:
    piles = {f"pile{number}": list(range(500)) for number in range(200)}
    found = Thing()
    assert piles is not None
    assert names_of(found, Thing())[0] == ["found"]


def test_callers_are_looked_through_from_the_inside_out() -> None:
    def inner(local: Thing) -> list[list[str]]:
        return names_of(local, outer)

    outer = Thing()
    assert inner(outer) == [["local", "outer"], ["local", "outer"]]


def test_a_module_is_searched_before_what_runs_it() -> None:
    """A test runner that executes a program may hold thousands of objects."""
    tests = [[object() for _ in range(100)] for _ in range(100)]
    program = compile("thing = Thing()\nfound = names_of(thing, Thing())", "program.py", "exec")
    variables = {"__name__": "program", "Thing": Thing, "names_of": names_of}
    exec(program, variables)
    assert len(tests) == 100
    assert [names[:1] for names in variables["found"]] == [["thing"], []]


def test_what_imports_a_module_gives_no_names(tmp_path: Any, monkeypatch: Any) -> None:
    (tmp_path / "module_of_things.py").write_text(
        "import sys\n"
        "from tapedebug._names import find_names\n"
        "thing = [1, 2]\n"
        "names = find_names(list, id, [id(thing)], sys._getframe(0))[id(thing)]\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    # the frames of importlib have the module's variables in `args[1]`
    assert importlib.import_module("module_of_things").names == ["thing"]


def texts(source: str, kind: str, tmp_path: Any, function: str) -> list[str | None]:
    """Return the names that are found for the first call of `function` in a file with this source."""
    import ast
    import linecache

    path = tmp_path / f"{abs(hash(source))}.py"
    path.write_text(source, encoding="utf-8")
    linecache.checkcache(str(path))
    calls = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    call = next(node for node in calls if ast.unparse(node.func).endswith(function))
    span = Span(
        str(path), call.lineno, call.col_offset, call.end_lineno or 0, call.end_col_offset or 0, "f", ""
    )
    return argument_texts(kind, span)


def test_the_source_of_a_launch_names_its_arguments(tmp_path: Any) -> None:
    source = "wp.launch(k, 3, inputs=[x, net.first, xs[i], 2.0, f(y)], outputs=[out])\n"
    assert texts(source, "kernel", tmp_path, "launch") == ["x", "net.first", "xs[i]", None, None, "out"]
    positional = "wp.launch(k, 3, [x], (y, z))\n"
    assert texts(positional, "kernel", tmp_path, "launch") == ["x", "y", "z"]
    over_lines = "wp.launch(\n    k,\n    dim=3,\n    inputs=[\n        x,\n    ],\n)\n"
    assert texts(over_lines, "kernel", tmp_path, "launch") == ["x"]


def test_what_the_source_does_not_say_is_left_open(tmp_path: Any) -> None:
    assert texts("wp.launch(k, 3, inputs=arguments, outputs=[y])\n", "kernel", tmp_path, "launch") == []
    assert texts("wp.launch(k, 3, inputs=[x, *rest, z])\n", "kernel", tmp_path, "launch") == ["x"]
    for call in (
        "launch(*head, [x], [y])",
        "launch(k, 3, **rest, outputs=[y])",
        "launch(k, *rest, outputs=[y])",
    ):
        assert texts(f"wp.{call}\n", "kernel", tmp_path, "launch") == [], call
    call = "wp.launch_python(*both, [x], [y])\n"
    assert texts(call, "python", tmp_path, "launch_python") == []
    nowhere = Span("no/such/file.py", 3, 0, 3, 10, "f", "")
    assert argument_texts("kernel", nowhere) == []


def test_copies_name_both_sides(tmp_path: Any) -> None:
    assert texts("wp.copy(b, a)\n", "copy", tmp_path, "copy") == ["b", "a"]
    assert texts("wp.copy(src=a, dest=b)\n", "copy", tmp_path, "copy") == ["b", "a"]
    assert texts("wp.copy(*b_and_a, 0, 0, 3)\n", "copy", tmp_path, "copy") == [None, None]
    assert texts("b.assign(a)\n", "copy", tmp_path, "assign") == ["b", "a"]
    assert texts("c = wp.clone(net.x, requires_grad=True)\n", "copy", tmp_path, "clone") == [None, "net.x"]


def test_labels_are_all_different_and_use_other_names_before_numbers() -> None:
    assert choose_labels([["x"], ["x"], []], [True, False, False]) == ["x", "x#2", "array 2"]
    assert choose_labels([["v", "v_next"], ["v"]], [True, False]) == ["v_next", "v"]
    assert choose_labels([["a", "longer"]], [True], longest=True) == ["longer"]

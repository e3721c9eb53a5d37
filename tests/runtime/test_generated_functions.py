"""Functions made from text: one place makes them, tracebacks show their lines, and records are complete."""

from __future__ import annotations

import ast
import linecache
import traceback

import pytest

import tapedebug as wp
from tapedebug.runtime.generated_functions import function_from_text
from tapedebug.runtime.tape.record import Record
from tests.processes import ROOT
from tests.runtime.kernels import scale

TEXT = "def divide(a, b):\n    quotient = a / b\n    return quotient + offset\n"


def test_a_traceback_shows_the_lines() -> None:
    divide = function_from_text("divide", TEXT, {"offset": 1})
    assert divide(6, 3) == 3
    with pytest.raises(ZeroDivisionError) as caught:
        divide(1, 0)
    linecache.checkcache()
    frame = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (frame.name, frame.lineno, frame.line) == ("divide", 2, "quotient = a / b")
    assert "generated_functions.py (divide" in frame.filename
    assert divide.__module__ == "tapedebug.runtime.generated_functions", "its frames are never call sites"


def test_equal_texts_share_their_code_and_other_texts_have_other_files() -> None:
    first, second = (function_from_text("divide", TEXT, {"offset": n}) for n in (1, 2))
    assert first.__code__ is second.__code__
    assert (first(6, 3), second(6, 3)) == (3, 4)
    other = function_from_text("divide", TEXT + "\n", {"offset": 1})
    assert other.__code__.co_filename != first.__code__.co_filename


def calls(source: str) -> list[str]:
    """Return the calls that make code, with their lines."""
    return [
        f"line {node.lineno}: {node.func.id}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if node.func.id in {"exec", "eval", "compile"}
    ]


def test_one_module_of_the_runtime_makes_code() -> None:
    folder = ROOT / "tapedebug" / "runtime"
    found = {
        path.name: len(made) for path in folder.rglob("*.py") if (made := calls(path.read_text("utf-8")))
    }
    assert found == {"generated_functions.py": 2}
    assert calls("x = 1\ny = eval('x')") == ["line 2: eval"]


def test_a_recorded_launch_has_all_that_a_record_has() -> None:
    """Generated code makes it, without `Record.__init__`."""
    x, y = wp.ones(2), wp.zeros(2)
    with wp.Tape() as tape:
        wp.launch(scale, 2, inputs=[x, y, 2.0])
        wp.launch(scale, 2, inputs=[x, y, 3.0])
    for record in tape.records:
        again = Record(
            record.index,
            record.plan,
            record.args,
            record.dim,
            record.threads,
            record.packed,
            record.site,
            None,
        )
        again.elapsed = record.elapsed
        assert all(getattr(record, name) == getattr(again, name) for name in Record.__slots__)
    assert [record.index for record in tape.records] == [0, 1]
    assert [record.args for record in tape.records] == [(x, y, 2.0), (x, y, 3.0)]
    assert [record.dim for record in tape.records] == [(2,), (2,)]


def test_launches_from_one_place_share_it_and_others_do_not() -> None:
    x, y = wp.ones(2), wp.zeros(2)
    command = wp.launch(scale, 2, inputs=[x, y, 2.0], record_cmd=True)
    assert command is not None
    with wp.Tape() as tape:
        for _ in range(2):
            wp.launch(scale, 2, inputs=[x, y, 2.0])
        wp.launch(scale, 2, inputs=[x, y, 2.0])
        command.launch()
        wp.launch(scale, 2, inputs=[x, y, 2.0])
    first, second, *others = tape.records
    assert first.site is second.site
    assert {r.call_site.file for r in tape.records} == {__file__}
    lines = [r.call_site.line - first.call_site.line for r in others]
    assert lines == [1, 2, 3], "a command is launched where the program calls it"

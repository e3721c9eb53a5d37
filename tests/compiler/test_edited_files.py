"""Files that are edited while a process lives: what runs is what Python read, or nothing."""

from __future__ import annotations

import importlib
import linecache
import os
import sys
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tapedebug as wp
from tapedebug._source import Origin

HEAD = "import tapedebug as wp\n"


def scaling(name: str, factor: str) -> str:
    return (
        f"@wp.kernel\ndef {name}(x: wp.array(dtype=float), y: wp.array(dtype=float)):\n"
        f"    i = wp.tid()\n    y[i] = x[i] * {factor}\n"
    )


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    # Python takes bytecode of an edit in the same second and of the same length for that of the new text.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "edited_while_it_runs.py"

    def written(text: str) -> Path:
        path.write_text(text)
        return path

    yield written
    sys.modules.pop(path.stem, None)


def load(path: Path) -> ModuleType:
    spec = spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = sys.modules[path.stem] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def value(kernel: Any) -> float:
    x = wp.array([1.0], dtype=float)
    y = wp.zeros_like(x)
    wp.launch(kernel, 1, inputs=[x, y])
    return float(y.numpy()[0])


def gradient(kernel: Any) -> float:
    x = wp.array([1.0], dtype=float, requires_grad=True)
    y = wp.zeros_like(x)
    with wp.Tape() as tape:
        wp.launch(kernel, 1, inputs=[x, y])
    tape.backward(grads={y: wp.ones(1, dtype=float)})
    return float(x.grad.numpy()[0])


def executed(text: str, names: dict[str, Any], file: Path) -> dict[str, Any]:
    """Run what a file held when its process began."""
    exec(compile(text, str(file), "exec"), names)
    return names


def message(function: Callable[[], object]) -> str:
    with pytest.raises(wp.TapedebugError) as messages:
        function()
    return str(messages.value)


THREE = HEAD + scaling("a", "2.0") + scaling("b", "3.0") + scaling("c", "5.0")


@pytest.mark.parametrize(
    "edited",
    [
        HEAD + scaling("new", "7.0") + THREE.removeprefix(HEAD),
        THREE.replace("2.0", "9.0").replace("3.0", "9.0").replace("5.0", "9.0"),
        HEAD + scaling("c", "5.0") + scaling("b", "3.0") + scaling("a", "2.0"),
        "",
        "this is no Python\n" * 20,
        None,
    ],
    ids=["above", "same lines", "moved", "empty", "broken", "deleted"],
)
def test_an_edit_after_the_import_changes_nothing(write: Callable[[str], Path], edited: str | None) -> None:
    path = write(THREE)
    module = load(path)
    path.unlink() if edited is None else write(edited)
    linecache.checkcache()  # as the traceback of any error does
    assert [value(getattr(module, name)) for name in "abc"] == [2.0, 3.0, 5.0]
    assert [gradient(getattr(module, name)) for name in "abc"] == [2.0, 3.0, 5.0]


FUNCTIONS = """import tapedebug as wp
@wp.func
def twice(x: float):
    return 2.0 * x
@wp.func
def thrice(x: float):
    return 3.0 * x
@wp.func_grad(thrice)
def adj_thrice(x: float, adj_ret: float):
    wp.adjoint[x] += 4.0 * adj_ret
@wp.func_native("return 5.0f * x;", "adj_x += 5.0f * adj_ret;")
def five(x: float) -> float: ...
@wp.kernel
def both(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    y[0] = twice(x[0]) + 10.0 * thrice(x[0]) + 100.0 * five(x[0])
"""


def test_functions_and_gradients_are_those_of_the_import(write: Callable[[str], Path]) -> None:
    module = load(write(FUNCTIONS))
    write(FUNCTIONS.replace("    return 2.0 * x", "    return 7.0 * x").replace("+= 4.0", "+= 8.0"))
    linecache.checkcache()
    assert value(module.both) == 532.0
    assert gradient(module.both) == 542.0


def test_a_reload_takes_the_new_text(write: Callable[[str], Path]) -> None:
    path = write(THREE)
    module = load(path)
    before = module.a
    write(THREE.replace("2.0", "11.0"))
    sys.path.insert(0, str(path.parent))
    try:
        importlib.reload(module)
    finally:
        sys.path.remove(str(path.parent))
    assert (value(before), value(module.a), gradient(module.a)) == (2.0, 11.0, 11.0)


def test_the_cache_holds_each_version_by_itself(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(wp.config, "kernel_cache_dir", str(tmp_path / "kernels"))
    text = HEAD + scaling("only", "2.0")
    first = load(write(text))
    write(text.replace("2.0", "6.0"))
    assert value(first.only) == 2.0
    assert value(load(write(text.replace("2.0", "6.0"))).only) == 6.0
    assert value(load(write(text)).only) == 2.0


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        (lambda text: text.replace("2.0", "9.0"), 2),
        (lambda text: text.replace("def a", "def z"), 2),
        (lambda text: text.replace("i = wp.tid()\n", "i = wp.tid()\n    i = i\n"), 2),
        (lambda text: HEAD + scaling("new", "7.0") + text.removeprefix(HEAD), 2),
        (lambda text: text.replace("(x: wp", "(u: wp", 1), 2),
    ],
    ids=["constant", "name", "line", "above", "parameter"],
)
def test_a_script_that_was_edited_before_it_came_to_its_kernels(
    write: Callable[[str], Path], edit: Callable[[str], str], line: int
) -> None:
    # Python reads a script at once; its kernels may come minutes later.
    path = write(edit(THREE))
    names = executed(THREE, {"__name__": "__main__"}, path)
    assert message(lambda: value(names["a"])) == (
        f"kernel `a`: {path} was edited after Python had read it: "
        f"its text at line {line} is not the function that runs\n"
        "  = hint: run the program again, or import its module anew (importlib.reload)"
    )


def test_an_edit_elsewhere_in_a_script_is_no_error(write: Callable[[str], Path]) -> None:
    path = write(THREE.replace("5.0", "6.0") + "# and a remark\n")
    names = executed(THREE, {"__name__": "__main__"}, path)
    assert value(names["a"]) == 2.0
    assert message(lambda: value(names["c"])).startswith(f"kernel `c`: {path} was edited")


def test_the_same_for_functions_and_lambdas(write: Callable[[str], Path]) -> None:
    path = write(FUNCTIONS.replace("2.0", "7.0"))
    names = executed(FUNCTIONS, {"__name__": "__main__"}, path)
    assert message(lambda: value(names["both"])).startswith(f"function `twice`: {path} was edited")
    text = "double = lambda x: 2.0 * x\n"
    path = write(text.replace("2.0", "3.0"))
    double = executed(text, {"__name__": "__main__"}, path)["double"]
    assert message(lambda: wp.map(double, wp.ones(2, dtype=float))).startswith(
        f"function `<lambda>`: {path} was edited"
    )


def test_modules_that_a_hook_rewrites_are_taken_as_they_are(write: Callable[[str], Path]) -> None:
    # as pytest rewrites the `assert` of the modules that it collects
    path = write(THREE.replace("2.0", "9.0"))
    names = executed(THREE, {"__name__": "rewritten", "__loader__": object()}, path)
    assert value(names["a"]) == 9.0


CONTEXTS = '''from __future__ import annotations
import tapedebug as wp
class Holder:
    if True:
        @staticmethod
        def make(factor):
            shift = wp.constant(1.0)
            @wp.kernel
            def inner(x: wp.array(dtype=float), y: wp.array(dtype=float)):
                """Text
that begins further left."""
                i = wp.tid()
                y[i] = x[i] * factor + shift
            return inner
    __hidden = 3.0
    @wp.func
    def ofclass(x: float):
        return x * 2.0
def plain(x: float): return 4.0 * x
@wp.kernel
def short(x: wp.array(dtype=float), y: wp.array(dtype=float)): y[0] = x[0] * 5.0
@wp.kernel(
    enable_backward=True,
)
def long(
    x: wp.array(dtype=float),  # a remark

    y: wp.array(dtype=float),
):
    # only a remark
    y[0] = (
        x[0]
        * 6.0
    )
    # and one below
other = 1
'''


def test_any_place_of_a_function_is_known_again(write: Callable[[str], Path]) -> None:
    module = load(write(CONTEXTS))
    assert value(module.Holder.make(3.0)) == 4.0
    assert value(module.short) == 5.0
    assert value(module.long) == 6.0
    assert Origin.of(module.plain).lines == ("def plain(x: float): return 4.0 * x",)
    assert module.Holder.ofclass.origin.first_line == 16


def test_lines_of_launches_are_those_that_ran(write: Callable[[str], Path]) -> None:
    text = THREE + (
        "x = wp.array([1.0], dtype=float, requires_grad=True)\ny = wp.zeros_like(x)\n"
        "def record():\n    with wp.Tape() as tape:\n"
        "        wp.launch(a, 1, inputs=[x, y])\n    return tape\n"
    )
    module = load(write(text))
    write(THREE.replace("@wp", "\n@wp") + "# something else\n" * 20)
    linecache.checkcache()
    tape = module.record()
    assert tape.records[0].call_site.text == "        wp.launch(a, 1, inputs=[x, y])"
    assert [array.label for array in tape.trace().arrays] == ["x", "y"]


def test_a_kernel_of_functools_wraps(write: Callable[[str], Path]) -> None:
    text = (
        "import functools\n" + HEAD + "def logged(f):\n    @functools.wraps(f)\n"
        "    def call(*args):\n        return f(*args)\n    return call\n"
        "@wp.func\n@logged\ndef twice(x: float):\n    return 2.0 * x\n"
    )
    module = load(write(text))
    write(text.replace("2.0", "3.0"))
    assert module.twice.origin.lines[-1] == "    return 2.0 * x"


def test_unedited_files_cost_one_look_at_the_file(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(HEAD + "".join(scaling(f"k{n}", "2.0") for n in range(50)))
    opened: list[str] = []
    update = linecache.updatecache

    def counted(name: str, names: Any = None) -> list[str]:
        opened.append(name)
        return update(name, names)

    monkeypatch.setattr(linecache, "updatecache", counted)
    module = load(path)
    assert opened.count(str(path)) == 1
    assert np.isclose(value(module.k49), 2.0)
    assert opened.count(str(path)) == 1
    assert os.path.exists(path)

"""Wrong programs and the whole message that each gives: `wrong_programs.txt`, a chapter a program.

`python -m tests.compiler.test_errors` writes the messages anew; read them before you commit them.
"""

from __future__ import annotations

import importlib.util
import linecache
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

import tapedebug as wp
from tapedebug import KernelNameError, KernelSyntaxError, KernelTypeError, TapedebugError

BOOK = Path(__file__).parent / "wrong_programs.txt"
RULE = "-" * 40
HEAD = """@wp.kernel
def k(
    x: wp.array(dtype=float), y: wp.array(dtype=float), p: wp.array(dtype=wp.vec3), m: wp.array2d(dtype=float)
):
    i = wp.tid()
"""


def chapters() -> dict[str, tuple[str, str]]:
    """Title → (program, message). A program that defines no kernel is the body of one, after `HEAD`."""
    found = {}
    for chapter in BOOK.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, rest = chapter.partition("\n")
        program, _, message = rest.partition(f"\n{RULE}\n")
        found[title] = (program.strip("\n"), message.strip("\n"))
    return found


def source(program: str) -> str:
    """The file of a chapter: what stands before a line `...` is at module level, the rest in the kernel."""
    before, dots, body = program.rpartition("\n...\n")
    if not dots and "@wp.kernel" in program:
        return f"import tapedebug as wp\n\n{program}\n"
    indented = "".join(f"    {line}\n" for line in body.splitlines())
    return "import tapedebug as wp\n\n" + (f"{before}\n\n" if before else "") + HEAD + indented


def raised(program: str, folder: Path) -> str:
    """The error of a program, as the book has it: its class, then its text."""
    path = folder / "program.py"
    path.write_text(source(program), encoding="utf-8")
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        _ = module.k.analysis
    except TapedebugError as error:
        assert error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)
        return f"{type(error).__name__}: {error}".replace(str(path), "program.py")
    raise AssertionError("the program compiled")


@pytest.mark.parametrize("title", chapters())
def test_wrong_program(title: str, tmp_path: Path) -> None:
    program, message = chapters()[title]
    assert raised(program, tmp_path) == message


def test_every_message_says_where_and_how_to_mend() -> None:
    for title, (_, message) in chapters().items():
        assert re.match(r"Kernel(Name|Type|Syntax)Error: (kernel|function) `\w+`: ", message), title
        assert "  --> program.py:" in message, title
        assert re.search(r"\n   \| +\^+\n", message), title
        assert "\n  = hint: " in message, title


def test_the_families_are_pythons() -> None:
    assert issubclass(KernelTypeError, TypeError)
    assert issubclass(KernelNameError, NameError)
    assert not issubclass(KernelSyntaxError, SyntaxError)  # whose traceback would show the library's line


# What the book cannot hold ---------------------------------------------------------------------------------


def message_of(function: Any) -> str:
    with pytest.raises(TapedebugError) as info:
        function()
    assert info.value.__suppress_context__ or info.value.__context__ is None
    return str(info.value)


def test_source_that_python_does_not_keep() -> None:
    names: dict[str, Any] = {"wp": wp}
    exec("@wp.kernel\ndef ghost(x: wp.array(dtype=float)):\n    x[0] = 1.0\n", names)
    assert message_of(lambda: names["ghost"].params) == (
        "kernel `ghost`: its source cannot be read (could not get source code)\n"
        "  = hint: define it in a file or a notebook cell, not through exec() or a lambda"
    )


def test_lambda_is_no_kernel() -> None:
    assert message_of(lambda: wp.kernel(lambda x: None).params) == (
        "kernel `<lambda>`: its source cannot be read (it is not a function definition)\n"
        "  = hint: define it in a file or a notebook cell, not through exec() or a lambda"
    )


def test_kernel_called_like_a_function() -> None:
    @wp.kernel
    def scale(x: wp.array(dtype=float)):
        x[0] = 1.0

    assert message_of(lambda: scale([1.0])) == (
        "kernel `scale` was called like a function\n  = hint: launch it: launch(scale, dim=…, inputs=[…])"
    )


def test_function_of_the_language_called_outside() -> None:
    assert message_of(lambda: wp.tid()) == (
        "tid() is a function of the kernel language and was called outside a kernel\n"
        "  = hint: call it inside a function decorated with @kernel or @func"
    )


def test_unknown_variant() -> None:
    @wp.kernel
    def scale(x: wp.array(dtype=float)):
        x[0] = 1.0

    kinds = "kind is 'forward', 'adjoint' or 'tangent'; got 'backward'"
    with pytest.raises(ValueError, match=rf"^kernel `\w+`: {kinds}$"):
        scale.source("backward")


def test_a_tab_keeps_the_caret_in_place(tmp_path: Path) -> None:
    program = "@wp.kernel\ndef k(x: wp.array(dtype=float)):\n\tif x[0] > 0.0:\n\t\tx[0] = 1"
    assert "   | \t\tx[0] = 1\n   | \t\t       ^\n" in raised(program, tmp_path)


def test_a_sum_of_too_many_terms(tmp_path: Path) -> None:
    message = raised(f"y[i] = {' + '.join(['x[i]'] * 900)}", tmp_path)
    assert message.startswith(
        "KernelSyntaxError: kernel `k`: an expression here is nested too deeply\n  --> program.py:8, in k\n"
    )
    assert message.endswith("\n  = hint: split it into several statements")


def test_too_many_returns_one_after_the_other(tmp_path: Path) -> None:
    program = "\n".join(f"if i == {k}:\n    return" for k in range(100))
    assert raised(program, tmp_path) == (
        "KernelSyntaxError: kernel `k`: branches and loops are nested more than 80 deep "
        "(what follows a `return` counts)\n"
        "  --> program.py:168, in k\n"
        "   |     if i == 80:\n"
        "   |     ^^^^^^^^^^^\n"
        "  = hint: combine conditions with `or`, or return once at the end"
    )


def test_a_failed_kernel_fails_again_the_same_way() -> None:
    @wp.kernel
    def wrong(x: wp.array(dtype=float)):
        x[0] = 1

    first, second = (message_of(lambda: wrong.forward()) for _ in range(2))
    assert first == second
    assert "`x` holds float32; got int32" in first


if __name__ == "__main__":
    text = "Wrong programs, and what the compiler says of each.\n"
    for title, (program, _) in chapters().items():
        with tempfile.TemporaryDirectory() as folder:
            found = raised(program, Path(folder))
        text += f"\n## {title}\n{program}\n{RULE}\n{found}\n"
    BOOK.write_text(text, encoding="utf-8")


def test_a_kernel_that_is_said_to_return_something() -> None:
    @wp.kernel
    def scale(x: wp.array(dtype=float)) -> float:
        x[wp.tid()] = 1.0

    text = message_of(lambda: scale.params)
    assert text.startswith("kernel `scale`: a kernel returns nothing; it is annotated `-> float`\n")
    assert text.endswith("  = hint: remove the annotation; threads write their results to arrays")
    assert "^^^^^" in text

    @wp.kernel
    def nothing(x: wp.array(dtype=float)) -> None:
        x[wp.tid()] = 1.0

    assert [param.name for param in nothing.params] == ["x"]

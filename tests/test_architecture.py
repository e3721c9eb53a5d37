"""The picture of the architecture is that of today's code, and each line of the map of files reads alone."""

import ast
import re
from pathlib import Path

from scripts import architecture

# a reader of the map has only this line
RIDDLE = re.compile(r"(?:What|Whether|Where|Who|Whom|How|Why|When|Which|If|Of|Is|Are|Does)\b|Do (?!no)")


def riddles(package: Path) -> list[str]:
    """Files whose docstring has no first line, or one that begins with a relative clause or a question."""
    first = {path: architecture.summary(path, package) for path in sorted(package.rglob("*.py"))}
    return [
        f"{path.relative_to(package.parent)}: {line}"
        for path, line in first.items()
        if not line.endswith((".", "?")) or RIDDLE.match(line)
    ]


def docstring_riddles(source: str) -> list[str]:
    """First lines of docstrings, of constants and attributes too, that begin as no description does."""
    todo: list[ast.AST] = [ast.parse(source)]
    for node in todo:
        todo += architecture.inner_statements(node)
    strings = [node.value for node in todo if isinstance(node, ast.Expr)]
    texts = [value.value for value in strings if isinstance(value, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and RIDDLE.match(text)]


def package(folder: Path, **files: str) -> Path:
    """A small package: `trace__model="…"` is the text of trace/model.py."""
    for name, text in files.items():
        path = folder / "tapedebug" / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        (path.parent / "__init__.py").touch()
        path.write_text(text, encoding="utf-8")
    return folder / "tapedebug"


def test_the_picture_shows_the_imports_of_the_code() -> None:
    picture = architecture.PICTURE.read_text(encoding="utf-8")
    hint = "`python -m scripts.architecture` draws it anew"
    assert architecture.rooms_in(picture) == sorted(architecture.rooms()), hint
    assert architecture.arrows_in(picture) == architecture.arrows(), hint


def test_imports_of_every_kind_are_seen(tmp_path: Path) -> None:
    made = package(
        tmp_path,
        contract__program="",
        trace__model="from .. import contract\nfrom . import other",
        trace__other="def f():\n    import tapedebug.panel.queries",
        panel__queries="if TYPE_CHECKING:\n    from tapedebug.trace import model",
        panel__late="def f():\n    from tapedebug import trace\nimport numpy",
        report__page="if TYPE_CHECKING:\n    import tapedebug.trace\nelse:\n    from tapedebug import panel",
    )
    assert architecture.rooms(made) == ["contract", "panel", "report", "trace"]
    assert architecture.arrows(made) == {
        ("trace", "contract"): "load",
        ("trace", "panel"): "lazy",
        ("panel", "trace"): "lazy",
        ("report", "trace"): "types",
        ("report", "panel"): "load",
    }


def test_every_docstring_begins_with_what_it_describes() -> None:
    root = architecture.PACKAGE.parent
    folders = [architecture.PACKAGE, *(root / name for name in ("tests", "scripts", "pytest_tapedebug"))]
    sources = sorted(path for folder in folders for path in folder.rglob("*.py"))
    found = {str(path): docstring_riddles(path.read_text(encoding="utf-8")) for path in sources}
    assert {name: texts for name, texts in found.items() if texts} == {}
    assert docstring_riddles('X = 1\n"""Of a sum."""\ndef f():\n    """Whether it holds."""') == [
        "Of a sum.",
        "Whether it holds.",
    ]


def test_every_line_of_the_map_reads_alone() -> None:
    assert riddles(architecture.PACKAGE) == []


def test_riddles_are_seen(tmp_path: Path) -> None:
    made = package(
        tmp_path, a__good='"""Arrays."""', a__bad='"""What arrays are."""', a__half='"""Arrays\nof."""'
    )
    assert riddles(made) == [
        "tapedebug/a/__init__.py: ",
        "tapedebug/a/bad.py: What arrays are.",
        "tapedebug/a/half.py: Arrays",
    ]


def test_the_map_has_every_file() -> None:
    lines = architecture.file_map().splitlines()
    files = sorted(architecture.PACKAGE.rglob("*.py"))
    assert sum(line.startswith("- `") for line in lines) == sum(f.name != "__init__.py" for f in files)
    assert "## tapedebug/lang/" in lines and "### tapedebug/lang/rules/" in lines
    assert f"- `model.py`: {architecture.summary(architecture.PACKAGE / 'trace' / 'model.py')}" in lines

"""Draw the rooms of the package and the imports between them, and list its files, one line each.

`python -m scripts.architecture` writes the picture of `docs/architecture.md`; Graphviz must be installed.
`python -m scripts.architecture --map` prints the list, which `docs/conf.py` puts into the documentation.
Both are made from the code: the picture from all imports, the list from the first lines of docstrings.
"""

from __future__ import annotations

import argparse
import ast
import html
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tapedebug"
PICTURE = ROOT / "docs" / "_static" / "architecture.svg"

ENGINE = ("lang", "compiler", "runtime", "aswarp", "optim", "torch", "jax")
CONTRACT = ("contract", "operations")

KINDS = {"load": "when the module loads", "lazy": "inside functions", "types": "for type checkers"}
"""The kinds of imports, the strongest first: an arrow shows the strongest between its rooms."""
STYLE = {
    "load": 'color="#30475e"',
    "lazy": 'color="#c05a1c", style=dashed',
    "types": 'color="#8a8a8a", style=dotted',
}


def inner_statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements directly inside of a module or statement, and the clauses that hold some.

    Imports, docstrings and definitions are among them: to look into expressions takes six times as long.
    """
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        yield from getattr(node, name, ())


def imports(tree: ast.Module, package: str) -> Iterator[tuple[str, str]]:
    """Yield the kind and the absolute name of every import of a module."""
    todo: list[tuple[ast.AST, str]] = [(tree, "load")]
    while todo:
        node, kind = todo.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and kind == "load":
            kind = "lazy"
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            todo += [(child, "types") for child in node.body] + [(child, kind) for child in node.orelse]
            continue
        if isinstance(node, ast.Import):
            yield from ((kind, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")
                base = ".".join([*above[: len(above) - node.level + 1], base]).rstrip(".")
            # `from tapedebug import runtime` names the room after `import`
            yield from ((kind, f"{base}.{alias.name}") for alias in node.names)
        todo += [(child, kind) for child in inner_statements(node)]


@cache
def read(path: Path, package: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the first line of a module's docstring (empty without one), and its imports."""
    tree = ast.parse(path.read_text("utf-8"))
    return (ast.get_docstring(tree) or "").partition("\n")[0], tuple(imports(tree, package))


def rooms(package: Path = PACKAGE) -> list[str]:
    """Return the rooms: the folders of the package that hold modules."""
    return sorted(path.parent.name for path in package.glob("*/__init__.py"))


def arrows(package: Path = PACKAGE) -> dict[tuple[str, str], str]:
    """Return the imports between rooms: (importing room, imported room) → the strongest kind."""
    known, order = rooms(package), list(KINDS)
    found: dict[tuple[str, str], str] = {}
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        if parts[1] not in known:
            continue
        for kind, name in read(path, ".".join(parts[:-1]))[1]:
            other = f"{name}.".split(".")[1] if name.startswith("tapedebug.") else ""
            if other in known and other != parts[1]:
                arrow = (parts[1], other)
                found[arrow] = min(kind, found.get(arrow, kind), key=order.index)
    return found


def dot(package: Path = PACKAGE) -> str:
    """Return the picture as Graphviz DOT: the debugger above, the contract between, the engine below."""
    everything = rooms(package)
    groups = {
        "The debugger": [room for room in everything if room not in ENGINE + CONTRACT],
        "The contract": [room for room in everything if room in CONTRACT],
        "The engine": [room for room in everything if room in ENGINE],
    }
    lines = [
        "digraph architecture {",
        '  graph [bgcolor=white, newrank=true, ranksep=0.6, nodesep=0.4, fontname="sans-serif", fontsize=13]',
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="sans-serif", fontsize=13]',
        "  edge [arrowsize=0.7]",
    ]
    for number, (title, members) in enumerate(groups.items()):
        lines.append(f"  subgraph cluster_{number} {{")
        lines.append(f'    label="{title}"; labeljust=l; style="rounded,filled"; color="#eef1f5"')
        lines += [f'    {room} [label="{room}/"]' for room in members]
        lines.append("  }")
    for (source, target), kind in sorted(arrows(package).items()):
        lines.append(f'  {source} -> {target} [class="{kind}", {STYLE[kind]}]')
    return "\n".join([*lines, "}", ""])


def arrows_in(picture: str) -> dict[tuple[str, str], str]:
    """Return the arrows that a picture shows, as `arrows` does."""
    found = re.findall(r'class="edge (\w+)">\s*<title>(.*?)</title>', picture)
    return {tuple(html.unescape(title).split("->")): kind for kind, title in found}


def rooms_in(picture: str) -> list[str]:
    """Return the rooms that a picture shows."""
    return sorted(re.findall(r'class="node">\s*<title>(.*?)</title>', picture))


def draw(package: Path = PACKAGE) -> str:
    """Return the picture as SVG, without the versions and sizes that depend on the machine."""
    try:
        done = subprocess.run(
            ["dot", "-Tsvg"], input=dot(package), capture_output=True, text=True, check=True
        )
    except FileNotFoundError:
        sys.exit("Graphviz draws the picture, and there is no `dot` on the PATH. Hint: make system")
    svg = re.sub(r"<!--.*?-->\n?", "", done.stdout, flags=re.S)
    return svg[svg.index("<svg") :]


def summary(path: Path, package: Path = PACKAGE) -> str:
    """Return the line of a module in the map: the first of its docstring."""
    return read(path, ".".join(path.relative_to(package.parent).parent.parts))[0]


def file_map(package: Path = PACKAGE) -> str:
    """Return the list of all files in Markdown: a heading a folder, a line a file."""
    folders = sorted({path.parent for path in package.rglob("*.py")}, key=lambda folder: folder.parts)
    lines = []
    for folder in folders:
        name = folder.relative_to(package.parent).as_posix()
        depth = 2 if folder == package else min(3, len(folder.relative_to(package).parts) + 1)
        start = folder / "__init__.py"
        lines += [f"{'#' * depth} {name}/", "", summary(start, package) if start.exists() else "", ""]
        files = sorted(path for path in folder.glob("*.py") if path != start)
        lines += [f"- `{path.name}`: {summary(path, package)}" for path in files]
        lines += [""] if files else []
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="draw the rooms of the package, or list its files")
    parser.add_argument("--map", action="store_true", help="print one line a file; draw nothing")
    if parser.parse_args().map:
        print(file_map())
        return
    PICTURE.write_text(draw(), encoding="utf-8")
    print(f"{PICTURE.relative_to(ROOT)}: {len(arrows())} arrows between {len(rooms())} rooms")


if __name__ == "__main__":
    main()

"""Select the test modules near a change, from imports alone: nothing is run and nothing is recorded.

A test module is near a file that changed if it is that file, imports it, or imports a module that does.
Imports inside functions count. A name that a package only re-exports (`wp.launch`) leads to the module that
defines it, so that `import tapedebug as wp` does not lead to everything. A module with many importers (a
*hub*) leads only to tests in the folder of the room that changed: otherwise every test would be near.
"""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

FOLDERS = ("tapedebug", "pytest_tapedebug", "tests", "scripts")
RINGS = 2
"""Test modules at most so many imports away are near."""
HUB = 40
"""A module with that many importers is a hub, unless it changed itself. Of 540 modules, 25 have so many."""
ALWAYS = ("tests/test_imports.py", "tests/test_repository.py", "tests/test_architecture.py")
"""Rules for all files, which any change can break."""


@dataclass
class Selection:
    """Test modules near a change.

    Attributes:
        near: Path of each test module, nearest first, with its distance in imports from what changed.
        hubs: Modules with many importers, and how many test modules that import them are left out.
        unread: Changed files that no test module imports or mentions.
    """

    near: dict[str, int] = field(default_factory=dict)
    hubs: dict[str, int] = field(default_factory=dict)
    unread: list[str] = field(default_factory=list)


@dataclass
class _File:
    """The parts of one Python file that lead to others."""

    from_imports: list[tuple[str, str, str, bool]] = field(default_factory=list)
    """Module, name there, name here, and whether it stands outside functions."""
    modules: list[tuple[str, str]] = field(default_factory=list)
    """`import module as name`."""
    chains: set[tuple[str, ...]] = field(default_factory=set)
    """`("wp", "autograd", "gradcheck")` for `wp.autograd.gradcheck`."""
    strings: set[str] = field(default_factory=set)


class ImportGraph:
    """The imports between the Python files of this repository.

    Args:
        root: The folder of the repository.
        folders: Folders in it that are read.
    """

    def __init__(self, root: Path, folders: Iterable[str] = FOLDERS) -> None:
        self.paths: dict[str, str] = {}
        for folder in folders:
            for path in sorted((root / folder).rglob("*.py")):
                relative = path.relative_to(root)
                parts = relative.with_suffix("").parts
                self.paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = relative.as_posix()
        self.modules = {path: module for module, path in self.paths.items()}
        gc.disable()  # syntax trees are many objects, of which none is garbage yet
        self._files = {module: self._read(module, root / path) for module, path in self.paths.items()}
        gc.enable()
        self._exports: dict[str, dict[str, tuple[str, str]]] = {
            module: {
                name: (source, original)
                for source, original, name, top in self._files[module].from_imports
                if top
            }
            for module, path in self.paths.items()
            if path.endswith("/__init__.py")
        }
        """By package, the names that it imports: from which module, and their names there."""

    @cached_property
    def imports(self) -> dict[str, set[str]]:
        """The modules that each module imports, or takes a name of."""
        return {module: set(self._imports(module)) - {module} for module in self.paths}

    @cached_property
    def importers(self) -> dict[str, set[str]]:
        """The modules that import each module."""
        found: dict[str, set[str]] = {module: set() for module in self.paths}
        for module, imported in self.imports.items():
            for each in imported:
                found[each].add(module)
        return found

    def is_test(self, module: str) -> bool:
        """True if pytest collects the module."""
        path = self.paths[module]
        return path.startswith("tests/") and path.rsplit("/", 1)[-1].startswith("test_")

    @property
    def tests(self) -> list[str]:
        """The modules that pytest collects."""
        return [module for module in self.paths if self.is_test(module)]

    def strings(self, module: str) -> set[str]:
        """The string constants of a module."""
        return self._files[module].strings

    def _read(self, module: str, path: Path) -> _File:
        """Imports, names with attributes and strings of a file; no imports for type checkers."""
        found = _File()
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        todo: list[tuple[ast.AST, bool]] = [(ast.parse(path.read_text(encoding="utf-8")), True)]
        while todo:
            node, top = todo.pop()
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                todo += ((child, top) for child in node.orelse)
                continue
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                top = False
            elif isinstance(node, ast.ImportFrom):
                base = _absolute(node, package)
                found.from_imports += ((base, a.name, a.asname or a.name, top) for a in node.names)
            elif isinstance(node, ast.Import):
                found.modules += ((a.name, a.asname or a.name.partition(".")[0]) for a in node.names)
            elif isinstance(node, ast.Attribute):
                chain = _chain(node)
                if chain:
                    found.chains.add(chain)
                    continue
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.strings.add(node.value)
            todo += ((child, top) for child in ast.iter_child_nodes(node))
        return found

    def _imports(self, module: str) -> Iterator[str]:
        file = self._files[module]
        packages: dict[str, str] = {}
        """Names of this module that stand for packages."""
        for source, original, name, _ in file.from_imports:
            target = self._defining(source, original)
            if target in self.paths:
                yield target
            if target in self._exports and target == f"{source}.{original}":
                packages[name] = target
        for source, name in file.modules:
            bound = source if source.partition(".")[0] != name else name
            if bound in self._exports:
                packages[name] = bound
            if source in self.paths and "." in source:
                yield source
        for first, *rest in file.chains:
            if first in packages:
                yield self._attribute(packages[first], rest)
        yield from (
            text for text in file.strings if text in self.paths and "." in text
        )  # `import_module("…")`

    def _attribute(self, package: str, names: list[str]) -> str:
        """The module that defines `package.names[0].names[1]…`."""
        for name in names:
            target = self._defining(package, name)
            if target != f"{package}.{name}" or target not in self._exports:
                return target if target in self.paths else package
            package = target
        return package

    def _defining(self, module: str, name: str) -> str:
        """The module that defines what `from module import name` gives."""
        seen = set()
        while name in self._exports.get(module, ()) and (module, name) not in seen:
            seen.add((module, name))
            module, name = self._exports[module][name]
        submodule = f"{module}.{name}"
        return submodule if submodule in self.paths else module


def _absolute(node: ast.ImportFrom, package: str) -> str:
    """The module of `from … import`, without dots before it."""
    if not node.level:
        return node.module or ""
    above = package.split(".")[: len(package.split(".")) - node.level + 1]
    return ".".join([*above, node.module or ""]).rstrip(".")


def _chain(node: ast.Attribute) -> tuple[str, ...]:
    """The names of `wp.autograd.gradcheck`; empty if it does not begin with a name."""
    names: list[str] = []
    at: ast.expr = node
    while isinstance(at, ast.Attribute):
        names.append(at.attr)
        at = at.value
    return (at.id, *reversed(names)) if isinstance(at, ast.Name) else ()


def near_tests(graph: ImportGraph, changed: Iterable[str], rings: int = RINGS, hub: int = HUB) -> Selection:
    """Select the test modules near files that changed.

    Args:
        graph: The imports of the repository.
        changed: Paths of files, from the repository's folder.
        rings: The largest distance, in imports.
        hub: The number of importers that makes a module a hub.
    """
    selection = Selection()
    distance: dict[str, int] = {}
    rooms: set[str] = set()
    for path in changed:
        module = graph.modules.get(path)
        imported = module is not None and (graph.importers[module] or graph.is_test(module))
        mentions = [] if imported else _mentioning(graph, path)
        if module is not None:
            distance[module] = 0
            rooms.add(_room(path))
        for test in mentions:
            distance.setdefault(test, 1)
        if module is not None and path.startswith("tapedebug/"):
            for test in _named_after(graph, path):
                distance.setdefault(test, 1)
        if not imported and not mentions:
            selection.unread.append(path)
    ended = _walk(graph, distance, rooms, rings, hub)
    order = sorted(
        (module for module in distance if graph.is_test(module)),
        key=lambda m: (distance[m], _room(graph.paths[m]) not in rooms, len(graph.imports[m]), m),
    )
    paths = {graph.paths[module]: distance[module] for module in order}
    first = {path: 0 for path, far in paths.items() if far == 0} | {
        path: 0 for path in ALWAYS if path in graph.modules
    }
    selection.near = first | {path: far for path, far in paths.items() if path not in first}
    selection.hubs = {
        module: sum(
            graph.is_test(importer) and importer not in distance for importer in graph.importers[module]
        )
        for module in ended
    }
    return selection


def _walk(graph: ImportGraph, distance: dict[str, int], rooms: set[str], rings: int, hub: int) -> list[str]:
    """Add the importers of what is in `distance`, ring by ring; return the hubs at which paths ended."""
    ended: list[str] = []
    changed = {module for module in distance if distance[module] == 0}
    edge = sorted(changed)
    for ring in range(1, rings + 1):
        reached: list[str] = []
        for module in edge:
            importers = sorted(graph.importers[module])
            if module not in changed and len(importers) >= hub:
                ended.append(module)
                importers = [i for i in importers if graph.is_test(i) and _room(graph.paths[i]) in rooms]
            for importer in importers:
                if importer not in distance:
                    distance[importer] = ring
                    reached.append(importer)
        edge = reached
    return ended


def _room(path: str) -> str:
    """The folder below `tapedebug/` or `tests/`: tests lie in folders of the same names."""
    parts = path.split("/")
    return parts[1] if len(parts) > 2 else ""


def _named_after(graph: ImportGraph, path: str) -> Iterator[str]:
    """Tests of `runtime/launch.py`, or of a file in `runtime/launch/`: `tests/runtime/test_launch*.py`."""
    stems = {part.removesuffix(".py").strip("_") for part in path.split("/")[2:]} - {"init"}
    for test in graph.tests:
        name = graph.paths[test].rsplit("/", 1)[-1].removeprefix("test_").removesuffix(".py")
        if _room(graph.paths[test]) == _room(path) and any(
            name == s or name.startswith(f"{s}_") for s in stems
        ):
            yield test


def _mentioning(graph: ImportGraph, path: str) -> list[str]:
    """Tests that contain the name of a file as a string, or else the name of its folder."""
    *folders, name = path.split("/")
    beside = "/".join(["tests", *folders[1:2], ""]) if folders[:1] == ["tests"] else "tests/"
    tests = [test for test in graph.tests if graph.paths[test].startswith(beside)]
    if name == "conftest.py":
        return tests
    for wanted in (name, *reversed(folders)):
        if wanted not in ("tests", "tapedebug"):
            found = [
                test
                for test in tests
                if any(f"/{text}".endswith(f"/{wanted}") for text in graph.strings(test))
            ]
            if found:
                return found
    return tests if beside != "tests/" else []  # programs that a test looks for in its folder

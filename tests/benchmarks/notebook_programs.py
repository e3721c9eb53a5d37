"""Programs for Warp from this project's notebooks: their code without what only tapedebug has.

A cell with `%%tape` becomes a block with a tape and its reverse pass. Statements that ask tapedebug for
something, such as a diagnosis or a panel, are left out, and so is what uses their results.
"""

from __future__ import annotations

import ast
import shlex
from pathlib import Path
from typing import Any

from tapedebug._notebook_file import code_cells

ONLY_HERE = frozenset(
    {
        "diagnose", "TapeDebugger", "preserved_bytes", "records", "at", "writers", "visualize", "diff",
        "report", "source", "hvp", "hvp_check", "launch_python", "verdict", "findings", "by_rule", "trace",
        "BoundsError", "TapedebugError", "check_bounds", "st_size", "unlink",
    }
)  # fmt: skip
"""Attributes that Warp does not have, and those of files that tapedebug writes."""
OPTIONS = frozenset({"on_overwrite", "memory_budget", "differs"})
"""Options that Warp does not have; they are dropped, and the call stays."""
REPLACED = {
    "import tapedebug as wp": "import warp as wp\nimport warp.optim",
    "from tapedebug.optim": "from warp.optim",
}
"""Imports that Warp has, too."""
NOT_WARP = frozenset({"IPython", "ipywidgets", "matplotlib", "tapedebug"})
"""Packages that a program on Warp does not need."""


def program(notebook: Path) -> str:
    """Return the text of a program that says `import warp as wp` and computes what the notebook does."""
    lines = "\n".join(_without_magics(cell) for cell in code_cells(notebook))
    for ours, theirs in REPLACED.items():
        lines = lines.replace(ours, theirs)
    tree = ast.parse(lines)
    tree.body = _Filter().kept(tree.body)
    return ast.unparse(ast.fix_missing_locations(_Options().visit(tree))) + "\n"


def _without_magics(cell: str) -> str:
    """Return the code of a cell: `%%tape` is written out, and other magics are gone."""
    first, _, rest = cell.partition("\n")
    if first.startswith("%%tape "):
        words = shlex.split(first)
        given = dict(zip(words[1::2], words[2::2], strict=True))
        name, loss = given.get("--name", "tape"), given.get("--loss")
        block = f"with wp.Tape() as {name}:\n" + "\n".join(f"    {line}" for line in rest.splitlines())
        return f"{block}\n{name}.backward({loss})" if loss else block
    if first.startswith("%%"):
        return rest
    return "\n".join(line for line in cell.splitlines() if not line.startswith("%"))


class _Filter:
    """Statements that Warp can run, and the names that the others would have given."""

    def __init__(self) -> None:
        self.missing: set[str] = set()

    def kept(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        """Return the statements to keep, in order; those of blocks and functions are chosen in turn."""
        found = []
        for statement in statements:
            if self._lacks(statement):
                self.missing |= _bound(statement)
                continue
            bound = _bound(statement)
            if not isinstance(statement, ast.ClassDef) and self._is_emptied(statement):
                self.missing |= bound
                continue
            self.missing -= bound
            found.append(statement)
        return found

    def _is_emptied(self, statement: ast.stmt) -> bool:
        """Choose the statements inside a block or a function; True if nothing is left of a block.

        A function's names are its own.
        """
        outside = set(self.missing)
        if isinstance(statement, ast.FunctionDef):
            self.missing -= {
                argument.arg for argument in ast.walk(statement.args) if isinstance(argument, ast.arg)
            }
        elif isinstance(statement, ast.For):
            self.missing -= {node.id for node in ast.walk(statement.target) if isinstance(node, ast.Name)}
        for field in ("body", "orelse", "finalbody"):
            if getattr(statement, field, None):
                setattr(statement, field, self.kept(getattr(statement, field)) or [ast.Pass()])
        if isinstance(statement, ast.FunctionDef):
            self.missing = outside
            return False
        return isinstance(getattr(statement, "body", [None])[0], ast.Pass)

    def _lacks(self, statement: ast.stmt) -> bool:
        """True if a statement, without the statements inside it, needs something that is not there."""
        if isinstance(statement, ast.Import | ast.ImportFrom):
            module = getattr(statement, "module", None) or statement.names[0].name
            return module.partition(".")[0] in NOT_WARP
        if isinstance(statement, ast.Try):
            names = (handler.type for handler in statement.handlers)
            return any(isinstance(name, ast.Attribute) and name.attr in ONLY_HERE for name in names)
        inner = {node for child in getattr(statement, "body", []) for node in ast.walk(child)}
        for node in ast.walk(statement):
            if node in inner:
                continue
            if isinstance(node, ast.Attribute) and node.attr in ONLY_HERE:
                return True
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self.missing:
                return True
            if isinstance(node, ast.Name) and node.id.startswith("panel"):
                return True
        return False


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement gives to the rest of the program."""
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    stored = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {node.id for node in stored if isinstance(node.ctx, ast.Store)}


class _Options(ast.NodeTransformer):
    """Drop options that Warp does not have, in calls and in dictionaries of options."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        """Drop keywords."""
        node.keywords = [keyword for keyword in node.keywords if keyword.arg not in OPTIONS]
        return self._inside(node)

    def visit_Dict(self, node: ast.Dict) -> ast.Dict:
        """Drop entries."""
        kept = [
            (key, value)
            for key, value in zip(node.keys, node.values, strict=True)
            if not (isinstance(key, ast.Constant) and key.value in OPTIONS)
        ]
        node.keys, node.values = [key for key, _ in kept], [value for _, value in kept]
        return self._inside(node)

    def _inside(self, node: Any) -> Any:
        self.generic_visit(node)
        return node

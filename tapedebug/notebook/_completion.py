"""Completion for our magics: options, their values, names of tapes, arrays and kernels, files."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapedebug.compiler.kernel import Kernel
from tapedebug.diagnose import Diagnosis
from tapedebug.runtime import Tape, array
from tapedebug.trace import Trace

if TYPE_CHECKING:
    from types import SimpleNamespace

    from IPython.core.interactiveshell import InteractiveShell

    from tapedebug.notebook._options import BoundMagic

ENDINGS = {"file": (".html", ".tapedebug-trace")}


def install(shell: InteractiveShell, magics: Mapping[str, BoundMagic]) -> None:
    """Install completion for magics, given by their names with per cent signs."""
    for name, magic in magics.items():
        shell.set_hook("complete_command", _completer(magic.parser), str_key=name)


def _completer(parser: argparse.ArgumentParser) -> Callable[[Any, Any], list[str]]:
    def complete(shell: InteractiveShell, event: SimpleNamespace) -> list[str]:
        return candidates(parser, event.line, event.symbol, shell.user_ns)

    return complete


def candidates(
    parser: argparse.ArgumentParser, line: str, symbol: str, variables: Mapping[str, Any]
) -> list[str]:
    """Return the completions of `symbol`, the word before the cursor.

    Args:
        parser: The parser of the magic.
        line: The line, at least up to the cursor.
        symbol: The word that is being typed; may be empty.
        variables: The user's variables.
    """
    words = line.split()[1:]
    if symbol and words and words[-1] == symbol:
        words.pop()
    by_name = {text: action for action in parser._actions for text in action.option_strings}
    last = by_name.get(words[-1]) if words else None
    if last is not None and last.nargs != 0:
        return _fitting(_values(last, symbol, variables), symbol)
    free: list[str] = []
    if not symbol.startswith("-"):
        for action in parser._actions:
            if not action.option_strings:
                free += _values(action, symbol, variables)
    if free and symbol:
        return _fitting(free, symbol)
    used = {id(by_name[word]) for word in words if word in by_name}
    return _fitting([*free, *(text for text, action in by_name.items() if id(action) not in used)], symbol)


def _fitting(found: list[str], symbol: str) -> list[str]:
    return [text for text in dict.fromkeys(found) if text.startswith(symbol)]


def _values(action: argparse.Action, symbol: str, variables: Mapping[str, Any]) -> list[str]:
    if action.choices is not None:
        return [str(choice) for choice in action.choices]
    kind = getattr(action, "td_kind", None)
    found = _named(kind, variables)
    if kind in ENDINGS or (kind == "tape" and not action.option_strings):
        found += _files(symbol)
    return found


def _named(kind: str | None, variables: Mapping[str, Any]) -> list[str]:
    """Return the variables that hold an object of this kind."""
    kinds: dict[str | None, Any] = {"tape": (Tape, Trace, Diagnosis), "array": array, "kernel": Kernel}
    wanted = kinds.get(kind)
    if wanted is None:
        return []
    found = [
        name for name, value in variables.items() if not name.startswith("_") and isinstance(value, wanted)
    ]
    if kind == "kernel":
        found = [variables[name].key for name in found]
    return sorted(found)


def _files(symbol: str) -> list[str]:
    """Return folders and files of tapedebug that complete the typed path."""
    head, slash, _ = symbol.rpartition("/")
    folder = Path((head + slash) or ".").expanduser()
    found = []
    try:
        for entry in sorted(folder.iterdir()):
            if entry.name.startswith("."):
                continue
            if entry.is_dir():
                found.append(f"{head}{slash}{entry.name}/")
            elif entry.name.endswith(ENDINGS["file"]):
                found.append(f"{head}{slash}{entry.name}")
    except OSError:
        return []
    return found

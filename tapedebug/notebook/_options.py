"""Options of magics, derived from the Python functions that they call."""

# IPython's types are ignored, so that mypy also runs where it is not installed
# mypy: disable-error-code="misc, untyped-decorator"

from __future__ import annotations

import argparse
import difflib
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any, Literal, Protocol, get_args, get_origin

from IPython.core.error import UsageError
from IPython.core.magic_arguments import argument, parse_argstring

Kind = Literal["tape", "array", "kernel", "file", "new"]
"""Kinds of names for completion: a variable with such an object, a file, or a new variable."""


class BoundMagic(Protocol):
    """A method of a `Magics` object, with the parser of its options."""

    @property
    def parser(self) -> argparse.ArgumentParser:
        """The parser."""


SEE = re.compile(r"^See `(\w+)`")


class Option(argument):
    """One option; `kind` is the kind of its value, `keyword` the Python keyword (None: an option of ours)."""

    def __init__(
        self, *names: str, kind: Kind | None = None, keyword: str | None = None, **kwds: Any
    ) -> None:
        super().__init__(*names, **kwds)
        self.kind = kind
        self.keyword = keyword

    def add_to_parser(self, parser: argparse.ArgumentParser, group: argparse._ArgumentGroup | None) -> None:
        """Add the option, with its data for completion."""
        action: Any = (group or parser).add_argument(*self.args, **self.kwds)
        action.td_kind, action.td_keyword = self.kind, self.keyword


def options(*items: Option) -> Callable[[Any], Any]:
    """Decorate a magic with options, in this order."""

    def decorate(function: Callable[..., Any]) -> Any:
        for item in reversed(items):
            function = item(function)
        return function

    return decorate


def keyword(function: Callable[..., Any], name: str, kind: Kind | None = None, **changes: object) -> Option:
    """Return the option for a keyword of a function.

    Args:
        function: A function or class with a Google docstring, or one that refers to that of another function.
        name: The keyword.
        kind: The kind of the value; such values, and those without a plain type, are Python expressions.
        changes: Arguments for `add_argument` that replace those from the signature, including `default`.
    """
    parameter = inspect.signature(function).parameters[name]
    flag = f"--{name.replace('_', '-')}"
    text = _escaped(described(function, name))
    default = changes.pop("default", parameter.default)
    default = None if default is inspect.Parameter.empty else default
    if "choices" in changes or kind is not None:
        made: dict[str, Any] = {"default": default, "help": text}
    elif default is True:
        flag = f"--no-{name.replace('_', '-')}"
        made = {"action": "store_false", "dest": name, "default": True, "help": f"do not: {text}"}
    elif default is False:
        made = {"action": "store_true", "help": text}
    else:
        made = {"default": default, "help": text, **_typed(function, name, default)}
    return Option(flag, kind=kind, keyword=name, **{**made, **changes})


def _typed(function: Callable[..., Any], name: str, default: object) -> dict[str, Any]:
    hint = _hint(function, name)
    if get_origin(hint) is Literal:
        return {"choices": get_args(hint)}
    if isinstance(default, int | float) or float in get_args(hint):  # also an optional one
        return {"type": type(default) if isinstance(default, int) else float, "metavar": "NUMBER"}
    return {"metavar": "EXPRESSION"}


def _hint(function: Callable[..., Any], name: str) -> Any:
    """Return the type of one keyword; other annotations may use names imported only for type checkers."""
    written = getattr(function, "__annotations__", {}).get(name)
    if not isinstance(written, str):
        return written
    try:
        return eval(written, inspect.unwrap(function).__globals__)
    except NameError:
        return None


def described(function: Callable[..., Any], name: str) -> str:
    """Return the description of an argument in the docstring of a function, as one paragraph."""
    lines = inspect.getdoc(function) or ""
    found = re.search(rf"^( +){name}: (.*?)(?=^\1\S|^\S|\Z)", lines, re.M | re.S)
    if found is None:
        return ""
    text = " ".join(found[2].split())
    other = SEE.match(text)
    if other is not None:
        target = getattr(inspect.getmodule(function), other[1], None) or _autograd(other[1])
        return described(target, name) if target is not None and target is not function else text
    return text


def _autograd(name: str) -> Any:
    from tapedebug import autograd

    return getattr(autograd, name, None)


def _escaped(text: str) -> str:
    return text.replace("%", "%%").replace("`", "")


def parse(magic: BoundMagic, name: str, line: str) -> argparse.Namespace:
    """Return the options of a line.

    Args:
        magic: The bound method of the magic.
        name: The name of the magic, with its per cent signs.
        line: The rest of the line.

    Raises:
        UsageError: The line is invalid; the message points at the error.
    """
    try:
        parsed: argparse.Namespace = parse_argstring(magic, line)
    except UsageError as error:
        raise UsageError(pointed(name, line, str(error), _strings(magic.parser))) from None
    except ValueError as error:  # an unterminated quotation
        raise UsageError(pointed(name, line, f"{error}".lower(), ())) from None
    return parsed


def pointed(name: str, line: str, message: str, known: Iterable[str]) -> str:
    """Return a message with the line under it and a caret at the word concerned."""
    token, hint = _culprit(message, list(known), name)
    shown = f"{name} {line}".rstrip()
    parts = [f"{name}: {message}", f"   | {shown}"]
    whole = re.compile(rf"(?<!\S){re.escape(token)}(?!\S)").search(shown, len(name))
    at = whole.start() if whole else shown.find(token, len(name))  # --height=tall
    if token and at >= 0:
        parts.append(f"   | {' ' * at}{'^' * len(token)}")
    return "\n".join([*parts, f"  = hint: {hint}"])


def _culprit(message: str, known: list[str], name: str) -> tuple[str, str]:
    """Return the word of the line that a message of argparse is about, and a hint."""
    shows_all = f"{name}? shows the options"
    unknown = re.search(r"unrecognized arguments: (\S+)", message)
    if unknown:
        flag = unknown[1].startswith("-") and unknown[1] != "--help"  # else a value with no option before it
        near = difflib.get_close_matches(unknown[1], known, 1) if flag else []
        return unknown[1], f"did you mean {near[0]}? {shows_all}" if near else shows_all
    quoted = re.search(r"invalid \w+(?: value)?: '([^']*)'", message)
    if quoted:
        near = difflib.get_close_matches(quoted[1], re.findall(r"'([^']*)'", message)[1:], 1)
        return quoted[1], f"did you mean {near[0]}? {shows_all}" if near else shows_all
    option = re.search(r"argument (--[\w-]+)", message)
    return (option[1] if option else ""), shows_all


def _strings(parser: argparse.ArgumentParser) -> list[str]:
    return [text for action in parser._actions for text in action.option_strings]

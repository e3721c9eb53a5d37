"""The base of our magics: access to the user's variables, and error messages."""

# IPython's types are ignored, so that mypy also runs where it is not installed
# mypy: disable-error-code="misc, untyped-decorator"

from __future__ import annotations

import argparse
import contextlib
import difflib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics

from tapedebug._errors import TapedebugError
from tapedebug.notebook._options import Option

if TYPE_CHECKING:
    from tapedebug.contract import RecordedTape


class Base(Magics):
    """Base class with the lookup of objects that options name.

    Attributes:
        last: The tape of the cell that a magic recorded last; nothing else may keep a reference to it.
    """

    last: RecordedTape | None = None

    def keywords(self, magic: str, wanted: tuple[Option, ...], given: argparse.Namespace) -> dict[str, Any]:
        """Return the values of options as Python arguments: names and expressions are looked up."""
        __tracebackhide__ = True
        found: dict[str, Any] = {}
        for option in wanted:
            assert option.keyword is not None
            value = getattr(given, option.keyword)
            flag = f"--{option.keyword.replace('_', '-')}"
            if option.kind == "array" and value is not None:
                each = [
                    self.variable(magic, flag, name)
                    for name in ([value] if isinstance(value, str) else value)
                ]
                value = each[0] if isinstance(value, str) else each
            elif isinstance(value, str) and option.kwds.get("metavar") == "EXPRESSION":
                value = self._evaluated(magic, flag, value)
            elif option.keyword == "memory_budget" and isinstance(value, str) and value.isdigit():
                value = int(value)
            found[option.keyword] = value
        return found

    def _evaluated(self, magic: str, option: str, text: str) -> Any:
        try:
            return eval(text, self.shell.user_global_ns, self.shell.user_ns)
        except SyntaxError as error:
            raise UsageError(
                f"{magic}: {option} {text}: this is not a Python expression: {error.msg}"
            ) from None
        except Exception as error:
            raise UsageError(f"{magic}: {option} {text}: {type(error).__name__}: {error}") from None

    def display(self, shown: object) -> None:
        """Display an object below the cell."""
        from IPython.display import display

        display(shown)

    def keep(self, name: str | None, value: object) -> None:
        """Store a value in a variable of the user, if a name was given."""
        if name is not None:
            self.shell.user_ns[name] = value

    def variable(self, magic: str, option: str, name: str) -> Any:
        """Return the value of a variable that an option names."""
        try:
            return self.shell.user_ns[name]
        except KeyError:
            near = difflib.get_close_matches(
                name, [known for known in self.shell.user_ns if known[:1] != "_"], 1
            )
            mean = f"; did you mean {near[0]}?" if near else ""
            if "," in name:
                mean = f"; separate names by spaces: {option} {' '.join(name.split(','))}"
            raise UsageError(f"{magic}: {option} {name}: there is no variable {name!r}{mean}") from None


@contextlib.contextmanager
def usage_errors(magic: str) -> Iterator[None]:
    """Context that turns errors of tapedebug into messages; only errors of user code have a traceback."""
    __tracebackhide__ = True
    try:
        yield
    except (TapedebugError, OSError, TypeError, ValueError) as error:
        raise UsageError(f"{magic}: {_as_options(str(error))}") from None


def _as_options(text: str) -> str:
    """Return a message in which hints name options instead of Python keywords."""
    message, hint, rest = text.rpartition("\n  = hint: ")
    rest = _KEYWORD.sub(lambda found: f"--{found[1].replace('_', '-')}{_VALUES[found[2]]}", rest)
    return message + hint + rest.replace("inside `with tape:`", "in this cell")


_VALUES = {"True": "", "…": " ARRAY"}
_KEYWORD = re.compile(rf"\b(end_to_end|loss)=({'|'.join(_VALUES)})(?!\w)")

"""The cache of kernel analyses across processes: a launch needs them and no lowering.

Each entry is a JSON file beside the object code, named by the kernel's fingerprint and by the kind of result.
A span is stored as its place in the source of the kernel, or of a function that it calls.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import fields, is_dataclass
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from tapedebug import _time_limit
from tapedebug._config import config
from tapedebug._errors import KernelNameError
from tapedebug._gc_pause import no_full_collections
from tapedebug._source import Span
from tapedebug.compiler import backend, objects
from tapedebug.compiler.diagnostics import Diagnostic
from tapedebug.compiler.fingerprint import Fingerprint, fingerprint_of, settings
from tapedebug.compiler.function import Function
from tapedebug.lang import types as t

if TYPE_CHECKING:
    from tapedebug.compiler.generated_source import GeneratedSource

NAME = re.compile(r"(?<![\w.])[^\W\d]\w*")
SUFFIX = ".json"
CODE = tuple[str, tuple[Diagnostic, ...]]
"""The entry for a piece of machine code: the key of the object, and its diagnostics."""

Known = TypeVar("Known")


class Unwritable(Exception):
    """A value contains something that an entry cannot store."""


class Malformed(Exception):
    """The content of an entry is not of the expected type."""


class AnalysisCache:
    """The cached analyses of one kernel.

    Args:
        kernel: The kernel; its fingerprint is taken now.
        kinds: The dataclasses that values may have in them.

    Attributes:
        max_unroll: The setting for the longest loop that lowering unrolls, when the cache was opened.
        valid: False if lowering saw another state of the kernel; then nothing is stored.
        used: Whether a result of another process was used.
    """

    def __init__(self, kernel: Any, *kinds: type) -> None:
        self.kernel = kernel
        self.kinds = {kind.__name__: kind for kind in kinds}
        self.settings = settings(kernel)
        self.max_unroll: int = kernel.option("max_unroll")
        self.fingerprint: Fingerprint | None = fingerprint_of(kernel)
        self.valid = self.fingerprint is not None
        self.used = False
        self._recent: dict[str, Any] = {}  # results of this process: a diagnosis asks for each many times

    @property
    def captured(self) -> dict[Any, dict[str, Any]]:
        """The values of captured names when this cache was opened, by the function that uses them."""
        return self.fingerprint.captured if self.fingerprint is not None and self.valid else {}

    @property
    def functions(self) -> list[Function]:
        """The functions that the kernel names, and those that they name."""
        sources = self.fingerprint.sources if self.fingerprint is not None and self.valid else ()
        return [thing for thing in sources if isinstance(thing, Function)]

    def check(self, read: Iterable[tuple[Any, str, dict[str, Any], Any]]) -> None:
        """Discard this cache unless it describes what lowering saw.

        Args:
            read: Expressions that lowering evaluated, each with its function.

        Raises:
            KernelNameError: It describes another state, and results were used already: they would mix two
                kernels.
        """
        if self.fingerprint is None or not self.valid:
            return
        now = fingerprint_of(self.kernel, self.fingerprint.captured)
        if now is not None and now.digest == self.fingerprint.digest and self._covers(read):
            return
        if self.used:
            raise KernelNameError(
                f"kernel `{self.kernel.__name__}`: what it captured has changed since it was launched",
                hint="define the kernel again after a change",
            )
        self.valid = False

    def _covers(self, read: Iterable[tuple[Any, str, dict[str, Any], Any]]) -> bool:
        """True if the fingerprint includes the value of every name in these expressions."""
        for python, expression, known, _ in read:
            if (python.__module__ or "").startswith("tapedebug."):
                continue
            names = set(NAME.findall(expression)) - known.keys() - self.captured.get(python, {}).keys()
            if any(name in python.__globals__ or name in python.__code__.co_freevars for name in names):
                return False
        return True

    def get(self, what: str, kind: Any) -> Any:
        """Return what is known, a `kind` (a type, or what stands in an annotation), or None."""
        if not self.valid:
            return None
        content = objects.read(self._key(what), SUFFIX)
        if content is None:
            return None
        try:
            found = self._value(json.loads(content))
        except (Malformed, ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            return None  # of another format
        if not _fits(found, kind):
            return None
        self.used = True
        return found

    def put(self, what: str, value: Any) -> None:
        """Keep something that is not None; what cannot be kept is computed in every process."""
        if not self.valid or self.settings != settings(self.kernel):
            return
        try:
            content = json.dumps(self._plain(value), separators=(",", ":"))
        except Unwritable:
            return
        objects.write(self._key(what), content.encode(), SUFFIX)

    def known(self, what: str, kind: Any, compute: Callable[[], Known]) -> Known:
        """Return what is known, a `kind`, or else what is computed, which is kept."""
        found = self._recent.get(what) if self.valid else None
        if found is None:
            found = self.get(what, kind)
            if found is None:
                found = compute()
                self.put(what, found)
            self._recent[what] = found
        return cast("Known", found)

    def code(self, variant: str, text: Callable[[], GeneratedSource], name: str) -> objects.Entry:
        """The machine code of a variant, from the cache where it is there; else of its text.

        `name` is what messages call it.
        """
        what = f"code {config.compiler} {backend.optimization} {objects.processor()} {variant}"
        key, diagnostics = self.get(what, CODE) or (None, ())
        entry = None if key is None else backend.cached(key)
        if entry is None:
            _time_limit.pulse()
            with _time_limit.compilation(), no_full_collections():
                made = text()
                key, entry = backend.compiled(made, name)
            diagnostics = made.diagnostics
            self.put(what, (key, diagnostics))
        entry.diagnostics = diagnostics
        return entry

    def _key(self, what: str) -> str:
        assert self.fingerprint is not None
        return hashlib.sha256(f"{self.fingerprint.digest} {self.settings} {what}".encode()).hexdigest()

    # Values as JSON: what JSON has not is a list that begins with its kind

    def _plain(self, value: Any) -> Any:
        if value is None or isinstance(value, bool | int | float | str):
            return value
        if value in t.SCALARS:
            return ["scalar", t.SCALARS.index(value)]
        if isinstance(value, Span):
            return ["span", *self._place(value)]
        if isinstance(value, frozenset):
            return ["set", *sorted(self._plain(v) for v in value)]
        if isinstance(value, tuple):
            return ["tuple", *(self._plain(v) for v in value)]
        if isinstance(value, dict):
            return ["dict", *([self._plain(k), self._plain(v)] for k, v in value.items())]
        name = type(value).__name__
        if is_dataclass(value) and self.kinds.get(name) is type(value):
            return [name, *(self._plain(getattr(value, f.name)) for f in fields(value))]
        raise Unwritable

    def _value(self, plain: Any) -> Any:
        if not isinstance(plain, list):
            return plain
        kind, *items = plain
        match kind:
            case "scalar":
                return t.SCALARS[items[0]]
            case "span":
                return self._span(*items)
            case "set":
                return frozenset(map(self._value, items))
            case "tuple":
                return tuple(map(self._value, items))
            case "dict":
                return {self._value(k): self._value(v) for k, v in items}
        made, hints = self.kinds[kind](*map(self._value, items)), _fields(self.kinds[kind])
        if len(items) < len(hints) or not all(
            _fits(getattr(made, name), hint) for name, hint in hints.items()
        ):
            raise Malformed
        return made

    def _place(self, span: Span) -> tuple[int, int, int, int, int]:
        """The source, and the lines from its first."""
        assert self.fingerprint is not None
        for number, thing in enumerate(self.fingerprint.sources):
            first = thing.origin.first_line
            place = (number, span.line - first, span.column, span.end_line - first, span.end_column)
            if 0 <= place[1] < len(thing.origin.lines) and self._span(*place) == span:
                return place
        raise Unwritable

    def _span(self, number: int, line: int, column: int, end_line: int, end_column: int) -> Span:
        assert self.fingerprint is not None
        if not all(type(place) is int for place in (number, line, column, end_line, end_column)):
            raise Malformed
        origin = self.fingerprint.sources[number].origin
        first = origin.first_line
        return Span(
            origin.file,
            line + first,
            column,
            end_line + first,
            end_column,
            origin.function,
            origin.lines[line],
        )


@cache
def _fields(kind: Hashable) -> dict[str, Any]:
    """The annotations of a dataclass."""
    return get_type_hints(cast("type", kind))


def _fits(value: Any, kind: Any) -> bool:
    """True if a value is what an annotation says; dataclasses in it were checked when they were made."""
    origin, parts = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, part) for part in parts)
    if origin is Literal:
        return value in parts
    if origin is tuple and isinstance(value, tuple):
        if parts[-1] is not ...:
            return len(value) == len(parts) and all(map(_fits, value, parts))
        return all(_fits(item, parts[0]) for item in value)
    if origin is frozenset and isinstance(value, frozenset):
        return all(_fits(item, parts[0]) for item in value)
    if origin is dict and isinstance(value, dict):
        return all(_fits(key, parts[0]) and _fits(item, parts[1]) for key, item in value.items())
    if kind is int:
        return type(value) is int
    return origin is None and isinstance(value, kind)

"""Decode JSON data to the dataclasses of `model`, checking each value against its annotation.

A trace file may be damaged, from a newer version, or hostile: an error names the place
(``launches[3].args[0].name``). Readers are made once for each annotation, and the place is composed only for
an error: a large trace has millions of values.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from tapedebug._errors import TapedebugError

NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
DEPTH = 32
LONGEST_TEXT = 1 << 22
"""Largest number of characters of one text; the longest ones are generated adjoints."""
LARGEST = 1 << 64
_MISSING = object()
T = TypeVar("T")
Reader = Callable[[Any], Any]


class TraceError(TapedebugError, ValueError):
    """A trace could not be read: not a trace, damaged, or written by a newer version."""


class Misfit(Exception):
    """A value does not match its annotation; `steps` are the path to it, the last step first."""

    def __init__(self, message: str, *steps: str) -> None:
        super().__init__(message)
        self.message = message
        self.steps = list(steps)

    def error(self) -> TraceError:
        """Return the error for users, which names the place."""
        path = "".join(reversed(self.steps)).removeprefix(".") or "trace"
        return TraceError(f"{path}: {self.message}")


def decode(cls: type[T], data: object) -> T:
    """Return `data` as a `cls`, a dataclass of `model`.

    Raises:
        TraceError: A value does not match its annotation, or a required one is missing. Unknown keys are
            ignored.
    """
    try:
        return typing.cast(T, reader(typing.cast(Any, cls))(data))
    except Misfit as error:
        raise error.error() from None


@functools.cache
def reader(annotation: object) -> Reader:
    """Return the function that checks and converts a JSON value for an annotation."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        return _optional(reader(next(o for o in get_args(annotation) if o is not type(None))))
    if origin is Literal:
        return _literal(get_args(annotation))
    if origin is list:
        return _list(reader(get_args(annotation)[0]))
    if origin is dict:
        return _dict(reader(get_args(annotation)[1]))
    if dataclasses.is_dataclass(annotation):
        return _dataclass(annotation)
    return _SCALARS[annotation]


def _optional(inner: Reader) -> Reader:
    def read(value: object) -> Any:
        return None if value is None else inner(value)

    return read


def _literal(known: tuple[str, ...]) -> Reader:
    def read(value: object) -> Any:
        if type(value) is str and value in known:
            return value
        raise Misfit(f"{describe(value)} is none of {', '.join(map(repr, known))}")

    return read


def _list(inner: Reader) -> Reader:
    def read(value: object) -> Any:
        if type(value) is not list:
            raise Misfit(f"expected a list, found {describe(value)}")
        items: list[Any] = []
        try:
            items.extend(map(inner, value))  # keeps the items before one that does not match
        except Misfit as error:
            error.steps.append(f"[{len(items)}]")
            raise
        return items

    return read


def _dict(inner: Reader) -> Reader:
    def read(value: object) -> Any:
        if type(value) is not dict:
            raise Misfit(f"expected an object, found {describe(value)}")
        items: dict[str, Any] = {}
        for key, item in value.items():
            try:
                items[read_text(key)] = inner(item)
            except Misfit as error:
                error.steps.append(f".{shortened(key)}")
                raise
        return items

    return read


def _dataclass(cls: Any) -> Reader:
    hints = typing.get_type_hints(cls)
    fields = [item for item in dataclasses.fields(cls) if in_file(item)]
    schema = [(item.name, reader(hints[item.name]), _is_required(item)) for item in fields]

    def read(data: object) -> Any:
        if type(data) is not dict:
            raise Misfit(f"expected an object, found {describe(data)}")
        values = {}
        for name, inner, required in schema:
            item = data.get(name, _MISSING)
            if item is not _MISSING:
                try:
                    values[name] = inner(item)
                except Misfit as error:
                    error.steps.append(f".{name}")
                    raise
            elif required:
                raise Misfit(f"{name!r} is missing")
        return cls(**values)

    return read


def in_file(item: dataclasses.Field[Any]) -> bool:
    """Return True if a field of a dataclass is part of the JSON data."""
    return bool(item.metadata.get("json", True))


def _is_required(item: dataclasses.Field[Any]) -> bool:
    return item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING


def read_text(value: object) -> str:
    """Return a text, checked to be encodable as UTF-8."""
    if type(value) is not str:
        raise Misfit(f"expected text, found {describe(value)}")
    if len(value) > LONGEST_TEXT:
        raise Misfit(f"text of {len(value):,} characters; a trace has at most {LONGEST_TEXT:,}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Misfit(f"half a surrogate pair at character {error.start}, which is no text") from None
    return value


def _whole(value: object) -> int:
    if type(value) is not int:
        raise Misfit(f"expected a whole number, found {describe(value)}")
    if not -LARGEST <= value < LARGEST:
        raise Misfit(f"{describe(value)} does not fit 64 bits")
    return value


def _number(value: object) -> float:
    kind = type(value)
    if kind is float:
        return typing.cast(float, value)
    if kind is int:
        return float(_whole(value))
    if kind is str and value in NON_FINITE:
        return NON_FINITE[value]
    raise Misfit(f"expected a number, found {describe(value)}")


def _flag(value: object) -> bool:
    if type(value) is bool:
        return value
    raise Misfit(f"expected true or false, found {describe(value)}")


def _free_form(value: Any, depth: int = 0) -> Any:
    """Return free-form data (an argument's value, evidence): any JSON of limited nesting depth."""
    kind = type(value)
    if kind is str:
        return read_text(value)
    if kind is int:
        return _whole(value)
    if depth > DEPTH and kind in (list, dict):
        raise Misfit(f"nested more than {DEPTH} levels deep")
    if kind is list:
        return [_free_form(item, depth + 1) for item in value]
    if kind is dict:
        return {read_text(key): _free_form(item, depth + 1) for key, item in value.items()}
    return value


_SCALARS: dict[Any, Reader] = {str: read_text, int: _whole, float: _number, bool: _flag, Any: _free_form}


def describe(value: object) -> str:
    """Return a short description of a value of any size for an error message."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and abs(value) >= LARGEST:
        return f"a number of {value.bit_length()} bits"
    return shortened(repr(value[:50]) if isinstance(value, str) else repr(value))


def shortened(text: str) -> str:
    """Return at most 40 characters of `text`, on one line."""
    text = text if len(text) <= 40 else text[:37] + "..."
    return "".join(character if character.isprintable() else "�" for character in text)

"""Trace data to JSON and back, driven by the annotations of the dataclasses in `model`.

Reading checks every value against its annotation and names the place (``launches[3].args[0].name``) in the
error, because a trace file may be damaged, from a newer version, or hostile.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Sequence
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from tapedebug._errors import TapedebugError
from tapedebug.trace import model

_NON_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_MISSING = object()
_DEPTH = 32
T = TypeVar("T")


class TraceError(TapedebugError, ValueError):
    """A trace could not be read: not a trace, damaged, or written by a newer version."""


def encode(value: Any) -> Any:
    """Return `value` (dataclasses, lists, dicts, scalars) as JSON data; non-finite floats become text."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return value if math.isfinite(value) else _non_finite(value)
    if kind is list or kind is tuple:
        return [encode(item) for item in value]
    if kind is dict:
        return {str(key): encode(item) for key, item in value.items()}
    if dataclasses.is_dataclass(value):
        return {name: encode(getattr(value, name)) for name in _field_names(typing.cast(Any, kind))}
    if hasattr(value, "tolist"):  # NumPy scalars and arrays that found their way into an evidence dict
        return encode(value.tolist())
    for base in (int, float, str):  # subclasses of them, such as enumerations
        if isinstance(value, base):
            return encode(base(value))
    raise TypeError(f"a trace can not hold a {kind.__name__}")


def _non_finite(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


@functools.cache
def _field_names(cls: Any) -> tuple[str, ...]:
    return tuple(item.name for item in dataclasses.fields(cls))


@functools.cache
def _schema(cls: Any) -> tuple[tuple[str, Any, bool], ...]:
    hints = typing.get_type_hints(cls)
    return tuple(
        (
            item.name,
            hints[item.name],
            item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING,
        )
        for item in dataclasses.fields(cls)
    )


def decode(cls: type[T], data: Any, path: str = "trace") -> T:
    """Return `data` as a `cls`, a dataclass of `model`.

    Raises:
        TraceError: A value does not fit its annotation, or a required one is missing. Unknown keys are
            ignored.
    """
    if not isinstance(data, dict):
        raise TraceError(f"{path}: expected an object, found {_describe(data)}")
    values = {}
    for name, annotation, required in _schema(typing.cast(Any, cls)):
        item = data.get(name, _MISSING)
        if item is _MISSING:
            if required:
                raise TraceError(f"{path}: {name!r} is missing")
            continue
        values[name] = _convert(annotation, item, f"{path}.{name}" if path != "trace" else name)
    return cls(**values)


def _convert(annotation: Any, value: Any, path: str) -> Any:
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        options = get_args(annotation)
        if value is None and type(None) in options:
            return None
        return _convert(next(option for option in options if option is not type(None)), value, path)
    if origin is Literal:
        if not isinstance(value, str) or value not in get_args(annotation):
            known = ", ".join(map(repr, get_args(annotation)))
            raise TraceError(f"{path}: {_describe(value)} is none of {known}")
        return value
    if origin is list:
        if not isinstance(value, list):
            raise TraceError(f"{path}: expected a list, found {_describe(value)}")
        (inner,) = get_args(annotation)
        return [_convert(inner, item, f"{path}[{position}]") for position, item in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise TraceError(f"{path}: expected an object, found {_describe(value)}")
        inner = get_args(annotation)[1]
        return {key: _convert(inner, item, f"{path}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(annotation):
        return decode(typing.cast("type[Any]", annotation), value, path)
    return _scalar(annotation, value, path)


def _scalar(annotation: Any, value: Any, path: str) -> Any:
    if annotation is Any:
        return _plain(value, path, 0)
    if annotation is float:
        if isinstance(value, str) and value in _NON_FINITE:
            return _NON_FINITE[value]
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        raise TraceError(f"{path}: expected a number, found {_describe(value)}")
    if annotation is int and isinstance(value, int) and not isinstance(value, bool):
        return value
    if annotation is bool and isinstance(value, bool):
        return value
    if annotation is str and isinstance(value, str):
        return value
    names = {int: "a whole number", bool: "true or false", str: "text"}
    raise TraceError(f"{path}: expected {names[annotation]}, found {_describe(value)}")


def _plain(value: Any, path: str, depth: int) -> Any:
    """Free-form data (an argument's value, evidence): any JSON, but not nested without end."""
    if depth > _DEPTH:
        raise TraceError(f"{path}: nested more than {_DEPTH} levels deep")
    if isinstance(value, list):
        return [_plain(item, path, depth + 1) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item, path, depth + 1) for key, item in value.items()}
    return value


def _describe(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def trace_from_json(data: Any) -> model.Trace:
    """Return the trace that `Trace.to_json` gave as `data`.

    Raises:
        TraceError: `data` is no trace, is damaged, or has a newer schema.
    """
    if not isinstance(data, dict) or data.get("format") != model.FORMAT:
        raise TraceError(f"this is not a tapedebug trace: its 'format' is not {model.FORMAT!r}")
    schema = data.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise TraceError(f"schema: {_describe(schema)} is no schema number")
    if schema > model.SCHEMA:
        raise TraceError(
            f"this trace was written by a newer tapedebug (schema {schema}; this one reads {model.SCHEMA}): "
            "update tapedebug to open it"
        )
    trace = decode(model.Trace, data)
    _References(trace).check()
    return trace


class _References:
    """Every index must point at something, so that readers of a trace need not check again."""

    def __init__(self, trace: model.Trace) -> None:
        self.trace = trace
        self.sizes = {
            "kernel": len(trace.kernels),
            "array": len(trace.arrays),
            "launch": len(trace.launches),
            "scope": len(trace.scopes),
        }

    def check(self) -> None:
        """Check all of them.

        Raises:
            TraceError: One points at nothing; the message says which.
        """
        trace = self.trace
        self._ids(trace.kernels, "kernels")
        self._ids(trace.arrays, "arrays")
        self._ids(trace.launches, "launches", "index")
        self._ids(trace.scopes, "scopes")
        for kernel in trace.kernels:
            for number, access in enumerate(kernel.accesses):
                if not 0 <= access.param < len(kernel.params):
                    path = f"kernels[{kernel.id}].accesses[{number}].param"
                    raise TraceError(f"{path}: there is no parameter {access.param}")
        for info in trace.arrays:
            self._one("array", info.parent, f"arrays[{info.id}].parent")
        self._launches()
        self._scopes()
        self._versions()
        for finding in trace.findings:
            self._all("launch", finding.launches, f"findings[{finding.id}].launches")
        for number, event in enumerate(trace.events):
            self._one("array", event.array, f"events[{number}].array")
        self._one("array", trace.backward.loss, "backward.loss")
        self._all("launch", trace.backward.order, "backward.order")

    def _one(self, kind: str, index: int | None, path: str) -> None:
        if index is not None and not 0 <= index < self.sizes[kind]:
            raise TraceError(f"{path}: there is no {kind} {index} ({self.sizes[kind]} in the trace)")

    def _all(self, kind: str, indices: list[int], path: str) -> None:
        for index in indices:
            self._one(kind, index, path)

    def _ids(self, items: Sequence[Any], name: str, attribute: str = "id") -> None:
        for position, item in enumerate(items):
            found = getattr(item, attribute)
            if found != position:
                raise TraceError(f"{name}[{position}].{attribute}: expected {position}, found {found}")

    def _launches(self) -> None:
        for launch in self.trace.launches:
            self._one("kernel", launch.kernel, f"launches[{launch.index}].kernel")
            self._one("scope", launch.scope, f"launches[{launch.index}].scope")
            for number, arg in enumerate(launch.args):
                self._one("array", arg.array, f"launches[{launch.index}].args[{number}].array")
        for number, run in enumerate(self.trace.sequences):
            sound = run.first >= 0 and run.length > 0 and run.count > 0
            if not sound or run.first + run.length * run.count > self.sizes["launch"]:
                raise TraceError(
                    f"sequences[{number}]: it does not lie within the {self.sizes['launch']} launches"
                )

    def _scopes(self) -> None:
        for scope in self.trace.scopes:
            if scope.parent is not None and not 0 <= scope.parent < scope.id:
                raise TraceError(f"scopes[{scope.id}].parent: {scope.parent} is not an earlier scope")
            self._one("launch", scope.first, f"scopes[{scope.id}].first")
            self._one("launch", scope.last, f"scopes[{scope.id}].last")

    def _versions(self) -> None:
        for number, version in enumerate(self.trace.versions):
            path = f"versions[{number}]"
            self._one("array", version.array, f"{path}.array")
            self._one("launch", version.written_by, f"{path}.written_by")
            self._one("launch", version.overwritten_by, f"{path}.overwritten_by")
            self._all("launch", version.reads, f"{path}.reads")
            self._all("launch", version.needed_by, f"{path}.needed_by")

"""Conversion of trace data to JSON and back, driven by the annotations of the dataclasses in `model`."""

from __future__ import annotations

import dataclasses
import functools
import math
import typing
from typing import Any

from tapedebug._gc_pause import gc_paused
from tapedebug.trace import model
from tapedebug.trace._decode import TraceError, decode, describe, in_file
from tapedebug.trace._validate import validate


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
        return {
            name: encode(item)
            for name, sparse in _fields(typing.cast(Any, kind))
            if (item := getattr(value, name)) or not sparse
        }
    if hasattr(value, "tolist"):  # NumPy scalars and arrays in an evidence dict
        return encode(value.tolist())
    for base in (int, float, str):  # subclasses of them, such as enumerations
        if isinstance(value, base):
            return encode(base(value))
    raise TypeError(f"a trace cannot hold a {kind.__name__}")


def _non_finite(value: float) -> str:
    if math.isnan(value):
        return "nan"
    return "inf" if value > 0 else "-inf"


@functools.cache
def _fields(cls: type[Any]) -> tuple[tuple[str, bool], ...]:
    """Return the names of the fields in JSON, each with True if it is left out when empty."""
    fields = (item for item in dataclasses.fields(cls) if in_file(item))
    return tuple((item.name, bool(item.metadata.get("sparse"))) for item in fields)


def trace_from_json(data: object) -> model.Trace:
    """Return the trace that `Trace.to_json` encoded as `data`.

    Raises:
        TraceError: `data` is not a trace, is damaged, or has a newer schema.
    """
    if not isinstance(data, dict) or data.get("format") != model.FORMAT:
        raise TraceError(f"this is not a tapedebug trace: its 'format' is not {model.FORMAT!r}")
    schema = data.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise TraceError(f"schema: {describe(schema)} is no schema number")
    if schema > model.SCHEMA:
        raise TraceError(
            f"this trace was written by a newer tapedebug (schema {describe(schema)}; this one reads "
            f"{model.SCHEMA}): update tapedebug to open it"
        )
    with gc_paused():
        trace = decode(model.Trace, data)
        validate(trace)
    return trace

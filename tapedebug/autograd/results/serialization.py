"""Convert results of checks to JSON data and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tapedebug._errors import GradcheckError
from tapedebug._source import Span
from tapedebug.autograd.finite_diff.compared_entries import ComparedEntries
from tapedebug.autograd.finite_diff.dot_product_test import DotProduct
from tapedebug.autograd.results.error_patterns import ErrorPattern
from tapedebug.autograd.results.pair_result import Coverage, Entry, Layout, PairResult, PairResults, plain
from tapedebug.autograd.subjects.write_sites import WriteSite

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from tapedebug.autograd.results.gradcheck_result import GradcheckResult

    T = TypeVar("T", bound=DataclassInstance)

SCHEMA = 1
PARTS = {"worst": Entry, "largest": Entry, "layout": Layout, "signature": ErrorPattern}
NUMBERS = ("ad", "fd", "bar")


def result_data(result: GradcheckResult, *, compared: bool) -> dict[str, Any]:
    """See `GradcheckResult.to_dict`."""
    return {
        "schema": SCHEMA,
        "kind": "gradcheck",
        "subject": result.subject,
        "verdict": result.verdict,
        "passed": bool(result),
        "settings": _as_json(dict(result.settings)),
        "coverage": _as_json(asdict(result.coverage)),
        "pairs": [_pair(pair, compared) for pair in result.pairs],
        "dot_products": [_as_json(asdict(dot)) for dot in result.dot_products],
        "environment": dict(result.environment),
    }


def _pair(pair: PairResult, compared: bool) -> dict[str, Any]:
    data = {
        f.name: _as_json(getattr(pair, f.name))
        for f in fields(pair)
        if f.name not in (*PARTS, "compared", "written", "gradient")
    }
    for name in PARTS:
        part = getattr(pair, name)
        data[name] = None if part is None else _as_json(asdict(part))
    data["written"] = None if pair.written is None else _as_json(asdict(pair.written))
    if compared:
        data["compared"] = None if pair.compared is None else _entries(pair.compared)
    return data


def _entries(compared: ComparedEntries) -> dict[str, Any]:
    data: dict[str, Any] = {"shape": list(compared.shape), "zeros": compared.zeros}
    data |= {"rows": compared.rows.tolist(), "columns": compared.columns.tolist()}
    data |= {name: _as_json(getattr(compared, name).tolist()) for name in NUMBERS}
    return data | {"wrong": None if compared.wrong is None else compared.wrong.tolist()}


def _as_json(value: object) -> Any:
    """Return a value as dictionaries, lists, text, numbers and None."""
    if isinstance(value, Mapping):
        return {str(name): _as_json(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(inner) for inner in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | int | float | str | None):
        return plain(value)
    return str(value)


# ------------------------------------------------------------------ and back


def result_fields(data: object) -> dict[str, Any]:
    """Return the arguments of `GradcheckResult` from the data of `result_data`.

    Raises:
        GradcheckError: The data is not from `result_data`.
    """
    if not isinstance(data, Mapping) or data.get("kind") != "gradcheck":
        raise GradcheckError("this is not gradcheck data", hint="pass what to_dict() gave")
    if data.get("schema") != SCHEMA:
        raise GradcheckError(
            f"this data has version {data.get('schema')!r} of its schema; this tapedebug reads {SCHEMA}",
            hint="update tapedebug",
        )
    try:
        return {
            "subject": data["subject"],
            "verdict": data["verdict"],
            "pairs": PairResults(_read_pair(pair) for pair in data["pairs"]),
            "coverage": _made(Coverage, data["coverage"]),
            "dot_products": tuple(_made(DotProduct, dot) for dot in data["dot_products"]),
            "settings": dict(data["settings"]),
            "environment": dict(data["environment"]),
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise GradcheckError(
            f"this is not gradcheck data, or it is damaged ({type(error).__name__}: {error})",
            hint="pass what to_dict() gave",
        ) from None


def _read_pair(data: Mapping[str, Any]) -> PairResult:
    parts = {name: None if data[name] is None else _made(kind, data[name]) for name, kind in PARTS.items()}
    written, compared = data["written"], data.get("compared")
    further = {
        "written": None if written is None else _read_written(written),
        "compared": None if compared is None else _read_entries(compared),
    }
    return _made(PairResult, {**data, **parts, **further})


def _read_written(data: Mapping[str, Any]) -> WriteSite:
    spans = {name: None if data[name] is None else Span(**data[name]) for name in ("line", "called")}
    return _made(WriteSite, {**data, **spans})


def _read_entries(data: Mapping[str, Any]) -> ComparedEntries:
    wrong = data["wrong"]
    return ComparedEntries(
        shape=(int(data["shape"][0]), int(data["shape"][1])),
        rows=np.array(data["rows"], dtype=np.int64),
        columns=np.array(data["columns"], dtype=np.int64),
        **{name: np.array([float(value) for value in data[name]]) for name in NUMBERS},
        zeros=bool(data["zeros"]),
        wrong=None if wrong is None else np.array(wrong, dtype=bool),
    )


def _made(kind: type[T], data: Mapping[str, Any]) -> T:
    """Return a dataclass from its fields: lists become tuples, "nan" and "inf" numbers."""
    types = {f.name: str(f.type) for f in fields(kind)}
    given = {}
    for name, value in data.items():
        if isinstance(value, list):
            value = tuple(value)
        elif isinstance(value, str) and types[name].startswith("float"):
            value = float(value)
        given[name] = value
    return kind(**given)

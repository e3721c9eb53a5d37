"""The traces that the front end's tests read are what the engine records today."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from tapedebug.trace import trace_from_json
from tests.trace.make_fixtures import CASES, FOLDER, PACKED, packed, record


def stable(data: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of a fixture that its readers rely on: no times, digits, source or generated code."""

    def chosen(items: list[dict[str, Any]], *keys: str) -> list[dict[str, Any]]:
        return [{key: item[key] for key in keys} for item in items]

    return {
        **{
            key: data[key]
            for key in ("format", "schema", "name", "scopes", "sequences", "backward", "verdict")
        },
        "kernels": chosen(data["kernels"], "id", "name", "params"),
        "arrays": chosen(data["arrays"], "id", "label", "dtype", "shape", "requires_grad", "role", "parent"),
        "launches": chosen(data["launches"], "index", "kind", "name", "dim", "args", "scope"),
        "versions": chosen(
            data["versions"], "array", "version", "reads", "needed_by", "overwritten_by", "status"
        ),
        "findings": chosen(data["findings"], "rule", "severity", "launches", "arrays"),
    }


@pytest.mark.parametrize("name", CASES)
def test_fixtures_are_current(name: str) -> None:
    saved = json.loads((FOLDER / f"{name}.trace.json").read_text(encoding="utf-8"))
    assert trace_from_json(saved).to_json() == saved
    assert stable(saved) == stable(json.loads(json.dumps(record(name)))), (
        "run python -m tests.trace.make_fixtures"
    )


@pytest.mark.parametrize("name", PACKED)
def test_packed_fixtures_are_current(name: str) -> None:
    saved = json.loads((FOLDER / f"{name}.packed.json").read_text(encoding="utf-8"))
    now = packed(name)
    assert saved["head"] == now["head"]
    columns = [gzip.decompress(base64.b64decode(data["columns"])) for data in (saved, now)]
    assert columns[0] == columns[1], "run python -m tests.trace.make_fixtures"


def test_the_handwritten_fixtures_are_traces() -> None:
    for name in ("net", "net-40-preserve"):
        data = json.loads((FOLDER / f"{name}.trace.json").read_text(encoding="utf-8"))
        assert trace_from_json(data).to_json() == data

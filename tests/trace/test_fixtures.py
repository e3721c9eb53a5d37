"""The traces that the front end's tests read are what the engine records today."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tapedebug.trace import trace_from_json
from tests.trace.make_fixtures import CASES, FOLDER, record


def stable(data: dict[str, Any]) -> dict[str, Any]:
    """A trace without what differs from run to run and between processors: times and digits."""
    kept = {
        key: data[key] for key in ("name", "kernels", "arrays", "scopes", "sequences", "backward", "verdict")
    }
    kept["launches"] = [
        {key: value for key, value in launch.items() if "seconds" not in key} for launch in data["launches"]
    ]
    kept["versions"] = [
        {key: value for key, value in version.items() if key not in ("value", "adjoint")}
        for version in data["versions"]
    ]
    kept["findings"] = [
        {
            key: finding[key]
            for key in ("rule", "severity", "launches", "arrays", "location", "call_site", "fix")
        }
        for finding in data["findings"]
    ]
    return kept


@pytest.mark.parametrize("name", CASES)
def test_fixtures_are_current(name: str) -> None:
    saved = json.loads((FOLDER / f"{name}.trace.json").read_text(encoding="utf-8"))
    assert trace_from_json(saved).to_json() == saved
    assert stable(saved) == stable(json.loads(json.dumps(record(name)))), (
        "run python -m tests.trace.make_fixtures"
    )


def test_the_handwritten_fixtures_are_traces() -> None:
    for name in ("net", "net-40-preserve"):
        data = json.loads((FOLDER / f"{name}.trace.json").read_text(encoding="utf-8"))
        assert trace_from_json(data).to_json() == data

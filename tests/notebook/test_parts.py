"""The parts of the panel that a widget asks its kernel for: each is built, demanded and handed out."""

import json
import re
import tomllib
from typing import Any

import pytest

import tapedebug as wp
from tapedebug.panel import js_chunks
from tapedebug.panel.queries import answer
from tests._processes import ROOT

SOURCE = ROOT / "js" / "src" / "views" / "chunks.ts"


def names_in_typescript() -> list[str]:
    found = re.search(r"export interface Chunks \{(.*?)\n\}", SOURCE.read_text(encoding="utf-8"), re.S)
    assert found
    return re.findall(r"^  (\w+):", found[1], re.M)


def test_python_and_the_panel_know_the_same_parts() -> None:
    assert sorted(names_in_typescript()) == sorted(js_chunks.PARTS)


@pytest.mark.parametrize("name", js_chunks.PARTS)
def test_every_part_is_handed_out_as_a_module(name: str) -> None:
    subject: Any = None  # no tape is looked at for it
    given = answer(subject, {"type": "part", "name": name})
    assert given.data == {"name": name}
    [code] = given.buffers
    assert len(code) > 10_000
    assert re.search(rb"export\s*\{.*\bas default\b.*\}", code)
    assert not re.search(rb"\bfrom\s*[\"']|\bimport\s*[(\"']", code), "a part has nothing to load"


def test_a_part_that_was_not_built_is_said_to_be_missing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(js_chunks, "STATIC", tmp_path)
    subject: Any = None
    with pytest.raises(wp.TapedebugError, match=r"was not built: graph\.js"):
        answer(subject, {"type": "part", "name": "graph"})


def test_a_wheel_without_a_part_is_not_built() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    assert build["artifacts"] == ["tapedebug/static"]
    targets = build["hooks"]["jupyter-builder"]["ensured-targets"]
    files = {path.name for path in js_chunks.STATIC.iterdir()}
    assert files == {path.rpartition("/")[2] for path in targets if path.startswith("tapedebug/static/")}
    assert {f"{name}.js" for name in js_chunks.PARTS} < files
    assert set(build["hooks"]["jupyter-builder"]["skip-if-exists"]) == set(targets)
    package = json.loads((ROOT / "js" / "package.json").read_text(encoding="utf-8"))
    assert "build:static" in package["scripts"]["build"]

"""The chunks of the panel that a widget requests from its kernel: each is built, demanded and handed out."""

import json
import re
import tomllib
from typing import Any

import pytest

import tapedebug as wp
from tapedebug.panel import js_chunks
from tapedebug.panel.queries import answer
from tests.processes import ROOT

VIEWS = ROOT / "js" / "src" / "views"
CHUNKS = sorted(path.parent.name for path in VIEWS.glob("*/chunk.ts"))


def test_every_folder_with_a_chunk_was_built() -> None:
    assert js_chunks.chunk_names() == CHUNKS
    assert {"details", "graph", "jacobian"} <= set(CHUNKS)


@pytest.mark.parametrize("name", CHUNKS)
def test_every_chunk_is_handed_out_as_a_module(name: str) -> None:
    subject: Any = None  # no tape is looked at for it
    given = answer(subject, {"type": "chunk", "name": name})
    assert given.data == {"name": name}
    [code] = given.buffers
    assert len(code) > 5_000
    assert re.search(rb"export\s*\{.*\bas default\b.*\}", code)
    assert not re.search(rb"\bfrom\s*[\"']|\bimport\s*[(\"']", code), "a chunk has nothing to load"


def test_a_chunk_that_was_not_built_is_said_to_be_missing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(js_chunks, "STATIC", tmp_path)
    subject: Any = None
    with pytest.raises(wp.TapedebugError, match=r"was not built: manifest\.json"):
        answer(subject, {"type": "chunk", "name": "graph"})
    (tmp_path / "manifest.json").write_text('{"chunks": ["graph"]}', encoding="utf-8")
    with pytest.raises(wp.TapedebugError, match=r"was not built: graph\.js"):
        answer(subject, {"type": "chunk", "name": "graph"})


def test_a_wheel_without_the_whole_front_end_is_not_built() -> None:
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    assert build["artifacts"] == ["tapedebug/static"]
    targets = build["hooks"]["jupyter-builder"]["ensured-targets"]
    assert targets == ["tapedebug/static/manifest.json", "tapedebug/labextension/package.json"]
    assert build["hooks"]["jupyter-builder"]["skip-if-exists"] == targets
    manifest = json.loads((js_chunks.STATIC / "manifest.json").read_text(encoding="utf-8"))
    files = {path.name for path in js_chunks.STATIC.iterdir()}
    assert files == {*manifest["files"], "manifest.json"}
    assert {f"{name}.js" for name in CHUNKS} | {"widget.js", "widget.css", "report.js", "report.css"} <= files
    package = json.loads((ROOT / "js" / "package.json").read_text(encoding="utf-8"))
    assert "build:static" in package["scripts"]["build"]

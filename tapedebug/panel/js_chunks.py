"""The answer to ``{"type": "chunk"}``: code of the panel that a widget requests when it is first needed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapedebug._errors import TapedebugError

if TYPE_CHECKING:
    from tapedebug.panel.panel_source import PanelSource
    from tapedebug.panel.queries import Answer

STATIC = Path(__file__).parent.parent / "static"


def chunk_names() -> list[str]:
    """Return the names of the chunks that the build has made: the folders of js/src/views with a `chunk.ts`.

    Raises:
        TapedebugError: The front end was not built.
    """
    manifest = STATIC / "manifest.json"
    if not manifest.is_file():
        raise TapedebugError("The panel was not built: manifest.json is missing.", hint="Run `make setup`.")
    names: list[str] = json.loads(manifest.read_text(encoding="utf-8"))["chunks"]
    return names


def respond(_: PanelSource, question: Mapping[str, Any]) -> Answer:
    """Return the module of the chunk that a question names.

    Raises:
        TapedebugError: There is no such chunk, or it was not built.
    """
    from tapedebug.panel.queries import Answer

    name = question.get("name")
    if name not in chunk_names():
        raise TapedebugError(f"The panel has no chunk {name!r}.")
    path = STATIC / f"{name}.js"
    if not path.is_file():
        raise TapedebugError(f"This chunk of the panel was not built: {path.name}.", hint="Run `make setup`.")
    return Answer({"name": name}, [path.read_bytes()])

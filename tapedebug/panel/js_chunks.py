"""The answer to ``{"type": "part"}``: code of the panel that a widget fetches when it is first needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tapedebug._errors import TapedebugError

if TYPE_CHECKING:
    from tapedebug.panel.panel_source import PanelSource
    from tapedebug.panel.queries import Answer

STATIC = Path(__file__).parent.parent / "static"
PARTS = ("details", "graph", "jacobian")


def respond(_: PanelSource, question: Mapping[str, Any]) -> Answer:
    """Return the module with the name that a question has.

    Raises:
        TapedebugError: There is none, or it was not built.
    """
    from tapedebug.panel.queries import Answer

    name = question.get("name")
    if name not in PARTS:
        raise TapedebugError(f"The panel has no part {name!r}.")
    path = STATIC / f"{name}.js"
    if not path.is_file():
        raise TapedebugError(f"This part of the panel was not built: {path.name}.", hint="Run `make setup`.")
    return Answer({"name": name}, [path.read_bytes()])

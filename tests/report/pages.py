"""Pages of reports as tests read them, and a front end of two lines."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.trace.unpacked import unsealed


def bundle(folder: Path) -> Path:
    """A front end that runs without Node; point `_assets.STATIC` at it."""
    static = folder / "static"
    static.mkdir(exist_ok=True)
    (static / "report.js").write_text("console.log('panel');\n", "utf-8")
    (static / "report.css").write_text(".tapedebug { color: red }\n", "utf-8")
    return static


class Page(HTMLParser):
    """The elements of a page, as a browser without JavaScript sees them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, str] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append((tag, values))
        self._open.append(f"{tag}#{values['id']}" if "id" in values else tag)

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop().partition("#")[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for name in self._open:
            self.texts[name] = self.texts.get(name, "") + data

    def payload(self) -> dict[str, Any]:
        """The data that the script reads, with traces as JSON."""
        data: dict[str, Any] = json.loads(self.texts["script#tapedebug-trace"])
        return {**data, "traces": [unsealed(trace) for trace in data["traces"]]}

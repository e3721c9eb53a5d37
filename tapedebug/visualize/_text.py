"""Escape names in DOT text."""

from __future__ import annotations

LONGEST = 80
_HTML = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;"))


def text(value: str, longest: int = LONGEST) -> str:
    """`value` inside an HTML-like label: nothing in it can end the label, open a tag or start a new line."""
    value = _short(value, longest)
    for character, entity in _HTML:
        value = value.replace(character, entity)
    return value or " "


def quoted(value: str) -> str:
    """`value` as a quoted DOT string, taken literally: backslashes would begin escapes."""
    # Graphviz decodes entities in quoted text too, so that "&lt;" in a name would turn into "<".
    value = (
        _short(value)
        .replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace("\\", "\\\\")
        .replace('"', '\\"')
    )
    return f'"{value}"'


def _short(value: str, longest: int = LONGEST) -> str:
    if len(value) > longest:
        value = value[: longest - 1] + "…"
    return "".join(c if c.isprintable() else " " for c in value)

"""Escaping of names in DOT text."""

from __future__ import annotations

LONGEST = 80
_HTML = (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;"))


def text(value: str, longest: int = LONGEST) -> str:
    """Return `value` escaped for an HTML label: it cannot end the label, open a tag or break a line."""
    value = _short(value, longest)
    for character, entity in _HTML:
        value = value.replace(character, entity)
    return value or " "


def quoted(value: str) -> str:
    """Return `value` as a quoted literal DOT string, with backslashes escaped."""
    # Graphviz also decodes entities in quoted text: "&lt;" in a name would become "<".
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

"""Converts source places of operations into locations of findings."""

from __future__ import annotations

from tapedebug._source import display_file
from tapedebug.contract import LocalDerivative, Place
from tapedebug.trace import Location


def text_of(place: Place | None) -> str:
    """Return the source text of a place within one line; empty if it spans several lines."""
    if place is None or place.line != place.end_line:
        return ""
    return place.text.encode()[place.column : place.end_column].decode(errors="ignore")


def code_of(operation: LocalDerivative) -> str:
    """Return the source text of an operation, or else its name."""
    return text_of(operation.span) or operation.kind


def place_of(place: Place | None) -> Location | None:
    """Return a place as the location of a finding."""
    return None if place is None else location_at(place)


def location_at(place: Place) -> Location:
    """Return a place as the location of a finding."""
    return Location(
        file=display_file(place.file), line=place.line, column=place.column, function=place.function
    )

"""Places of operations in the source, for findings."""

from __future__ import annotations

from tapedebug._source import display_file
from tapedebug.contract import LocalDerivative, Place
from tapedebug.trace import Location


def text_of(place: Place | None) -> str:
    """Return the text at a place that is within one line; else nothing."""
    if place is None or place.line != place.end_line:
        return ""
    return place.text.encode()[place.column : place.end_column].decode(errors="ignore")


def code_of(operation: LocalDerivative) -> str:
    """Return an operation as the source has it, or else its name."""
    return text_of(operation.span) or operation.kind


def place_of(place: Place | None) -> Location | None:
    """Return a place as findings have it."""
    return None if place is None else location_at(place)


def location_at(place: Place) -> Location:
    """Return a place as findings have it."""
    return Location(
        file=display_file(place.file), line=place.line, column=place.column, function=place.function
    )

"""Parts of a watched program that are not recorded."""

from __future__ import annotations

from tapedebug._dataclass import dataclass
from tapedebug._source import Span, display_file


@dataclass(frozen=True, slots=True)
class NotCovered:
    """A part of the program that was not recorded.

    Attributes:
        what: The part, such as `launch of step`.
        place: The place in the program.
        reason: The reason, as a clause.
    """

    what: str
    place: Span
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.what} at {display_file(self.place.file)}:{self.place.line} is not covered: {self.reason}"
        )

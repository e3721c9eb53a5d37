"""The error for kernels that cannot be mirrored."""

from __future__ import annotations

from tapedebug._errors import TapedebugError
from tapedebug._source import Span, display_file


class MirrorError(TapedebugError):
    """A kernel of NVIDIA Warp, or one launch of it, cannot be run by this engine.

    Attributes:
        reason: One sentence that says why, with the line in the user's source where there is one.
    """

    def __init__(self, reason: str, span: Span | None = None) -> None:
        place = "" if span is None else f" ({display_file(span.file)}:{span.line})"
        self.reason = f"{reason}{place}"
        super().__init__(reason, span=span, hint="the launch is replayed by Warp itself, in float32")

    @classmethod
    def because_of(cls, error: TapedebugError) -> MirrorError:
        """Return the error for a kernel that this engine refuses."""
        return cls(error.message, error.span)

"""The class `DisconnectedFinding`, shared by the modules of the rule `disconnected`."""

from __future__ import annotations

from dataclasses import field

from tapedebug._dataclass import dataclass
from tapedebug.diagnose.rule import EVIDENCE, RuleFinding

CODE = "disconnected"
NO_DATA_FLOW = "no data flow"
"""The kind of a finding without any launch that leads from the input to the loss."""
CUTS = ("no requires_grad", "backward disabled")
"""The kinds of findings in which the data flow continues beyond the end of the gradient."""


@dataclass(slots=True, kw_only=True, repr=False)
class DisconnectedFinding(RuleFinding):
    """A gradient that does not reach its input.

    Attributes:
        kind: The reason: one of `CUTS`, `NO_DATA_FLOW`, `"through NumPy"`, `"integers"`, `"zero slope"`, …
        source: Label of the array whose values left the tape and came back.
    """

    kind: str = field(metadata=EVIDENCE)
    source: str | None = field(default=None, metadata={**EVIDENCE, "evidence": "from"})

    @property
    def leaves_the_tape(self) -> bool:
        """True if no launch leads from the input to the loss: its data ends, or leaves the tape."""
        return self.kind == NO_DATA_FLOW or self.kind.startswith("through ")

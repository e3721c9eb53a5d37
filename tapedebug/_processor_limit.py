"""Time limits in processor time: those of a diagnosis of a program that NVIDIA Warp runs.

The limit that a user did not set is a multiple of the processor time of the program: a program that takes
seconds is diagnosed in seconds, and other work on the machine changes nothing. It is longer until gradients
were compared with differences, and if one is wrong, for its explanation.
"""

from __future__ import annotations

from tapedebug._dataclass import dataclass

TIMES, LEAST = 1.5, 1.6
"""The limit as a multiple of the program's processor time, and at least, in seconds.

Programs that do little but import Warp take 0.6 s or more. The least is for them: with 2 s, their diagnosis
alone took three times as long as they do.
"""
LONGEST_TIMES, LONGEST_LEAST = 5.0, 6.0
"""The same until gradients were compared, and if one is wrong."""


@dataclass(frozen=True)
class ProcessorLimit:
    """A time limit in processor time of this process, which other programs on the machine do not shorten.

    The compilation of kernels, which happens once on a machine, does not count.

    Attributes:
        seconds: The limit.
        longest: The limit of a diagnosis that has not compared a gradient by then, or that found a wrong one,
            which has to be explained, too.
    """

    seconds: float
    longest: float

    def part(self, share: float) -> ProcessorLimit:
        """Return the limit of a part of the work."""
        return ProcessorLimit(share * self.seconds, share * self.longest)


def default_limit(program_seconds: float, spent: float = 0.0) -> ProcessorLimit:
    """Return the limit of processor time.

    Args:
        program_seconds: The processor time of the program, in seconds.
        spent: The part of the limit that is used up.
    """
    least = 0.1 * LEAST
    return ProcessorLimit(
        max(least, max(LEAST, TIMES * program_seconds) - spent),
        max(least, max(LONGEST_LEAST, LONGEST_TIMES * program_seconds) - spent),
    )

"""Time limits in processor time: those of a diagnosis of a program that NVIDIA Warp runs.

The limit that a user did not set is a multiple of the processor time of the program: a program that takes
seconds is diagnosed in seconds, and other work on the machine changes nothing. It is longer until gradients
were compared with differences, and if one is wrong, for its explanation.
"""

from __future__ import annotations

from tapedebug._dataclass import dataclass

TIMES, LEAST = 1.5, 1.6
"""The limit as a multiple of the processor time of the program alone, and at least, in seconds.

Programs that do little but import Warp take 0.6 s or more. The least is for them: with 2 s, their diagnosis
alone took three times as long as they do.
"""
LONGEST_TIMES, LONGEST_LEAST = 4.0, 4.0
"""The limit until gradients were compared, and if one is wrong: of the watched program and its diagnosis
together, as a multiple of the program alone; and at least, in seconds of the diagnosis."""
BESIDE = 1.3
"""Times the duration of its own calls by which watching lengthens a program.

What it allocates makes collections of garbage and the program's own calls slower: 1.2 to 1.6 times in three
programs of 5 to 10 s.
"""
UNLIMITED = 0.5
"""The time that a diagnosis takes before and after what a limit can end, as a part of that of watching.

Both grow with the number of recorded calls.
"""


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


@dataclass(frozen=True)
class ProgramTime:
    """The processor time of a watched program, in seconds.

    Attributes:
        seconds: All of it.
        watching: The part of it that watching took.
    """

    seconds: float
    watching: float = 0.0

    def limit(self, spent: float = 0.0) -> ProcessorLimit:
        """Return the limit of its diagnosis, less the part that is used up."""
        alone = max(0.0, self.seconds - BESIDE * self.watching)
        longest = LONGEST_TIMES * alone - self.seconds - UNLIMITED * self.watching
        longest = max(LONGEST_LEAST, longest)
        usual = min(longest, max(LEAST, TIMES * alone))
        least = 0.1 * LEAST
        return ProcessorLimit(max(least, usual - spent), max(least, longest - spent))

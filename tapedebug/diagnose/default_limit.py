"""The time limit of a diagnosis that the user did not limit, of a program that NVIDIA Warp runs.

It is a multiple of the processor time of the program: a program that takes seconds is diagnosed in seconds,
and other work on the machine changes nothing. It is longer until gradients were compared with differences,
and if one is wrong, for its explanation.
"""

from __future__ import annotations

from tapedebug._progress import ProcessorLimit

TIMES, LEAST = 2.0, 3.0
"""The limit as a multiple of the program's processor time, and at least, in seconds."""
LONGEST_TIMES, LONGEST_LEAST = 5.0, 6.0
"""The same until gradients were compared, and if one is wrong."""


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

"""Long sweeps: `make fuzz` runs all of their cases, every other run a sample."""

import os

FULL = os.environ.get("TAPEDEBUG_SWEEPS") == "full"


def cases(*, full: int, sample: int) -> int:
    """Return how many cases of a sweep to run."""
    return full if FULL else sample

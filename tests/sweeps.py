"""Long sweeps: `make fuzz` and `make gallery` run all of their cases, every other run a sample.

There are three kinds: random programs are counted (`cases`), long lists are thinned (`sample_of`), and tests
that combine parameters with each other are marked `sweep`: cases stay until each value of each parameter has
one (`covering`).
"""

import os
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import TypeVar

FULL = os.environ.get("TAPEDEBUG_SWEEPS") == "full"

Item = TypeVar("Item")


def cases(*, full: int, sample: int) -> int:
    """Return how many cases of a sweep to run."""
    return full if FULL else sample


def sample_of(items: Sequence[Item], *, first: int, step: int) -> Sequence[Item]:
    """Return each `step`-th item from `first` on; all of them in a full sweep."""
    return items if FULL else items[first::step]


def covering(choices: Sequence[frozenset[Hashable]]) -> list[int]:
    """Return the numbers of cases that have each value of each parameter at least once, about equally often.

    Args:
        choices: The parameters of each case with their values.
    """
    left, chosen, used = frozenset[Hashable]().union(*choices), set[int](), Counter[Hashable]()
    while left:
        best = max(
            (number for number in range(len(choices)) if number not in chosen),
            key=lambda number: (
                len(choices[number] & left),
                -sum(used[value] for value in choices[number]),
            ),
        )
        chosen.add(best)
        left -= choices[best]
        used.update(choices[best])
    return sorted(chosen)

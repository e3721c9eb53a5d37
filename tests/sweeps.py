"""Long sweeps: `make fuzz` and `make gallery` run all of their cases, every other run a sample.

There are three kinds: random programs are counted (`cases`), long lists are thinned (`sample_of`), and tests
that combine parameters with each other are marked `sweep`: cases stay until each value of each parameter has
one (`covering`). A test marked `sweep(most=4)` keeps four cases; others of its module have other values.
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


def covering(
    choices: Sequence[frozenset[Hashable]], most: int | None = None, used: Counter[Hashable] | None = None
) -> list[int]:
    """Return the numbers of cases that have each value of each parameter at least once, about equally often.

    Args:
        choices: The parameters of each case with their values.
        most: The number of cases to choose at most, if any: then values may be without a case.
        used: How often other tests have a case with a value; these cases are added. Seldom used values are
            preferred, so that the tests of a module have all values together where each has `most` cases.
    """
    left, chosen = frozenset[Hashable]().union(*choices), set[int]()
    used = Counter[Hashable]() if used is None else used
    while left and len(chosen) != most:
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

"""One label for each array of a trace, unlike any other: what people call it, as far as can be found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def choose_labels(candidates: Sequence[Sequence[str]], *, longest: bool = False) -> list[str]:
    """Return a label for each array, all different.

    Args:
        candidates: For each array the names that it has, best first; possibly none.
        longest: Take the longest name of each instead of the first.
    """
    wanted = [
        (max(names, key=len) if longest else names[0]) if names else f"array {number}"
        for number, names in enumerate(candidates)
    ]
    # An array that can not have its first choice takes another of its names before it gets a number.
    taken: dict[str, int] = {}
    labels: list[str] = []
    for number, label in enumerate(wanted):
        if label in taken:
            free = [name for name in candidates[number] if name not in taken and name not in wanted]
            label = free[0] if free else _numbered(label, taken)
        taken[label] = number
        labels.append(label)
    return labels


def _numbered(label: str, taken: Mapping[str, int]) -> str:
    number = 2
    while f"{label}#{number}" in taken:
        number += 1
    return f"{label}#{number}"

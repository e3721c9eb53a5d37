"""Unique labels for the arrays of a trace, from the best of their names."""

from __future__ import annotations

from collections.abc import Sequence


def choose_labels(
    candidates: Sequence[Sequence[str]], sure: Sequence[bool], *, longest: bool = False
) -> list[str]:
    """Return a label for each array, all different.

    Args:
        candidates: For each array the names that it has, best first; possibly none.
        sure: Whether a variable holds the array, for each array.
        longest: Take the longest name of each instead of the first.
    """
    wanted = [
        (max(names, key=len) if longest else names[0]) if names else f"array {number}"
        for number, names in enumerate(candidates)
    ]
    # An array that can not have its first choice takes another of its names before it gets a number.
    first_choices = set(wanted)
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    labels = list(wanted)
    # Who has fewer names chooses first: after `v = v_next` both arrays may be called v, but only one v_next.
    order = sorted(range(len(wanted)), key=lambda place: (len(candidates[place]), not sure[place]))
    for position in order:
        label = wanted[position]
        if label in taken:
            others = (
                name for name in candidates[position] if name not in taken and name not in first_choices
            )
            label = next(others, "") or _numbered(label, taken, numbers)
        taken.add(label)
        labels[position] = label
    return labels


def _numbered(label: str, taken: set[str], numbers: dict[str, int]) -> str:
    """`x#2`, `x#3`, …; `numbers` remembers how far that has come."""
    while True:
        numbers[label] = numbers.get(label, 1) + 1
        numbered = f"{label}#{numbers[label]}"
        if numbered not in taken:
            return numbered

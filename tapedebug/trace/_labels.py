"""Unique labels for the arrays of a trace, from the best of their names."""

from __future__ import annotations

from collections.abc import Sequence


def choose_labels(
    candidates: Sequence[Sequence[str]], sure: Sequence[bool], *, longest: bool = False
) -> list[str]:
    """Return a label for each array, all different.

    Args:
        candidates: The names of each array, best first; possibly none.
        sure: For each array, True if a variable holds it.
        longest: Take the longest name of each array instead of the first.
    """
    wanted = [
        (max(names, key=len) if longest else names[0]) if names else f"array {number}"
        for number, names in enumerate(candidates)
    ]
    # An array whose first name is taken uses another of its names before it gets a number.
    first_choices = set(wanted)
    taken: set[str] = set()
    numbers: dict[str, int] = {}
    labels = list(wanted)
    # Arrays with fewer names choose first: after `v = v_next` both may be called v, but only one v_next.
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
    """Return the next free label of `x#2`, `x#3`, …; `numbers` stores the last number of each label."""
    while True:
        numbers[label] = numbers.get(label, 1) + 1
        numbered = f"{label}#{numbers[label]}"
        if numbered not in taken:
            return numbered

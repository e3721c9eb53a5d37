"""Matching of launches of two tapes that come from the same line of a program."""

from __future__ import annotations

from tapedebug.report._diff.align import Run, align
from tapedebug.trace import Launch, Trace

Site = tuple[str, str, str, int, str]
"""Kind, kernel, file, line and function of a launch."""


def align_launches(before: Trace, after: Trace) -> list[Run]:
    """Return the matching launches of two tapes, as runs in order.

    Two launches match if they launch the same kernel from the same place. A place is not a line number, which
    moves when code above it is edited: the places of each program are matched in the order of their first
    use, by kernel and function, and the remaining ones by kernel.
    """
    ours, theirs = list(map(_site, before.launches)), list(map(_site, after.launches))
    numbers = _matched(list(dict.fromkeys(ours)), list(dict.fromkeys(theirs)))
    return align([numbers[False, site] for site in ours], [numbers[True, site] for site in theirs])


def _site(launch: Launch) -> Site:
    place = launch.call_site
    if place is None:
        return (launch.kind, launch.name, "", 0, "")
    return (launch.kind, launch.name, place.file, place.line, place.function)


def _matched(before: list[Site], after: list[Site]) -> dict[tuple[bool, Site], int]:
    """Return a number for each place of each program, the same for matching places."""
    numbers: dict[tuple[bool, Site], int] = {}
    left, right = before, after
    for width in (5, 3, 2):  # the whole place; kind, kernel and function; kind and kernel
        keys: dict[tuple[object, ...], int] = {}
        runs = align(
            [keys.setdefault(_part(site, width), len(keys)) for site in left],
            [keys.setdefault(_part(site, width), len(keys)) for site in right],
        )
        for run in runs:
            for offset in range(run.length):
                number = len(numbers)
                numbers[False, left[run.before + offset]] = number
                numbers[True, right[run.after + offset]] = number
        left = [site for site in left if (False, site) not in numbers]
        right = [site for site in right if (True, site) not in numbers]
    for late, sites in ((False, left), (True, right)):
        for site in sites:
            numbers[late, site] = len(numbers)
    return numbers


def _part(site: Site, width: int) -> tuple[object, ...]:
    kind, kernel, _, _, function = site
    return site if width == len(site) else (kind, kernel, function)[:width]

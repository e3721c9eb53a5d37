"""Chains of a function in LLVM assembly: places that control passes one after the other.

Between two places of a chain control enters at the first and leaves at the second, whatever branches and
loops there are in between; so the instructions between them can become a function. The statements of a kernel
make such a chain, and so do those of each branch, and of the body of each loop.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import field

from tapedebug._dataclass import dataclass

BARE_NAME = r'(?:"[^"]*"|[-\w.$]+)'
NAME = f"%{BARE_NAME}"
NAMES = re.compile(NAME)
LABEL = re.compile(rf"^({BARE_NAME}):")
DEFINED = re.compile(rf"^  ({NAME}) = (.*)$")
PHI = re.compile(rf"^  {NAME} = phi ")
TERMINATOR = re.compile(r"^  (?:br|ret|switch|unreachable)\b")
TARGET = re.compile(rf"label ({NAME})")
FIXED = re.compile(r"= alloca |@llvm\.stack|musttail")
"""Instructions that belong to the frame of their function, so that no part of a chain may have them."""


class Unsplittable(Exception):
    """A function has something that cannot move to another function, or that is unknown here."""


@dataclass
class Block:
    """A basic block.

    Attributes:
        name: The label as branches name it, `%then`; empty for a first block without one.
        start: The number of the line of the label, if it has one.
        first: The number of the first line after the phis.
        last: The number of the line of its terminator, which a `switch` continues up to `end`.
        end: The number of the line after it.
    """

    name: str
    start: int
    first: int
    last: int
    end: int


@dataclass
class Chain:
    """A chain.

    Attributes:
        places: Numbers of lines, ascending: control comes to each place before that line.
        depth: The number of edges of the control flow that lead past all of it; 0 for the function's own.
        within: Long chains between two places of this one.
    """

    places: list[int]
    depth: int = 0
    within: list[Chain] = field(default_factory=list)

    @property
    def first(self) -> int:
        """Return the first place."""
        return self.places[0]

    @property
    def last(self) -> int:
        """Return the last place."""
        return self.places[-1]

    @property
    def weight(self) -> int:
        """Return its lines, without those of the chains in `within`."""
        return self._weight(self.last)

    def _weight(self, place: int) -> int:
        """Return the lines up to a place, without those of long chains before it."""
        return place - self.first - sum(each.last - each.first for each in self.within if each.last <= place)

    def parts(self, size: int) -> list[int]:
        """Return places that divide the chain into parts of about `size` lines."""
        weight = self.weight
        number = max(2, -(-weight // size))
        bounds = [self.first]
        for place in self.places[1:-1]:
            if self._weight(place) * number >= weight * len(bounds):
                bounds.append(place)
        return [*bounds, self.last]


def long_chains(lines: Sequence[str], blocks: Sequence[Block], least: int, nested: bool) -> list[Chain]:
    """Return the chains of a function whose weight is more than `least`, without those within others.

    Args:
        lines: The lines of the function.
        blocks: Its blocks.
        least: The number of lines.
        nested: Whether only chains in branches and loops are wanted.
    """
    found: list[Chain] = []
    fixed = [n for n, line in enumerate(lines) if FIXED.search(line)]
    for chain in sorted(_chains(lines, blocks), key=lambda each: each.last - each.first):
        before = [n for n in fixed if chain.first <= n < chain.last]
        if before:
            chain.places = chain.places[bisect_right(chain.places, before[-1]) :]
        if chain.last - chain.first <= least or (nested and not chain.depth):
            continue
        chain.within = [each for each in found if chain.first <= each.first and each.last <= chain.last]
        if chain.weight > least:
            found = [each for each in found if each not in chain.within] + [chain]
    return sorted(found, key=lambda each: each.first)


def _chains(lines: Sequence[str], blocks: Sequence[Block]) -> Iterable[Chain]:
    """Return all chains.

    An edge of the control flow, from the line of a terminator to that of a label, leads past the places
    between both. Two places are in one chain if the same edges lead past them: then none leads from between
    them to elsewhere, or back.
    """
    labels = {block.name: block for block in blocks}
    changes: dict[int, int] = {}
    count = 0
    for block in blocks:
        to = [labels[target].start for target in targets(lines, block)]
        if lines[block.last].startswith("  ret"):
            to = [len(lines)]
        for other in to:
            ends = block.last, other
            for place in (min(ends) + 1, max(ends) + 1):
                changes[place] = changes.get(place, 0) ^ (1 << count)
            count += 1
    chains: dict[int, Chain] = {}
    past = 0
    at = 0
    for block in blocks:
        for place in range(at, block.end):
            past ^= changes.get(place, 0)
            if place == block.first:
                chain = chains.setdefault(past, Chain([], past.bit_count()))
        chain.places += range(block.first, block.last + 1)
        at = block.end
    return chains.values()


def targets(lines: Sequence[str], block: Block) -> list[str]:
    """Return the names of the blocks in which a block may continue."""
    return TARGET.findall("".join(lines[block.last : block.end]))


def blocks_of(lines: Sequence[str]) -> list[Block]:
    """Return the blocks of a function.

    Raises:
        Unsplittable: One ends in another way than by a branch or return.
    """
    found = []
    starts = [n for n, line in enumerate(lines) if n and LABEL.match(line)]
    bounds = [*starts, len(lines) - 1]
    if not starts or any(line.startswith("  ") for line in lines[1 : starts[0]]):
        bounds.insert(0, 1)
    for start, stop in itertools.pairwise(bounds):
        match = LABEL.match(lines[start])
        first = start if match is None else start + 1
        while first < stop and PHI.match(lines[first]):
            first += 1
        last = next((n for n in range(first, stop) if TERMINATOR.match(lines[n])), None)
        if last is None:
            raise Unsplittable
        end = last + 1
        while end < stop and lines[end].strip():
            end += 1
        found.append(Block("" if match is None else f"%{match[1]}", start, first, last, end))
    return found

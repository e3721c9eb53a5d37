"""Results of traced kernels: the elements that each thread reads and writes.

A traced variant runs no arithmetic but what decides where threads go and what they touch. It keeps two
memories. In the table each thread has a row, with one word for each site that it can come by only once: the
place of the element in its array, in scalars, and 1; 0 where it did not come by. Sites inside of loops go to
the log, two words each time: the site's number (from bit 40) and the thread, and the place.
"""

from __future__ import annotations

from tapedebug._dataclass import dataclass
from tapedebug.compiler.access_tags import AccessKind

THREAD_BITS = 40
SLOTS = 4
"""The table's address, the log's, its room, and how much of it was needed: these follow all other slots."""

TABLE, LOG, ROOM, NEEDED = range(SLOTS)


@dataclass(frozen=True, slots=True)
class TracedSite:
    """One place in a kernel that reads or writes one scalar of an array of floats.

    Attributes:
        kind: What it does.
        param: To which parameter.
        component: To which component of the element.
        once: No thread comes by twice: it is in no loop.
        reads: Of a write, the numbers of the sites whose values may have a part in it: in what is written, in
            where it is written, or in whether it is.
    """

    kind: AccessKind
    param: int
    component: int
    once: bool
    reads: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class TraceInfo:
    """Access sites of a traced variant, and the shape of its table.

    Attributes:
        sites: All traced sites, by number.
        deciding: Array parameters whose values decide where threads go or which elements they touch.
    """

    sites: tuple[TracedSite, ...]
    deciding: frozenset[int]

    @property
    def columns(self) -> dict[int, int]:
        """For each site that is in no loop, by number, its column in the table."""
        return {k: c for c, k in enumerate(k for k, site in enumerate(self.sites) if site.once)}

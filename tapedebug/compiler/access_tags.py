"""Access tags: the last writer and reader of each scalar of an array's memory.

A tracked variant of a kernel keeps two words for each scalar, side by side: the tag of its last write and
that of its last read. A tag grows with the launch (its epoch), so that "in this launch" is one comparison
and the later of two tags is the larger:

    bits 0 … 31   the thread
    bit  32       MANY: in this launch other threads did the same before
    bit  33       PLAIN: of writes: in this launch it was written by more than atomics that commute
    bits 34 … 42  the site: the place in the source, as the number of a diagnostic of the variant
    bits 43 … 62  the epoch; 0 stands for nothing at all
"""

from __future__ import annotations

from typing import Literal

from tapedebug._dataclass import dataclass
from tapedebug._source import Span
from tapedebug.compiler.diagnostics import TOUCH, Diagnostic

THREAD = (1 << 32) - 1
MANY = 1 << 32
PLAIN = 1 << 33
WHO = MANY | THREAD
"""The bits that equal a thread's number only if no other thread accessed the scalar."""
SITE_SHIFT = 34
SITES = (1 << 9) - 1
"""The number of the site that stands for all those beyond."""
EPOCH_SHIFT = 43
EPOCHS = 1 << 20

WRITTEN, READ, NEVER = range(3)
"""The other side of a conflict: a write or a read of another thread, or memory that was never written."""

RACED, UNSET = 1, 2
"""The result of a tracked launch, as bits: threads conflicted, or memory was read before it was written."""

AccessKind = Literal["read", "write", "atomic", "exchange"]
"""An exchange is `atomic_exch` or `atomic_cas`: it replaces the value, and those of two threads conflict."""


@dataclass(frozen=True, slots=True)
class AccessTagging:
    """The arrays that a tracked variant watches, and the conflicts that it looks for.

    Attributes:
        race_checked: Array parameters through which threads may conflict: each access checks the tags.
        init_checked: Those of memory that may never have been written: each read looks, too.
        report: Report each conflict with both sides. Otherwise the variant only returns whether there was a
            conflict, which takes a fraction of the time.
        atomic: (Parameter, place in the source) of what atomics read and write.
        ordered: Those of them that are exchanges.
    """

    race_checked: frozenset[int]
    init_checked: frozenset[int]
    report: bool
    atomic: frozenset[tuple[int, Span]]
    ordered: frozenset[tuple[int, Span]]

    @property
    def words(self) -> int:
        """The number of words for each scalar."""
        return words_of(self.report)


def words_of(report: bool) -> int:
    """Return the words a scalar: last write and read; to report, also those of another thread before."""
    return 4 if report else 2


@dataclass(frozen=True, slots=True)
class Site:
    """One place in a kernel that accesses an array parameter.

    Attributes:
        kind: What it does.
        param: To which parameter.
        component: Of an access in bulk, to which component of its elements; else None.
    """

    kind: AccessKind
    param: int
    component: int | None = None

    @property
    def own_index_only(self) -> bool:
        """Every thread does it at its own index: the code tags nothing, all is known without running it."""
        return self.component is not None

    def diagnostic(self, span: Span) -> Diagnostic:
        """The diagnostic that stands for it; its number is the site's in tags."""
        part = "" if self.component is None else f" {self.component}"
        return Diagnostic(TOUCH, span, text=f"{self.kind} {self.param}{part}")


def site_of(diagnostic: Diagnostic) -> Site | None:
    """Return the site that a diagnostic stands for, or None for other diagnostics."""
    if diagnostic.kind != TOUCH:
        return None
    kind, param, *component = diagnostic.text.split()
    known: dict[str, AccessKind] = {
        "read": "read",
        "write": "write",
        "atomic": "atomic",
        "exchange": "exchange",
    }
    return Site(known[kind], int(param), int(component[0]) if component else None)


def tag_of(epoch: int, site: int, thread: int) -> int:
    """A tag of one thread."""
    return (epoch << EPOCH_SHIFT) + (min(site, SITES) << SITE_SHIFT) + (thread & THREAD)

"""Capabilities: the accesses of the threads of a launch, element by element."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.contract.program import Array, Place, Replay

Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]

ElementQuery: TypeAlias = tuple[int, Array, Literal["read", "write"]]
"""A launch, an array, and the kind of access that is queried."""

AccessKind = Literal["read", "write", "atomic", "exchange"]
"""An exchange replaces the value atomically: the result of two threads depends on their order."""


@dataclass(frozen=True, slots=True)
class ThreadAccess:
    """One access of one thread.

    Attributes:
        thread: The number of the thread.
        span: The place in the source, if it is known.
        kind: The kind of the access.
    """

    thread: int
    span: Place | None
    kind: AccessKind


@dataclass(slots=True)
class AccessConflict:
    """Accesses of one kind that conflict, in one launch: two threads met, or one read what nothing wrote.

    Attributes:
        launch: The index of the launch.
        param: The parameter of the first side.
        place: The scalar where it happened first, counted from the parameter's first element.
        first: The thread that came later.
        second: The other one; None if the element was unwritten.
        elements: The places, as far as they were kept.
        pairs: The threads of both sides, as far as they were kept.
        count: The number of occurrences in the launch.
    """

    launch: int
    param: int
    place: int
    first: ThreadAccess
    second: ThreadAccess | None
    elements: set[int] = field(default_factory=set)
    pairs: list[tuple[int, int]] = field(default_factory=list)
    count: int = 0


@dataclass(slots=True)
class OutOfBoundsAccess:
    """Indices outside an array, on one line of one launch.

    Attributes:
        launch: The index of the launch.
        param: The parameter.
        axis: The axis whose index is outside.
        index: All indices of the element that the first such thread accessed.
        length: The length of the axis.
        side: That thread, and the access.
        threads: The threads with such accesses, as far as they were searched.
        complete: False if there may be more such threads.
    """

    launch: int
    param: int
    axis: int
    index: tuple[int, ...]
    length: int
    side: ThreadAccess
    threads: list[int] = field(default_factory=list)
    complete: bool = True


@dataclass(slots=True)
class SuspectLaunches:
    """The launches of a tape that are worth tracking.

    Attributes:
        kinds: Launches whose threads may meet or reach outside an array; those of one kind (a time loop) are
            together, and some of them are enough.
        unwritten: Launches that may read memory that nothing wrote.
        untracked: Reasons why other launches cannot be tracked, as clauses: `f calls native functions: …`.
    """

    kinds: list[list[int]] = field(default_factory=list)
    unwritten: list[int] = field(default_factory=list)
    untracked: list[str] = field(default_factory=list)


@dataclass(slots=True)
class ElementConflicts:
    """The conflicts that tracked launches had.

    Attributes:
        races: Threads that met.
        unset: Reads of memory that nothing wrote.
        outside: Accesses outside of arrays.
        ended_after: The launch after which the tape could not be run further; None if it ran to the end.
    """

    races: list[AccessConflict] = field(default_factory=list)
    unset: list[AccessConflict] = field(default_factory=list)
    outside: list[OutOfBoundsAccess] = field(default_factory=list)
    ended_after: int | None = None


class ElementTracking(Protocol):
    """Launches that can be run again with every access of their threads tracked, element by element."""

    def arrays_in(self, region: Hashable, /) -> Sequence[Array]:
        """Return the ranges of a region that the tape uses, as arrays."""

    def suspects(self) -> SuspectLaunches:
        """Return the launches that may have conflicts; nothing is run."""

    def conflicts(
        self, replay: Replay, launches: Collection[int], if_unwritten: Collection[int] = (), /
    ) -> ElementConflicts:
        """Run a new replay of the tape with some launches tracked.

        Args:
            replay: The replay.
            launches: The launches to track.
            if_unwritten: Launches to track if memory that they use may then be unwritten.
        """

    def accessed(
        self, replay: Replay, wanted: Collection[ElementQuery], /
    ) -> Mapping[ElementQuery, Mask] | None:
        """Return the elements that launches read or wrote, exactly.

        Args:
            replay: A new replay of the tape.
            wanted: The launches, arrays and accesses.

        Returns:
            A mask of the array's shape for each of them; None if the accesses of one of the launches, or of
            its adjoint, are not known.
        """

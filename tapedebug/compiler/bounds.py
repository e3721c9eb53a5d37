"""Facts about a function's indices that are known before a launch, as plain data (of `passes.bounds`)."""

from __future__ import annotations

from collections.abc import Callable

from tapedebug._dataclass import dataclass
from tapedebug.compiler.parallel_info import Bound, Place, evaluated

UNKNOWN, ALL = "unknown", "all"
"""The indices that a probe tests: those without a known range, or every one."""


@dataclass(frozen=True, slots=True)
class Reach:
    """The range of one index: from `low` to `high` of an axis of `length`.

    Attributes:
        wraps: Whether a negative one counts from the end.
    """

    low: Bound
    high: Bound
    length: Bound
    wraps: bool

    def is_inside(self, look: Callable[[str, int, int], int]) -> bool:
        """True if no thread of a launch can be outside; `look` as for `sharing.evaluated`.

        Raises:
            OverflowError: A number on the way has more than 32 bits.
        """
        low, high, length = (evaluated(bound, look) for bound in (self.low, self.high, self.length))
        return (-length if self.wraps else 0) <= low and high < length


@dataclass(frozen=True, slots=True)
class Reaches:
    """The indices of a function.

    Attributes:
        known: Those of which a range is known.
        unknown: Whether there are others.
        probed: For each kind of probe that there is, the parameters that it reads: what the function does not
            write, so that a probe sees what the function will see.
        written: The memory that the function writes.
    """

    known: tuple[Reach, ...]
    unknown: bool
    probed: dict[str, tuple[int, ...]]
    written: tuple[Place, ...]

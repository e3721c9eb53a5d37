"""Memory sharing between the threads of a function: what parallel and vector launches need.

`passes.memory_regions`, `passes.parallel_division` and `passes.ranges` work it out. A bound is a number, or
a small tree of what a launch knows: `("argument", param, component)`, `("extent", param, axis)`, `("size",
axis)` of the threads, and the operators of `OPERATORS` over bounds.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add, mul, sub
from typing import Any

from tapedebug._dataclass import dataclass

Place = tuple[str, int]
"""A side, `"value"`, `"adjoint"`, `"dot"` or `"adjoint_dot"`, and a parameter."""

Bound = int | tuple[Any, ...]

OPERATORS: dict[str, Callable[[int, int], int]] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "min": min,
    "max": max,
    "ceildiv": lambda a, b: -(-a // b),
}

LIMIT = 2**31


def evaluated(bound: Bound, look: Callable[[str, int, int], int]) -> int:
    """The number that a bound is in a launch; `look` knows arguments, extents and sizes.

    Raises:
        OverflowError: Something on the way is more than 32 bits hold: kernels count in these.
    """
    if isinstance(bound, int):
        number = bound
    else:
        kind, a, *rest = bound
        if kind in OPERATORS:
            number = OPERATORS[kind](evaluated(a, look), evaluated(rest[0], look))
        else:
            number = look(kind, a, rest[0] if rest else 0)
    if not -LIMIT <= number < LIMIT:
        raise OverflowError(number)
    return number


@dataclass(frozen=True, slots=True)
class Pair:
    """Two regions that must not share memory; with `alike` they may be the very same view.

    The very same view has the same first element, shape and strides.
    """

    first: Place
    second: Place
    alike: bool


READ, OWN, NEAR, SUM = "read", "own", "near", "sum"


@dataclass(frozen=True, slots=True)
class Share:
    """Accesses of chunks to one memory region.

    Attributes:
        side: Which of the array's memories.
        param: The array parameter.
        how: `"read"`, `"own"`, `"near"` or `"sum"`.
        axes: The array axes on which every access has the thread's row.
        added: Whether it is only added to.
        reach: Of a near one, how far before and after its row a thread adds, for each access.
        axis: Of a near one, the array axis that rows are on.
        wraps: Whether an index before the first row means one from the end.
        window: Of a sum, the rows of the array's first axis to which it adds; empty where any may be.
    """

    side: str
    param: int
    how: str
    axes: frozenset[int] = frozenset()
    added: bool = False
    reach: tuple[tuple[Bound, Bound], ...] = ()
    axis: int = 0
    wraps: bool = False
    window: tuple[tuple[Bound, Bound], ...] = ()

    @property
    def place(self) -> Place:
        """The side and the parameter of the region."""
        return self.side, self.param


@dataclass(frozen=True, slots=True)
class Division:
    """Facts about a function that decide how its threads can be divided.

    Attributes:
        axes: How many thread axes it asks for.
        lanes: Whether threads may run in lockstep.
        pairs: The regions that must not share memory then.
        shares: What chunks do to memory; None where it cannot be divided.
        work: How much a thread does, about: one for some operations, and for each iteration of a loop.
        inner: As `shares`, for each thread axis after the first, where launches have one row on those before.
    """

    axes: int
    lanes: bool
    pairs: tuple[Pair, ...]
    shares: tuple[Share, ...] | None
    touched: tuple[Place, ...]
    work: Bound
    inner: tuple[tuple[Share, ...] | None, ...] = ()

    def along(self, axis: int) -> tuple[Share, ...] | None:
        """Return the accesses of chunks along a thread axis, or None."""
        return self.inner[axis - 1] if axis else self.shares

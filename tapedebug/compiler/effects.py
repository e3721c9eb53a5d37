"""Effects of a kernel on its arrays and the values that its adjoint needs, as plain data.

Launches ask for nothing else of a kernel that an earlier process compiled: the compiler stays unloaded.
"""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from tapedebug._dataclass import dataclass
from tapedebug._errors import TapedebugError
from tapedebug._source import Span
from tapedebug.compiler.params import Param
from tapedebug.lang import types as t


@dataclass(frozen=True, slots=True)
class AccessRecord:
    """One place in the source that touches an array parameter.

    Attributes:
        param: The parameter.
        kind: "read", "write" or "atomic".
        span: The place.
        ordered: An atomic after which the element holds what the last thread, or the first, brought.
    """

    param: int
    kind: str
    span: Span
    ordered: bool = False


@dataclass(frozen=True)
class Analysis:
    """Effects of a kernel on its array parameters (given by index).

    Attributes:
        reads: Parameters whose values it loads.
        writes: Parameters that it stores to, atomics included.
        covers: Parameters that it stores to at exactly the thread's index, whatever branches are taken: a
            launch whose dimensions are the array's shape overwrites every element.
        atomic: Parameters that it changes atomically.
        accesses: The places in the source, each with its kind: "read", "write" or "atomic".
        serial: Whether its result depends on the order of the threads (it uses what atomics return).
        native: The parameters that native functions get as pointers, each with the name of one.
        opaque: The native functions through which no tangent can be pushed.
        emitted: The kinds of diagnostics that the forward pass makes.
        emitted_by_adjoint: The kinds of diagnostics that its adjoint makes: those in custom gradients,
            and breakpoints.
        elsewhere: Parameters that a thread accesses at other than its own index.
        fresh: Those of `covers` that a thread reads only at its own index, after it has stored there.
        indices: (parameter, axis, how, number) of each index that it uses: "thread" and which of the thread's
            axes, "constant" and its value (negative ones count from the end), or "other".
        loops: Whether threads run loops, but for short ones that are written out.
        optional: Parameters that it asks whether they are there (`if a:`): None may be passed for them.
        one_sided: The variables that only one branch of an `if` assigns and that are read after it, with the
            `if`.
        shown: Parameters that only diagnostics read: to print values, or to test them.
    """

    reads: frozenset[int]
    writes: frozenset[int]
    covers: frozenset[int]
    atomic: frozenset[int]
    accesses: tuple[AccessRecord, ...]
    serial: bool
    native: dict[int, str] = field(default_factory=dict)
    opaque: tuple[str, ...] = ()
    emitted: frozenset[str] = frozenset()
    emitted_by_adjoint: frozenset[str] = frozenset()
    elsewhere: frozenset[int] = frozenset()
    optional: frozenset[int] = frozenset()
    indices: tuple[tuple[int, int, str, int], ...] = ()
    fresh: frozenset[int] = frozenset()
    loops: bool = False
    one_sided: tuple[tuple[str, Span], ...] = ()
    shown: frozenset[int] = frozenset()

    def used(self, param: int) -> bool:
        """True if the kernel reads or writes an array parameter, be it only to print or test values."""
        return param in self.reads or param in self.writes or param in self.shown

    def absent(self, param: int) -> bool:
        """True if an array parameter can be None: it is unused, or the kernel tests whether it is given."""
        return param in self.optional or not self.used(param)


@dataclass(frozen=True)
class AdjointInfo:
    """Values of the forward pass that an adjoint reads.

    Attributes:
        needs: Array parameters whose values the adjoint reads: exact, found after dead code was removed.
        replay: Parameters that are both needed and written by the same launch.
        need_spans: The reads in the source whose values are needed, by parameter.
        after: Those of `needs` that the launch writes and whose values after it are needed: a replay or a
            gradient of the user's reads them.
        refused: Why there is no right gradient, where that is so; raised when one is asked for.
        once: Parameters whose adjoint it only uses up, each element once: it need not zero them.
        changes: Parameters whose adjoint it may change: what it only adds to atomically keeps its own.
    """

    needs: frozenset[int]
    replay: frozenset[int]
    need_spans: dict[int, tuple[Span, ...]]
    after: frozenset[int] = frozenset()
    refused: TapedebugError | None = None
    once: frozenset[int] = frozenset()
    changes: frozenset[int] = frozenset()


def differentiable(params: tuple[Param, ...]) -> frozenset[int]:
    """The array parameters that can have a gradient."""
    return frozenset(p.index for p in params if p.is_array and t.is_float(p.type.dtype))


DivergenceKind = Literal["loop", "while", "part", "array", "counter", "function"]
"""A loop with variables; one with a condition; a part of a variable that is assigned; `*=` on an array; a
number that an atomic handed out; a function whose adjoint Warp lacks in part."""


@dataclass(frozen=True, slots=True)
class WarpDivergence:
    """A construct that Warp may reverse wrongly: see `compiler.warp_divergence`.

    Attributes:
        kind: Which.
        span: Where it stands.
        variables: The variables that a loop carries; of a function, its name, what of it has no adjoint,
            and the version of warp-lang with which that was measured.
        needed: The reverse of a loop needs what its variables held in each iteration.
        param: The array parameter that `*=` changes.
    """

    kind: DivergenceKind
    span: Span
    variables: tuple[str, ...] = ()
    needed: bool = False
    param: int | None = None

"""The record of one launch, copy, fill or custom function, and its call site."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from tapedebug._source import BETWEEN, Span
from tapedebug._source import Site as Site
from tapedebug._source import call_site as call_site
from tapedebug._source import site_span as site_span
from tapedebug.runtime.capabilities import operation_capability

if TYPE_CHECKING:
    from tapedebug.contract import Access, Kind
    from tapedebug.runtime.launch.call_list import Times
    from tapedebug.runtime.launch.plan import LaunchPlan
    from tapedebug.runtime.tape.buffer_versions import InplaceSave, SavedValue

T = TypeVar("T")

Stack = tuple[tuple[CodeType, int, int], ...]
"""The user's frames, innermost first: code, index of the calling instruction, and a number of the frame."""

FRAMES = 16
"""The largest number of frames of a stack that are kept."""


def call_stack(depth: int = 2) -> Stack:
    """Return the user's frames from `depth` frames up on, as `call_site` finds the first of them."""
    frame: FrameType | None = sys._getframe(depth)
    found: list[tuple[CodeType, int, int]] = []
    while frame is not None and len(found) < FRAMES:
        if frame.f_globals.get("__name__", "").partition(".")[0] not in BETWEEN:
            found.append((frame.f_code, frame.f_lasti, id(frame)))
        frame = frame.f_back
    return tuple(found)


def site_of(stack: Stack) -> Site | None:
    """Return the innermost place of a stack that is not in an installed library; None if it is empty."""
    for code, instruction, _ in stack:
        if "site-packages" not in code.co_filename:
            return code, instruction
    return stack[0][:2] if stack else None


class Record:
    """One entry of a tape.

    Attributes:
        index: Position on the tape.
        plan: The properties that all launches of this kernel with arguments of this kind share: kernel,
            accesses, adjoint.
        args: The arguments: arrays (kept alive, and their memory with them) and values.
        dim: The launch dimensions.
        threads: Their product.
        packed: The argument slots as the kernel's layout packs them, adjoint pointers zero.
        needs: For each entry of `plan.needed`, the values that the adjoint reads.
        inplace_saves: Pre-launch values of memory that the launch both needs and writes.
        site: The call site.
        scope: Index into `Tape.scopes`, or None.
        elapsed: Seconds that the forward run took.
        times: The durations of the last reverse run, or None.
        value: The bytes of a fill.
        func: The reverse function of `record_func`.
        notes: What the hooks of another engine noted (`runtime.foreign_engine`), or None.
    """

    __slots__ = (
        "args",
        "dim",
        "elapsed",
        "func",
        "index",
        "inplace_saves",
        "needs",
        "notes",
        "packed",
        "plan",
        "scope",
        "site",
        "threads",
        "times",
        "value",
    )

    def __init__(
        self,
        index: int,
        plan: LaunchPlan,
        args: tuple[Any, ...],
        dim: tuple[int, ...],
        threads: int,
        packed: bytes,
        site: Site,
        scope: int | None,
    ) -> None:
        self.index = index
        self.plan = plan
        self.args = args
        self.dim = dim
        self.threads = threads
        self.packed = packed
        self.site = site
        self.scope = scope
        self.needs: tuple[SavedValue, ...] = ()
        self.inplace_saves: tuple[InplaceSave, ...] = ()
        self.elapsed = 0.0
        self.times: Times | None = None
        self.value: bytes = b""
        self.func: Callable[[], Any] | None = None
        self.notes: Any = None

    @property
    def backward_elapsed(self) -> float | None:
        """Seconds of the last reverse run, or None."""
        return None if self.times is None else self.times.of(self)

    @property
    def seconds(self) -> float:
        """Seconds that the forward run took."""
        return self.elapsed

    @property
    def backward_seconds(self) -> float | None:
        """Seconds of the last reverse run, or None."""
        return self.backward_elapsed

    @property
    def kind(self) -> Kind:
        """`"kernel"`, `"copy"`, `"fill"` or `"func"`."""
        return self.plan.kind

    @property
    def accesses(self) -> tuple[Access, ...]:
        """The reads and writes of each of its arrays."""
        return self.plan.accesses(self)

    @property
    def has_adjoint(self) -> bool:
        """True if the reverse pass does anything for it."""
        return bool(self.active) and (self.kind != "kernel" or self.info is not None)

    def capability(self, kind: type[T]) -> T | None:
        """Return the implementation of a capability of the debugger's contract, or None."""
        return operation_capability(self, kind)

    @property
    def name(self) -> str:
        """The kernel's key, or `copy`, `fill`, or the name of the custom function."""
        if self.func is not None:
            return getattr(self.func, "__name__", "func")
        return self.plan.name

    @property
    def kernel(self) -> Any:
        """The kernel, or None for the other kinds."""
        return self.plan.kernel

    @property
    def info(self) -> Any:
        """The kernel's AdjointInfo for the arguments that have a gradient; None if there is no adjoint."""
        return self.plan.info

    @property
    def active(self) -> frozenset[int]:
        """Parameters with a gradient."""
        return self.plan.active

    @property
    def reads(self) -> frozenset[int]:
        """Array parameters that the launch reads (not counting atomics)."""
        return self.plan.reads

    @property
    def writes(self) -> frozenset[int]:
        """Array parameters that the launch writes, atomics included."""
        return self.plan.writes

    @property
    def atomic(self) -> frozenset[int]:
        """Array parameters that the launch updates atomically."""
        return self.plan.atomic

    @property
    def touched(self) -> tuple[int, ...]:
        """Array parameters that the launch reads or writes, in order."""
        return self.plan.touched

    @property
    def written(self) -> tuple[int, ...]:
        """Array parameters that the launch writes, in order."""
        return self.plan.written

    @property
    def arrays(self) -> tuple[int, ...]:
        """Array parameters of a kernel, accessed or not, in order."""
        return self.plan.arrays

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return self.plan.names

    @property
    def needed(self) -> tuple[int, ...]:
        """Array parameters whose values the adjoint reads."""
        return self.plan.needed

    @property
    def replay(self) -> frozenset[int]:
        """Parameters whose stores the adjoint re-executes, because it needs what they overwrite."""
        return frozenset(p for s in self.inplace_saves for p in s.params)

    @property
    def call_site(self) -> Span:
        """The place of the call: file, line, column, function."""
        return site_span(self.site)

    def param_name(self, param: int) -> str:
        """Return the name of a parameter."""
        return self.plan.names[param]

    def __repr__(self) -> str:
        return f"<record {self.index}: {self.name}, dim {self.dim}>"

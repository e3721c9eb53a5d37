"""Further queries about a kernel: Warp's reverse of it, saved loop values, accessed elements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tapedebug._lazy_module import lazy_module
from tapedebug.compiler.ir import NATIVE, Function, ops_of
from tapedebug.compiler.native.unit import REPLAY
from tapedebug.compiler.variant import Variant

if TYPE_CHECKING:
    from tapedebug.compiler import warp_divergence
    from tapedebug.compiler.effects import WarpDivergence
    from tapedebug.compiler.kernel import Entry, Kernel
    from tapedebug.compiler.passes import warp_forward
    from tapedebug.compiler.python_library import Interpreted
else:
    warp_forward = lazy_module("tapedebug.compiler.passes.warp_forward")
    warp_divergence = lazy_module("tapedebug.compiler.warp_divergence")


def warp_adjoint(
    kernel: Kernel,
    active: frozenset[int],
    *,
    strided: bool = False,
    retained: frozenset[int] = frozenset(),
    parts: bool = True,
    functions: bool = True,
) -> Entry | Interpreted:
    """The compiled reverse that Warp would make of it, right or wrong: see `passes.adjoint_warp`.

    It reads arrays as the launch left them. Those of `retained` keep the adjoints of what they lost. Without
    `parts`, components and fields are assigned as they are here, and functions have all their adjoints;
    without `functions` they have these.

    Raises:
        NotEmulated: What Warp does with this kernel is not known.
    """
    if kernel.emulated_branches > warp_forward.MOST_BRANCHES:
        raise warp_forward.NotEmulated
    kind = "warp_adjoint" if functions else "warp_parts"
    kind = kind if parts else "warp_loops"
    return kernel._entry(Variant(kind, active, retained, strided=strided, guarded=True))


def warp_divergences_of(kernel: Kernel, active: frozenset[int]) -> tuple[WarpDivergence, ...]:
    """Return the parts of a kernel that Warp may reverse wrongly."""
    return kernel.warp_divergences(
        active, lambda: warp_divergence.divergences_of(kernel._in_place, _adjoint(kernel, active))
    )


def adjoint_with_loops(kernel: Kernel, active: frozenset[int]) -> Function | None:
    """Its adjoint in IR, if it saves values of loops."""
    return _adjoint(kernel, active) if kernel.saves_in_loops(active, lambda: _saves(kernel, active)) else None


def _saves(kernel: Kernel, active: frozenset[int]) -> bool:
    origins = [kernel.origin, *(function.origin for function in kernel.functions)]
    words = {word for origin in origins for line in origin.lines for word in line.split()}
    if not words & {"for", "while"}:
        return False  # nothing is lowered to find that out
    return any(op.kind == "save" for op in _adjoint(kernel, active).ops())


def traced(
    kernel: Kernel, active: frozenset[int], *, stores: bool, strided: bool = False
) -> Entry | Interpreted:
    """Return the compiled variant that records which elements it accesses: see `compiler.access_trace`.

    Args:
        kernel: One that has `trace_info`.
        active: The array parameters whose accesses are recorded.
        stores: Whether it writes to its arrays, as it must where that decides what it accesses.
        strided: Whether arrays may have any strides.
    """
    writes = kernel.analysis.writes if stores else frozenset()
    return kernel._entry(Variant("traced", active, writes, strided=strided, guarded=True))


def native_calls(kernel: Kernel) -> list[tuple[frozenset[int], bool]]:
    """For each call of a native function: the array parameters that it touches, and whether its effect stays.

    It stays where the function has a `replay_snippet` that writes to no array: Warp's reverse pass runs that,
    and not the snippet once more.
    """
    if not kernel.analysis.native:
        return []
    calls = [op.data[0] for op in ops_of(kernel._lowered.function.body) if op.kind in NATIVE]
    return [
        (
            call.reads | call.writes,
            call.native.snippets.replay is not None and not call.native.written(REPLAY),
        )
        for call in calls
    ]


def _adjoint(kernel: Kernel, active: frozenset[int]) -> Function:
    return kernel._function(Variant("adjoint", active, kernel.adjoint_info(active).replay))

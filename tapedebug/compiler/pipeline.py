"""The compiler from end to end: what happens to a kernel, in order.

source → lower → verify → opened                        the kernel in IR
→ keep_log → adjoint_of → remove_dead_code → verify     its adjoint
→ tangent_of → remove_dead_code → verify                its tangent
→ adjoint_tangent_of → remove_dead_code → verify        the tangent of its adjoint
→ traced_of → remove_dead_code → verify                 the kernel that records what it accesses
→ probe → verify                                        what tests the indices of one of these
→ emit → translated → LLVM → object code                machine code
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tapedebug._source import Origin, Span
from tapedebug.compiler.access_tags import AccessTagging
from tapedebug.compiler.access_trace import TraceInfo
from tapedebug.compiler.diagnostics import PAUSE
from tapedebug.compiler.effects import AdjointInfo as AdjointInfo
from tapedebug.compiler.effects import Analysis as Analysis
from tapedebug.compiler.effects import differentiable as differentiable
from tapedebug.compiler.emit import emit
from tapedebug.compiler.generated_source import GeneratedSource, SimdLoop
from tapedebug.compiler.ir import (
    NATIVE,
    Block,
    For,
    Function,
    If,
    Op,
    Param,
    Value,
    While,
    is_late,
    ops_of,
    read_by,
    walk,
)
from tapedebug.compiler.layout import Layout
from tapedebug.compiler.llvm.machine import vector_bits
from tapedebug.compiler.lower import Lowered, lower_kernel
from tapedebug.compiler.passes import native
from tapedebug.compiler.passes.adjoint import adjoint_of
from tapedebug.compiler.passes.adjoint_tangent import adjoint_tangent_of
from tapedebug.compiler.passes.adjoint_warp import warp_adjoint_of
from tapedebug.compiler.passes.bounds import probe
from tapedebug.compiler.passes.bounds import reaches as reaches
from tapedebug.compiler.passes.cotangent_consumption import changed, left, taken_once
from tapedebug.compiler.passes.cross_thread_deps import at_own_index, crossed
from tapedebug.compiler.passes.custom import derived as without_gradients
from tapedebug.compiler.passes.custom import opened, own_adjoints
from tapedebug.compiler.passes.dce import remove_dead_code
from tapedebug.compiler.passes.directions import has_directions, with_directions
from tapedebug.compiler.passes.memory_regions import in_lanes
from tapedebug.compiler.passes.parallel_division import divided as divided
from tapedebug.compiler.passes.smooth import smoothed, values_alone
from tapedebug.compiler.passes.spill_to_log import spill_to_log
from tapedebug.compiler.passes.strip_diagnostics import diagnostics_of, strip_diagnostics
from tapedebug.compiler.passes.tangent import tangent_of
from tapedebug.compiler.passes.traced import traced_of, without_stores
from tapedebug.compiler.passes.verify import verify
from tapedebug.compiler.passes.warp_forward import Branches
from tapedebug.lang import types as t
from tapedebug.lang.lowering import SHORT_FLOATS


def lowered(
    name: str,
    origin: Origin,
    signature: tuple[Param, ...],
    python: Callable[..., Any],
    fixed: dict[Any, dict[str, Any]] | None = None,
    *,
    max_unroll: int = 16,
    in_place: bool = False,
    axes: int = 1,
) -> Lowered:
    """A kernel in IR, from its parameters as declared; with `in_place` as `warp_adjoint` takes it.

    Its threads have at least `axes` axes.
    """
    result = lower_kernel(
        name, origin, signature, python, fixed, max_unroll=max_unroll, in_place=in_place, axes=axes
    )
    if in_place:
        return result
    with_diagnostics = verify(result.custom) if diagnostics_of(result.custom.body) else result.custom
    custom = verify(remove_dead_code(strip_diagnostics(with_diagnostics, gradients=False)))
    function = verify(remove_dead_code(opened(custom)))
    return replace(result, function=function, custom=custom, with_diagnostics=with_diagnostics)


def forward(kernel: Lowered, diagnostics: frozenset[str]) -> Function:
    """The kernel in IR, as it runs, with diagnostics of these kinds."""
    if not diagnostics & diagnostics_of(kernel.with_diagnostics.body):
        return values_alone(kernel.function)
    return verify(
        values_alone(remove_dead_code(strip_diagnostics(opened(kernel.with_diagnostics), diagnostics)))
    )


def analysis(kernel: Lowered) -> Analysis:
    """Return the accesses and effects of a kernel."""
    body = kernel.function.body
    of = {
        kind: frozenset(op.data[0] for op in ops_of(body) if op.kind == kind)
        for kind in ("load", "store", "atomic_add")
    }
    natives = [op for op in ops_of(body) if op.kind in NATIVE]
    writes = of["store"] | of["atomic_add"] | _all_of(op.data[0].writes for op in natives)
    reads = of["load"] | _all_of(op.data[0].reads for op in natives)
    # What only a gradient of the user's reads counts, too: a launch depends on it.
    everywhere = _all_of(read_by(op) for op in ops_of(kernel.custom.body) if op.kind != "atomic_add")
    emitted = diagnostics_of(kernel.with_diagnostics.body)
    pointers = {p: op.data[0].native.name for op in natives for p in op.data[0].params.values()}
    reads |= everywhere - writes
    elsewhere = frozenset(
        op.data[0]
        for op in ops_of(body)
        if op.kind in ("load", "store", "atomic_add") and not at_own_index(kernel.function, op)
    )
    return Analysis(
        reads=reads,
        writes=writes,
        covers=_covered(kernel.function),
        atomic=of["atomic_add"] | {access.param for access in kernel.accesses if access.kind == "atomic"},
        accesses=tuple(access for access in kernel.accesses if access.param in reads | writes),
        serial=kernel.uses_atomic_result,
        native=pointers,
        opaque=native.opaque(kernel.function),
        emitted=diagnostics_of(opened(kernel.with_diagnostics).body) if emitted else emitted,
        emitted_by_adjoint=diagnostics_of(kernel.custom.body) | (emitted & {PAUSE}),
        elsewhere=elsewhere,
        optional=kernel.optional,
        indices=_indices(kernel.function),
        fresh=_fresh(kernel.function) - elsewhere - of["atomic_add"] - frozenset(pointers),
        loops=any(isinstance(node, For | While) for node in walk(body)),
        one_sided=kernel.one_sided,
        shown=_all_of(read_by(op) for op in ops_of(kernel.with_diagnostics.body)) - reads - writes
        if emitted
        else frozenset(),
    )


def _indices(function: Function) -> tuple[tuple[int, int, str, int], ...]:
    """Return how the index of each accessed element is computed."""
    found: dict[tuple[int, int, str, int], None] = {}
    for op in ops_of(function.body):
        for axis, value in enumerate(op.args) if op.kind == "offset" else ():
            found[op.data[0], axis, *_index(value)] = None
    return tuple(found)


def _index(value: Value) -> tuple[str, int]:
    op = value.op
    if op is not None and op.kind == "from_end":
        op = op.args[0].op
    while op is not None and op.kind == "to_i64":
        op = op.args[0].op
    if op is not None and op.kind == "thread":
        return "thread", op.data[0]
    if op is not None and op.kind == "const":
        return "constant", int(op.data[0])
    return "other", 0


def has_custom_calls(kernel: Lowered) -> bool:
    """True if it calls functions with a gradient or a replay of their own, native ones too."""
    return any(own_adjoints(kernel.custom.body))


def has_native_calls(kernel: Lowered) -> bool:
    """True if it calls native functions, those that Numba compiled included."""
    return any(op.kind in NATIVE for op in ops_of(kernel.function.body))


def follows_values(kernel: Lowered) -> bool:
    """True if floats decide how long a loop runs, or become integers, which may be indices."""
    return any(
        isinstance(node, While) or (isinstance(node, Op) and (node.kind in NATIVE or _counts_floats(node)))
        for block in kernel.function.blocks
        for node in walk(block)
    )


def _counts_floats(op: Op) -> bool:
    result, args = op.result, op.args
    return result is not None and result.type in t.INTEGERS and any(arg.type in t.FLOATS for arg in args)


def _all_of(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*sets)


def _covered(function: Function) -> frozenset[int]:
    """Parameters of which each thread stores its own whole element, whatever happens."""
    stored = _always_stored(function, function.body)
    number = Counter(param for param, _ in stored)
    return frozenset(p for p, found in number.items() if found == t.components(function.params[p].type))


def _always_stored(function: Function, block: Block) -> set[tuple[int, int]]:
    """Return the (parameter, component) pairs that each thread stores at its own element on every path."""
    found: set[tuple[int, int]] = set()
    for node in block.ops:
        if isinstance(node, If):
            found |= _always_stored(function, node.then) & _always_stored(function, node.orelse)
        elif isinstance(node, Op) and node.kind == "store" and at_own_index(function, node):
            found.add(node.data)
    return found


def _fresh(function: Function) -> frozenset[int]:
    """Parameters of which each thread has stored its own whole element before it loads any."""
    loaded: set[int] = set()
    stored: dict[int, set[int]] = {}
    fresh: set[int] = set()
    for node in function.body.ops:
        inside = [node] if isinstance(node, Op) else list(ops_of(Block([node])))
        loaded.update(op.data[0] for op in inside if op.kind == "load" and op.data[0] not in fresh)
        if isinstance(node, Op) and node.kind == "store" and at_own_index(function, node):
            param, component = node.data
            found = stored.setdefault(param, set())
            found.add(component)
            if param not in loaded and len(found) == t.components(function.params[param].type):
                fresh.add(param)
    return frozenset(fresh)


def adjoint(
    kernel: Lowered,
    active: frozenset[int],
    replay: frozenset[int],
    *,
    memory: frozenset[int] = frozenset(),
    strong_zero: bool = False,
    diagnostics: frozenset[str] = frozenset(),
    derived: frozenset[str] = frozenset(),
    second: bool = False,
    shared: bool = False,
) -> tuple[Function, AdjointInfo]:
    """The adjoint in IR, and what it needs.

    Which values it needs is known only once it is built and its dead code removed; where these include values
    that the launch itself overwrites, it is built again so that it replays those stores. Where threads read
    or overwrite what others wrote, all are replayed in order first, then reversed from the last to the first.
    The parameters of `memory` are read as memory holds them, whatever the launch has written. The bodies of
    `derived` functions are reversed, whatever gradients they have. With `second`, it is the one to take the
    tangent of. With `shared`, the parameters of `replay` are different views that overlap.
    """
    active = active & differentiable(kernel.function.params)
    writes = analysis(kernel).writes
    custom = kernel.custom
    if PAUSE in diagnostics:
        custom = remove_dead_code(
            strip_diagnostics(kernel.with_diagnostics, frozenset({PAUSE}), gradients=False)
        )
    if derived:
        custom = verify(remove_dead_code(without_gradients(custom, derived)))
    custom = smoothed(with_directions(custom, second=second))
    replay = frozenset(replay) - memory
    while True:
        crossing = crossed(custom, active, replay, shared=shared) if replay or not memory else frozenset()
        primal = spill_to_log(custom, replay, everywhere=bool(crossing & replay))
        reverse = adjoint_of(primal, active, replay, backwards=bool(crossing), strong_zero=strong_zero)
        function = remove_dead_code(reverse)
        loads = [op for op in function.ops() if native.touched_by(op)]
        needs = _all_of(map(native.touched_by, loads))
        overwritten = writes & _all_of(native.touched_by(op) for op in loads if not is_late(op)) - memory
        if overwritten <= replay:
            break
        replay |= overwritten
    function = verify(remove_dead_code(strip_diagnostics(function, diagnostics)))
    spans: dict[int, dict[Span, None]] = {}
    for op in loads:
        if op.kind != "atomic_add" and op.span is not None:
            for p in read_by(op):
                spans.setdefault(p, {})[op.span] = None
    found = {p: tuple(s) for p, s in spans.items()}
    late = (needs & writes) - replay
    refused = native.lost(custom, active)
    once, changes = taken_once(function), changed(function, active)
    return function, AdjointInfo(needs, replay, found, late, refused, once, changes)


def leaving(adjoint: Function, unconsumed: frozenset[int]) -> Function:
    """An adjoint that leaves the incoming adjoints of these parameters as they are.

    Raises:
        ValueError: It takes some of them twice.
    """
    if not unconsumed <= taken_once(adjoint):
        raise ValueError(f"{adjoint.name}: takes adjoints of {sorted(unconsumed)} more than once")
    return verify(left(adjoint, unconsumed))


def emulated_branches(kernel: Lowered) -> int:
    """Return the number of branches of `warp_adjoint`, without building it."""
    return Branches().of(kernel.custom.body)


def warp_adjoint(
    kernel: Lowered,
    active: frozenset[int],
    retained: frozenset[int],
    *,
    parts: bool = True,
    functions: bool = True,
) -> Function:
    """Return Warp's reverse of a kernel in IR; it reads arrays as the launch left them.

    Without `parts`, components and fields are assigned as they are here, and only the rest is as in Warp.
    Without `functions`, those of Warp have all the adjoints that they have here.

    Raises:
        NotEmulated: What Warp does with this kernel is not known.
    """
    assert kernel.of_user is not None
    active = active & differentiable(kernel.function.params)
    variables = kernel.of_user
    if not parts:
        variables = variables.carried_only(kernel.custom.body)
    elif not functions:
        variables = variables.with_adjoints(kernel.custom.body)
    reverse = warp_adjoint_of(kernel.custom, variables, active, retained)
    return verify(remove_dead_code(reverse))


def second_apart(kernel: Lowered) -> bool:
    """Return whether second derivatives are those of an adjoint of their own."""
    return has_directions(kernel.custom)


def _to_push(kernel: Lowered) -> Function:
    return smoothed(with_directions(kernel.function))


def tangent(kernel: Lowered, active: frozenset[int], *, strong_zero: bool = False) -> Function:
    """The tangent in IR: the kernel, with directional derivatives of active arrays beside their values."""
    native.refuse_tangent(kernel.function)
    active = active & differentiable(kernel.function.params)
    return verify(remove_dead_code(tangent_of(_to_push(kernel), active, strong_zero=strong_zero)))


def traced(
    kernel: Lowered, active: frozenset[int], *, stores: bool = True
) -> tuple[Function, TraceInfo] | None:
    """Return the kernel in IR that records what it accesses, and its sites; None if they are unknown.

    Without `stores` it writes to no array. That is right if no index or condition depends on what it writes.
    """
    found = traced_of(kernel.function, active & differentiable(kernel.function.params))
    if found is None:
        return None
    function, info = found
    return verify(remove_dead_code(function if stores else without_stores(function))), info


def probing(function: Function, kind: str) -> Function:
    """The probe of a function in IR: tests its indices, and does nothing else."""
    return verify(probe(function, kind))


def adjoint_tangent(adjoint: Function, active: frozenset[int], *, strong_zero: bool = False) -> Function:
    """The tangent of an adjoint in IR."""
    active = active & differentiable(adjoint.params)
    return verify(remove_dead_code(adjoint_tangent_of(adjoint, active, strong_zero=strong_zero)))


def text(
    function: Function,
    layout: Layout,
    *,
    f64: bool = False,
    strided: bool = False,
    guarded: bool = False,
    checked: bool = False,
    tagging: AccessTagging | None = None,
    rounded: bool = False,
    tracing: TraceInfo | None = None,
    lanes: bool = False,
    math: bool = False,
    streams: bool = False,
) -> GeneratedSource:
    """The generated code of a function; with `lanes`, to be compiled in lanes where that changes nothing.

    With `math`, vector functions of the C library are called, also by twins: they err by up to 4 units in the
    last place of float64, far less than what differences resolve. With `streams`, stores bypass the caches.
    """
    function = values_alone(function)
    reports = checked or tagging is not None or tracing is not None
    lockstep = lanes and not reports and in_lanes(function) and not (_adds_short_floats(function) and not f64)
    text = emit(
        function,
        layout,
        f64=f64,
        strided=strided,
        guarded=guarded,
        checked=checked,
        tagging=tagging,
        rounded=rounded,
        tracing=tracing,
        facts=lockstep,
    )
    if text.facts is None:
        return text
    loop = "t" if function.axes == 1 else f"t{function.axes - 1}"
    return replace(text, lanes=SimdLoop(loop, vector_bits(), math, text.facts, streams))


def _adds_short_floats(function: Function) -> bool:
    """True if floats of 16 bits in memory are added to: each sum is rounded, so that their order matters."""
    kinds = ("add_adjoint", "add_dot", "add_adjoint_dot", "atomic_add")
    return any(op.kind in kinds and op.args[1].type in SHORT_FLOATS for op in function.ops())

"""Launch plans: everything that launches of one kernel with arguments of the same kinds share.

A plan says which parameters are arrays, which are read, written and needed by the adjoint, how scalars are
packed, and which compiled entries run. Copies, fills and custom functions have plans too, so that a tape
treats all its records alike.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tapedebug import contract
from tapedebug._config import is_shown
from tapedebug.compiler.diagnostics import BOUNDS, FATAL, PAUSE
from tapedebug.compiler.objects import Entry
from tapedebug.lang import types
from tapedebug.runtime.config import config
from tapedebug.runtime.launch.argument_packing import Packer, packing
from tapedebug.runtime.launch.bounds_precheck import BoundsPrecheck
from tapedebug.runtime.launch.print_buffer import PRINT_BUFFER, Listener
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.parallel.parallel_entry import ParallelEntry, least_of
from tapedebug.runtime.tape.gradient_history import is_gradient

if TYPE_CHECKING:
    from tapedebug.contract import Access, KernelSource, Kind
    from tapedebug.runtime.tape.record import Record

Runner = Callable[[int, int, int], None]
"""Runs threads `lo … hi-1` with the packed arguments at an address."""

AccessRow = tuple[int, str, bool, bool, tuple[bool, ...]]
"""Parameter, name, whether it is read, whether it is in `fresh`, and the other flags of an `Access`."""

Slots = tuple[tuple[int, int], ...]
"""(Parameter, number of the slot of its pointer)."""

NOTHING: frozenset[int] = frozenset()
NOTHING_SAID: frozenset[str] = frozenset()
CHECKED = frozenset({BOUNDS})
"""What also counts in checks and other private runs: memory that is not an array's must not be touched."""


def has_gradient(a: array) -> bool:
    """Whether an array takes part in differentiation."""
    return a.requires_grad and types.is_float(a.dtype)


class LaunchPlan:
    """The shared facts of a kind of record.

    Attributes:
        kind: `"kernel"`, `"copy"`, `"fill"` or `"func"`.
        names: Parameter names.
        reads, writes, atomic, covers: Array parameters by access, as in the kernel's analysis.
        active: Array parameters that have a gradient.
        info: The kernel's AdjointInfo, or None where nothing has a gradient or the kernel has no adjoint.
        touched: Array parameters that are accessed at all.
        fresh: Those of the written ones of which each thread loads only its own element, after its store.
        found: Those whose present content matters, unless the launch covers it.
        needed: Those whose values the adjoint reads.
        gradients: Those read ones that are gradients of other arrays.
        early, late: Those of them whose values before the launch it reads, and those whose values after it.
        written: Those that are written.
        exposed: Pairs of a written one and another, both with a gradient: where they share memory, threads
            see what others wrote. The third says whether that is so even if both are the same view.
        arrays: All array parameters of a kernel.
        idle: Those of them that it never accesses.
        diagnostics_back: The kinds of diagnostics that the reverse pass makes.
        value_slots: Where the pointers of the arrays are packed.
        adjoint_slots: Where those of the active ones' adjoints are.
        needed_slots: Where those of the needed ones are.
        opening: What a tape does before a record of this kind runs, once one has.
        access_rows: The accesses of such a record without its arrays, once a debugger has asked for them.
        source: The source of the kernel, likewise.
    """

    __slots__ = (
        "access_rows",
        "active",
        "adjoint_slots",
        "arrays",
        "atomic",
        "covers",
        "diagnostics_back",
        "early",
        "exposed",
        "found",
        "fresh",
        "gradients",
        "idle",
        "info",
        "kernel",
        "kind",
        "late",
        "name",
        "names",
        "needed",
        "needed_slots",
        "opening",
        "reads",
        "source",
        "strided",
        "touched",
        "value_slots",
        "writes",
        "written",
    )

    def __init__(
        self,
        kind: Kind,
        name: str,
        names: tuple[str, ...],
        *,
        reads: frozenset[int] = NOTHING,
        writes: frozenset[int] = NOTHING,
        atomic: frozenset[int] = NOTHING,
        covers: frozenset[int] = NOTHING,
        active: frozenset[int] = NOTHING,
        needed: frozenset[int] = NOTHING,
        kernel: Any = None,
        info: Any = None,
        strided: bool = False,
    ) -> None:
        self.kind, self.name, self.names = kind, name, names
        self.kernel, self.info, self.active, self.strided = kernel, info, active, strided
        self.reads, self.writes, self.atomic, self.covers = reads, writes, atomic, covers
        self.fresh = NOTHING
        self.arrays: tuple[int, ...] = ()
        self.gradients: tuple[int, ...] = ()
        self.idle: tuple[int, ...] = ()
        self.diagnostics_back = NOTHING_SAID
        self.value_slots: Slots = ()
        self.adjoint_slots: Slots = ()
        self.needed_slots: Slots = ()
        self.touched = tuple(sorted(reads | writes | atomic))
        # Reads first: what one parameter covers, another may read through the same memory.
        self.found = tuple(sorted(self.touched, key=lambda p: p in covers))
        self.written = tuple(sorted(writes))
        self.needed = tuple(sorted(needed))
        self.late = tuple(sorted(info.after)) if info is not None else ()
        self.early = tuple(p for p in self.needed if p not in self.late)
        self.exposed: tuple[tuple[int, int, bool], ...] = ()
        self.opening: Callable[[Any, Any], bool] | None = None
        self.access_rows: tuple[AccessRow, ...] | None = None
        self.source: KernelSource | None = None

    def accesses(self, record: Record) -> tuple[Access, ...]:
        """Return the use that a record makes of each of its arrays."""
        rows, args, dim = self.access_rows, record.args, record.dim
        if rows is None:
            rows = self.access_rows = self._access_rows()
        new = tuple.__new__  # `Access(…)` takes twice as long, and a trace makes one for each argument
        access = contract.Access
        found: list[Access] = []
        for param, name, reads, fresh, others in rows:
            a = args[param]
            found.append(new(access, (param, name, a, reads and not (fresh and a.shape == dim), *others)))
        return tuple(found)

    def _access_rows(self) -> tuple[AccessRow, ...]:
        return tuple(
            (
                param,
                self.names[param],
                param in self.reads,
                param in self.fresh,
                tuple(param in own for own in (self.writes, self.atomic, self.early, self.late, self.active)),
            )
            for param in (self.arrays if self.kind == "kernel" else self.touched)
        )

    def fresh_in(self, record: Record, param: int) -> bool:
        """Whether each thread of a launch reads of an array only the element that it has just written."""
        return param in self.fresh and record.args[param].shape == record.dim

    def forward_run(self, f64: bool) -> Runner:
        """The forward entry; only kernels have one."""
        raise NotImplementedError(self.kind)

    def asserted_run(self) -> Runner:
        """The forward entry with its assertions; only kernels have one."""
        raise NotImplementedError(self.kind)

    def adjoint_run(
        self,
        replay: frozenset[int],
        f64: bool,
        guarded: bool = False,
        live: bool = False,
        memory: frozenset[int] = NOTHING,
        rounded: bool = False,
        kept: frozenset[int] = NOTHING,
        shared: bool = False,
    ) -> Runner:
        """The adjoint entry; only kernels have one."""
        raise NotImplementedError(self.kind)

    def warp_run(self, retained: frozenset[int]) -> Runner | None:
        """What Warp makes of the adjoint; only kernels have one."""
        raise NotImplementedError(self.kind)

    def dotted(self, detached: bool) -> Slots:
        """Where the pointers of tangents are packed; only kernels have them."""
        raise NotImplementedError(self.kind)

    def tangent_run(self, f64: bool, detached: bool) -> Runner:
        """The tangent entry; only kernels have one."""
        raise NotImplementedError(self.kind)

    def adjoint_tangent_run(self, replay: frozenset[int], f64: bool, shared: bool = False) -> Runner:
        """The tangent of the adjoint entry; only kernels have one."""
        raise NotImplementedError(self.kind)


class KernelPlan(LaunchPlan):
    """A plan that can run: packs arguments and knows the compiled entry.

    Attributes:
        plain: It overwrites nothing that its own adjoint needs, and none of its arrays is a gradient.
        run: The forward entry.
        large: What runs it over many threads.
        least: From how many threads on that is worth it.
        floats: Its array parameters of floats, which can have adjoints.
        packers: For each parameter, None (an array of the right kind) or what turns a value into slots.
        packed: Gives the slots of a launch, from those of its sizes and its arguments.
        tested: The same; raises where bounds are checked and an index of the launch would be outside.
        fitted: The same as that, and None where arguments are of other kinds.
        tail: Zeros for the adjoint pointers, and the address of the print buffer.
        diagnostics: The kinds of diagnostics that launches make.
        watched: Whether a launch is more than a run: it may print, fail or be looked over afterwards.
    """

    __slots__ = (
        "adjoints",
        "diagnostics",
        "differentiates",
        "fitted",
        "floats",
        "large",
        "least",
        "packed",
        "packers",
        "plain",
        "run",
        "tail",
        "tangents",
        "tested",
        "twins",
        "warps",
        "watched",
    )

    def __init__(
        self,
        kernel: Any,
        args: tuple[Any, ...],
        packers: tuple[Packer | None, ...],
        active: frozenset[int] | None = None,
    ) -> None:
        arrays = [i for i, a in enumerate(args) if isinstance(a, array)]
        analysis = kernel.analysis
        if active is None:
            active = frozenset(i for i in arrays if has_gradient(args[i]))
        self.differentiates = bool(active) and kernel.enable_backward
        info = kernel.adjoint_info(active) if self.differentiates else None
        super().__init__(
            "kernel",
            kernel.key,
            tuple(p.name for p in kernel.params),
            reads=analysis.reads,
            writes=analysis.writes,
            atomic=analysis.atomic,
            covers=analysis.covers - analysis.reads - analysis.atomic,
            active=active,
            needed=info.needs if info is not None else NOTHING,
            kernel=kernel,
            info=info,
            strided=not all(args[i].is_contiguous for i in arrays),
        )
        self.fresh = analysis.fresh
        self.arrays = tuple(arrays)
        self.floats = tuple(i for i in arrays if types.is_float(args[i].dtype))
        gradients = [i for i in self.touched if is_gradient(args[i])]
        self.gradients = tuple(i for i in gradients if i in self.reads)
        self.plain = not gradients and self.writes.isdisjoint(self.needed)
        self.idle = tuple(p for p in arrays if p not in self.touched)
        values, adjoints = kernel.layout.values, kernel.layout.adjoints
        self.value_slots = tuple((p, values[p]) for p in arrays)
        self.adjoint_slots = tuple((p, adjoints[p]) for p in sorted(active))
        self.needed_slots = tuple((p, values[p]) for p in self.needed)
        self.packers = packers
        self.diagnostics, self.diagnostics_back = (
            kernel.diagnostic_kinds(),
            kernel.diagnostic_kinds(back=True),
        )
        self.exposed = tuple(
            (p, q, bool({p, q} & analysis.elsewhere))
            for p in self.written
            for q in self.touched
            if p != q and {p, q} <= active
        )
        print_buffer = PRINT_BUFFER.address.to_bytes(8, sys.byteorder)
        self.tail = bytes(8 * len(arrays)) + print_buffer
        self.packed, self.fitted = packing(packers, args, self.tail)
        entry = kernel.forward(strided=self.strided, diagnostics=self.diagnostics, late=True)
        self.large, self.least = runner(entry, kernel, self.diagnostics), least_of(kernel)
        before = isinstance(self.large, BoundsPrecheck) and self.diagnostics == CHECKED
        self.watched = bool(self.diagnostics and not before) or config.verify_fp
        self.tested = self.packed
        if not self.watched and isinstance(self.large, BoundsPrecheck):
            tests, self.large = self.large, self.large.plain
            self.tested = tests.packing(self.packed, self.written)
            self.fitted = tests.packing(self.fitted, self.written)
        self.run = (
            self.large.entry if type(self.large) is ParallelEntry else self.large
        )  # compiled when it is called
        self.twins: dict[tuple[bool, frozenset[str], bool], Runner] = {}
        self.adjoints: dict[tuple[Any, ...], Runner] = {}
        self.warps: dict[tuple[Any, ...], Runner | None] = {}
        self.tangents: dict[tuple[Any, ...], Runner] = {}

    def forward_run(self, f64: bool) -> Runner:
        """The forward entry, or its float64 twin (compiled when first asked for); both print nothing."""
        diagnostics, holds = self._checks
        if not (f64 or diagnostics or self.diagnostics):
            return self.large
        key = f64, diagnostics, holds
        if key not in self.twins:
            entry = self.kernel.forward(f64=f64, strided=self.strided, diagnostics=diagnostics, late=True)
            self.twins[key] = runner(entry, self.kernel, diagnostics, holds=holds)
        return self.twins[key]

    @property
    def _checks(self) -> tuple[frozenset[str], bool]:
        """The checks of private runs, and whether they hold indices inside of arrays.

        They do so where the launch itself was inside: other values lead to others, which nobody asked for.
        """
        if self.kernel.demands_bounds:
            return CHECKED, False
        if BOUNDS in self.diagnostics:
            return CHECKED, True
        return (CHECKED, is_shown()) if self.kernel.check_bounds else (NOTHING_SAID, False)

    def asserted_run(self) -> Runner:
        """The forward entry with the assertions of a launch, which prints nothing."""
        diagnostics = self.diagnostics & FATAL
        return runner(
            self.kernel.forward(strided=self.strided, diagnostics=diagnostics), self.kernel, diagnostics
        )

    def adjoint_run(
        self,
        replay: frozenset[int],
        f64: bool,
        guarded: bool = False,
        live: bool = False,
        memory: frozenset[int] = NOTHING,
        rounded: bool = False,
        kept: frozenset[int] = NOTHING,
        shared: bool = False,
    ) -> Runner:
        """The adjoint entry that re-executes the stores of `replay` (compiled when first asked for).

        Only where it is the user's own pass, `live`, it prints. Where it is guarded no index can be outside.
        Stores of `memory` are not re-executed: what they wrote is read as memory holds it. The incoming
        adjoints of `kept` stay as they are. With `shared`, the parameters of `replay` are different views
        that overlap.
        """
        diagnostics, holds = self._checks if not live and not guarded else (NOTHING_SAID, False)
        if live:
            diagnostics = self.diagnostics_back
        key = (
            replay,
            memory,
            f64,
            guarded,
            config.strong_zero,
            diagnostics,
            config.interpreted,
            rounded,
            kept,
            holds,
            shared,
        )
        found = self.adjoints.get(key)
        if found is None:
            entry = self.kernel.adjoint(
                self.active,
                f64=f64,
                strided=self.strided,
                replay=replay,
                memory=memory,
                guarded=guarded,
                strong_zero=config.strong_zero,
                diagnostics=diagnostics,
                rounded=rounded,
                unconsumed=kept,
                late=True,
                shared=shared,
            )
            found = self.adjoints[key] = runner(entry, self.kernel, diagnostics, "adjoint", holds=holds)
        return found

    def warp_run(self, retained: frozenset[int]) -> Runner | None:
        """What Warp makes of the adjoint, where that may be something else, and is known.

        The arrays of `retained` keep the adjoints of what they lost.
        """
        from tapedebug.compiler.kernel_queries import warp_adjoint, warp_divergences_of
        from tapedebug.compiler.passes.warp_forward import NotEmulated

        key = (retained, config.interpreted)
        if key not in self.warps:
            self.warps[key] = None
            if retained or warp_divergences_of(self.kernel, self.active):
                with contextlib.suppress(NotEmulated):
                    entry = warp_adjoint(self.kernel, self.active, strided=self.strided, retained=retained)
                    self.warps[key] = runner(entry, self.kernel)
        return self.warps[key]

    def dotted(self, detached: bool) -> Slots:
        """Where the pointers of the tangents are packed: of the active arrays, or of all that can have one.

        Args:
            detached: A tangent stops where a gradient does: at arrays without `requires_grad`.
        """
        slots, params = self.kernel.layout.adjoints, self.kernel.params
        floats = (p for p in self.touched if types.is_float(params[p].type.dtype))
        return tuple((p, slots[p]) for p in floats if not detached or p in self.active)

    def tangent_run(self, f64: bool, detached: bool) -> Runner:
        """The tangent entry (compiled when first asked for)."""
        diagnostics, holds = self._checks
        key = (f64, detached, config.strong_zero, config.interpreted, diagnostics, holds)
        found = self.tangents.get(key)
        if found is None:
            active = frozenset(p for p, _ in self.dotted(detached))
            entry = self.kernel.tangent(
                active,
                f64=f64,
                strided=self.strided,
                strong_zero=config.strong_zero,
                diagnostics=diagnostics,
                late=True,
            )
            found = self.tangents[key] = runner(entry, self.kernel, diagnostics, "tangent", holds=holds)
        return found

    def adjoint_tangent_run(self, replay: frozenset[int], f64: bool, shared: bool = False) -> Runner:
        """The tangent of the adjoint entry (compiled when first asked for)."""
        key = ("adjoint", replay, f64, shared, config.strong_zero, config.interpreted)
        found = self.tangents.get(key)
        if found is None:
            entry = self.kernel.adjoint_tangent(
                self.active,
                f64=f64,
                strided=self.strided,
                replay=replay,
                strong_zero=config.strong_zero,
                shared=shared,
            )
            found = self.tangents[key] = runner(entry, self.kernel)
        return found


def runner(
    entry: Any, kernel: Any, diagnostics: frozenset[str] = NOTHING_SAID, of: str = "", *, holds: bool = False
) -> Runner:
    """How an entry runs over its threads: many of them on several processors.

    A kernel with diagnostics runs in the order of its threads, and what it does without saying it is
    the same to the last bit.

    Args:
        entry: Compiled code.
        kernel: Its kernel.
        diagnostics: The kinds that it emits: output is shown when it has run, failures raise.
        of: What it is of the kernel: its `"adjoint"` or `"tangent"`, else the kernel itself.
        holds: An index that is outside raises nothing: it is held inside.
    """
    if diagnostics - {PAUSE}:
        listener = Listener(kernel, entry, of)
        variant = kernel.variant_of(entry) if BOUNDS in diagnostics and isinstance(entry, Entry) else None
        if variant is None:
            return listener
        plain = runner(kernel.unchecked(variant), kernel, diagnostics - CHECKED, of)
        otherwise = runner(kernel.held(variant), kernel, diagnostics - CHECKED, of) if holds else listener
        return BoundsPrecheck(
            kernel, replace(variant, diagnostics=variant.diagnostics - CHECKED), plain, otherwise
        )
    says = kernel.diagnostic_kinds(back=of == "adjoint") - {PAUSE, BOUNDS}
    if isinstance(entry, Entry):
        return entry.settled() if says else ParallelEntry(entry, kernel)
    run: Runner = entry
    return run

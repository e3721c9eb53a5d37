"""Launch plans: the data shared by all launches of one kernel with arguments of the same kinds.

A plan holds which parameters are arrays, which are read, written and needed by the adjoint, how scalars are
packed, and which compiled entries run. Copies, fills and custom functions have plans too, so that a tape
treats all its records alike.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
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
    from tapedebug.runtime.tape.record_hook import AlikeRecorder, Recorder

Runner = Callable[[int, int, int], None]
"""A function that runs threads `lo … hi-1` with the packed arguments at an address."""

AccessRow = tuple[int, str, bool, bool, tuple[bool, ...]]
"""Parameter, name, the flags "is read" and "is in `fresh`", and the other flags of an `Access`."""

Slots = tuple[tuple[int, int], ...]
"""Pairs of a parameter and the slot of its pointer."""

NOTHING: frozenset[int] = frozenset()
NOTHING_SAID: frozenset[str] = frozenset()
OFTEN = 1000
"""Number of launches after which a kernel is called in a way that takes 0.5 ms to prepare, once a process."""
CHECKED = frozenset({BOUNDS})
"""Diagnostics of checks and other private runs: they must not access memory outside arrays."""


def has_gradient(a: array) -> bool:
    """True if an array takes part in differentiation."""
    return a.requires_grad and types.is_float(a.dtype)


class LaunchPlan:
    """The shared facts of a kind of record.

    Attributes:
        kind: `"kernel"`, `"copy"`, `"fill"` or `"func"`.
        names: Parameter names.
        reads, writes, atomic, covers: Array parameters by access, as in the kernel's analysis.
        active: Array parameters that have a gradient.
        info: The kernel's AdjointInfo, or None if no argument has a gradient or the kernel has no adjoint.
        touched: Array parameters that are accessed.
        fresh: Written array parameters of which each thread loads only its own element, after its store.
        found: The parameters of `touched`, ordered so that those the launch covers come last.
        needed: Array parameters whose values the adjoint reads.
        gradients: Array parameters that are read and are gradients of other arrays.
        early, late: The parameters of `needed` whose values before, or after, the launch the adjoint reads.
        written: Array parameters that are written.
        exposed: Pairs of a written and another accessed parameter, both with a gradient: if they share
            memory, threads may read values that others wrote. The third item is True if that holds even if
            both are the same view.
        arrays: All array parameters of a kernel.
        numbers: Its other parameters.
        idle: Array parameters that the kernel never accesses.
        diagnostics_back: The kinds of diagnostics that the reverse pass emits.
        value_slots: Slots of the pointers of the arrays.
        adjoint_slots: Slots of the pointers of the active arrays' adjoints.
        needed_slots: Slots of the pointers of the needed arrays.
        record_hook: The specialized function that a tape runs before records of this kind but the first one,
            unless `KernelPlan.recorder` records them.
        access_rows: The accesses of such a record without its arrays, computed on first use.
        source: The source of the kernel, computed on first use.
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
        "numbers",
        "reads",
        "record_hook",
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
        self.numbers: tuple[int, ...] = ()
        self.gradients: tuple[int, ...] = ()
        self.idle: tuple[int, ...] = ()
        self.diagnostics_back = NOTHING_SAID
        self.value_slots: Slots = ()
        self.adjoint_slots: Slots = ()
        self.needed_slots: Slots = ()
        self.touched = tuple(sorted(reads | writes | atomic))
        # Parameters that are read come first: they may share memory with one that the launch covers.
        self.found = tuple(sorted(self.touched, key=lambda p: p in covers))
        self.written = tuple(sorted(writes))
        self.needed = tuple(sorted(needed))
        self.late = tuple(sorted(info.after)) if info is not None else ()
        self.early = tuple(p for p in self.needed if p not in self.late)
        self.exposed: tuple[tuple[int, int, bool], ...] = ()
        self.record_hook: Callable[[Any, Any], bool] | None = None
        self.access_rows: tuple[AccessRow, ...] | None = None
        self.source: KernelSource | None = None

    def accesses(self, record: Record) -> tuple[Access, ...]:
        """Return the accesses of a record to each of its arrays."""
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

    def forward_run(self, f64: bool) -> Runner:
        """Return the forward entry; only kernels have one."""
        raise NotImplementedError(self.kind)

    def asserted_run(self) -> Runner:
        """Return the forward entry with its assertions; only kernels have one."""
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
        """Return the adjoint entry; only kernels have one."""
        raise NotImplementedError(self.kind)

    def dotted(self, detached: bool) -> Slots:
        """Return the slots of the pointers of tangents; only kernels have them."""
        raise NotImplementedError(self.kind)

    def tangent_run(self, f64: bool, detached: bool) -> Runner:
        """Return the tangent entry; only kernels have one."""
        raise NotImplementedError(self.kind)

    def adjoint_tangent_run(self, replay: frozenset[int], f64: bool, shared: bool = False) -> Runner:
        """Return the tangent of the adjoint entry; only kernels have one."""
        raise NotImplementedError(self.kind)


class KernelPlan(LaunchPlan):
    """A plan that can run: it packs arguments and holds the compiled entries.

    Attributes:
        plain: True if no launch overwrites values that its own adjoint needs, and no array is a gradient.
        run: The forward entry, from `OFTEN` launches on as a built-in function.
        timed, large_timed: Like `run` and `large`, but they return the seconds that it took.
        large: The runner for many threads.
        least: Number of threads from which `large` is used.
        floats: Array parameters of floats, which can have adjoints.
        notes: What other rooms compute once for a plan, by a key of theirs.
        axes: The number of axes over which launches are known to need no other kernel, at least 1.
        packers: For each parameter its packer, or None for an array.
        packed: Returns the slots of a launch, from its packed sizes and its arguments.
        recorder: The specialized function that runs and records a launch; None before the first on a tape.
        record_alike: That for a launch whose arguments are given like those of the last; it also packs.
        divisions: For each division into inputs and outputs its `record_alike`, or its number of launches.
        tested: Like `packed`, but raises if bounds are checked and an index of the launch would be outside.
        fitted: Like `tested`, but returns None if arguments are of other kinds.
        tail: Zeros for the adjoint pointers, and the address of the print buffer.
        diagnostics: The kinds of diagnostics that launches emit.
        checked: True if launches need more than a run: they may print, fail, or be checked afterwards.
    """

    __slots__ = (
        "adjoints",
        "axes",
        "checked",
        "diagnostics",
        "differentiates",
        "divisions",
        "fitted",
        "floats",
        "large",
        "large_timed",
        "least",
        "notes",
        "packed",
        "packers",
        "plain",
        "record_alike",
        "recorder",
        "run",
        "tail",
        "tangents",
        "tested",
        "timed",
        "twins",
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
        self.axes = 1
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
        self.numbers = tuple(i for i in range(len(args)) if i not in arrays)
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
        self.checked = bool(self.diagnostics and not before) or config.verify_fp
        self.tested = self.packed
        if not self.checked and isinstance(self.large, BoundsPrecheck):
            tests, self.large = self.large, self.large.plain
            self.tested = tests.packing(self.packed, self.written)
            self.fitted = tests.packing(self.fitted, self.written)
        self.run: Runner = self.large
        if type(self.large) is ParallelEntry:
            self.run = self._counted(self.large.entry)  # compiled on the first call
        self.timed, self.large_timed = timed(self.run), timed(self.large)
        self.twins: dict[tuple[bool, frozenset[str], bool], Runner] = {}
        self.adjoints: dict[tuple[Any, ...], Runner] = {}
        self.recorder: Recorder | None = None
        self.record_alike: AlikeRecorder | None = None
        self.divisions: dict[Any, int | AlikeRecorder] = {}
        self.notes: dict[Any, Any] = {}
        self.tangents: dict[tuple[Any, ...], Runner] = {}

    def _counted(self, entry: Any) -> Runner:
        """Return a function that runs an entry, and is replaced by a faster one if it is called often."""
        left = OFTEN

        def run(lo: int, hi: int, args: int) -> None:
            nonlocal left
            entry(lo, hi, args)
            left -= 1
            if left == 0 and isinstance(entry, Entry):
                self.run = entry.direct()
                self.timed = entry.direct_timed() or timed(self.run)

        return run

    def forward_run(self, f64: bool) -> Runner:
        """Return the forward entry, or its float64 twin (compiled on first use); neither prints."""
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
        """The checks of private runs, and True if these keep indices inside arrays instead of raising.

        They do so if the launch itself was in bounds: a replay on other values may compute other indices.
        """
        if self.kernel.demands_bounds:
            return CHECKED, False
        if BOUNDS in self.diagnostics:
            return CHECKED, True
        return (CHECKED, is_shown()) if self.kernel.check_bounds else (NOTHING_SAID, False)

    def asserted_run(self) -> Runner:
        """Return the forward entry with the assertions of a launch; it does not print."""
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
        """Return the adjoint entry that re-executes the stores of `replay` (compiled on first use).

        It prints only in the user's own reverse pass (`live`). If `guarded`, no index can be outside.
        Stores of `memory` are not re-executed: their results are read from memory. The incoming adjoints of
        `kept` are left unchanged. With `shared`, the parameters of `replay` are different views that overlap.
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

    def dotted(self, detached: bool) -> Slots:
        """Return the slots of the pointers of tangents: of active arrays, or of all that can have one.

        Args:
            detached: Tangents stop where gradients do: at arrays without `requires_grad`.
        """
        slots, params = self.kernel.layout.adjoints, self.kernel.params
        floats = (p for p in self.touched if types.is_float(params[p].type.dtype))
        return tuple((p, slots[p]) for p in floats if not detached or p in self.active)

    def tangent_run(self, f64: bool, detached: bool) -> Runner:
        """Return the tangent entry (compiled on first use)."""
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
        """Return the tangent of the adjoint entry (compiled on first use)."""
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


def timed(run: Runner) -> Callable[[int, int, int], float]:
    """Return a function that runs threads and returns the seconds that it took."""

    def measured(lo: int, hi: int, args: int) -> float:
        start = perf_counter()
        run(lo, hi, args)
        return perf_counter() - start

    return measured


def runner(
    entry: Any, kernel: Any, diagnostics: frozenset[str] = NOTHING_SAID, of: str = "", *, holds: bool = False
) -> Runner:
    """Return the runner of an entry over its threads; many threads run on several processors.

    A kernel with diagnostics runs in the order of its threads, also when it is compiled without them, so that
    both variants give bitwise the same results.

    Args:
        entry: Compiled code.
        kernel: Its kernel.
        diagnostics: The kinds that it emits: output is shown after the run, failures raise.
        of: `"adjoint"` or `"tangent"` for an adjoint or tangent entry; empty for the kernel itself.
        holds: Keep an index that would be outside inside its array instead of raising.
    """
    if diagnostics - {PAUSE}:
        listener = Listener(kernel, entry, of)
        variant = kernel.variant_of(entry) if BOUNDS in diagnostics and isinstance(entry, Entry) else None
        if variant is None:
            return listener
        plain = runner(kernel.unchecked(variant), kernel, diagnostics - CHECKED, of)
        otherwise = runner(kernel.bounded(variant), kernel, diagnostics - CHECKED, of) if holds else listener
        return BoundsPrecheck(
            kernel, replace(variant, diagnostics=variant.diagnostics - CHECKED), plain, otherwise
        )
    says = kernel.diagnostic_kinds(back=of == "adjoint") - {PAUSE, BOUNDS}
    if isinstance(entry, Entry):
        return entry.settled() if says else ParallelEntry(entry, kernel)
    run: Runner = entry
    return run

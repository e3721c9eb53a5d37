"""Kernels, and their compiled variants."""

from __future__ import annotations

import ast
import math
import sys
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from time import perf_counter
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tapedebug._config import LOG, config
from tapedebug._errors import KernelTypeError
from tapedebug._source import Span, display_file
from tapedebug.compiler import crash_report, modules
from tapedebug.compiler.analyzed_kernel import AnalyzedKernel
from tapedebug.compiler.backend import is_in_lanes
from tapedebug.compiler.diagnostics import ASSERT, BOUNDS, EXPECT, PAUSE, PRINT, PRINTF, RAISED
from tapedebug.compiler.effects import AdjointInfo, Analysis, differentiable
from tapedebug.compiler.function import Function, is_remembered, read_annotations
from tapedebug.compiler.lazy_entry import LazyEntry
from tapedebug.compiler.objects import Entry
from tapedebug.compiler.params import Param
from tapedebug.compiler.variant import SILENT, Variant
from tapedebug.lang import types as t

if TYPE_CHECKING:
    from tapedebug.compiler.python_library import Interpreted

KINDS = ("forward", "adjoint", "tangent")
KINDS_LISTED = "'forward', 'adjoint' or 'tangent'"


class _Plans:
    """A table of launch plans, looked up at the first use after a setting has changed; then an attribute.

    To look up those of every kernel at each change takes milliseconds in a session with thousands of kernels,
    and a diagnosis changes settings dozens of times.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, kernel: Kernel | None, owner: type) -> Any:
        if kernel is None:
            return self
        kernel.find_plans()
        return kernel.__dict__[self.name]


class Kernel(AnalyzedKernel):
    """A function that many threads run, over arrays.

    Compiled on first use, each variant alone: forward, adjoint (one for each set of arrays with gradients),
    and the float64 twins of both.

    Made by `@kernel`, or from a function in a loop over types: `Kernel(func=f, key="sum_float64")`.

    Args:
        func: The function.
        key: Its name in checks and reports; by default made of the function's name.
        module: The module whose settings it takes and with which it is loaded (or a Python module, or the
            name of one); by default that in which the function stands.
        options: Settings of its own, as `set_module_options` takes them.
        code_transformers: Objects that rewrite a copy of the syntax tree before it is compiled, one after the
            other. Messages show the line of the source that each part comes from.

    Raises:
        AttributeError: There is no such option.
        ValueError: An option has a value that it cannot have.

    Attributes:
        generic: Of a version of a generic kernel, that kernel.
        instances: Of a generic kernel, its versions by their types.
        plans: The runtime's launch plans under the present settings, by the kinds of the arguments.
        latest: The plan of the last launch, which the next one tries first.
        checked_plans: The plans of launches that print or check something.
    """

    plans = _Plans()
    checked_plans = _Plans()

    def __init__(
        self,
        func: Callable[..., Any],
        key: str | None = None,
        module: modules.Module | ModuleType | str | None = None,
        options: dict[str, Any] | None = None,
        code_transformers: Sequence[ast.NodeTransformer] | None = None,
        *,
        generic: Kernel | None = None,
        types: tuple[Any, ...] = (),
    ) -> None:
        if not is_remembered(func):
            read_annotations(func, sys._getframe(1))
        super().__init__(func, key, module, types, options or {})
        if code_transformers:
            self.code_transformers = tuple(code_transformers)
        self.generic = generic
        self.instances: dict[tuple[Any, ...], Kernel] = {}
        self.latest: Any = None
        self._repeating: dict[int, Kernel] = {}
        self._tables: dict[Any, tuple[dict[Any, Any], dict[Any, Any]]] = {}
        self._entries: dict[Variant, Entry] = {}
        self._plain: dict[Variant, Interpreted] = {}
        self.module.add(self)

    def move_to(self, module: modules.Module) -> None:
        """Belong to another module, whose settings the kernel takes."""
        self.module.remove(self)
        self.module = module
        module.add(self)
        self.apply_settings()

    @property
    def diagnostics(self) -> frozenset[str]:
        """The kinds of diagnostics that launches make, if the kernel has them."""
        optional = {ASSERT: config.asserts, BOUNDS: self.check_bounds, PAUSE: config.interpreted}
        return frozenset(
            {PRINT, PRINTF, EXPECT, RAISED, *(kind for kind, wanted in optional.items() if wanted)}
        )

    def diagnostic_kinds(self, *, back: bool = False) -> frozenset[str]:
        """Return the kinds of diagnostics that launches or, with `back`, adjoints make."""
        emitted = self.analysis.emitted_by_adjoint if back else self.analysis.emitted
        return self.diagnostics & (emitted | {BOUNDS})

    @property
    def functions(self) -> list[Function]:
        """The functions that it calls, and those that they call, as far as it can be known by its source."""
        return self._analysis_cache.functions

    def load(self) -> None:
        """Compile it, with its adjoint for all float arrays, unless that was done; if generic, nothing."""
        if self.is_generic:
            return
        entries = [self.forward(diagnostics=self.diagnostic_kinds())]
        active = differentiable(self.params)
        if active and self.enable_backward:
            diagnostics = self.diagnostic_kinds(back=True)
            entries.append(self.adjoint(active, strong_zero=config.strong_zero, diagnostics=diagnostics))
        for variant in map(self.variant_of, entries):
            if variant is not None and not variant.diagnostics - {PAUSE} and self.division(variant).lanes:
                self.in_lanes(variant)

    def apply_settings(self) -> None:
        """Launch by the settings as they are now, and compile again if they unroll other loops."""
        self.put_plans_aside()
        cache = self.__dict__.get("_analysis_cache")
        if cache is not None and cache.max_unroll != self.option("max_unroll"):
            self.renew()

    def put_plans_aside(self) -> None:
        """Find the plans of launches anew when the next launch needs one."""
        for name in ("plans", "checked_plans"):
            self.__dict__.pop(name, None)
        self.latest = None

    def find_plans(self) -> None:
        """Set `plans` and `checked_plans` to those under the present settings."""
        with modules.finding_plans(self):
            paths = (config.interpreted, config.lanes, config.vector_math)
            settings = (self.enable_backward, self.diagnostics, config.verify_fp, *paths)
            tables = self._tables.get(settings)
            if tables is None:
                tables = self._tables[settings] = ({}, {})
            self.__dict__["plans"], self.__dict__["checked_plans"] = tables

    def instance(self, types: tuple[Any, ...]) -> Kernel:
        """The version of a generic kernel for these types of its parameters.

        Raises:
            KernelTypeError: A type does not fit its parameter.
        """
        found = self.instances.get(types)
        if found is None:
            for param, kind in zip(self.signature, types, strict=True):
                if not t.fits(param.type, kind) or t.is_generic(kind):
                    raise KernelTypeError(
                        f"kernel `{self.__name__}`: "
                        f"`{param.name}` is {t.type_name(param.type)}; got {t.type_name(kind)}",
                        span=self.origin.span(self.origin.tree.args.args[param.index]),
                        hint="use one type that fits, or change the annotation",
                    )
            found = self.instances[types] = Kernel(
                self.python,
                self.key,
                self.module,
                self.options,
                self.code_transformers,
                generic=self,
                types=types,
            )
        return found

    def for_launch(self, sizes: tuple[int, ...]) -> Kernel:
        """The kernel whose threads have the axes of a launch.

        Where `tid()` gives fewer indices than the launch has axes, it gives those of the first axes: threads
        that differ on the others get the same ones, as in Warp.
        """
        if self.axes >= len(sizes) or math.prod(sizes[self.axes :]) <= 1:
            return self
        found = self._repeating.get(len(sizes))
        if found is None:
            found = Kernel(
                self.python,
                self.key,
                self.module,
                self.options,
                self.code_transformers,
                generic=self.generic,
                types=self.types,
            )
            found.least_axes, found.is_user_written = len(sizes), self.is_user_written
            self._repeating[len(sizes)] = found
        return found

    def _forget_plans(self) -> None:
        self._tables = {}
        self.put_plans_aside()

    def renew(self) -> None:
        """Compile again when it is used next: a function that it calls got a gradient or a replay.

        Launches that were recorded keep what they were recorded with.
        """
        before = copy(self)
        for entry in self._entries.values():
            if isinstance(entry, LazyEntry):
                entry.kernel = before
        for plans in (plans for table in self._tables.values() for plans in table):
            for plan in plans.values():
                plan.kernel = before
        self._entries, self._plain = {}, {}
        self._forget()
        self._forget_plans()
        if self.generic is not None:
            self.generic._forget_plans()

    def forward(
        self,
        *,
        f64: bool = False,
        strided: bool = False,
        diagnostics: frozenset[str] = SILENT,
        lanes: bool = False,
        late: bool = False,
    ) -> Entry | Interpreted:
        """The compiled kernel, with diagnostics of these kinds.

        With `lanes`, threads run in lockstep if `passes.memory_regions` allows it. That is right for launches
        whose arrays share no memory, except arrays of which each thread has its own elements. With `late`,
        the kernel is compiled at its first call.
        """
        variant = Variant("forward", f64=f64, strided=strided, diagnostics=diagnostics, lanes=lanes)
        return self._entry(variant, late=late)

    def tracked(
        self,
        race_checked: frozenset[int],
        init_checked: frozenset[int],
        *,
        report: bool = False,
        strided: bool = False,
        diagnostics: frozenset[str] = SILENT,
    ) -> Entry | Interpreted:
        """The compiled kernel with a tag for every access (`compiler.access_tags`), its indices checked.

        Print buffer, epoch and pointers to the tags follow all other slots, as in `layout.tracked`.

        Args:
            race_checked: Array parameters through which a thread may meet another.
            init_checked: Those of memory that may not have been written.
            report: Whether each conflict is reported.
            strided: Whether arrays may have any strides.
            diagnostics: The kinds of diagnostics that are made besides.
        """
        how = "report" if report else "detect"
        diagnostics = diagnostics | {BOUNDS}
        return self._entry(
            Variant(
                "forward",
                strided=strided,
                diagnostics=diagnostics,
                race_checked=race_checked,
                init_checked=init_checked,
                tracked=how,
            )
        )

    def adjoint(
        self,
        active: frozenset[int],
        *,
        f64: bool = False,
        strided: bool = False,
        replay: frozenset[int] = frozenset(),
        memory: frozenset[int] = frozenset(),
        guarded: bool = False,
        strong_zero: bool = False,
        diagnostics: frozenset[str] = SILENT,
        rounded: bool = False,
        unconsumed: frozenset[int] = frozenset(),
        lanes: bool = False,
        late: bool = False,
        derived: frozenset[str] = frozenset(),
        shared: bool = False,
    ) -> Entry | Interpreted:
        """The compiled adjoint for these array parameters with gradients.

        With `guarded`, indices that depend on values in memory stay inside their arrays. With `strong_zero`,
        a zero adjoint stays zero, whatever it is multiplied with. Of `memory` no stores are done again: these
        parameters are read as memory holds them. With `rounded`, a float64 twin rounds as float32 does, but
        elsewhere. The incoming adjoints of `unconsumed` are not used up: those of `AdjointInfo.once` can be.
        The bodies of `derived` functions are reversed, whatever gradients they have. With `shared`, the
        parameters of `replay` are different views that overlap. `lanes` and `late` are as in `forward`.
        """
        info = self.adjoint_info(active, replay=replay, derived=derived, shared=shared)
        if info.refused is not None:
            raise info.refused.with_traceback(None)
        replay = info.replay - memory
        return self._entry(
            Variant(
                "adjoint",
                active,
                replay,
                f64,
                strided,
                guarded,
                strong_zero,
                diagnostics,
                memory,
                rounded=rounded,
                unconsumed=unconsumed,
                lanes=lanes,
                derived=derived,
                shared=shared,
            ),
            late=late,
        )

    def tangent(
        self,
        active: frozenset[int],
        *,
        f64: bool = False,
        strided: bool = False,
        strong_zero: bool = False,
        diagnostics: frozenset[str] = SILENT,
        lanes: bool = False,
        late: bool = False,
    ) -> Entry | Interpreted:
        """The compiled tangent: runs the kernel and pushes the tangents of these array parameters forward.

        Tangent arrays have the shape and strides of the values, and stand in the slots of the adjoints.
        `lanes` and `late` are as in `forward`.
        """
        variant = Variant(
            "tangent",
            active,
            f64=f64,
            strided=strided,
            strong_zero=strong_zero,
            diagnostics=diagnostics,
            lanes=lanes,
        )
        return self._entry(variant, late=late and not self.analysis.opaque)  # else it is refused now

    def adjoint_tangent(
        self,
        active: frozenset[int],
        *,
        f64: bool = False,
        strided: bool = False,
        replay: frozenset[int] = frozenset(),
        strong_zero: bool = False,
        shared: bool = False,
    ) -> Entry | Interpreted:
        """The compiled tangent of the adjoint, for second derivatives.

        Each array parameter has tangents of its values and of its adjoint, of the same shape and strides;
        their pointers follow all others, in the slots `layout.dots` and `layout.adjoint_dots`.
        """
        replay = self.adjoint_info(active, replay=replay, shared=shared).replay
        variant = Variant(
            "adjoint_tangent", active, replay, f64, strided, strong_zero=strong_zero, shared=shared
        )
        return self._entry(variant)

    def interpreted(
        self,
        kind: str = "forward",
        active: frozenset[int] = frozenset(),
        *,
        f64: bool = False,
        strided: bool = False,
    ) -> Interpreted:
        """A variant's generated code as plain Python: slow, and open to breakpoints; called like an `Entry`.

        With `config.interpreted` all launches and reverse passes run so.

        Args:
            kind: `"forward"`, `"adjoint"`, `"tangent"` or `"adjoint_tangent"`.
            active: Of an adjoint or tangent, the array parameters with gradients.
            f64: Whether float32 is float64 throughout.
            strided: Whether arrays may have any strides.
        """
        replay = self.adjoint_info(active).replay if kind.startswith("adjoint") else frozenset()
        variant = Variant(kind, frozenset() if kind == "forward" else active, replay, f64, strided)
        return self._interpreted(variant)

    def in_lanes(self, variant: Variant, *, streams: bool = False) -> Entry | Interpreted:
        """A variant whose threads run in lockstep; with `streams`, its stores bypass the caches."""
        return self._entry(replace(variant, lanes=True, streams=streams))

    def unchecked(self, variant: Variant) -> Entry | Interpreted:
        """A variant without the tests of its indices, compiled when it is called."""
        return self._entry(replace(variant, diagnostics=variant.diagnostics - {BOUNDS}), late=True)

    def bounded(self, variant: Variant) -> Entry | Interpreted:
        """A variant that holds indices which depend on memory inside arrays, compiled when it is called."""
        return self._entry(
            replace(variant, diagnostics=variant.diagnostics - {BOUNDS}, guarded=True), late=True
        )

    def probing(self, variant: Variant, kind: str) -> Entry | Interpreted:
        """The probe: tests the indices of a variant and does nothing else (`passes.bounds`)."""
        return self._entry(replace(variant, diagnostics=frozenset({BOUNDS}), probes=kind), late=True)

    def variant_of(self, entry: Entry | Interpreted) -> Variant | None:
        """Return the variant that an entry is of the current kernel, or None."""
        return next((variant for variant, found in self._entries.items() if found is entry), None)

    def _interpreted(self, variant: Variant) -> Interpreted:
        from tapedebug.compiler.python_library import Interpreted

        found = self._plain.get(variant)
        if found is None:
            others = sum(v.kind == variant.kind for v in self._plain)
            number = f" ({others + 1})" if others else ""
            found = Interpreted(self._text(variant), f"{variant.kind} of {self.key}{number}")
            self._plain[variant] = found
        return found

    def _entry(self, variant: Variant, *, late: bool = False) -> Entry | Interpreted:
        if config.interpreted:
            return self._interpreted(variant)
        if variant.lanes:
            lanes = config.lanes and config.compiler == "llvm"  # Numba's loops are LLVM's to vectorise
            streams = lanes and variant.streams
            variant = replace(variant, lanes=lanes, math=lanes and config.vector_math, streams=streams)
        entry = self._entries.get(variant)
        if entry is None:
            made = LazyEntry(self, variant) if late else self.compiled(variant)
            entry = self._entries[variant] = made
        return entry if late else entry.settled()

    def compiled(self, variant: Variant) -> Entry:
        """A variant, compiled now unless it is in the cache."""
        start = perf_counter()
        name = f"the {'float64 ' if variant.f64 else ''}{variant.kind} of {self.key}"
        entry = self._analysis_cache.code(str(variant), lambda: self._text(variant), name)
        LOG.debug("%s of %s: %.1f ms", variant.kind, self.key, 1e3 * (perf_counter() - start))
        crash_report.watch(self, variant.kind, entry)
        return entry

    def source(self, kind: str = "forward") -> str:
        """The generated code, each line with the user's line that it came from, and how many threads run it.

        Args:
            kind: `"forward"`, `"adjoint"` or `"tangent"`, the latter two with a gradient (or tangent) for
                every float array.
        """
        if kind not in KINDS:
            raise ValueError(f"kernel `{self.__name__}`: kind is {KINDS_LISTED}; got {kind!r}")
        active = differentiable(self.params)
        if kind == "forward":
            variant = Variant("forward", diagnostics=self.diagnostics)
        elif kind == "tangent":
            variant = Variant("tangent", active, strong_zero=config.strong_zero)
        else:
            replay = self.adjoint_info(active).replay
            variant = Variant(
                "adjoint", active, replay, strong_zero=config.strong_zero, diagnostics=self.diagnostics
            )
        header = f"# {kind} of {self.key} ({display_file(self.origin.file)}:{self.origin.first_line})\n"
        return header + self._how_many_run(variant) + self._text(variant).annotated()

    def _how_many_run(self, variant: Variant) -> str:
        """Return a comment line on how large launches run a variant."""
        compiled = not config.interpreted
        lanes = compiled and config.lanes and is_in_lanes(self._text(replace(variant, lanes=True)))
        divided = compiled and self.division(variant).shares is not None
        steps = "several at once, in lanes" if lanes else "one after the other"
        where = "in chunks on several processors" if divided else "on one processor"
        return f"# many threads: {steps}; {where}\n"


__all__ = [
    "AdjointInfo",
    "Analysis",
    "Entry",
    "Function",
    "Kernel",
    "Param",
    "Span",
]

"""A kernel before machine code: its IR, its effects on arrays, its generated code."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tapedebug._errors import TapedebugError, TapedebugWarning
from tapedebug._gc_pause import no_full_collections
from tapedebug._lazy_module import lazy_module
from tapedebug._source import Span
from tapedebug.compiler import modules
from tapedebug.compiler.access_tags import AccessTagging
from tapedebug.compiler.access_trace import TracedSite, TraceInfo
from tapedebug.compiler.analysis_cache import AnalysisCache
from tapedebug.compiler.bounds import Reach, Reaches
from tapedebug.compiler.definition import Definition
from tapedebug.compiler.diagnostics import BOUNDS, Diagnostic, Shown
from tapedebug.compiler.effects import AccessRecord, AdjointInfo, Analysis, WarpDivergence
from tapedebug.compiler.function import Function, unreadable
from tapedebug.compiler.parallel_info import Division, Pair, Share
from tapedebug.compiler.variant import Variant

if TYPE_CHECKING:
    from tapedebug.compiler import ir, pipeline
    from tapedebug.compiler.generated_source import GeneratedSource
    from tapedebug.compiler.lower import Lowered
else:
    pipeline = lazy_module("tapedebug.compiler.pipeline")

Sets = tuple[frozenset[int], frozenset[int], frozenset[str], bool]
"""The array parameters with gradients, those whose stores the adjoint does again, the functions whose bodies
it reverses although they have gradients of their own, and whether the second ones are views that overlap."""

KEPT = (
    "_lowered", "_in_place", "_analysis_cache", "analysis", "axes", "follows_values", "has_custom_calls",
    "has_native_calls",
)  # fmt: skip
"""The properties that are computed once."""


class AnalyzedKernel(Definition):
    """A definition that is lowered and differentiated on demand; analyses are cached across processes.

    Attributes:
        is_user_written: False for a translated kernel of another engine, whose compilation warns of nothing.
    """

    is_user_written = True

    def __init__(
        self,
        python: Callable[..., Any],
        key: str | None,
        module: modules.Module | ModuleType | str | None,
        types: tuple[Any, ...],
        options: dict[str, Any],
    ) -> None:
        super().__init__(python, key, module, types, options)
        self._infos: dict[Sets, AdjointInfo] = {}
        self._adjoints: dict[Sets, ir.Function] = {}
        self._traces: dict[frozenset[int], TraceInfo | None] = {}

    @cached_property
    def _lowered(self) -> Lowered:
        self.require_concrete()
        cache = self._analysis_cache
        result = self._lower(cache)
        cache.check(result.captured)
        self._used_by(result.functions)
        return result

    @cached_property
    def _in_place(self) -> Lowered:
        """The kernel with its variables, for what Warp would make of it."""
        self.require_concrete()
        return self._lower(self._analysis_cache, in_place=True)

    def _lower(self, cache: AnalysisCache, *, in_place: bool = False) -> Lowered:
        try:
            with no_full_collections():
                return pipeline.lowered(
                    self.__name__,
                    self.origin,
                    self.signature,
                    self.python,
                    cache.captured,
                    max_unroll=cache.max_unroll,
                    in_place=in_place,
                    axes=self.least_axes,
                )
        except TapedebugError as error:
            if self.version:
                error.notes = (f"in its version for {self.version}", *error.notes)
            # The frames of the compiler do not help a user; the message has the user's line.
            raise error.with_traceback(None) from None
        except OSError as error:
            raise unreadable(self.python, "kernel", error) from None

    @cached_property
    def _analysis_cache(self) -> AnalysisCache:
        """Results of analyses, shared with earlier and later processes."""
        kinds = (
            Analysis,
            AdjointInfo,
            AccessRecord,
            Diagnostic,
            Shown,
            TraceInfo,
            TracedSite,
            Division,
            Share,
            Pair,
            Reach,
            Reaches,
            WarpDivergence,
        )
        cache = AnalysisCache(self, *kinds)
        self._used_by(cache.functions)
        return cache

    def _used_by(self, functions: Iterable[Function]) -> None:
        for function in functions:
            function.users.add(self)

    @cached_property
    def analysis(self) -> Analysis:
        """Accesses and effects of the kernel. Compiles to IR, so raises the user's errors."""
        found = self._analysis_cache.known("analysis", Analysis, lambda: pipeline.analysis(self._lowered))
        if self.is_user_written:
            for name, span in found.one_sided:
                self._warn_of_one_sided(name, span)
        return found

    def _warn_of_one_sided(self, name: str, span: Span) -> None:
        """Warn of a variable that one branch of an `if` assigns, or of a function that may return nothing."""
        if name.endswith("()"):
            what = f"`{name}` returns a value on some paths only: on the others"
            hint = "end it with a `return` of a value"
        else:
            what = (
                f"`{name}` is assigned on one branch of this `if` only and read after it: where that branch "
                "is not taken,"
            )
            hint = f"assign `{name}` before the `if`"
        warnings.warn_explicit(
            f"kernel `{self.__name__}`: {what} it is 0 (in NVIDIA Warp it is undefined)\n  = hint: {hint}",
            TapedebugWarning,
            span.file,
            span.line,
        )

    @cached_property
    def axes(self) -> int:
        """The number of thread axes that `tid()` asks for."""
        return self._analysis_cache.known("axes", int, lambda: self._lowered.function.axes)

    @cached_property
    def follows_values(self) -> bool:
        """True if floats decide how long a loop runs, or may decide which element is accessed.

        Such a kernel may never end, or leave its arrays, at values far from those that it was written for.
        """
        return self._analysis_cache.known(
            "follows values", bool, lambda: pipeline.follows_values(self._lowered)
        )

    @cached_property
    def has_custom_calls(self) -> bool:
        """True if it calls functions with a gradient or a replay of their own, native ones too."""
        return self._analysis_cache.known(
            "custom calls", bool, lambda: pipeline.has_custom_calls(self._lowered)
        )

    @cached_property
    def has_native_calls(self) -> bool:
        """True if it calls native functions, with or without arrays."""
        return self._analysis_cache.known(
            "native calls", bool, lambda: pipeline.has_native_calls(self._lowered)
        )

    def warp_divergences(
        self, active: frozenset[int], compute: Callable[[], tuple[WarpDivergence, ...]]
    ) -> tuple[WarpDivergence, ...]:
        """Return the parts that Warp may reverse wrongly; those of another process are not computed again."""
        what = f"warp divergences {sorted(active)}"
        return self._analysis_cache.known(what, tuple[WarpDivergence, ...], compute)

    @cached_property
    def emulated_branches(self) -> int:
        """The number of branches that Warp's reverse of the kernel would have here."""
        return self._analysis_cache.known(
            "emulated branches", int, lambda: pipeline.emulated_branches(self._in_place)
        )

    def saves_in_loops(self, active: frozenset[int], compute: Callable[[], bool]) -> bool:
        """Return whether the adjoint saves values of iterations; this process or another computes it once."""
        return self._analysis_cache.known(f"saves in loops {sorted(active)}", bool, compute)

    def adjoint_info(
        self,
        active: frozenset[int],
        *,
        replay: frozenset[int] = frozenset(),
        derived: frozenset[str] = frozenset(),
        shared: bool = False,
    ) -> AdjointInfo:
        """Return what the adjoint needs, for these array parameters with gradients; does not compile.

        The bodies of `derived` functions are reversed, whatever gradients they have. With `shared`, the
        parameters of `replay` are different views that overlap.
        """
        key = (active, replay, derived, shared)
        if key not in self._infos:
            self._infos[key] = info = self._analysis_cache.known(
                f"adjoint {sorted(active)} {sorted(replay)} {' '.join(sorted(derived))}".rstrip()
                + " shared" * shared,
                AdjointInfo,
                lambda: self._built_adjoint(active, replay, derived, shared),
            )
            self._infos[active, info.replay, derived, shared] = info
        return self._infos[key]

    def trace_info(self, active: frozenset[int]) -> TraceInfo | None:
        """Return the access sites of the traced variant; None if native functions access these arrays."""
        if self.analysis.native:
            return None
        if active not in self._traces:

            def compute() -> TraceInfo | None:
                found = pipeline.traced(self._lowered, active)
                return None if found is None else found[1]

            self._traces[active] = self._analysis_cache.known(f"traced {sorted(active)}", TraceInfo, compute)
        return self._traces[active]

    def division(self, variant: Variant) -> Division:
        """Return how launches of a variant can be divided into chunks."""
        return self._analysis_cache.known(
            f"division {variant}", Division, lambda: pipeline.divided(self._function(variant))
        )

    def reaches(self, variant: Variant) -> Reaches:
        """Facts about the indices of a variant, before it is launched."""
        checked = replace(variant, diagnostics=frozenset({BOUNDS}))
        return self._analysis_cache.known(
            f"reaches {checked}", Reaches, lambda: pipeline.reaches(self._function(checked))
        )

    def _built_adjoint(
        self, active: frozenset[int], replay: frozenset[int], derived: frozenset[str], shared: bool
    ) -> AdjointInfo:
        function, info = pipeline.adjoint(self._lowered, active, replay, derived=derived, shared=shared)
        self._adjoints[active, info.replay, derived, shared] = function
        return info

    def _text(self, variant: Variant) -> GeneratedSource:
        return pipeline.text(
            self._function(variant),
            self.layout,
            f64=variant.f64,
            rounded=variant.rounded,
            strided=variant.strided,
            guarded=variant.guarded,
            checked=BOUNDS in variant.diagnostics and not variant.probes,
            tagging=self._tagging(variant) if variant.tracked else None,
            tracing=self.trace_info(variant.active) if variant.kind == "traced" else None,
            lanes=variant.lanes,
            math=variant.math,
            streams=variant.streams,
        )

    def _tagging(self, variant: Variant) -> AccessTagging:
        atomics = [a for a in self.analysis.accesses if a.kind == "atomic"]
        atomic = frozenset((a.param, a.span) for a in atomics)
        ordered = frozenset((a.param, a.span) for a in atomics if a.ordered)
        return AccessTagging(
            variant.race_checked, variant.init_checked, variant.tracked == "report", atomic, ordered
        )

    def _function(self, variant: Variant) -> ir.Function:
        if variant.probes:
            return pipeline.probing(self._function(replace(variant, probes="")), variant.probes)
        if variant.kind == "forward":
            return pipeline.forward(self._lowered, variant.diagnostics)
        if variant.kind in ("warp_adjoint", "warp_parts", "warp_loops"):
            parts, functions = variant.kind != "warp_loops", variant.kind == "warp_adjoint"
            return pipeline.warp_adjoint(
                self._in_place, variant.active, variant.replay, parts=parts, functions=functions
            )
        if variant.kind == "tangent":
            return pipeline.tangent(self._lowered, variant.active, strong_zero=variant.strong_zero)
        if variant.kind == "traced":
            found = pipeline.traced(self._lowered, variant.active, stores=bool(variant.replay))
            assert found is not None
            return found[0]
        second = variant.kind == "adjoint_tangent" and pipeline.second_apart(self._lowered)
        if (
            variant.strong_zero
            or variant.memory
            or variant.diagnostics & self.analysis.emitted_by_adjoint
            or second
        ):
            adjoint = pipeline.adjoint(
                self._lowered,
                variant.active,
                variant.replay,
                memory=variant.memory,
                strong_zero=variant.strong_zero,
                diagnostics=variant.diagnostics,
                derived=variant.derived,
                second=second,
                shared=variant.shared,
            )[0]
        else:
            sets = variant.active, variant.replay, variant.derived, variant.shared
            if sets not in self._adjoints:
                self._built_adjoint(*sets)
            adjoint = self._adjoints[sets]
        if variant.kind == "adjoint_tangent":
            return pipeline.adjoint_tangent(adjoint, variant.active, strong_zero=variant.strong_zero)
        return pipeline.leaving(adjoint, variant.unconsumed) if variant.unconsumed else adjoint

    def _forget(self) -> None:
        """Drop all results, so that they are computed again on demand."""
        self._infos, self._adjoints, self._traces = {}, {}, {}
        for name in KEPT:
            self.__dict__.pop(name, None)

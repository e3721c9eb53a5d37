"""Kernels, and their compiled variants."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from copy import copy
from functools import cached_property
from time import perf_counter
from types import ModuleType
from typing import TYPE_CHECKING, Any

from tapedebug._config import LOG, config
from tapedebug._errors import KernelTypeError, TapedebugError
from tapedebug._source import Span, display_file
from tapedebug.compiler import ir, modules, pipeline
from tapedebug.compiler.definition import Definition
from tapedebug.compiler.function import Function, is_remembered, read_annotations, unreadable
from tapedebug.compiler.ir import Param
from tapedebug.compiler.lower import Lowered
from tapedebug.compiler.lower._context import AccessRecord
from tapedebug.compiler.notes import Notes
from tapedebug.compiler.objects import Entry
from tapedebug.compiler.pipeline import AdjointInfo, Analysis
from tapedebug.compiler.remarks import ASSERT, BOUNDS, EXPECT, PAUSE, PRINT, PRINTF, Remark, Shown
from tapedebug.compiler.stamps import Stamping
from tapedebug.compiler.text import Text
from tapedebug.compiler.variant import SILENT, Variant
from tapedebug.lang import types as t

if TYPE_CHECKING:
    from tapedebug.compiler.python_library import Interpreted

KINDS = ("forward", "adjoint", "tangent")
KINDS_LISTED = "'forward', 'adjoint' or 'tangent'"


class Kernel(Definition):
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

    Raises:
        AttributeError: There is no such option.
        ValueError: An option has a value that it cannot have.

    Attributes:
        generic: Of a version of a generic kernel, that kernel.
        instances: Of a generic kernel, its versions by their types.
        plans: How to launch for each kind of arguments, as settings are; the runtime fills it.
        watched: The same of launches that may say something.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        key: str | None = None,
        module: modules.Module | ModuleType | str | None = None,
        options: dict[str, Any] | None = None,
        *,
        generic: Kernel | None = None,
        types: tuple[Any, ...] = (),
    ) -> None:
        if not is_remembered(func):
            read_annotations(func, sys._getframe(1))
        super().__init__(func, key, module, types, options or {})
        self.generic = generic
        self.instances: dict[tuple[Any, ...], Kernel] = {}
        self.plans: dict[Any, Any] = {}
        self.watched: dict[Any, Any] = {}
        self._tables: dict[Any, tuple[dict[Any, Any], dict[Any, Any]]] = {}
        self._infos: dict[tuple[frozenset[int], frozenset[int]], AdjointInfo] = {}
        self._adjoints: dict[tuple[frozenset[int], frozenset[int]], ir.Function] = {}
        self._entries: dict[Variant, Entry] = {}
        self._plain: dict[Variant, Interpreted] = {}
        self.settle()
        self.module.add(self)

    @property
    def heard(self) -> frozenset[str]:
        """The kinds of remarks that launches make, if the kernel has them."""
        optional = {ASSERT: config.asserts, BOUNDS: self.check_bounds, PAUSE: config.interpreted}
        return frozenset({PRINT, PRINTF, EXPECT, *(kind for kind, wanted in optional.items() if wanted)})

    def speech(self, *, back: bool = False) -> frozenset[str]:
        """The kinds of remarks that its launches make as settings are, or those that its adjoint makes."""
        says = self.analysis.says_back if back else self.analysis.says
        return self.heard & (says | {BOUNDS})

    def load(self) -> None:
        """Compile it, with its adjoint for all float arrays, unless that was done; if generic, nothing."""
        if self.is_generic:
            return
        self.forward(heard=self.speech())
        active = pipeline.differentiable(self.params)
        if active and self.enable_backward:
            self.adjoint(active, strong_zero=config.strong_zero, heard=self.speech(back=True))

    def settle(self) -> None:
        """Launch by the settings as they are now."""
        notes = self.__dict__.get("_notes")
        if notes is not None and notes.max_unroll != self.option("max_unroll"):
            self.renew()
            return
        key = (self.enable_backward, self.heard, config.verify_fp, config.interpreted)
        self.plans, self.watched = self._tables.setdefault(key, ({}, {}))

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
                        mend="use one type that fits, or change the annotation",
                    )
            found = self.instances[types] = Kernel(
                self.python, self.key, self.module, self.options, generic=self, types=types
            )
        return found

    @cached_property
    def _lowered(self) -> Lowered:
        self.require_concrete()
        notes = self._notes
        result = self._lower(notes)
        notes.check(result.captured)
        self._used_by(result.functions)
        return result

    @cached_property
    def _in_place(self) -> Lowered:
        """The kernel with its variables, for what Warp would make of it."""
        self.require_concrete()
        return self._lower(self._notes, in_place=True)

    def _lower(self, notes: Notes, *, in_place: bool = False) -> Lowered:
        try:
            return pipeline.lowered(
                self.__name__,
                self.origin,
                self.signature,
                self.python,
                notes.captured,
                max_unroll=notes.max_unroll,
                in_place=in_place,
            )
        except TapedebugError as error:
            if self.version:
                error.notes = (f"in its version for {self.version}", *error.notes)
            # The frames of the compiler tell a user nothing; the message has the user's line.
            raise error.with_traceback(None) from None
        except OSError as error:
            raise unreadable(self.python, "kernel", error) from None

    @cached_property
    def _notes(self) -> Notes:
        """What earlier processes found out."""
        notes = Notes(self, Analysis, AdjointInfo, AccessRecord, Remark, Shown)
        self._used_by(notes.functions)
        return notes

    def _used_by(self, functions: Iterable[Function]) -> None:
        for function in functions:
            function.users.add(self)

    def _forget_plans(self) -> None:
        self._tables = {}
        self.settle()

    def renew(self) -> None:
        """Compile again when it is used next: a function that it calls got a gradient or a replay.

        Launches that were recorded keep what they were recorded with.
        """
        before = copy(self)
        for plans in (plans for table in self._tables.values() for plans in table):
            for plan in plans.values():
                plan.kernel = before
        self._infos, self._adjoints, self._entries, self._plain = {}, {}, {}, {}
        for name in ("_lowered", "_in_place", "_notes", "analysis", "axes"):
            self.__dict__.pop(name, None)
        self._forget_plans()
        if self.generic is not None:
            self.generic._forget_plans()

    @cached_property
    def analysis(self) -> Analysis:
        """What the kernel reads and writes; compiles to IR, so raises the user's errors."""
        found: Analysis = self._notes.known("analysis", lambda: pipeline.analysis(self._lowered))
        return found

    @cached_property
    def axes(self) -> int:
        """How many thread axes `tid()` asks for."""
        found: int = self._notes.known("axes", lambda: self._lowered.function.axes)
        return found

    def adjoint_info(self, active: frozenset[int], *, replay: frozenset[int] = frozenset()) -> AdjointInfo:
        """What the adjoint needs, for these array parameters with gradients; does not compile."""
        key = (active, replay)
        if key not in self._infos:
            self._infos[key] = info = self._notes.known(
                f"adjoint {sorted(active)} {sorted(replay)}", lambda: self._built_adjoint(active, replay)
            )
            self._infos[active, info.replay] = info
        return self._infos[key]

    def _built_adjoint(self, active: frozenset[int], replay: frozenset[int]) -> AdjointInfo:
        function, info = pipeline.adjoint(self._lowered, active, replay)
        self._adjoints[active, info.replay] = function
        return info

    def forward(
        self, *, f64: bool = False, strided: bool = False, heard: frozenset[str] = SILENT
    ) -> Entry | Interpreted:
        """The compiled kernel, with remarks of the kinds that are heard."""
        return self._entry(Variant("forward", f64=f64, strided=strided, heard=heard))

    def tracked(
        self,
        raced: frozenset[int],
        fresh: frozenset[int],
        *,
        report: bool = False,
        strided: bool = False,
        heard: frozenset[str] = SILENT,
    ) -> Entry | Interpreted:
        """The compiled kernel with a stamp for every access (`compiler.stamps`), its indices checked.

        The journal, the epoch and the pointers to the stamps follow all other slots, as in `layout.tracked`.

        Args:
            raced: Array parameters through which a thread may meet another.
            fresh: Those of memory that may not have been written.
            report: Whether each conflict is told.
            strided: Whether arrays may have any strides.
            heard: The kinds of remarks that are made besides.
        """
        how = "report" if report else "detect"
        heard = heard | {BOUNDS}
        return self._entry(
            Variant("forward", strided=strided, heard=heard, raced=raced, fresh=fresh, tracked=how)
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
        heard: frozenset[str] = SILENT,
        rounded: bool = False,
    ) -> Entry | Interpreted:
        """The compiled adjoint for these array parameters with gradients.

        With `guarded`, indices that depend on values in memory stay inside their arrays. With `strong_zero`,
        a zero adjoint stays zero, whatever it is multiplied with. Of `memory` no stores are done again: these
        parameters are read as memory holds them. With `rounded`, a float64 twin rounds as float32 does, but
        elsewhere.
        """
        info = self.adjoint_info(active, replay=replay)
        if info.refused is not None:
            raise info.refused.with_traceback(None)
        replay = info.replay - memory
        return self._entry(
            Variant(
                "adjoint", active, replay, f64, strided, guarded, strong_zero, heard, memory, rounded=rounded
            )
        )

    def tangent(
        self,
        active: frozenset[int],
        *,
        f64: bool = False,
        strided: bool = False,
        strong_zero: bool = False,
        heard: frozenset[str] = SILENT,
    ) -> Entry | Interpreted:
        """The compiled tangent: runs the kernel and pushes the tangents of these array parameters forward.

        Tangent arrays have the shape and strides of the values, and stand in the slots of the adjoints.
        """
        variant = Variant("tangent", active, f64=f64, strided=strided, strong_zero=strong_zero, heard=heard)
        return self._entry(variant)

    def adjoint_tangent(
        self,
        active: frozenset[int],
        *,
        f64: bool = False,
        strided: bool = False,
        replay: frozenset[int] = frozenset(),
        strong_zero: bool = False,
    ) -> Entry | Interpreted:
        """The compiled tangent of the adjoint, for second derivatives.

        Each array parameter has tangents of its values and of its adjoint, of the same shape and strides;
        their pointers follow all others, in the slots `layout.dots` and `layout.adjoint_dots`.
        """
        replay = self.adjoint_info(active, replay=replay).replay
        variant = Variant("adjoint_tangent", active, replay, f64, strided, strong_zero=strong_zero)
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

    def _interpreted(self, variant: Variant) -> Interpreted:
        from tapedebug.compiler.python_library import Interpreted

        found = self._plain.get(variant)
        if found is None:
            others = sum(v.kind == variant.kind for v in self._plain)
            number = f" ({others + 1})" if others else ""
            found = Interpreted(self._text(variant), f"{variant.kind} of {self.key}{number}")
            self._plain[variant] = found
        return found

    def _entry(self, variant: Variant) -> Entry | Interpreted:
        if config.interpreted:
            return self._interpreted(variant)
        entry = self._entries.get(variant)
        if entry is None:
            start = perf_counter()
            entry = self._entries[variant] = self._notes.code(str(variant), lambda: self._text(variant))
            LOG.debug("%s of %s: %.1f ms", variant.kind, self.key, 1e3 * (perf_counter() - start))
        return entry

    def _text(self, variant: Variant) -> Text:
        return pipeline.text(
            self._function(variant),
            self.layout,
            f64=variant.f64,
            rounded=variant.rounded,
            strided=variant.strided,
            guarded=variant.guarded,
            checked=BOUNDS in variant.heard,
            stamping=self._stamping(variant) if variant.tracked else None,
        )

    def _stamping(self, variant: Variant) -> Stamping:
        atomic = frozenset((a.param, a.span) for a in self.analysis.accesses if a.kind == "atomic")
        return Stamping(variant.raced, variant.fresh, variant.tracked == "report", atomic)

    def _function(self, variant: Variant) -> ir.Function:
        if variant.kind == "forward":
            return pipeline.forward(self._lowered, variant.heard)
        if variant.kind in ("warp_adjoint", "warp_loops"):
            parts = variant.kind == "warp_adjoint"
            return pipeline.warp_adjoint(self._in_place, variant.active, variant.replay, parts=parts)
        if variant.kind == "tangent":
            return pipeline.tangent(self._lowered, variant.active, strong_zero=variant.strong_zero)
        if variant.strong_zero or variant.memory or variant.heard & self.analysis.says_back:
            adjoint = pipeline.adjoint(
                self._lowered,
                variant.active,
                variant.replay,
                memory=variant.memory,
                strong_zero=variant.strong_zero,
                heard=variant.heard,
            )[0]
        else:
            if (variant.active, variant.replay) not in self._adjoints:
                self._built_adjoint(variant.active, variant.replay)
            adjoint = self._adjoints[variant.active, variant.replay]
        if variant.kind == "adjoint_tangent":
            return pipeline.adjoint_tangent(adjoint, variant.active, strong_zero=variant.strong_zero)
        return adjoint

    def source(self, kind: str = "forward") -> str:
        """The generated code, each line with the user's line that it came from.

        Args:
            kind: `"forward"`, `"adjoint"` or `"tangent"`, the latter two with a gradient (or tangent) for
                every float array.
        """
        if kind not in KINDS:
            raise ValueError(f"kernel `{self.__name__}`: kind is {KINDS_LISTED}; got {kind!r}")
        active = pipeline.differentiable(self.params)
        if kind == "forward":
            variant = Variant("forward", heard=self.heard)
        elif kind == "tangent":
            variant = Variant("tangent", active, strong_zero=config.strong_zero)
        else:
            replay = self.adjoint_info(active).replay
            variant = Variant("adjoint", active, replay, strong_zero=config.strong_zero, heard=self.heard)
        header = f"# {kind} of {self.key} ({display_file(self.origin.file)}:{self.origin.first_line})\n"
        return header + self._text(variant).annotated()


__all__ = [
    "AdjointInfo",
    "Analysis",
    "Entry",
    "Function",
    "Kernel",
    "Param",
    "Span",
]

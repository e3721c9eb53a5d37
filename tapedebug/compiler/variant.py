"""The key of a compiled variant of a kernel."""

from __future__ import annotations

from dataclasses import fields

from tapedebug._dataclass import dataclass

SILENT: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Variant:
    """The kind of program that is compiled from a kernel, with its options.

    Attributes:
        kind: `"forward"`, `"adjoint"`, `"tangent"`, `"adjoint_tangent"` or `"traced"`.
        active: Array parameters with gradients (or tangents), or whose accesses are recorded.
        replay: Of an adjoint, the parameters whose stores it does again; of a traced one, those that it
            writes: all or none.
        f64: Float32 is float64 throughout.
        rounded: Of such a twin, each result is rounded as float32 is, but elsewhere: on another grid.
        strided: Arrays may have any strides.
        guarded: Indices that depend on values in memory stay inside their arrays.
        strong_zero: A zero adjoint stays zero.
        diagnostics: The kinds of diagnostics that are made.
        memory: Of an adjoint, the parameters that it reads as memory holds them.
        race_checked, init_checked: Of a tracked one, as in `access_tags.AccessTagging`.
        tracked: `"detect"` or `"report"`; empty for one that is not tracked.
        unconsumed: Of an adjoint, the parameters whose incoming adjoints it leaves as they are.
        lanes: Threads run in lanes of vectors, where they may.
        math: Then vector functions of the C library are called.
        streams: Then stores bypass the caches; of one that writes no array that it reads.
        probes: It only tests indices (`passes.bounds`): `"unknown"` or `"all"`; empty for what runs.
        derived: Of an adjoint, the functions whose bodies it reverses, although they have a gradient or a
            replay of their own.
        shared: Of an adjoint, the parameters of `replay` are different views that overlap.
    """

    kind: str
    active: frozenset[int] = frozenset()
    replay: frozenset[int] = frozenset()
    f64: bool = False
    strided: bool = False
    guarded: bool = False
    strong_zero: bool = False
    diagnostics: frozenset[str] = SILENT
    memory: frozenset[int] = frozenset()
    race_checked: frozenset[int] = frozenset()
    init_checked: frozenset[int] = frozenset()
    tracked: str = ""
    rounded: bool = False
    unconsumed: frozenset[int] = frozenset()
    lanes: bool = False
    math: bool = False
    streams: bool = False
    probes: str = ""
    derived: frozenset[str] = frozenset()
    shared: bool = False

    def __str__(self) -> str:
        """The same in every process."""
        parts = (getattr(self, f.name) for f in fields(self))
        return " ".join(str(sorted(p) if isinstance(p, frozenset) else p) for p in parts)

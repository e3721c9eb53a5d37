"""Computes a reference for the gradient of a whole tape that does not share the adjoint under test.

The float64 twin of a wrong gradient is as wrong as the gradient, so agreement with it is no evidence. The
reference is the float64 adjoint that reverses the bodies of all functions at the values of the forward pass,
and ignores their custom gradients and replays (`func_grad`, `func_replay`). It is compared entry by entry. If
entries differ by more than float32 can explain, finite differences decide which of the two is right:
differences of the loss or, if the gradient is too small compared with the loss, of the function alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import TapedebugError
from tapedebug._source import display_file
from tapedebug.autograd.array_types import Checkpoint, Floats, Indices
from tapedebug.autograd.subjects.engine_kernels import adjoint_of, kernel_of
from tapedebug.autograd.subjects.entry_names import entry_name
from tapedebug.autograd.subjects.probes import entry_scales, shape_index
from tapedebug.autograd.subjects.program import Port
from tapedebug.autograd.subjects.shadow_program import tape_shadow
from tapedebug.autograd.subjects.whole_tape import WholeTape
from tapedebug.autograd.tapes.directional import Gradients, Probe, measured
from tapedebug.autograd.tapes.float32_error_bar import SCALES
from tapedebug.autograd.thresholds import REFERENCE_DECIDED, REFERENCE_ROUNDINGS, ROUNDING_SPREAD
from tapedebug.compiler.passes.custom import is_derived, own_adjoints
from tapedebug.runtime.tape.rerecord import derived_tape

if TYPE_CHECKING:
    from tapedebug.compiler.function import Function
    from tapedebug.compiler.kernel import Kernel
    from tapedebug.contract import RecordedTape
    from tapedebug.runtime.tape.tape import Tape


Right = Literal["reference", "own", "unknown"]


@dataclass(frozen=True, eq=False)
class Departure:
    """The entries in which a gradient differs from the reference, and which of the two is right.

    Attributes:
        port: The input.
        entries: Flat positions, the largest difference first.
        given: The float64 twin of the gradient that is consumed, (size,).
        reference: The reference, (size,).
        right: The one that differences confirm.
        functions: The functions with wrong custom gradients; empty if values were overwritten.
        probe: The difference of the loss along all of these entries.
    """

    port: Port
    entries: Indices
    given: Floats
    reference: Floats
    right: Right
    functions: tuple[Any, ...]
    probe: Probe

    @property
    def error(self) -> float:
        """The largest difference of an entry, relative to its own size; infinite if that is 0."""
        given, right = self.given[self.entries], self.reference[self.entries]
        with np.errstate(all="ignore"):
            return float(np.max(np.abs(given - right) / np.abs(right)))

    def entry(self, flat: int) -> str:
        """The name of an entry."""
        return entry_name(self.port.name, shape_index(flat, self.port.shape), self.port.value_type)

    @property
    def numbers(self) -> str:
        """The number of entries that differ, and the one that differs most, in words."""
        worst, count = int(self.entries[0]), len(self.entries)
        return (
            f"{count} of {self.port.size} entries {'is' if count == 1 else 'are'} off, most "
            f"{self.entry(worst)}: AD {self.given[worst]:.6g}, the derivative of the forward pass "
            f"{self.reference[worst]:.6g}"
        )

    @property
    def by_hand(self) -> str:
        """The custom gradients that cause it, each with its line; empty if there are none."""
        return " and ".join(f"{companion.name} ({place_of(companion)})" for companion in self.companions)

    @property
    def companions(self) -> list[Any]:
        """The custom gradients of the functions, or their replays if they have no gradient."""
        return [function.gradient or function.replay for function in self.functions]

    @property
    def reason(self) -> str:
        """The error, in a clause."""
        if self.right == "reference":
            cause = (
                f"{self.by_hand} is not the derivative of {' and '.join(f.name for f in self.functions)}"
                if self.functions
                else "values that the adjoint needs were overwritten before the reverse pass"
            )
            return f"{cause}: {self.numbers}"
        subject = (
            f"{self.by_hand} differs from the derivative of {' and '.join(f.name for f in self.functions)}"
            if self.functions
            else "the adjoint, which reads values after they were overwritten, differs from the derivative"
        )
        return f"{subject}: {self.numbers}; {self.undecided}"

    @property
    def difference(self) -> str:
        """The derivative of the loss along these entries, in words: AD, right adjoint and difference."""
        probe = self.probe
        if not np.isfinite(probe.bar):
            return "no difference of the loss is known"
        return (
            f"along {'it' if len(self.entries) == 1 else 'them'} AD {probe.ad:.6g}, the derivative "
            f"{probe.exact:.6g}, a difference of the loss {probe.fd:.6g} ± {probe.bar:.1g}"
        )

    @property
    def undecided(self) -> str:
        """The difference that does not tell which of the two is right, in a clause."""
        if np.isfinite(self.probe.bar):
            return f"{self.difference}, which cannot tell which is right"
        return f"{self.difference} that could tell which is right"


def place_of(function: Function) -> str:
    """Return the line of a function as `file.py:7`."""
    span = function.origin.span(function.origin.tree)
    return f"{display_file(span.file)}:{span.line}"


@dataclass
class Reference:
    """The reference of one tape.

    Attributes:
        program: The tape.
        gradients: The gradients under test.
        functions: The functions whose custom gradient or replay the reference leaves out, by name.
        derived: The reference.
        note: The reason why there is no reference despite custom gradients; empty if there is one.
    """

    program: WholeTape
    gradients: Gradients
    functions: Mapping[str, Any]
    derived: Mapping[Port, Floats]
    note: str = ""
    _departures: dict[Port, Departure | None] = field(default_factory=dict)

    def departure(self, port: Port, checkpoint: Checkpoint | None = None) -> Departure | None:
        """Return the entries at which the gradient of an input differs from the reference, or None."""
        if port not in self._departures:
            self._departures[port] = self._compared(port, checkpoint)
        return self._departures[port]

    def confirms_own(self) -> bool:
        """True if differences confirm a custom gradient, against the derived one."""
        return any(found is not None and found.right == "own" for found in self._departures.values())

    def relative(self, port: Port) -> Floats:
        """Return the error of each entry of the float64 twin against the reference, relative to the entry."""
        derived = self.derived[port]
        with np.errstate(all="ignore"):
            found = np.abs(self.gradients.same[port] - derived) / np.abs(derived)
        return np.where(np.isfinite(found), found, 0.0)

    def _compared(self, port: Port, checkpoint: Checkpoint | None) -> Departure | None:
        given, derived = self.gradients.same[port], self.derived[port]
        with np.errstate(all="ignore"):
            error = np.abs(given - derived)
            off = np.isfinite(error) & (error > REFERENCE_ROUNDINGS * port.rounding * np.abs(derived))
        if off.any():  # rounding is expensive to measure, and mostly there is nothing to explain
            off &= (
                error
                > REFERENCE_ROUNDINGS * port.rounding * np.abs(derived)
                + ROUNDING_SPREAD * self.program.scatter(SCALES, self.gradients.consumed)[port]
            )
        if not off.any():
            return None
        entries = np.flatnonzero(off)
        entries = entries[np.argsort(-error[entries], kind="stable")]
        probe, right = self._decided(port, given - derived, entries, checkpoint)
        functions = self._blamed(port, entries)
        if right == "unknown" and functions:
            from tapedebug.autograd.tapes.custom_gradients import functions_off  # which loads 20 modules

            threads = [int(at) // max(1, port.components) for at in entries]
            if functions_off(self.program.tape, [f.name for f in functions], threads, checkpoint):
                right = "reference"
        return Departure(port, entries, given, derived, right, functions, probe)

    def _decided(
        self, port: Port, apart: Floats, entries: Indices, checkpoint: Checkpoint | None
    ) -> tuple[Probe, Right]:
        """Take the difference of the loss along a direction in which all differing entries add up."""
        direction = np.zeros(port.size)
        direction[entries] = (np.sign(apart) * entry_scales(self.program.values(port)))[entries]
        given, derived = self.gradients.same[port], np.nan_to_num(self.derived[port])
        gap = float(np.abs(apart[entries]) @ np.abs(direction[entries]))
        size = float(np.sqrt(((derived * direction) ** 2).sum()))
        plain = Probe(
            None, float(given @ direction), float(derived @ direction), float("nan"), float("inf"), size, 0.0
        )
        noise = 0.0 if self.program.is_narrow else self.gradients.noise({port: direction})
        fine = REFERENCE_DECIDED * gap / max(size, gap)
        probe, found = measured(self.program, {port: direction}, plain, fine, noise, checkpoint)
        low, high = sorted((float(found.left[0]), float(found.right[0])))
        if bool(found.kink[0]) and high - low > REFERENCE_DECIDED * gap:
            # Beside a kink, each slope between those of both sides is as good as the other.
            between = low - REFERENCE_DECIDED * gap <= probe.ad <= high + REFERENCE_DECIDED * gap
            return probe, "own" if between else "unknown"
        if not probe.bar <= REFERENCE_DECIDED * gap or not np.isfinite(probe.fd):
            return probe, "unknown"
        if abs(probe.exact - probe.fd) <= probe.bar + REFERENCE_DECIDED * gap:
            return probe, "reference"
        return probe, "own" if abs(probe.ad - probe.fd) <= probe.bar + REFERENCE_DECIDED * gap else "unknown"

    def _blamed(self, port: Port, entries: Indices) -> tuple[Any, ...]:
        """Return the functions whose custom gradient changes the worst entry."""
        worst = int(entries[0])
        exact = self.gradients.exact[port][worst]
        total = abs(exact - self.derived[port][worst])
        if not total > 0.5 * abs(self.gradients.same[port][worst] - self.derived[port][worst]):
            return ()  # with the values of the forward pass it is right
        if len(self.functions) == 1:
            return tuple(self.functions.values())
        found = []
        for name, function in self.functions.items():
            alone = _derived(self.program, frozenset({name}))[port][worst]
            if not abs(alone - exact) <= 0.1 * total:
                found.append(function)
        return tuple(found) or tuple(self.functions.values())


def reference_of(program: WholeTape, gradients: Gradients) -> Reference:
    """Return the reference of a tape: its float64 adjoint if it has no custom gradients."""
    functions = custom_functions(program.tape)
    if not functions:
        return Reference(program, gradients, functions, gradients.exact)
    try:
        derived = _derived(program, frozenset(functions))
    except TapedebugError as error:
        names = " and ".join(functions)
        note = f"the gradient of {names} was compared with differences only: {error.message}"
        return Reference(program, gradients, {}, gradients.exact, note)
    lost = [port.name for port in program.inputs if not np.isfinite(derived[port]).all()]
    note = (
        f"{' and '.join(lost)}: where the derivative of {' and '.join(functions)} is not finite, the "
        "gradient was compared with differences only"
        if lost
        else ""
    )
    return Reference(program, gradients, functions, derived, note)


def _derived(program: WholeTape, names: frozenset[str]) -> dict[Port, Floats]:
    """Return the float64 adjoint that reverses the bodies of these functions."""
    shadow = tape_shadow(derived_tape(cast("Tape", program.tape), names))(True)
    shadow.pulse = program.pulse
    shadow.forward(0)
    shadow.backward({port.array: seed.reshape(port.shape) for port, seed in program.seeds.items()})
    return {port: shadow.gradient(port.array).ravel().astype(np.float64) for port in program.inputs}


def custom_functions(tape: RecordedTape) -> dict[str, Any]:
    """Return the functions with a custom gradient or replay that the kernels of a tape call, by name.

    Functions whose gradients are meant to differ are left out, and so are native ones: they have no body to
    reverse.
    """
    kernels = {
        id(k): k for o in tape.operations if (k := kernel_of(o)) is not None and adjoint_of(o) is not None
    }
    return {function.name: function for kernel in kernels.values() for function in own_functions_of(kernel)}


def own_functions_of(kernel: Kernel) -> Iterable[Any]:
    """Return such functions that one kernel calls."""
    if not _may_have_own(kernel):
        return []
    nodes = own_adjoints(kernel._lowered.custom.body)
    return dict.fromkeys(node.function for node in nodes if is_derived(node))


def _may_have_own(kernel: Kernel) -> bool:
    """True if a kernel may call such functions; mostly known without lowering it."""
    notes = kernel._analysis_cache
    if notes.fingerprint is None or not notes.valid:
        return True
    versions = (version for function in kernel.functions for version in function.overloads)
    return any(version.gradient is not None or version.replay is not None for version in versions)

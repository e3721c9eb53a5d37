"""`gradcheck_tape(end_to_end=True)`: the whole tape, launches in lockstep, custom gradients."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._progress import OutOfTime, Progress
from tapedebug.autograd.array_types import Loss
from tapedebug.autograd.checks.adjoint_check import CheckPlan
from tapedebug.autograd.finite_diff.verdict import worst
from tapedebug.autograd.results.gradcheck_result import (
    Coverage,
    Entry,
    GradcheckResult,
    PairResult,
    PairResults,
)
from tapedebug.autograd.subjects.engine_kernels import kernel_of
from tapedebug.autograd.subjects.entry_names import entry_name, value_type
from tapedebug.autograd.subjects.launches import spelled
from tapedebug.autograd.subjects.whole_tape import Names, WholeTape, whole_tape
from tapedebug.autograd.subjects.write_sites import write_site
from tapedebug.autograd.tapes.custom_gradients import CHECK, check_own_gradients
from tapedebug.autograd.tapes.end_to_end import EndToEnd, end_to_end
from tapedebug.autograd.tapes.input_check import InputCheck
from tapedebug.autograd.tapes.lockstep import Steps, lockstep
from tapedebug.autograd.tapes.single_launch import Argument, WrongEntry
from tapedebug.contract import Array, RecordedTape, overwrite_mode
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tape import Tape

if TYPE_CHECKING:
    pass


WHOLE = "the whole tape"
LOCKSTEP = "in lockstep"
SHARE = 0.5  # of the time that there is, for the end-to-end check


@dataclass
class WholeCheck:
    """The check of a tape as a whole and in parts.

    Args:
        tape: The tape.
        loss: As for `end_to_end`.
        inputs: As for `end_to_end`.
        plan: Its `rtol` is the relative error up to which a gradient agrees.
        pace: The progress of the whole check.
    """

    tape: RecordedTape
    loss: Loss | None
    inputs: Iterable[Array] | Array | None
    check_plan: CheckPlan
    pace: Progress
    pairs: list[PairResult] = field(default_factory=list)
    scripts: dict[int, Callable[[], str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    stepped: int = 0

    def run(
        self,
        wanted: Sequence[Any],
        notes: Sequence[str],
        script: Callable[[int, PairResult], Callable[[], str]],
    ) -> GradcheckResult:
        """Check the whole tape, and the selected launches in lockstep.

        Args:
            wanted: The records of these launches.
            notes: The reasons why others were not selected.
            script: Returns a writer for the script of a pair of a launch.
        """
        self.pace.subject = WHOLE
        self.pace.begin("the end-to-end check")
        program = whole_tape(self.tape, self.loss, self.inputs, None)
        whole = self._whole(program)
        steps = Steps()
        if whole is not None and whole.inputs and self._can_step(program, whole):
            self._lockstep(program, steps, [record.index for record in wanted])
        for pair in self._arguments(steps):
            launch = pair.launch or 0
            if pair.is_compared and kernel_of(self.tape.operations[launch]) is not None:
                single = replace(pair, output=pair.output.split(", ")[0], check="adjoint")
                self.scripts[len(self.pairs)] = script(launch, single)
            self.pairs.append(pair)
        self._functions(wanted)
        self.notes += [
            *notes,
            *(f"not checked in lockstep: {spelled(at)}: {why}" for why, at in steps.left.items()),
        ]
        self._tell_apart(whole, steps)
        return self._result(whole)

    # -------------------------------------------------------------- the whole

    def _whole(self, program: WholeTape) -> EndToEnd | None:
        names = Names(self.tape)
        output = ", ".join(port.name for port in program.seeds)
        began = time.perf_counter()
        try:
            with self.pace.share(SHARE, 30.0) as seconds:
                found = end_to_end(
                    self.tape, self.loss, self.inputs,
                    rtol=self.check_plan.tolerance.rtol, max_seconds=seconds, checkpoint=self.pace.pulse,
                )  # fmt: skip
        except OutOfTime as error:
            self.pairs += [
                PairResult(None, WHOLE, port.name, output, "UNDECIDABLE", message=f"not checked: {error}")
                for port in program.inputs
            ]
            self.notes.append(f"not checked: {WHOLE}, and each launch in lockstep: {error}")
            return None
        each = (time.perf_counter() - began) / max(1, len(found.inputs))
        self.pairs += [
            replace(_whole_pair(check, names.of(check.array), output), seconds=each) for check in found.inputs
        ]
        self.notes += found.coverage.notes
        return found

    # -------------------------------------------------------------- launches

    def _can_step(self, program: WholeTape, whole: EndToEnd) -> bool:
        if not isinstance(self.tape, Tape):
            self.notes.append(f"not checked in lockstep: operations of {self.tape.engine.name}")
            return False
        if program.blind:
            self.notes.append(f"not checked in lockstep: {program.blind}")
        elif whole.verdict == "NONDETERMINISTIC":
            self.notes.append("not checked in lockstep: two forward runs differ")
        return not program.blind and whole.verdict != "NONDETERMINISTIC"

    def _lockstep(self, program: WholeTape, steps: Steps, wanted: Collection[int]) -> None:
        assert isinstance(self.tape, Tape), "see _can_step"
        total = len(self.tape.operations)

        def begin(record: Record) -> None:
            self.pace.subject = f"launch {record.index} ({record.name}) of {total}"
            self.pace.begin(LOCKSTEP)

        try:
            lockstep(
                program, self.tape, self.check_plan.tolerance.rtol, wanted, steps, self.pace.pulse, begin
            )
        except OutOfTime as error:
            known = {a.launch for a in steps.arguments} | {i for at in steps.left.values() for i in at}
            for index in sorted(set(wanted) - known, reverse=True):
                steps.leave(index, str(error))
                record = self.tape.operations[index]
                for p in sorted(set(record.active) & set(record.reads)):
                    steps.arguments.append(Argument(index, p, "UNDECIDABLE"))
        self.stepped = len({a.launch for a in steps.arguments if a.size})

    def _functions(self, wanted: Sequence[Any]) -> None:
        self.pace.subject = "gradients of the user's own"
        try:
            self.pace.begin(CHECK)
            self.pairs += check_own_gradients(self.tape, wanted, self.notes, self.pace.pulse)
        except OutOfTime as error:
            self.notes.append(f"not checked: functions with func_grad alone: {error}")

    def _arguments(self, steps: Steps) -> list[PairResult]:
        out_of_time = {i for why, at in steps.left.items() for i in at if why.startswith("time was up")}
        late = next((why for why in steps.left if why.startswith("time was up")), "")
        return [
            self._argument(argument, late if argument.launch in out_of_time else "")
            for argument in sorted(steps.arguments, key=lambda a: a.launch)
        ]

    def _argument(self, argument: Argument, late: str) -> PairResult:
        record = self.tape.operations[argument.launch]
        assert isinstance(record, Record), "see _can_step"
        name = record.param_name(argument.param)
        outputs = [record.param_name(p) for p in sorted(record.writes)]
        entry, wrong = None, argument.wrong
        if wrong is not None and wrong.index is not None:
            dtype = record.args[argument.param].dtype
            entry = Entry(
                (), wrong.index, wrong.given, wrong.right, wrong.bar,
                output=", ".join(outputs), input=entry_name(name, wrong.index, dtype),
            )  # fmt: skip
        subject = f"launch {record.index} ({record.name})"
        message = f"not checked: {late}" if late else self._message(record, argument, name)
        place = None
        if argument.verdict == "WRONG" and record.kernel is not None:
            place = write_site(record.kernel, outputs[0], record.call_site, subject)
        return PairResult(
            record.index, subject, name, ", ".join(outputs), argument.verdict,
            max_abs_error=argument.error if argument.size else float("nan"),
            max_rel_error=argument.relative if argument.size else float("nan"),
            message=message, worst=entry, largest=entry, entries=argument.size, evaluated=argument.size,
            check=LOCKSTEP, written=place,
        )  # fmt: skip

    def _message(self, record: Record, argument: Argument, name: str) -> str:
        """Return the message about the error of an argument's gradient."""
        if argument.cause == "not finite" and argument.wrong is None:
            return f"the adjoint of {name} that leaves is not finite, and differences cannot decide"
        if argument.verdict == "KINK":
            return f"along a random direction in {name} the launch has a kink: no derivative exists here"
        if argument.verdict == "UNDECIDABLE":
            return f"differences along a random direction in {name} cannot decide"
        wrong = argument.wrong
        if wrong is None:
            return ""
        numbers = error_text(wrong, name, record.args[argument.param].dtype, argument.size)
        if argument.cause == "overwritten":
            mode = f"on_overwrite={overwrite_mode(self.tape)!r}"
            return (
                "alone the launch is right; in the reverse pass of the tape it is not, as "
                f"{self._by(argument)} overwrote values that its adjoint needs ({mode}): {numbers}"
            )
        if argument.cause == "detached":
            return (
                f"alone the launch is right, but the chain is severed here: {name} has requires_grad=False, "
                f"so that no gradient goes on to what it was computed from: {numbers}"
            )
        if argument.cause == "no adjoint":
            return f"the chain is severed here: the kernel has enable_backward=False: {numbers}"
        if argument.cause == "not finite":
            return f"the adjoints that arrive are finite, those that leave are not: {numbers}"
        return f"its adjoint is wrong, for the adjoints that arrive: {numbers}"

    def _by(self, argument: Argument) -> str:
        if argument.clobber < 0:
            return "something outside the tape"
        return f"launch {argument.clobber} ({self.tape.operations[argument.clobber].name})"

    # -------------------------------------------------------------- together

    def _tell_apart(self, whole: EndToEnd | None, steps: Steps) -> None:
        """Attribute an error of the whole tape to its launches."""
        if whole is None or whole.verdict != "WRONG":
            return
        names = [check.name for check in whole.inputs if check.verdict == "WRONG"]
        off = [a for a in steps.arguments if a.verdict == "WRONG"]
        end = f"end to end the gradient with respect to {' and '.join(names)} is WRONG"
        own = {a.launch for a in off if a.cause in ("adjoint", "not finite")}
        others = {a.launch for a in off} - own
        if own:
            text = f"{end}: see {spelled(own)}, whose own adjoint is wrong"
            self.notes.append(text + (f", and {spelled(others)}, right when alone" if others else ""))
        elif others:
            self.notes.append(f"each launch alone is right; {end}: see {spelled(others)}")
        elif self.stepped:
            self.notes.append(f"{end}, and no launch that was checked in lockstep is to blame")

    def _result(self, whole: EndToEnd | None) -> GradcheckResult:
        launches = len(self.tape.operations)
        verdict = worst(pair.verdict for pair in self.pairs)
        summary = "nothing was checked" if whole is None else whole.coverage.summary
        checked = 0 if whole is None else whole.coverage.checked
        if whole is not None and whole.verdict == "AGREE" != verdict:
            # Agreement of the whole does not excuse a wrong part.
            summary = f"{checked} of {launches} launches checked end to end; nothing contradicts the whole"
        summary += f"; {self.stepped} launches in lockstep"
        return GradcheckResult(
            subject=f"tape of {launches} launch{'es' * (launches != 1)}",
            verdict=verdict,
            pairs=PairResults(self.pairs),
            coverage=Coverage(summary, launches, checked, tuple(dict.fromkeys(self.notes))),
            dot_products=() if whole is None or whole.dot_product is None else (whole.dot_product,),
            scripts=self.scripts,
            settings=self.check_plan.settings(),
        )


def _whole_pair(check: InputCheck, name: str, output: str) -> PairResult:
    """Return the result of one input of the whole tape."""
    pair = PairResult(
        None, WHOLE, name, output, check.verdict, check.max_abs_error, check.rel_error,
        entries=check.consumed.size, evaluated=check.consumed.size,
    )  # fmt: skip
    if check.verdict == "AGREE":
        return pair
    pair = replace(pair, message=check.message)
    return replace(pair, **_largest(check, name, output)) if check.verdict == "WRONG" else pair


def _largest(check: InputCheck, name: str, output: str) -> dict[str, Any]:
    """Return the entry with the largest error, of those that were displaced alone."""
    found = []
    for probe in check.probes:
        if probe.entry is not None and np.isfinite(probe.ad - probe.fd):
            ad, fd, bar = (number / probe.unit for number in (probe.ad, probe.fd, probe.bar))
            place = entry_name(name, probe.entry, value_type(check.array))
            found.append(Entry((), probe.entry, ad, fd, bar, output=output, input=place))
    if not found:
        return {}
    entry = max(found, key=lambda e: abs(e.ad - e.fd))
    error = max(abs(entry.ad - entry.fd), np.nan_to_num(check.max_abs_error, nan=0.0))
    return {"worst": entry, "largest": entry, "max_abs_error": float(error)}


def error_text(wrong: WrongEntry, name: str, dtype: type, size: int) -> str:
    """Return `x[2] gets 18, right is 243 ± 1e-09; 3 of 3 entries differ, each by the factor 0.5`."""
    where = f"a random direction in {name}"
    if wrong.index is not None:
        where = entry_name(name, wrong.index, dtype)
    text = f"{where}: AD {wrong.given:.6g}, FD {wrong.right:.6g} ± {wrong.bar:.1g}"
    if wrong.index is None:
        return text
    text += f"; {wrong.count} of {size} entries differ"
    return text if np.isnan(wrong.ratio) else f"{text}; AD is {wrong.ratio:.4g} × FD in each"

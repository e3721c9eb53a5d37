"""`gradcheck_tape`: check each kernel launch of a tape at the values that it had."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from tapedebug._dataclass import dataclass
from tapedebug._errors import GradcheckError
from tapedebug._process_state import preserve_process_state
from tapedebug._progress import OutOfTime, Progress
from tapedebug._tape_observers import recorded_tape
from tapedebug.autograd.array_types import Loss
from tapedebug.autograd.checks.adjoint_check import CheckPlan, Comparison
from tapedebug.autograd.finite_diff.verdict import worst
from tapedebug.autograd.options import ReferenceKind, Sample
from tapedebug.autograd.plots import plot_errors, require_matplotlib
from tapedebug.autograd.results.gradcheck_result import Coverage, GradcheckResult, PairResult, PairResults
from tapedebug.autograd.results.pair_result import entries_of
from tapedebug.autograd.results.show_once import show
from tapedebug.autograd.subjects.executors import handed_out, require_executor
from tapedebug.autograd.subjects.launches import (
    LaunchCopy,
    LaunchSelection,
    Masks,
    copy_of,
    launch_values,
    recording_of,
    spelled,
    why_not_alone,
)
from tapedebug.autograd.subjects.pairs import Mask
from tapedebug.autograd.subjects.repro_script import ReproScript, Scene, Writer
from tapedebug.autograd.tapes.launch_check import (
    LaunchCheck,
    LaunchWork,
    check_in_sight,
    check_launch,
    left_notes,
    not_reached,
)
from tapedebug.autograd.tapes.whole_check import WholeCheck
from tapedebug.contract import RecordedTape, Recording, is_recorded_tape
from tapedebug.runtime.tape.record import Record
from tapedebug.runtime.tape.tape_arrays import launch_kind

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from tapedebug.contract import Array


@preserve_process_state
def gradcheck_tape(
    tape: RecordedTape,
    *,
    eps: float = 1e-4,
    atol: float = 1e-3,
    rtol: float = 1e-2,
    raise_exception: bool = True,
    input_output_masks: Masks = None,
    blacklist_kernels: Sequence[str] | None = None,
    whitelist_kernels: Sequence[str] | None = None,
    max_inputs_per_var: int = -1,
    max_outputs_per_var: int = -1,
    plot_relative_error: bool = False,
    plot_absolute_error: bool = False,
    show_summary: bool = True,
    reverse_launches: bool = False,
    skip_to_launch_index: int = 0,
    sample: Sample = "random",
    reference: ReferenceKind = "float64",
    nondet_tol: float = 0.0,
    check_backward_ad: bool = True,
    check_forward_ad: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    fast_mode: bool = False,
    masked: bool | None = None,
    check_sparse_nnz: bool | None = None,
    end_to_end: bool = False,
    loss: Loss | None = None,
    inputs: Iterable[Array] | Array | None = None,
    executor: Executor | None = None,
    progress: Callable[[str], None] | bool | None = None,
    max_seconds: float | None = None,
) -> GradcheckResult:
    """Check the gradient of each kernel launch on a tape.

    Launches are checked one by one, with the values that their arrays held when they ran (the tape is
    replayed in private memory); what the arrays hold now does not matter, and nothing of them changes. What
    goes wrong between launches (an overwritten array, a cut chain) shows with `end_to_end=True` only.

    Args:
        tape: The tape, of any engine that replays operations alone (`contract.LocalReplays`). The coverage
            lists the parts that another engine cannot test.
        eps: See `gradcheck`.
        atol: See `gradcheck`.
        rtol: See `gradcheck`.
        raise_exception: Raise an error if the check does not pass.
        input_output_masks: By kernel key, or by index of a single launch (which counts more), the pairs
            (input, output) to check, each by name or index. Arrays that a launch reads count as inputs,
            arrays that it writes as outputs, however they were passed; indices are those of the kernel's
            arguments for inputs, and count the arrays that it writes for outputs.
        blacklist_kernels: Keys of kernels to leave out.
        whitelist_kernels: Keys of the only kernels to check, if not empty.
        max_inputs_per_var: See `gradcheck`.
        max_outputs_per_var: See `gradcheck`.
        plot_relative_error: Show relative errors, a figure for each launch (needs matplotlib).
        plot_absolute_error: Show absolute errors.
        show_summary: Print the tables and their notes.
        reverse_launches: Start with the last launch.
        skip_to_launch_index: Leave out that many launches (copies and fills count) at the beginning of the
            order.
        sample: See `gradcheck`, as for all that follow up to `check_sparse_nnz`.
        reference: What the adjoint is compared with.
        nondet_tol: By how much two runs may differ.
        check_backward_ad: Check the adjoint.
        check_forward_ad: Check the tangent.
        check_batched_grad: Check several adjoints at once.
        check_batched_forward_grad: Check several tangents at once.
        check_undefined_grad: Check outputs without an adjoint, in one launch of each kernel and each kind of
            arguments.
        check_grad_dtypes: Check dtype and shape of gradients.
        fast_mode: Compare random combinations only.
        masked: Leave out entries outside of the traced sparsity.
        check_sparse_nnz: The old name of `masked`.
        end_to_end: Check the gradient of the whole tape that `Tape.backward` gives, as the function
            `end_to_end` does, and each launch in lockstep with the reverse pass: for the adjoints that arrive
            there, so that each wrong launch is named once; not all its entries one by one. `rtol` counts, of
            the gradient's size; `atol` does not, as a loss has no size of its own.
        loss: With `end_to_end`: the loss; see the function.
        inputs: With `end_to_end`: the arrays whose gradients are checked; see the function.
        executor: Any executor of `concurrent.futures`, whose workers check the launches, in chunks. Results
            are the same to the last bit. Launches whose errors are plotted are checked here.
        progress: Called with a short text at each launch; by default they are shown on a terminal or in a
            notebook; False shows nothing.
        max_seconds: The time limit: launches that were not checked by then are UNDECIDABLE.

    Returns:
        A result that is true where all pairs of all launches agree (and there was one); see
        `GradcheckResult`.

    Raises:
        GradcheckFailure: A ValueError that names the failing pair, where `raise_exception` is set.
        GradcheckError: A mask or list names what there is not, a step or tolerance is not one, nothing is
            left after `skip_to_launch_index`, or the executor broke down.
    """
    tape = recorded_tape(tape)
    _require_tape(tape)
    if plot_relative_error or plot_absolute_error:
        require_matplotlib()
    plan = CheckPlan.of(locals())
    require_executor(executor, "gradcheck_tape")
    choice = LaunchSelection(
        input_output_masks,
        blacklist_kernels,
        whitelist_kernels,
        reverse_launches,
        skip_to_launch_index,
        alone="" if end_to_end else why_not_alone(tape),
    ).checked(tape.operations)
    _require_fitting(end_to_end, {"loss": loss, "inputs": inputs}, input_output_masks)
    plots = {"relative": plot_relative_error, "absolute": plot_absolute_error}
    with Progress(progress, max_seconds, caller="gradcheck_tape", doing="checking") as pace:
        check = _TapeCheck(tape, choice, plan, pace)
        if end_to_end:
            records, notes = replace(choice, python=True).split(tape.operations)
            result = WholeCheck(tape, loss, inputs, plan, pace).run(records, notes, check.script)
        else:
            check.run(None if any(plots.values()) else executor, plots)
            result = check.result()
    if show_summary:
        show(result)
    if raise_exception:
        result.raise_if_failed()
    return result


def _require_tape(tape: object) -> None:
    if not is_recorded_tape(tape):
        raise GradcheckError(
            f"gradcheck_tape: a tape is needed; got {tape!r} ({type(tape).__name__})",
            hint="record launches inside `with wp.Tape() as tape:`, or use gradcheck for a kernel",
        )


def _require_fitting(whole: bool, given: Mapping[str, Any], masks: Masks) -> None:
    """Check that the arguments fit together.

    Raises:
        GradcheckError: A loss or inputs without `end_to_end`, or masks with it.
    """
    idle = [name for name, value in given.items() if value is not None]
    if idle and not whole:
        raise GradcheckError(
            f"gradcheck_tape: {' and '.join(idle)} without end_to_end=True: launches are checked one by one, "
            "with all that they read and write",
            hint="pass end_to_end=True",
        )
    if whole and masks:
        raise GradcheckError(
            "gradcheck_tape: input_output_masks and end_to_end=True do not go together",
            hint="name the arrays whose gradients are wanted: inputs=[…]; or check launches one by one",
        )


@dataclass
class _TapeCheck:
    """The launches of one tape, and their results."""

    tape: RecordedTape
    choice: LaunchSelection
    check_plan: CheckPlan
    pace: Progress
    found: list[LaunchCheck] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)

    def run(self, executor: Executor | None, plots: Mapping[str, bool]) -> None:
        """Check the launches that were chosen."""
        records, self.notes = self.choice.split(self.tape.operations)
        try:
            if executor is None:
                for work in self._works(records):
                    self.pace.subject = work.name
                    self.pace.begin(f"{work.name}, {len(self.found) + 1} of {len(records)}")
                    self._check(work, plots)
            else:
                works = handed_out(
                    check_launch, self._works(records), len(records), executor,
                    caller="gradcheck_tape", name_of=lambda work: work.name, pulse=self.pace.pulse,
                )  # fmt: skip
                with closing(works):
                    for check in works:
                        self.found.append(check)
                        self.pace.begin(f"{len(self.found)} of {len(records)} launches done")
        except OutOfTime as error:
            self._give_up(records[len(self.found) :], str(error))

    def _works(self, records: Sequence[Any]) -> Iterator[LaunchWork]:
        # Missing adjoints have the same effect in all launches that share a plan.
        seen: set[int] = set()
        again = replace(self.check_plan, options=replace(self.check_plan.options, check_undefined_grad=False))
        values = launch_values(self.tape, records, self.pace.pulse, self.unmatched)
        for record, contents in values:
            shared = launch_kind(record) if isinstance(record, Record) else id(record)
            plan = again if shared in seen else self.check_plan
            seen.add(shared)
            yield LaunchWork(copy_of(self.tape, record, contents, self.choice.mask(record)), plan)

    def _check(self, work: LaunchWork, plots: Mapping[str, bool]) -> None:
        compared: list[Comparison] | None = [] if any(plots.values()) else None
        subject = work.subject()
        self.found.append(check_in_sight(work, subject, self.pace, compared))
        if compared:
            plot_errors(compared, subject.metadata, **plots)

    def _give_up(self, records: Sequence[Any], reason: str) -> None:
        """Report launches that there is no time for."""
        self.found += [not_reached(record, reason) for record in records]
        self.notes.append(f"not checked: {spelled(record.index for record in records)}: {reason}")

    def result(self) -> GradcheckResult:
        """Return the result of all launches."""
        pairs: list[PairResult] = []
        scripts: dict[int, Callable[[], str]] = {}
        for check in self.found:
            writer = self._writer(check.index)
            for pair in check.pairs:
                scripts[len(pairs)] = ReproScript.of(writer, pair, self.check_plan.settings())
                pairs.append(pair)
        notes = [*self.notes, *left_notes(self.found)]
        for check in self.found:
            notes += [check.dot.message] if check.dot is not None and check.dot.message else []
            notes += [f"launch {check.index} ({check.kernel}): {note}" for note in check.notes]
        summary, covered = self._summary(pairs)
        launches = len(self.tape.operations)
        return GradcheckResult(
            subject=f"tape of {launches} launch{'es' * (launches != 1)}",
            verdict=worst(pair.verdict for pair in pairs),
            pairs=PairResults(pairs),
            coverage=Coverage(summary, launches, covered, tuple(dict.fromkeys([*notes, *self.unmatched]))),
            dot_products=tuple(check.dot for check in self.found if check.dot is not None),
            scripts=scripts,
            settings=self.check_plan.settings(),
        )

    def _summary(self, pairs: Sequence[PairResult]) -> tuple[str, int]:
        launches = len(self.tape.operations)
        if not launches:
            return "nothing was checked: the tape is empty", 0
        if not pairs:
            none = "the launch does not have" if launches == 1 else f"none of {launches} launches has"
            return f"nothing was checked: {none} an input and an output with requires_grad=True", 0
        covered = sum(any(pair.is_compared or pair.zeros for pair in check.pairs) for check in self.found)
        summary = (
            f"{covered} of {launches} launches checked one by one: {len(pairs)} input-output pairs, "
            f"{entries_of(pairs)}"
        )
        return summary, covered

    def script(self, index: int, pair: PairResult) -> ReproScript:
        """Return the script of a pair of a launch."""
        return ReproScript.of(self._writer(index), pair, self.check_plan.settings())

    def _writer(self, index: int) -> Writer:
        """Return a writer for the scripts of a launch from the tape, valid also after the tape is reset."""
        mask, engine = self.choice.mask(self.tape.operations[index]), self.tape.engine.name
        return Writer(_LaunchScene(recording_of(self.tape), index, mask, engine, self.check_plan))


@dataclass(frozen=True)
class _LaunchScene:
    """Writes the common part of the scripts of a launch.

    Attributes:
        recording: The recording of the tape, with the values that the launch ran on.
        index: The index of the launch.
        mask: The pairs of it that are checked.
        engine: The name of the engine.
        check_plan: The settings of the check.
    """

    recording: Recording
    index: int
    mask: Mask
    engine: str
    check_plan: CheckPlan

    def __call__(self) -> Scene:
        operation = self.recording.operations[self.index]
        if not isinstance(operation, Record):
            raise GradcheckError(f"no script can be written for operations of {self.engine}")
        [(record, values)] = launch_values(self.recording, [operation])
        return LaunchWork(LaunchCopy.of(record, values, self.mask), self.check_plan).subject().writer.scene()

    def released(self) -> Callable[[], Scene]:
        """Return a function that returns this scene without keeping the tape alive.

        Raises:
            GradcheckError: The function was called after the tape had been released.
        """
        known, index, mask, plan = self.recording.weak(), self.index, self.mask, self.check_plan
        engine = self.engine

        def scene() -> Scene:
            recording = known()
            if recording is None:
                raise GradcheckError(
                    "no script can be written: the tape with the values of this launch is gone; "
                    "keep it in a variable (%%gradcheck --name VAR)"
                )
            return _LaunchScene(recording, index, mask, engine, plan)()

        return scene

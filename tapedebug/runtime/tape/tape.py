"""The tape: records launches, keeps the values that their adjoints need, and runs the reverse pass."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tapedebug import _tape_observers as tape_observers
from tapedebug._clock import clock, tape_ids
from tapedebug._errors import TapedebugError, TapeError
from tapedebug._source import Span, site_span
from tapedebug.runtime.config import MODES, TRACKS, config
from tapedebug.runtime.launch.launch import kernel_for, launch_dims, resolve
from tapedebug.runtime.memory.array import array, range_key
from tapedebug.runtime.memory.buffer import ZERO
from tapedebug.runtime.reverse import backward_pass, late_grad
from tapedebug.runtime.reverse.borrowed_seed import BorrowedSeed, same_seed
from tapedebug.runtime.reverse.seeds import SeedMap, checked_seeds
from tapedebug.runtime.state import close, here, is_recording, refuse_at_another_time, state
from tapedebug.runtime.tape.array_names import ArrayNames
from tapedebug.runtime.tape.builtin_plans import func_plan
from tapedebug.runtime.tape.gradient_history import BackwardSpan, Event
from tapedebug.runtime.tape.memory_budget import Budget, parse_budget
from tapedebug.runtime.tape.record import Record, call_site
from tapedebug.runtime.tape.recording_log import remember
from tapedebug.runtime.tape.scopes import BackwardCall, Scope
from tapedebug.runtime.tape.tape_gradients import Gradients
from tapedebug.runtime.tape.tape_queries import TapeQueries
from tapedebug.runtime.tape.tracker import Tracker

if TYPE_CHECKING:
    from tapedebug.contract import Array
    from tapedebug.runtime.tape.element_tracking import Tracking


class Tape(TapeQueries):
    """A tape that records the launches of one thread inside a `with` block, for `backward`.

    Args:
        on_overwrite: What happens if a value is overwritten that the adjoint of a recorded launch needs.
            `"preserve"` (default, `config.on_overwrite`) keeps a copy, so that gradients are right; `"warn"`
            warns and uses the new value, as Warp's documentation describes; `"error"` raises before anything
            is overwritten; `"ignore"` uses the new value silently.
        track: `"elements"`: each launch also notes which thread on which line last wrote and read each
            element (`writers`, `readers`), and an index outside its array is an error. None (default,
            `config.track`): no element tracking, and launches cost a fraction.
        memory_budget: The memory that kept copies may take: a number of bytes, or text such as `"1 GB"`.
            Copies beyond it are released, and `backward` recomputes them from checkpoints, to the same bits.

    Attributes:
        records: The records, in order.
        scopes: The named groups of records.
        backward_calls: The calls of `backward`.
        before_backward: Functions that `backward` calls first: they attach the gradients of another library.
        began: The time of the first recording, in events of the process.
        ended: The time when it last stopped recording.

    Raises:
        TapeError: `on_overwrite` or `track` is not one of these, or `memory_budget` not an amount of memory.
    """

    def __init__(
        self,
        on_overwrite: str | None = None,
        track: str | None = None,
        memory_budget: int | float | str | None = None,
    ) -> None:
        mode = config.on_overwrite if on_overwrite is None else on_overwrite
        if mode not in MODES:
            raise TapeError(
                f"Tape: on_overwrite is one of {', '.join(MODES)}; got {mode!r}",
                hint="use one of these, or leave it out",
            )
        wanted = config.track if track is None else track
        if wanted is not None and wanted not in TRACKS:
            raise TapeError(
                f"Tape: track is 'elements' or None; got {wanted!r}", hint="use one of these, or leave it out"
            )
        self.track = wanted
        self.id = next(tape_ids)
        self.began = self.ended = 0
        self.on_overwrite = mode
        self.memory_budget = parse_budget(memory_budget)
        self.tracker = self._tracker()
        self.tracking = _tracking(self.tracker) if self.track else None
        self.records: list[Record] = self.tracker.records
        self.scopes: list[Scope] = []
        self.scope: int | None = None
        self.loss: array | None = None
        self.backward_calls: list[BackwardCall] = []
        self._names = ArrayNames()
        self._leftovers: dict[array, int] = {}
        self._spare: SeedMap = {}
        self._prepared: backward_pass.Prepared | None = None
        self.before_backward: dict[Callable[[], None], None] = {}
        self._created_at = call_site()
        tape_observers.enrol(self)

    def _tracker(self) -> Tracker:
        budget = Budget(self.memory_budget) if self.memory_budget is not None else None
        return Tracker(self.on_overwrite, budget=budget)

    def __repr__(self) -> str:
        return f"<Tape {self.id}: {len(self.records)} records, on_overwrite={self.on_overwrite!r}>"

    # -- recording --------------------------------------------------------------------------------------

    def __enter__(self) -> Tape:
        thread = here.thread
        if thread.tape is not None:
            which = "this tape is" if thread.tape is self else "another tape is"
            raise TapeError(
                f"cannot start recording: {which} recording already, and tapes do not nest",
                hint="leave the outer `with` block first",
            )
        if is_recording(self):
            raise TapeError(
                "cannot start recording: this tape is recording already, in another thread",
                hint="give each thread a tape of its own",
            )
        refuse_at_another_time("cannot start recording")
        self.tracker.begin()
        self.began = self.began or clock.tick()
        thread.tape = self  # last: if an interrupt comes before, the tape is not open
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        close(self)
        self.tracker.end()
        while self.scope is not None:
            self.record_scope_end()
        listed = bool(self.records) and tape_observers.are_listed()
        if listed:
            self._names.look(self.tracker, sys._getframe(1))
        self.ended = clock.tick()
        if listed:
            self.tracker.recording = remember(self.records, self.tracker.ledgers)
        tape_observers.notify("tape_exited", self)

    @property
    def created_at(self) -> Span:
        """The place in the program that created the tape."""
        return site_span(self._created_at)

    @property
    def is_recording(self) -> bool:
        """True while launches are being recorded."""
        return is_recording(self)

    def names(self, a: Array, /) -> list[str]:
        """Return the names of an array in the program, the best first; empty if none is known."""
        return self.array_names.get(range_key(a), []) if isinstance(a, array) else []

    def name_array(self, a: array, name: str) -> None:
        """Give an array a name that it has in no variable, such as that of a module's parameter."""
        if name not in self.names(a):
            self._names.add(a, name)

    @property
    def array_names(self) -> dict[Any, list[str]]:
        """The names of the arrays in the caller's variables when the block ended, by `range_key`."""
        return self._names.by_range()

    @property
    def launches(self) -> list[Record]:
        """The records, under the name that Warp's documentation uses."""
        return self.records

    def record_launch(
        self,
        kernel: Any,
        dim: Any,
        max_blocks: int = 0,
        inputs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        device: Any = None,
        block_dim: int = 0,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Record a launch without running it (the caller ran it, or does so next); arguments as for `launch`.

        Values that the launch overwrites are kept only if this is called before they are overwritten.
        """
        kernel = kernel_for(kernel, dim, (*inputs, *outputs))
        plan, args = resolve(kernel, (*inputs, *outputs))
        sizes, threads, slots = launch_dims(kernel, dim)
        packed = plan.packed(slots, args)
        record = Record(len(self.records), plan, args, sizes, threads, packed, call_site(), self.scope)
        self.tracker.before(record)
        self.records.append(record)

    def record_func(self, backward: Callable[[], Any], arrays: Sequence[Any]) -> None:
        """Record a function that `backward` calls at this point of the reverse pass.

        It has no forward: replays, checks and diagnosis report that they cannot run it. `launch_python`
        records a forward and a backward function, which they can run.

        Args:
            backward: Called without arguments. It sees the arrays' values at the time of recording, unless
                `on_overwrite` says otherwise.
            arrays: Arrays with a gradient that the function uses; `zero` zeroes their gradients.

        Raises:
            TapeError: `backward` is not callable, or an entry of `arrays` is not an array with a gradient.
        """
        if not callable(backward):
            raise TapeError(
                f"record_func: backward must be callable; got {backward!r}", hint="pass a function"
            )
        for a in arrays:
            if not isinstance(a, array) or not a.requires_grad:
                given = f"an array{a._facts()} without requires_grad" if isinstance(a, array) else repr(a)
                raise TapeError(
                    f"record_func: arrays must be arrays with a gradient; got {given}",
                    hint="create it with requires_grad=True",
                )
        args = tuple(arrays)
        record = Record(len(self.records), func_plan(args), args, (0,), 0, b"", call_site(), self.scope)
        record.func = backward
        self.tracker.before(record)
        self.records.append(record)

    def record_scope_begin(self, scope_name: str, metadata: dict[str, Any] | None = None) -> None:
        """Begin a named group of records; groups nest."""
        self.scopes.append(Scope(str(scope_name), self.scope, len(self.records), None, dict(metadata or {})))
        self.scope = len(self.scopes) - 1

    def record_scope_end(self, remove_scope_if_empty: bool = True) -> None:
        """End the innermost group.

        Args:
            remove_scope_if_empty: Forget a group without records.

        Raises:
            TapeError: No group is open.
        """
        if self.scope is None:
            raise TapeError(
                "record_scope_end: no scope is open", hint="call record_scope_begin first, once for each end"
            )
        scope = self.scopes[self.scope]
        scope.last = len(self.records) - 1
        empty = scope.last < scope.first and self.scope == len(self.scopes) - 1
        if empty and remove_scope_if_empty:
            self.scopes.pop()
        self.scope = scope.parent

    def reset(self) -> None:
        """Forget all records and zero the gradients; the tape can record again."""
        refuse_at_another_time("reset")
        tape_observers.notify("tape_reset", self)
        self.zero()
        self.forget_records()

    def forget_records(self) -> None:
        """Forget all records, as `reset` does; the gradients stay."""
        forgotten = Event("reset", clock.tick(), 0, 0, "", call_site(), self.id, len(self.records))
        self.tracker.log.add(forgotten)  # the history of the old tracker may still be in use
        was_open = self.tracker.is_open
        self.tracker = self._tracker()
        self.tracker.is_open = was_open
        self.tracker.log.add(forgotten)
        self.tracking = _tracking(self.tracker) if self.track else None
        self.records = self.tracker.records
        self.scopes = []
        self.scope = None
        self.loss = None
        self.backward_calls = []
        self._names = ArrayNames()
        self._leftovers = {}
        self._spare = {}
        self._prepared = None
        self.before_backward = {}
        self.began = self.ended = 0 if state.tape is not self else clock.now

    # -- gradients --------------------------------------------------------------------------------------

    @property
    def gradients(self) -> Gradients:
        """The gradient arrays of all arrays on the tape that require one."""
        return Gradients(self.tracker)

    def get_adjoint(self, a: Any) -> array | None:
        """Return the gradient array of `a`, or None if it has none."""
        return a.grad if isinstance(a, array) else None

    def zero(self) -> None:
        """Set the gradients of all arrays on the tape to zero."""
        site = call_site()
        self.tracker.log.add(("zero", clock.tick(), 0, 0, "zero", site, self.id, len(self.records)))
        for a in self.tracker.states:
            memory = a.buffer.adjoint
            if memory is not None and memory.fill is not ZERO and a.requires_grad:
                backward_pass.zero_gradient(a, site)

    def backward(self, loss: array | None = None, grads: Mapping[Any, Any] | None = None) -> None:
        """Run the reverse pass: gradients are added to the `.grad` of the arrays that require one.

        It begins from `loss`, from `grads`, and from the gradients of the arrays that the tape writes:
        `y.grad.fill_(1.0)` before `backward()` is the same as `backward(grads={y: ones_like(y)})`.

        The gradient of an intermediate array is consumed by the pass (it is zero afterwards) unless the array
        has `retain_grad=True`. If the pass is interrupted, all gradients are restored.

        Args:
            loss: An array of one float with `requires_grad`; its gradient becomes 1.
            grads: For arrays, their incoming gradients, of the same shape and dtype. An array without
                `requires_grad` gets it.

        Raises:
            TapeError: Nothing was recorded; the loss is not a scalar, has no gradient or is not on the tape;
                a seed does not fit; an array got its gradient after values that its adjoint needs were
                overwritten.
        """
        refuse_at_another_time("backward")
        for attach in self.before_backward:
            attach()
        self.tracker.catch_up_everywhere()
        try:
            late = bool(grads) and not all([type(a) is array and a._requires_grad for a in grads or ()])
            if late or self.tracker.activated:
                with late_grad.seeded(self.tracker, grads or {}):
                    seeds = checked_seeds(self.tracker, loss, grads, self._spare)
            else:
                seeds = checked_seeds(self.tracker, loss, grads, self._spare, self.loss)
        except TapedebugError as error:
            raise error.with_traceback(None) from None
        if state.foreign is not None:
            state.foreign.before_backward(self.records)
        call = BackwardCall(loss, seeds, len(self.records))
        site = call_site()
        thread = here.thread
        recording, thread.tape = thread.tape, None
        start = perf_counter()
        try:
            if self._prepared is None or not self._prepared.holds(self.tracker):
                self._prepared = backward_pass.Prepared(self.tracker)
            noted = BackwardSpan(self._prepared.leaves)
            ran = backward_pass.run(self._prepared, seeds, self._leftovers)
        except BaseException:
            self._spare = seeds
            raise
        finally:
            thread.tape = recording
        call.seconds = perf_counter() - start
        call._preset, call.stale, self._leftovers, call.unseeded, call.peak_bytes = ran
        again = self._again(call)
        number = len(self.backward_calls) + 1
        self.tracker.log.add(noted.end(self.id, call.records, number, again, site))
        call.reran = self._prepared.reran
        self.tracker.settled = recording is not self
        self.loss = loss if loss is not None else self.loss
        # Two sets of memory alternate: fresh memory for large seeds costs more than the pass.
        self._spare = self.backward_calls[-1].give_up() if self.backward_calls else {}
        for a, seed in seeds.items():
            if isinstance(seed, BorrowedSeed):
                self._spare[a] = seed
        self.backward_calls.append(call)
        tape_observers.notify("backward_done", self, call)

    def _again(self, call: BackwardCall) -> bool:
        """Return True if a pass began from the seeds of the one before; large ones are compared by sample."""
        if not self.backward_calls or self.backward_calls[-1].loss is not call.loss:
            return False
        last, now = self.backward_calls[-1].seeds_used, call.seeds_used
        if last.keys() != now.keys():
            return False
        return all([a is call.loss or same_seed(last[a], now[a]) for a in now])


def _tracking(tracker: Tracker) -> Tracking:
    """Return the element tracking of a tape; its modules are loaded for the first one."""
    from tapedebug.runtime.tape.element_tracking import Tracking

    return Tracking(tracker)

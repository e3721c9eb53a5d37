"""Programs that run in replays: in private memory, in float32 as recorded and in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import DTypeLike

from tapedebug.autograd.array_types import Floats, LaunchDim
from tapedebug.autograd.subjects.long_vectors import blocks, compact
from tapedebug.autograd.subjects.probes import typical_size
from tapedebug.autograd.subjects.program import Port
from tapedebug.lang.types import float64
from tapedebug.runtime.replay.batch import BatchedReplay
from tapedebug.runtime.replay.shadow import Shadow
from tapedebug.runtime.replay.single_launch import one_launch

if TYPE_CHECKING:
    from tapedebug.compiler.kernel import Kernel
    from tapedebug.contract import RecordedTape, Replay, TangentReplay
    from tapedebug.runtime.tape.tape import Tape

Consume = Literal["versions", "current"]
Use = tuple[str, bool, Consume]
NOWHERE: Mapping[Port, Floats] = {}


class ShadowProgram:
    """A launch, a recorded function or a whole tape; see `Program`.

    Args:
        subject: What it is called in messages.
        make: Returns a new replay before its first operation, in float64 if its argument is true.
        inputs, outputs: What derivatives can be asked of.
        launch: Index of the launch on the tape, None where it is not one launch of a tape.
        consume: What the reverse pass of the user's program sees.

    Attributes:
        pulse: Called before each record of every run; may raise to cancel.
        has_tangents: `push` is possible.
        is_narrow: Parts of it compute in float32 also in the float64 replay.
        engine: The name of the engine, if it is not this project's own.
        single_seed: The seed of its float64 gradient, if that is one number and the gradient is yet to be
            computed. The dot-product test of a large program starts from it.
        gradients: The float64 gradients from that seed, by what their reverse pass read.
        one_by_one: Of the runs that cannot run several rows at once, "forward", "backward" or "push", why.
    """

    def __init__(
        self,
        subject: str,
        make: Callable[[bool], Replay],
        inputs: Sequence[Port],
        outputs: Sequence[Port],
        *,
        launch: int | None = None,
        consume: Consume = "versions",
    ) -> None:
        self.subject = subject
        self.launch = launch
        self.inputs = list(inputs)
        self.outputs = list(outputs)
        self.consume = consume
        self._make = make
        # One replay a purpose: forward runs must not disturb the state that the adjoints of many seeds start
        # from.
        self._replays: dict[Use, Replay] = {}
        self._at: dict[Use, Mapping[Port, Floats]] = {}
        self._set: dict[Use, frozenset[Port]] = {}  # the inputs that a replay has other values of
        self._batched: dict[Use, BatchedReplay | None] = {}
        self._values: dict[Port, Floats] = {}
        self._typical: dict[Port, float] = {}
        self._rounded: Replay | None = None
        self.one_by_one: dict[str, str] = {}
        self.single_seed: Mapping[Port, Floats] | None = None
        self.gradients: dict[Consume, Mapping[Port, Floats]] = {}
        self.has_tangents = True
        self.is_narrow = False
        self.engine = ""
        self.pulse: Callable[[], None] | None = None

    def values(self, port: Port) -> Floats:
        """The values of an input, (size,) float64."""
        if port not in self._values:
            self.read_values(self._replay(("forward", True, "versions")).reset(), [port])
        return self._values[port].astype(np.float64, copy=False)

    def read_values(self, replay: Replay, ports: Iterable[Port]) -> None:
        """Read the values of inputs from a replay in float64 that stands before its first operation.

        `values` needs no replay of its own for them then.
        """
        for port in ports:
            if port not in self._values:
                self._values[port] = compact(flat_values(replay, port), port.array.scalar_dtype)

    def displaced(self, port: Port, step: float, direction: Floats) -> Floats:
        """Return the values of an input plus `step` times a direction, (size,) float64; read-only."""
        if port not in self._values:
            self.values(port)
        values, moved = self._values[port], np.empty(port.size)
        for at in blocks(port.size):
            np.multiply(direction[at], step, out=moved[at])
            moved[at] += values[at]
        moved.flags.writeable = False  # so that replays need no copy
        return moved

    def scaled(self, port: Port, factors: Floats) -> Floats:
        """Return the values of an input times `factors`, (size,) float64, in their memory; read-only."""
        if port not in self._values:
            self.values(port)
        values = self._values[port]
        for at in blocks(port.size):
            factors[at] *= values[at]
        factors.flags.writeable = False
        return factors

    def typical(self, port: Port) -> float:
        """Return `typical_size` of the values of an input."""
        if port not in self._typical:
            if port not in self._values:
                self.values(port)
            self._typical[port] = typical_size(self._values[port])
        return self._typical[port]

    def scales(self, port: Port) -> Floats:
        """Return `entry_scales` of the values of an input, (size,) float64."""
        least = 0.01 * self.typical(port)
        found: Floats = np.empty(port.size)
        for at in blocks(port.size):
            found[at] = self._values[port][at]
            np.abs(found[at], out=found[at])
            np.maximum(found[at], least, out=found[at])
        return found

    def evaluate(self, changes: Mapping[Port, Floats], *, single: bool = False) -> dict[Port, Floats]:
        """Run forward; see `Program`."""
        use: Use = ("forward", not single, "versions")
        shadow = self._run(use, changes)
        return {
            port: shadow.values(port.array).ravel().astype(np.float64, copy=False) for port in self.outputs
        }

    def outputs_before_reverse(self, *, double: bool = False) -> dict[Port, Floats]:
        """Run forward as recorded; `pull` in the same precision, without other inputs, goes on from there.

        In float64 that is a `preserved` one, and `values` needs no other replay afterwards.
        """
        use: Use = ("backward", double, "versions" if double else self.consume)
        shadow = self._replay(use)
        if not (double and self.stands_before_reverse()):
            self._displace(use, NOWHERE)
            if double:
                self.read_values(shadow, self.inputs)
            if double and isinstance(shadow, Shadow) and shadow.reverses_in_parts:  # `pull` starts over
                shadow.forward_only = True
                try:
                    shadow.forward(0)
                finally:
                    shadow.forward_only = False
            else:
                self._run(use, NOWHERE)
        return {
            port: shadow.values(port.array).ravel().astype(np.float64, copy=False) for port in self.outputs
        }

    def stands_before_reverse(self) -> bool:
        """True if a replay in float64 is at the end of a run as recorded, for a `preserved` reverse run."""
        return self._at.get(("backward", True, "versions")) is NOWHERE

    def pull(
        self,
        seeds: Mapping[Port, Floats],
        *,
        at: Mapping[Port, Floats] | None = None,
        double: bool = False,
        preserved: bool = False,
        compacted: bool = False,
    ) -> dict[Port, Floats]:
        """Run backward; see `Program`. `compacted` gradients are as `compact` returns them."""
        shadow = self.reversed(seeds, at=at, double=double, preserved=preserved)
        if compacted:
            return {port: compact(gradient_of(shadow, port), port.array.scalar_dtype) for port in self.inputs}
        return {port: gradient_of(shadow, port) for port in self.inputs}

    def reversed(
        self,
        seeds: Mapping[Port, Floats],
        *,
        at: Mapping[Port, Floats] | None = None,
        double: bool = False,
        preserved: bool = False,
    ) -> Replay:
        """Run backward as `pull` does, and return the replay that holds the gradients.

        In float64 its values may be those of any moment of the run.
        """
        consume: Consume = "versions" if preserved else self.consume
        wanted = NOWHERE if at is None else at
        use: Use = ("backward", double, consume)
        other: Use = ("backward", double, "current" if consume == "versions" else "versions")
        if use not in self._replays and self._at.get(other) is wanted:
            # It stands at the end with these inputs. Those of other engines can run backward in both ways.
            use = use if isinstance(self._replays[other], Shadow) else other
        shadow = self._replay(use)
        given = {p.array: seed.reshape(p.shape) for p, seed in seeds.items()}
        if double and consume == "versions" and isinstance(shadow, Shadow) and shadow.reverses_in_parts:
            self._displace(use, wanted)
            return shadow.gradients_in_parts(given)
        if use not in self._at or self._at[use] is not wanted:
            self._run(use, wanted)
        shadow.backward(given, consume=consume)
        return shadow

    def pull_rounded(self, seeds: Mapping[Port, Floats]) -> dict[Port, Floats]:
        """Run backward with all results rounded as much as in float32; see `Program`."""
        if self._rounded is None:
            self._rounded = self._new(True).forward(0)
            round_results(self._rounded)
        shadow = self._rounded
        shadow.backward({p.array: seed.reshape(p.shape) for p, seed in seeds.items()}, consume=self.consume)
        return {port: shadow.gradient(port.array).ravel().astype(np.float64) for port in self.inputs}

    def push(
        self,
        tangents: Mapping[Port, Floats],
        *,
        at: Mapping[Port, Floats] | None = None,
        double: bool = True,
    ) -> dict[Port, Floats]:
        """Run forward with tangents; see `Program`."""
        if at is None:
            shadow = cast("TangentReplay", self._replay(("push", double, "versions")).reset())
        else:  # a replay of its own: the other one stays where runs of many rows begin
            shadow = cast("TangentReplay", self._replay(("moved", double, "versions")).reset())
            for port, values in at.items():
                shadow.set(port.array, values.reshape(port.shape))
        shadow.push({p.array: v.reshape(p.shape) for p, v in tangents.items()})
        return {port: shadow.tangent(port.array).ravel().astype(np.float64) for port in self.outputs}

    def evaluate_many(
        self, changes: Mapping[Port, Floats], *, single: bool = False, dtype: DTypeLike | None = np.float64
    ) -> dict[Port, Floats]:
        """Run forward for each row of `changes`; see `Program`."""
        use: Use = ("forward", not single, "versions")
        batched = self._batched_for(use, changes)
        if batched is None:
            return self._one_by_one(
                self.outputs, changes, lambda row: self.evaluate(row, single=single), dtype, single
            )
        self._at.pop(use, None)
        return _named(self.outputs, batched.forward(_by_array(changes), _arrays(self.outputs), dtype))

    def pull_many(
        self,
        seeds: Mapping[Port, Floats],
        *,
        wanted: Sequence[Port] | None = None,
        double: bool = False,
        preserved: bool = False,
        dtype: DTypeLike | None = np.float64,
    ) -> dict[Port, Floats]:
        """Run backward for each row of `seeds`; see `Program`."""
        consume: Consume = "versions" if preserved else self.consume
        use: Use = ("backward", double, consume)
        ports = self.inputs if wanted is None else wanted
        batched = self._batched_for(use, seeds)
        if batched is None:
            return self._one_by_one(
                ports,
                seeds,
                lambda row: self.pull(row, double=double, preserved=preserved),
                dtype,
                not double,
            )
        if use not in self._at or self._at[use] is not NOWHERE:
            self._run(use, NOWHERE)
        return _named(ports, batched.backward(_by_array(seeds), _arrays(ports), consume, dtype))

    def push_many(
        self, tangents: Mapping[Port, Floats], *, double: bool = True, dtype: DTypeLike | None = np.float64
    ) -> dict[Port, Floats]:
        """Run forward for each row of `tangents`; see `Program`."""
        batched = self._batched_for(("push", double, "versions"), tangents)
        if batched is None:
            return self._one_by_one(
                self.outputs, tangents, lambda row: self.push(row, double=double), dtype, not double
            )
        return _named(self.outputs, batched.push(_by_array(tangents), _arrays(self.outputs), dtype))

    def _batched_for(self, use: Use, given: Mapping[Port, Floats]) -> BatchedReplay | None:
        """Return the replay that runs all rows at once; None if they run one by one."""
        if not given or len(next(iter(given.values()))) < 2:
            return None
        if use not in self._batched:
            replay = self._replay(use)
            if not isinstance(replay, Shadow):
                self._batched[use] = None
                self.one_by_one[use[0]] = "the engine runs one row at a time"
                return None
            batched = BatchedReplay(replay)
            reason = batched.obstacle(back=use[0] == "backward", moving=use[0] == "push", consume=use[2])
            self._batched[use] = None if reason else batched
            self.one_by_one.update({use[0]: reason} if reason else {})
        return self._batched[use]

    def _one_by_one(
        self,
        ports: Sequence[Port],
        given: Mapping[Port, Floats],
        run: Callable[[dict[Port, Floats]], dict[Port, Floats]],
        dtype: DTypeLike | None,
        single: bool,
    ) -> dict[Port, Floats]:
        found = stacked(ports, [run(row) for row in rows_of(given)])
        own = {port: port.array.scalar_dtype if single else np.float64 for port in ports}
        return {port: values.astype(dtype or own[port], copy=False) for port, values in found.items()}

    @property
    def kernels(self) -> list[Any]:
        """The kernels of its launches; see `Program`."""
        replay = self._replay(("forward", True, "versions"))
        records = replay.records if isinstance(replay, Shadow) else []
        return [record.kernel for record in records if record.kernel is not None]

    def replay(self, double: bool = True) -> Replay:
        """Return a new replay that stands before the first operation."""
        return self._new(double).forward(0, 0)

    def shadow(self, double: bool = True) -> Shadow:
        """Return the same of a program of this project's own engine."""
        return cast("Shadow", self.replay(double))

    def tangent_replay(self) -> TangentReplay:
        """Return a new replay in float64 that can push tangents."""
        return cast("TangentReplay", self.replay())

    def standing(self) -> Shadow:
        """Return the replay in single precision that adjoints run in, before the first operation.

        It may be moved: the next run starts over.
        """
        use: Use = ("backward", False, self.consume)
        self._at.pop(use, None)
        return cast("Shadow", self._replay(use).reset())

    def _new(self, double: bool) -> Replay:
        shadow = self._make(double)
        shadow.pulse = self.pulse
        return shadow

    def matches_live(self) -> bool:
        """True if a run in float32, with no input replaced, gives what the user's arrays hold."""
        forward: Use = ("forward", False, "versions")
        for use in (forward, ("backward", False, self.consume)):
            if use in self._at and not self._at[use]:
                return self._replay(use).matches_live()
        return self._run(forward, {}).matches_live()

    def forget(self) -> None:
        """Give back the memory of all shadows; values of inputs stay."""
        self._replays.clear()
        self._batched.clear()
        self._rounded = None
        self._at.clear()
        self._set.clear()

    def _replay(self, use: Use) -> Replay:
        if use not in self._replays:
            self._replays[use] = self._new(use[1])
            self._replays[use].forward_only = use[0] != "backward"
        return self._replays[use]

    def _run(self, use: Use, changes: Mapping[Port, Floats]) -> Replay:
        shadow = self._displace(use, changes)
        shadow.forward(0)
        self._at[use] = changes
        return shadow

    def _displace(self, use: Use, changes: Mapping[Port, Floats]) -> Replay:
        """Return a replay before its first operation, with these inputs."""
        self._at.pop(use, None)
        shadow = self._replay(use)
        if self._set.get(use, frozenset()) <= changes.keys():
            shadow.forward(0, 0)  # inputs that are replaced again need not be restored
        else:
            shadow.reset()
        self._set[use] = frozenset(changes)
        for port, values in changes.items():
            shadow.set(port.array, values.reshape(port.shape))
        return shadow


def flat_values(replay: Replay, port: Port) -> Floats:
    """Return the present values of an input or output, (size,) float64."""
    found: Floats = replay.values(port.array).ravel().astype(np.float64, copy=False)
    return found


def weighted_sum(replay: Replay, port: Port, weights: Floats) -> float:
    """Return the inner product of the present values of an input or output with weights, (size,) float64."""
    if isinstance(replay, Shadow):  # without a copy
        return replay.weighted_sum(port.array, weights)
    return float(weights @ flat_values(replay, port))


def gradient_of(replay: Replay, port: Port) -> Floats:
    """Return the gradient of an input after a reverse run, (size,) float64."""
    found: Floats = replay.gradient(port.array).ravel().astype(np.float64, copy=False)
    return found


def _arrays(ports: Sequence[Port]) -> list[Any]:
    return [port.array for port in ports]


def _named(ports: Sequence[Port], found: Sequence[Floats]) -> dict[Port, Floats]:
    return dict(zip(ports, found, strict=True))


def _by_array(given: Mapping[Port, Floats]) -> dict[Any, Floats]:
    return {port.array: values for port, values in given.items()}


def rows_of(several: Mapping[Port, Floats]) -> list[dict[Port, Floats]]:
    """The rows of (count, size) matrices, one dictionary for each of `count`."""
    return [dict(zip(several, values, strict=True)) for values in zip(*several.values(), strict=True)]


def stacked(ports: Sequence[Port], found: Sequence[Mapping[Port, Floats]]) -> dict[Port, Floats]:
    """One (count, size) matrix for each port, of `count` dictionaries."""
    return {
        port: np.stack([row[port] for row in found]) if found else np.zeros((0, port.size)) for port in ports
    }


UNMATCHED = (
    "a replay gives other values than the arrays hold: something changed them without the tape's knowledge"
)


def launch_shadow(
    kernel: Kernel,
    dim: LaunchDim,
    args: Sequence[Any],
    values: Mapping[Any, np.ndarray[Any, Any]] | None = None,
) -> Callable[[bool], Shadow]:
    """Makes shadows of one launch.

    Args:
        kernel: The kernel.
        dim: Its launch dimensions.
        args: All its arguments, one for each flat parameter.
        values: Values of arrays among the arguments, where they are not what the arrays hold now.

    Raises:
        LaunchError: The arguments do not fit the kernel.
    """
    launch = one_launch(kernel, dim, args, flat=True)

    def make(double: bool) -> Shadow:
        shadow = Shadow(launch, float64 if double else None)
        for array, found in (values or {}).items():
            shadow.set(array, found)
        shadow.fix_inputs()
        return shadow

    return make


def tape_replay(tape: RecordedTape) -> Callable[[bool], Replay]:
    """Makes replays of a tape, before its first operation."""

    def make(double: bool) -> Replay:
        return tape.new_replay(float64=double)

    return make


def tape_shadow(tape: Tape) -> Callable[[bool], Shadow]:
    """Makes replays of a tape of this project's own engine, before its first record."""
    return lambda double: tape.new_replay(float64=double)


def round_results(replay: Replay) -> None:
    """Round all results of later reverse runs as much as in float32, if the engine can do that."""
    if isinstance(replay, Shadow):
        replay.space.rounded = True

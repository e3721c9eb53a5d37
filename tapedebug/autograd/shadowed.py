"""Programs that run in a `Shadow`: in private memory, in float32 as recorded and in float64 as twins."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from tapedebug.autograd.differences import Floats
from tapedebug.autograd.program import Port
from tapedebug.lang.types import float64
from tapedebug.runtime.replay import Shadow

Consume = Literal["versions", "current"]
Use = tuple[str, bool, Consume]
NOWHERE: Mapping[Port, Floats] = {}


class ShadowProgram:
    """A launch, a recorded function or a whole tape; see `Program`.

    Args:
        subject: What it is called in messages.
        make: Gives a new shadow before its first record, of the float64 twin where its argument is true.
        inputs, outputs: What derivatives can be asked of.
        launch: Index of the launch on the tape, None where it is not one launch of a tape.
        consume: What the reverse pass of the user's program sees.

    Attributes:
        pulse: Called before each record of every run; may raise to cancel.
    """

    def __init__(
        self,
        subject: str,
        make: Callable[[bool], Shadow],
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
        # One shadow a purpose: forward runs must not disturb the state that the adjoints of many seeds start
        # from.
        self._shadows: dict[Use, Shadow] = {}
        self._at: dict[Use, Mapping[Port, Floats]] = {}
        self._values: dict[Port, Floats] = {}
        self.pulse: Callable[[], None] | None = None

    def values(self, port: Port) -> Floats:
        """The values of an input, (size,) float64."""
        if port not in self._values:
            shadow = self._shadow(("forward", True, "versions")).reset()
            self._values[port] = shadow.values(port.array).ravel().astype(np.float64)
        return self._values[port]

    def evaluate(self, changes: Mapping[Port, Floats], *, single: bool = False) -> dict[Port, Floats]:
        """Run forward; see `Program`."""
        use: Use = ("forward", not single, "versions")
        shadow = self._run(use, changes)
        return {port: shadow.values(port.array).ravel().astype(np.float64) for port in self.outputs}

    def pull(
        self,
        seeds: Mapping[Port, Floats],
        *,
        at: Mapping[Port, Floats] | None = None,
        double: bool = False,
        preserved: bool = False,
    ) -> dict[Port, Floats]:
        """Run backward; see `Program`."""
        consume: Consume = "versions" if preserved else self.consume
        use: Use = ("backward", double, consume)
        wanted = NOWHERE if at is None else at
        if use not in self._at or self._at[use] is not wanted:
            self._run(use, wanted)
        shadow = self._shadow(use)
        shadow.backward({p.array: seed.reshape(p.shape) for p, seed in seeds.items()}, consume=consume)
        return {port: shadow.gradient(port.array).ravel().astype(np.float64) for port in self.inputs}

    def shadow(self, double: bool = True) -> Shadow:
        """A new shadow that stands before the first record."""
        return self._new(double).forward(0, 0)

    def _new(self, double: bool) -> Shadow:
        shadow = self._make(double)
        shadow.pulse = self.pulse
        shadow.fix_inputs()
        return shadow

    def matches_live(self) -> bool:
        """Whether the last run in float32, with no input replaced, gave what the user's arrays hold."""
        return self._run(("forward", False, "versions"), {}).matches_live()

    def forget(self) -> None:
        """Give back the memory of all shadows; values of inputs stay."""
        self._shadows.clear()
        self._at.clear()

    def _shadow(self, use: Use) -> Shadow:
        if use not in self._shadows:
            self._shadows[use] = self._new(use[1])
            self._shadows[use].forward_only = use[0] == "forward"
        return self._shadows[use]

    def _run(self, use: Use, changes: Mapping[Port, Floats]) -> Shadow:
        self._at.pop(use, None)
        shadow = self._shadow(use).reset()
        for port, values in changes.items():
            shadow.set(port.array, values.reshape(port.shape))
        shadow.forward(0)
        self._at[use] = changes
        return shadow


UNMATCHED = (
    "a replay gives other values than the arrays hold: something changed them without the tape's knowledge"
)


def launch_shadow(
    kernel: Any, dim: Any, args: Sequence[Any], values: Mapping[Any, np.ndarray[Any, Any]] | None = None
) -> Callable[[bool], Shadow]:
    """Makes shadows of one launch.

    Args:
        kernel: The kernel.
        dim: Its launch dimensions.
        args: All its arguments, one for each flat parameter.
        values: Values of arrays among the arguments, where they are not what the arrays hold now.
    """

    def make(double: bool) -> Shadow:
        shadow = Shadow.for_launch(kernel, dim, args, dtype=float64 if double else None, flat=True)
        for array, found in (values or {}).items():
            shadow.set(array, found)
        return shadow

    return make


def tape_shadow(tape: Any) -> Callable[[bool], Shadow]:
    """Makes shadows of a tape, before its first record."""

    def make(double: bool) -> Shadow:
        shadow: Shadow = tape.replay(dtype=float64 if double else None, stop=0)
        return shadow

    return make

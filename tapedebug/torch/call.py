"""One call of a function of tensors, as functions of NumPy arrays that can run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug._errors import LaunchError
from tapedebug.torch.random import drawn_in_float32
from tapedebug.torch.state import State, generators_of, is_plain, states_of, training_modes

if TYPE_CHECKING:
    from torch import Tensor

Values = np.ndarray[Any, Any]

SAME_MASKS = 1e-2
"""Relative difference of results in float32 and float64 above which they drew other random numbers."""


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of an array among the arguments of a call: the number of its values."""

    number: int


class NotInFloat64Error(Exception):
    """A call cannot be repeated in float64; the message is the reason."""


class TorchCall:
    """A call of a function of tensors: its arguments, the tensors that it uses, and its random state.

    Values are given and returned in this order: those of the arguments that are arrays, those of `states`;
    for results, those that the function returned, and the new values of `changed`.

    Args:
        torch: The module `torch`.
        name: The name of the function in messages.
        function: The function, or module.
        args: The arguments; arrays are replaced by a `Slot`.
        kwargs: The keyword arguments, likewise.
        names: The names of the arguments that are arrays.
        known: Leaf tensors that earlier calls were found to use, beside those that are reachable by name.

    Attributes:
        states: The parameters, buffers and other tensors that the function uses.
        changed: The buffers among them that it changes.
        outputs: Number of tensors that it returns.
        random: The random state before the call, if it draws random numbers.
        dtypes: The dtypes of the values in the program.
        around: A context in which the function is called.
        given: The values that the first call read, if they are kept.
    """

    def __init__(
        self,
        torch: ModuleType,
        name: str,
        function: Callable[..., Any],
        args: Sequence[object],
        kwargs: Mapping[str, object],
        names: Sequence[str],
        known: Sequence[State] = (),
    ) -> None:
        self.torch, self.name, self.function = torch, name, function
        self.args, self.kwargs, self.names = args, kwargs, list(names)
        reachable = states_of(torch, function)
        there = {id(state.tensor) for state in reachable}
        self.states = [*reachable, *(state for state in known if id(state.tensor) not in there)]
        self.changed: list[State] = []
        self.outputs = 0
        self.random: list[tuple[Any, Any]] = []
        self.dtypes: list[np.dtype[Any]] = []
        self.modes = training_modes(torch, function)
        self.given: list[Values] = []
        self.autocast = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        self.around: AbstractContextManager[object] = nullcontext()
        self._same_in_float64: bool | None = None
        for state in self.states:
            self._check(state)

    def _check(self, state: State) -> None:
        if state.tensor.device.type != "cpu":
            raise self.error(
                f"its {state.kind} {state.name} is on {state.tensor.device}, and arrays are on the CPU",
                "move the module to the CPU: module.cpu()",
            )
        if state.tensor.dtype == self.torch.bfloat16 or state.tensor.is_complex():
            raise self.error(
                f"its {state.kind} {state.name} is of {state.tensor.dtype}, which arrays cannot hold",
                "convert the module: module.float()",
            )

    @property
    def shown(self) -> Callable[..., Any]:
        """The function whose source is that of the call."""
        shown: Callable[..., Any] = getattr(self.function, "forward", self.function)
        return shown

    def error(self, message: str, hint: str) -> LaunchError:
        """Return an error that names the function."""
        return LaunchError(f"torch.function of {self.name}: {message}", hint=hint)

    # -- the call in the program -----------------------------------------------------------------------

    def first(self, given: Sequence[Values], *, keep: bool = False) -> tuple[Values, ...]:
        """Run the function as the program does, and find out what it uses and changes.

        Args:
            given: Copies of the values of the arguments that are arrays.
            keep: Store all values that the call reads, in `given`.

        Raises:
            LaunchError: It changes an argument or a tensor other than a buffer in place, uses a tensor that
                was computed before, or returns something else than tensors. Everything is as before then.
        """
        torch = self.torch
        before = [self._state_values(state) for state in self.states]
        generators = [torch.default_generator, *generators_of(torch, self.function)]
        drawn = [(generator, generator.get_state()) for generator in generators]
        held = [v.copy() for v in before] if keep else []
        with self._grad_mode(), self._holding([v.copy() for v in before]):
            start = (torch.ones(1, requires_grad=True) * 1).grad_fn._sequence_nr()
            leaves, found = self._call(given)
            self._follow_graph(found, start, leaves)
            before += [self._state_values(state) for state in self.states[len(before) :]]
            self.changed = self._changed_states(before)
            after = [self._new_values(state) for state in self.changed]
        if keep:
            self.given = [*given, *held, *(v.copy() for v in before[len(held) :])]
        self.dtypes = [v.dtype for v in (*given, *before)]
        self.outputs = len(found)
        self.random = [(g, state) for g, state in drawn if not torch.equal(g.get_state(), state)]
        results = [self._numpy(t, number) for number, t in enumerate(found)]
        return *results, *after

    def _state_values(self, state: State) -> Values:
        tensor = state.tensor.detach()
        values: Values = tensor.reshape(1).numpy() if tensor.ndim == 0 else tensor.numpy()
        return values

    def _changed_states(self, before: Sequence[Values]) -> list[State]:
        changed = []
        for state, values in zip(self.states, before, strict=True):
            now = self._new_values(state)
            if now.dtype == values.dtype and _equal(now, values):
                continue
            if state.kind != "buffer":
                raise self.error(
                    f"it changes its {state.kind} {state.name} while it runs, which replays could not repeat",
                    "register it as a buffer: self.register_buffer(name, tensor)"
                    if state.kind == "tensor"
                    else "change it after the call, or leave it unchanged",
                )
            if now.shape != values.shape or now.dtype != values.dtype:
                raise self.error(
                    f"it changes its buffer {state.name} from {values.dtype} of shape {values.shape} to "
                    f"{now.dtype} of shape {now.shape}",
                    "give the buffer its shape and type when it is registered",
                )
            changed.append(state)
        return changed

    def _new_values(self, state: State) -> Values:
        now = state.bound_now().detach()
        values: Values = (now.reshape(1) if now.ndim == 0 else now).numpy()
        return values.copy()

    def _follow_graph(self, found: Sequence[Tensor], start: int, given: Sequence[Tensor]) -> None:
        """Add the leaves that the results depend on to `states`.

        Raises:
            LaunchError: The results depend on a tensor that was computed before the call.
        """
        known = {id(state.tensor) for state in self.states}
        todo = [t.grad_fn for t in found if t.grad_fn is not None]
        todo += [_Leaf(t) for t in found if t.grad_fn is None and t.requires_grad]
        seen = set()
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            leaf = getattr(node, "variable", None)
            if leaf is not None:
                if id(leaf) not in known and is_plain(self.torch, leaf) and not _is_given(leaf, given):
                    known.add(id(leaf))
                    self._add(leaf)
                continue
            if node._sequence_nr() < start:
                raise self.error(
                    "it uses a tensor that was computed before the call, so that the tape lacks a part of "
                    f"the computation ({node.name()})",
                    "compute it inside the function, or pass it as an argument; if it shall be a constant, "
                    "detach it",
                )
            todo += [below for below, _ in node.next_functions if below is not None]

    def _add(self, leaf: Tensor) -> None:
        named = {id(state.tensor): state for state in states_of(self.torch, self.function)}
        number = sum(state.name.startswith("parameter") for state in self.states)
        self.states.append(named.get(id(leaf)) or State(f"parameter {number}", leaf, "parameter"))
        self._check(self.states[-1])

    # -- calls again ------------------------------------------------------------------------------------

    def forward(self, *values: Values) -> tuple[Values, ...]:
        """Return the results for other values, with the random numbers of the first call."""
        with self._as_recorded(values):
            _, found = self._call(values[: len(self.names)])
            after = [self._new_values(state) for state in self.changed]
        return *(self._numpy(t, number) for number, t in enumerate(found)), *after

    def backward(self, values: Sequence[Values], adjoints: Sequence[Values]) -> list[Values | None]:
        """Return the adjoints of the arguments and states; None for one without a gradient."""
        with self._as_recorded(values):
            leaves, found = self._graph(values)
            return self._numpy_gradients(leaves, self._pulled(leaves, found, adjoints))

    def jvp(self, values: Sequence[Values], tangents: Sequence[Values]) -> list[Values]:
        """Return the tangents of the results: the derivative of the adjoints by their seeds."""
        torch = self.torch
        with self._as_recorded(values):
            leaves, found = self._graph(values)
            seeds = [torch.zeros_like(t).requires_grad_(t.is_floating_point()) for t in found]
            pulled = self._pulled(leaves, found, seeds, create_graph=True)
            moved = [
                (g, torch.from_numpy(np.ascontiguousarray(t)).reshape(g.shape).to(g.dtype))
                for g, t in zip(pulled, tangents, strict=True)
                if g is not None and g.requires_grad
            ]
            wanted = [number for number, t in enumerate(seeds) if t.requires_grad]
            slopes: list[Any] = [None] * len(found)
            if moved:
                outs, ins = zip(*moved, strict=True)
                seen = torch.autograd.grad(outs, [seeds[n] for n in wanted], ins, allow_unused=True)
                for number, slope in zip(wanted, seen, strict=True):
                    slopes[number] = slope
            results = [
                (torch.zeros_like(t) if slope is None else slope).detach()
                for t, slope in zip(found, slopes, strict=True)
            ]
        own = [t.reshape(1).numpy() if t.ndim == 0 else t.numpy() for t in results]
        return [*own, *(np.zeros_like(self._state_values(state)) for state in self.changed)]

    def _graph(self, values: Sequence[Values]) -> tuple[list[Tensor], list[Tensor]]:
        """Run the function; return its differentiable inputs, one for each value, and its results."""
        leaves, found = self._call(values[: len(self.names)])
        return [*leaves, *(state.tensor for state in self.states)], found

    def _pulled(
        self,
        leaves: Sequence[Tensor],
        found: Sequence[Tensor],
        adjoints: Sequence[Any],
        create_graph: bool = False,
    ) -> list[Tensor | None]:
        torch = self.torch
        outs = [(t, a) for t, a in zip(found, adjoints, strict=False) if t.requires_grad]
        wanted = [number for number, t in enumerate(leaves) if t.requires_grad]
        gradients: list[Any] = [None] * len(leaves)
        if outs and wanted:
            seeds = [
                (a if isinstance(a, torch.Tensor) else torch.from_numpy(np.ascontiguousarray(a)))
                .reshape(t.shape)
                .to(t.dtype)
                for t, a in outs
            ]
            pulled = torch.autograd.grad(
                [t for t, _ in outs],
                [leaves[number] for number in wanted],
                seeds,
                create_graph=create_graph,
                allow_unused=True,
            )
            for number, gradient in zip(wanted, pulled, strict=True):
                gradients[number] = gradient
        return gradients

    def _numpy_gradients(
        self, leaves: Sequence[Tensor], gradients: Sequence[Tensor | None]
    ) -> list[Values | None]:
        return [
            None
            if g is None
            else (g.to_dense() if g.layout != self.torch.strided else g)
            .detach()
            .reshape(leaf.shape or (1,))
            .numpy()
            for leaf, g in zip(leaves, gradients, strict=True)
        ]

    # -- how it is run ----------------------------------------------------------------------------------

    def _call(self, given: Sequence[Values]) -> tuple[list[Tensor], list[Tensor]]:
        """Return the leaves made of the arguments, and the tensors that the function returns."""
        torch = self.torch
        leaves = [torch.from_numpy(np.ascontiguousarray(values)) for values in given]
        for leaf in leaves:
            if leaf.is_floating_point():
                leaf.requires_grad_(True)
        inner = [leaf.clone() for leaf in leaves]

        def filled(value: object) -> object:
            return inner[value.number] if isinstance(value, Slot) else value

        args, kwargs = [filled(v) for v in self.args], {name: filled(v) for name, v in self.kwargs.items()}
        with self.around:
            found = self.function(*args, **kwargs)
        for state in self.states:
            if state.kind == "tensor" and state.bound_now() is not state.tensor:
                raise self.error(
                    f"it assigns another tensor to {state.name}",
                    "register it as a buffer: self.register_buffer(name, tensor)",
                )
        for name, tensor, leaf in zip(self.names, inner, leaves, strict=True):
            if tensor._version or not _equal(tensor.detach().numpy(), leaf.detach().numpy()):
                raise self.error(
                    f"it changes its argument {name} in place",
                    "let it change a copy: x = x.clone(); for torch.nn.ReLU leave inplace=True out",
                )
        several = list(found) if isinstance(found, tuple | list) else [found]
        if not several or not all(isinstance(t, torch.Tensor) for t in several):
            kinds = ", ".join(type(t).__name__ for t in several) or "nothing"
            raise self.error(
                f"it returned {kinds}, and a tape needs tensors",
                "return a tensor, or a tuple of tensors",
            )
        return leaves, several

    def _numpy(self, tensor: Tensor, number: int) -> Values:
        torch = self.torch
        if tensor.device.type != "cpu" or tensor.layout != torch.strided:
            raise self.error(
                f"result {number} is on {tensor.device} ({tensor.layout}), and arrays are dense, on the CPU",
                "return result.cpu().to_dense()",
            )
        if tensor.dtype == torch.bfloat16 or tensor.is_complex():
            raise self.error(
                f"result {number} is of {tensor.dtype}, which arrays cannot hold",
                "convert it: result.float(), or torch.view_as_real(result)",
            )
        dense = tensor.detach().reshape(1) if tensor.ndim == 0 else tensor.detach()
        values: Values = dense.resolve_neg().numpy()
        return values

    @contextmanager
    def _grad_mode(self) -> Iterator[None]:
        torch = self.torch
        with torch.inference_mode(False), torch.enable_grad():
            yield

    @contextmanager
    def _holding(self, values: Sequence[Values]) -> Iterator[None]:
        """Let the states hold these values: a copy, so that no tensor of the program changes."""
        torch = self.torch
        own = [state.tensor.data for state in self.states]
        try:
            for state, new in zip(self.states, values, strict=True):
                state.tensor.data = torch.from_numpy(np.ascontiguousarray(new)).reshape(state.tensor.shape)
            yield
        finally:
            for state, data in zip(self.states, own, strict=False):
                state.tensor.data = data
                state.bind_again()

    @contextmanager
    def _as_recorded(self, values: Sequence[Values]) -> Iterator[None]:
        """Repeat the conditions of the first call: states, training flags, random numbers, autocast."""
        torch = self.torch
        wide = any(v.dtype != dtype for v, dtype in zip(values, self.dtypes, strict=True))
        if wide and self.random and self._same_in_float64 is None:
            self._same_in_float64 = True
            self._same_in_float64 = self._draws_the_same(values)
        if wide and self._same_in_float64 is False:
            raise NotInFloat64Error("it draws random numbers, and PyTorch draws others in float64")
        with ExitStack() as stack:
            stack.enter_context(self._grad_mode())
            stack.enter_context(self._holding(values[len(self.names) :]))
            for generator, state in self.random:
                stack.callback(generator.set_state, generator.get_state())
                generator.set_state(state)
            for module, flag in self.modes:
                if module.training != flag:
                    stack.callback(setattr, module, "training", module.training)
                    module.training = flag
            if wide:
                stack.callback(torch.set_default_dtype, torch.get_default_dtype())
                torch.set_default_dtype(torch.float64)
                if self.random:
                    stack.enter_context(drawn_in_float32(torch))
            if self.autocast is not None or torch.is_autocast_enabled("cpu"):
                on = self.autocast is not None and not wide
                stack.enter_context(torch.autocast("cpu", dtype=self.autocast or torch.bfloat16, enabled=on))
            yield

    def _draws_the_same(self, values: Sequence[Values]) -> bool:
        narrow = [v.astype(dtype) for v, dtype in zip(values, self.dtypes, strict=True)]
        pairs = zip(self.forward(*narrow), self.forward(*values), strict=True)
        return all(_near(a.astype(np.float64), b.astype(np.float64)) for a, b in pairs)


@dataclass(frozen=True)
class _Leaf:
    """Takes the place of a node of the graph for a result that is itself a leaf."""

    variable: Any


def _is_given(leaf: Tensor, given: Sequence[Tensor]) -> bool:
    return any(leaf is t for t in given)


def _equal(one: Values, other: Values) -> bool:
    """True if two arrays hold the same bytes: NaN is equal to itself."""
    if one.shape != other.shape:
        return False
    a, b = np.ascontiguousarray(one), np.ascontiguousarray(other)
    return np.array_equal(a.reshape(-1).view(np.uint8), b.reshape(-1).view(np.uint8))


def _near(one: Values, other: Values) -> bool:
    scale = float(np.linalg.norm(other))
    return bool(float(np.linalg.norm(one - other)) <= SAME_MASKS * scale + 1e-6)

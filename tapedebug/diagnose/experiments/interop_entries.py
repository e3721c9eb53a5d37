"""Values that entered from another library during recording, and experiments on their origin."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug.contract import ArrayMemory, Arrivals, ArrivedArray, NumberArguments, RecordedTape, Stack
from tapedebug.diagnose.experiments.experiment import Values
from tapedebug.diagnose.experiments.places import location_at, place_of
from tapedebug.trace import Location

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

NODES = 20_000
"""Operations of PyTorch's graph that are walked at most."""


@dataclass(frozen=True, slots=True)
class InteropEntry:
    """An array, or a number, that came in while a tape recorded.

    Attributes:
        array: Id of the array; None of a number.
        launch: The first launch that uses it.
        param: Its parameter there.
        clock: When it came in, in events of the process; of a number 0, as nothing noted it.
        at: How many launches the tape had then.
        how: The function that brought it in.
        place: Where in the user's source.
        stack: The user's frames.
        memory: Number of the memory that its values are a view of, if they are one.
        tensor: The tensor that it was made of, where PyTorch has recorded how that was computed.
    """

    array: int | None
    launch: int
    param: int
    clock: int
    at: int
    how: str
    place: Location
    stack: Stack
    memory: int | None = None
    tensor: Any = None


def entries(replay: Replay) -> list[InteropEntry]:
    """Return the arrays and numbers that came in while the tape recorded, in order."""
    return [*_arrays(replay), *_numbers(replay)]


def arrivals(replay: Replay) -> Sequence[ArrivedArray]:
    """Return the arrays that came in from another library, as far as the engine knows."""
    tape: RecordedTape = replay.recorded.tape
    known = tape.capability(Arrivals)
    return () if known is None else known.arrivals()


def _arrays(replay: Replay) -> Iterator[InteropEntry]:
    trace = replay.recorded.trace
    for arrival in arrivals(replay):
        place = place_of(arrival.call_site)
        for number in _made(replay, arrival):
            reads = trace.versions_of(number)[0].reads
            if not reads or place is None:
                continue
            launch = trace.launches[reads[0]]
            param = next((p for p, arg in enumerate(launch.args) if arg.array == number), 0)
            yield InteropEntry(
                number,
                launch.index,
                param,
                arrival.clock,
                arrival.at,
                arrival.how,
                place,
                arrival.stack,
                arrival.memory,
                arrival.tensor,
            )
            break


def _made(replay: Replay, arrival: ArrivedArray) -> Iterator[int]:
    """The arrays of the tape in the memory of one that came in."""
    for number, own in enumerate(replay.arrays if arrival.region is not None else ()):
        if own.region is arrival.region and own.start < arrival.stop and arrival.start < own.stop:
            yield number


def _numbers(replay: Replay) -> Iterator[InteropEntry]:
    """Yield the floating-point numbers among the arguments of launches, and those of fills."""
    places: dict[Stack, Location] = {}
    for record in replay.records:
        numbers = record.capability(NumberArguments)
        params = () if numbers is None else numbers.params
        if numbers is None or not params:
            continue
        stack, how = numbers.stack, "fill_" if record.kind == "fill" else "launch"
        if stack not in places:
            places[stack] = location_at(record.call_site)
        for param in params:
            yield InteropEntry(None, record.index, param, 0, record.index, how, places[stack], stack)


# ---------------------------------------------------------------------------------------------- PyTorch


@dataclass(frozen=True, slots=True)
class TorchGraph:
    """What PyTorch has recorded of a tensor: the leaves that it is computed from.

    Attributes:
        arrays: Those that are arrays of the tape, by id.
        others: The others: parameters of a model, for instance.
        plain: It holds no function of somebody's own, which running backward would call.
    """

    arrays: dict[int, Any]
    others: list[Any]
    plain: bool


def graph_of(replay: Replay, entry: InteropEntry) -> TorchGraph:
    """Return what PyTorch has recorded of the tensor that came in."""
    arrays: dict[int, Any] = {}
    others: list[Any] = []
    plain = True
    waiting, seen = [entry.tensor.grad_fn], set[Any]()
    while waiting and len(seen) < NODES:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting.extend(after for after, _ in node.next_functions)
        plain = plain and not hasattr(node, "saved_for_backward")
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            number = _array_of(replay, leaf)
            if number is None:
                others.append(leaf)
            else:
                arrays[number] = leaf
    return TorchGraph(arrays, others, plain)


def _array_of(replay: Replay, tensor: Any) -> int | None:
    """The array of the tape that a tensor shares its memory with."""
    memory: ArrayMemory | None = replay.recorded.tape.capability(ArrayMemory)
    if memory is None:
        return None
    address, size = tensor.data_ptr(), tensor.numel() * tensor.element_size()
    for number, a in enumerate(replay.arrays):
        if memory.address(a) == address and a.stop - a.start == size:
            return number
    return None


def handed_on(
    replay: Replay, entry: InteropEntry, leaf: int, tensor: Any, read_at: int
) -> dict[int, Values] | None:
    """Return the gradients of the inputs if PyTorch's part of the reverse pass ran, too.

    Args:
        replay: The tape.
        entry: The array that came in.
        leaf: The array of the tape that PyTorch's graph leads to.
        tensor: PyTorch's leaf in its memory.
        read_at: How many launches the tape had when it was read.

    Returns:
        None where PyTorch can not run its graph backward (any more).
    """
    torch: Any = sys.modules["torch"]
    assert entry.array is not None
    shadow = replay._shadow().forward()
    shadow.backward(replay.seeds, stop=entry.launch)
    adjoint = np.ascontiguousarray(shadow.gradient(replay.arrays[entry.array]))
    given = torch.from_numpy(adjoint).reshape(entry.tensor.shape).to(entry.tensor.dtype)
    try:
        with torch.enable_grad():
            (found,) = torch.autograd.grad(entry.tensor, tensor, given, retain_graph=True, allow_unused=True)
    except RuntimeError:
        return None
    if found is None:
        return None
    source = replay.arrays[leaf]
    shadow.backward(None, start=entry.launch, stop=read_at)
    own = shadow.gradient(source)
    shadow.set_gradient(source, own + found.detach().numpy().reshape(own.shape).astype(own.dtype))
    shadow.backward(None, start=read_at)
    return {number: shadow.gradient(replay.arrays[number]) for number in replay.leaves}


def gradient_of(replay: Replay, entry: InteropEntry) -> Values:
    """Return the gradient of an array that came in."""
    assert entry.array is not None
    shadow = replay._shadow().forward()
    shadow.backward(replay.seeds, stop=entry.launch)
    return shadow.gradient(replay.arrays[entry.array])


def not_handed_on(replay: Replay, entry: InteropEntry, leaves: Sequence[Any]) -> str:
    """Return how it is known that the gradient of an array that came in was not handed on to PyTorch.

    Args:
        replay: The tape.
        entry: The array.
        leaves: PyTorch's leaves that it was computed from.

    Returns:
        `"no gradient"`: PyTorch's leaves have none; `"unread"`: nothing has read the array's since a pass
        wrote it; empty where it may have been handed on, or where there is none.
    """
    assert entry.array is not None
    a = replay.arrays[entry.array]
    tape: RecordedTape = replay.recorded.tape
    memory = tape.capability(ArrayMemory)
    reads = None if memory is None else memory.gradient_reads(a)
    if reads is None or not tape.reverse_passes or {"to_torch", "dlpack"} & set(reads):
        return ""
    if not np.any(gradient_of(replay, entry)):
        return ""
    if all(leaf.grad is None for leaf in leaves):
        return "no gradient"
    return "" if reads else "unread"


# ---------------------------------------------------------------------------------------------- numbers


def moved_by_number(replay: Replay, entry: InteropEntry, scale: float) -> float:
    """Return how much the loss changes when a number that a launch was given is displaced, relatively."""
    record = replay.records[entry.launch]
    numbers = record.capability(NumberArguments)
    assert numbers is not None
    plain, shadow = replay._shadow().forward(), replay._shadow()
    if record.kind == "fill":
        shadow.forward(stop=entry.launch + 1)
        target = record.args[entry.param]
        shadow.set(target, shadow.values(target) * (1 + scale))
        shadow.forward(start=entry.launch + 1)
    else:
        numbers.scale(shadow, entry.param, 1 + scale)
        shadow.forward()
    with np.errstate(invalid="ignore"):
        moved = [
            float(np.max(np.abs(shadow.values(a).astype(np.float64) - plain.values(a)), initial=0.0))
            for a in replay.seeds
        ]
    return max(moved, default=0.0)

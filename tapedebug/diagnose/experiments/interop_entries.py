"""Values that entered from another library during recording, and experiments on their origin."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tapedebug._dataclass import dataclass
from tapedebug.contract import ArrayMemory, Arrivals, ArrivedArray, NumberArguments, RecordedTape, Stack
from tapedebug.diagnose.experiments.experiment import Values
from tapedebug.diagnose.experiments.places import location_at, place_of
from tapedebug.trace import Location

if TYPE_CHECKING:
    from tapedebug.diagnose.experiments.replay import Replay

NODES = 20_000
"""Largest number of operations of PyTorch's graph that are visited."""


@dataclass(frozen=True, slots=True)
class InteropEntry:
    """An array or a number that entered while a tape recorded.

    Attributes:
        array: Id of the array; None for a number.
        launch: The first launch that uses it.
        param: Its parameter there.
        clock: The time at which it entered, in events of the process; 0 for a number, which has no event.
        at: The number of launches on the tape at that time.
        how: The function that imported it.
        place: The line of the user's source.
        stack: The user's frames.
        memory: Number of the memory that its values are a view of; None if they are no view.
        tensor: The tensor that it was created from, if PyTorch has recorded how that was computed.
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
    """Return the arrays, then the numbers, that entered while the tape recorded."""
    return [*_arrays(replay), *_numbers(replay)]


def arrivals(replay: Replay) -> Sequence[ArrivedArray]:
    """Return the arrays that entered from another library, if the engine records them."""
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
    """Yield the arrays of the tape in the memory of an array that entered."""
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
    """The leaves of the autograd graph that PyTorch has recorded for a tensor.

    Attributes:
        arrays: The leaves that are arrays of the tape, by id.
        others: The other leaves, for instance parameters of a model.
        plain: The graph has no custom `torch.autograd.Function`, which a backward pass would call.
    """

    arrays: dict[int, Any]
    others: list[Any]
    plain: bool


def graph_of(replay: Replay, entry: InteropEntry) -> TorchGraph:
    """Return the graph that PyTorch has recorded for the tensor that entered."""
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
    """Return the array of the tape that shares a tensor's memory."""
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
    """Return the gradients of the inputs if PyTorch's part of the reverse pass ran as well.

    Args:
        replay: The tape.
        entry: The array that entered.
        leaf: The array of the tape that is a leaf of PyTorch's graph.
        tensor: PyTorch's leaf in the memory of that array.
        read_at: The number of launches on the tape when that array was read.

    Returns:
        The gradients; None if PyTorch cannot run its graph backward, for instance because it was freed.
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
    """Return the gradient of an array that entered."""
    assert entry.array is not None
    shadow = replay._shadow().forward()
    shadow.backward(replay.seeds, stop=entry.launch)
    return shadow.gradient(replay.arrays[entry.array])


def not_handed_on(replay: Replay, entry: InteropEntry, leaves: Sequence[Any]) -> str:
    """Return the evidence that the gradient of an array that entered was not handed on to PyTorch.

    Args:
        replay: The tape.
        entry: The array.
        leaves: PyTorch's leaves that the array was computed from.

    Returns:
        `"no gradient"`: PyTorch's leaves have none; `"unread"`: the array's gradient has not been read since
        a pass wrote it; empty if it may have been handed on, or if it is zero.
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
    """Return the change of the loss when a number passed to a launch is scaled by `1 + scale`."""
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

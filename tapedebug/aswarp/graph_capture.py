"""Graphs of launches on the CPU: what a block would do is listed, not done, and `capture_launch` does it.

A graph holds calls of this engine's functions: launches, commands, copies, fills, the blocks and the reverse
passes of tapes. Launching it makes the same calls again, so that a tape that is recorded inside of it has new
records and right gradients each time. A tape that records around `capture_launch` has the launches; Warp's
tape does not record them, and the notes of these records say so.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import numpy as np

from tapedebug import _tape_observers as tape_observers
from tapedebug._errors import TapedebugError
from tapedebug._interception import Handler, Interception
from tapedebug.aswarp import array_utilities
from tapedebug.aswarp.cuda_names import CaptureMode
from tapedebug.lang import types as t
from tapedebug.optim import SGD, Adam
from tapedebug.runtime.device import Device, get_device
from tapedebug.runtime.launch.command import Launch
from tapedebug.runtime.launch.launch import launch
from tapedebug.runtime.memory import factory, transfer
from tapedebug.runtime.memory.array import array
from tapedebug.runtime.memory.indexed import indexedarray
from tapedebug.runtime.state import here, state
from tapedebug.runtime.tape.record import Site, call_site
from tapedebug.runtime.tape.tape import Tape

Call = Callable[[], object]


class CaptureError(TapedebugError, RuntimeError):
    """A capture that cannot begin, end or be launched."""


class Graph:
    """Calls that `capture_launch` makes, in order.

    Attributes:
        device: The device.
        calls: Each call, with the place in the program where it was captured.
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.calls: list[tuple[Call, Site]] = []

    def __repr__(self) -> str:
        return f"<graph of {len(self.calls)} calls>"


class _Capture:
    """A capture that has begun, of the calls of one thread."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.calls = graph.calls
        self.thread = threading.get_ident()

    def is_open_here(self) -> bool:
        """True if calls of this thread are listed."""
        return self.thread == threading.get_ident()


_capture: _Capture | None = None


def is_capturing() -> bool:
    """True while a graph is captured."""
    return _capture is not None


# ------------------------------------------------------------------ calls that are listed


def _listed(call: Call) -> None:
    assert _capture is not None
    _capture.calls.append((call, call_site()))


def _captured_launch(original: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """List a launch, with its arguments as they are now; a command is made, and nothing listed."""
    if named.get("record_cmd"):
        return original(*args, **named)
    if not named.get("adjoint"):
        original(*args, **{**named, "record_cmd": True})  # refuses arguments that do not fit
    fixed = [list(each) if isinstance(each, list) else each for each in args]
    kept = {name: list(each) if isinstance(each, list) else each for name, each in named.items()}
    _listed(lambda: original(*fixed, **kept))
    return None


def _captured_command(original: Callable[..., Any], command: Launch, stream: Any = None) -> None:
    """List the launch of a command, with its arguments as they are now."""
    fixed = Launch(
        command.kernel,
        command.dim,
        command.params,
        command.adj_params,
        adjoint=command.adjoint,
        record_tape=command.record_tape,
    )
    _listed(lambda: original(fixed))


def _captured_assign(original: Callable[..., Any], dest: array, src: Any) -> None:
    """List an assignment; data from outside is copied now."""
    given = src if isinstance(src, array) else np.array(src)
    _listed(lambda: original(dest, given))


def _captured_array(original: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Make an array now, and list that it is filled with the same values."""
    made = original(*args, **named)
    if made.size:
        first = made.numpy().reshape(-1, *t.value_shape(made.dtype))[0].copy()
        _listed(lambda: transfer.fill(made, first if first.ndim else first.item()))
    return made


def _captured_enter(original: Callable[..., Any], tape: Tape) -> Tape:
    """List that a tape begins to record: from its beginning, without the records of the launch before."""

    def enter() -> None:
        if tape.records:
            tape_observers.notify("tape_reset", tape)
            tape.forget_records()
        original(tape)

    _listed(enter)
    return tape


def _captured_utility(original: Callable[..., Any], *args: Any, **named: Any) -> None:
    """List a function of whole arrays that writes its result to one.

    Raises:
        NotImplementedError: It would return a number.
    """
    given = inspect.signature(original).bind(*args, **named).arguments
    result = _RESULTS.get(original.__name__)
    if result is not None and given.get(result) is None:
        raise NotImplementedError(
            f"{original.__name__}() returns a number, which a graph has not: pass {result}=an array"
        )
    _listed(lambda: original(*args, **named))


_RESULTS = {"array_sum": "out", "array_inner": "out", "runlength_encode": "run_count"}
"""Functions of whole arrays that return a number, and the parameter that takes an array for it."""


def _captured_call(original: Callable[..., Any], *args: Any, **named: Any) -> None:
    """List any other call."""
    _listed(lambda: original(*args, **named))


_CAPTURED: dict[Any, Callable[..., Any]] = {
    launch: _captured_launch,
    Launch.launch: _captured_command,
    transfer.assign: _captured_assign,
    transfer.copy: _captured_call,
    transfer.fill: _captured_call,
    factory.zeros: _captured_array,
    factory.ones: _captured_array,
    factory.full: _captured_array,
    indexedarray.fill_: _captured_call,
    Adam.step: _captured_call,
    SGD.step: _captured_call,
    Tape.__enter__: _captured_enter,
    Tape.__exit__: _captured_call,
    Tape.backward: _captured_call,
    Tape.zero: _captured_call,
    Tape.reset: _captured_call,
    **dict.fromkeys(array_utilities.NAMES.values(), _captured_utility),
}
"""The functions whose calls are listed, and how."""


def _on_thread(handler: Handler) -> Handler:
    """Return a handler for calls of the thread that captures; calls of others are made."""

    def handle(original: Callable[..., Any], *args: Any, **named: Any) -> Any:
        if _capture is None or not _capture.is_open_here():
            return original(*args, **named)
        return handler(original, *args, **named)

    return handle


_interception = Interception({function: _on_thread(handler) for function, handler in _CAPTURED.items()})


# ------------------------------------------------------------------ the names of Warp


def capture_begin(
    device: Any = None,
    stream: Any = None,
    force_module_load: bool | None = None,
    external: bool = False,
    apic: bool = False,
    capture_mode: CaptureMode = CaptureMode.THREAD_LOCAL,
) -> None:
    """Begin to list the calls of this thread instead of making them.

    Args:
        device: The device of the graph.
        stream: Accepted and ignored, as all that follow: they are about CUDA devices and files.
        force_module_load: Accepted and ignored.
        external: Accepted and ignored.
        apic: Accepted and ignored: graphs are not written to files (`capture_save`).
        capture_mode: Accepted and ignored.

    Raises:
        CaptureError: A capture is open already, or a tape is recording.
    """
    global _capture
    if _capture is not None:
        raise CaptureError("Graph capture already in progress", hint="call capture_end first")
    if here.thread.tape is not None:
        raise CaptureError(
            "a graph cannot be captured while a tape records: its launches run later, on no tape",
            hint="open the tape inside of the capture, or capture before",
        )
    graph = Graph(get_device(device))
    _interception.install()
    _capture = _Capture(graph)


def capture_end(device: Any = None, stream: Any = None) -> Graph:
    """End the capture, and return the graph.

    Raises:
        CaptureError: No capture is open.
    """
    global _capture
    if _capture is None:
        raise CaptureError("no graph is being captured", hint="call capture_begin first")
    graph = _capture.graph
    _capture = None
    _interception.remove()
    return graph


def capture_launch(graph: Graph, stream: Any = None) -> None:
    """Make the calls of a graph.

    A tape that records has their launches, copies and fills, with right gradients. Warp's tape has not.

    Raises:
        CaptureError: It is no graph.
    """
    if not isinstance(graph, Graph):
        raise CaptureError(f"capture_launch() takes a graph; got {graph!r}", hint="pass capture.graph")
    if _capture is not None and _capture.is_open_here():
        _listed(lambda: _make(graph.calls))
        return
    _make(graph.calls)


def _make(calls: list[tuple[Call, Site]]) -> None:
    """Make calls that were listed; records get the place where their call was captured."""
    around = here.thread.tape
    before = 0 if around is None else len(around.records)
    for call, site in calls:
        tape = here.thread.tape
        count = 0 if tape is None else len(tape.records)
        call()
        if tape is not None and here.thread.tape is tape:
            for record in tape.records[count:]:
                record.site = site
    if around is not None and state.foreign is not None:
        state.foreign.note_command(around.records[before:])


@contextmanager
def _branch() -> Iterator[list[tuple[Call, Site]]]:
    """Context in which calls are listed apart from those of the graph."""
    assert _capture is not None
    before = _capture.calls
    calls: list[tuple[Call, Site]] = []
    _capture.calls = calls
    try:
        yield calls
    finally:
        if _capture is not None:
            _capture.calls = before


def _branch_of(chosen: Any, named: dict[str, Any]) -> Call:
    """Return the call for one branch: nothing, a graph, or what a function does."""
    if chosen is None:
        return lambda: None
    if isinstance(chosen, Graph):
        return lambda: _make(chosen.calls)
    if _capture is None or not _capture.is_open_here():
        return lambda: chosen(**named)
    with _branch() as calls:
        chosen(**named)
    return lambda: _make(calls)


def _holds(condition: array) -> bool:
    return bool(condition.numpy().reshape(-1)[0])


def _check_condition(condition: Any) -> None:
    if not isinstance(condition, array) or condition.dtype is not t.int32:
        raise TypeError(f"the condition is an array of int32 with one element; got {condition!r}")


def capture_if(
    condition: array, on_true: Any = None, on_false: Any = None, stream: Any = None, **kwargs: Any
) -> None:
    """Run one of two functions or graphs; in a capture, each launch of the graph decides again.

    Args:
        condition: An array of one int32.
        on_true: A function, called with `kwargs`, or a graph.
        on_false: Likewise.
        stream: Accepted and ignored.
        kwargs: The arguments of the functions.

    Raises:
        TypeError: `condition` is no such array.
    """
    if on_true is None and on_false is None:
        return
    _check_condition(condition)
    branches = _branch_of(on_false, kwargs), _branch_of(on_true, kwargs)

    def decide() -> None:
        branches[_holds(condition)]()

    if _capture is not None and _capture.is_open_here():
        _listed(decide)
    else:
        decide()


def capture_while(condition: array, while_body: Any, stream: Any = None, **kwargs: Any) -> None:
    """Run a function or a graph while a condition holds; in a capture, with each launch of the graph.

    Args:
        condition: An array of one int32.
        while_body: A function, called with `kwargs`, or a graph.
        stream: Accepted and ignored.
        kwargs: The arguments of the function.

    Raises:
        TypeError: `condition` is no such array.
    """
    _check_condition(condition)
    body = _branch_of(while_body, kwargs)

    def repeat() -> None:
        while _holds(condition):
            body()

    if _capture is not None and _capture.is_open_here():
        _listed(repeat)
    else:
        repeat()


class ScopedCapture:
    """Context whose calls become a graph: `with ScopedCapture() as capture: …`.

    Attributes:
        graph: The graph, once the block has ended.
        active: True inside the block.
    """

    def __init__(
        self,
        device: Any = None,
        stream: Any = None,
        force_module_load: bool | None = None,
        external: bool = False,
        apic: bool = False,
        capture_mode: CaptureMode = CaptureMode.THREAD_LOCAL,
    ) -> None:
        self.device = device
        self.active = False
        self.graph: Graph | None = None

    def __enter__(self) -> ScopedCapture:
        capture_begin(self.device)
        self.active = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.active = False
        graph = capture_end(self.device)
        if error is None:
            self.graph = graph


NAMES: dict[str, Any] = {
    each.__name__: each
    for each in (
        CaptureMode,
        Graph,
        ScopedCapture,
        capture_begin,
        capture_end,
        capture_if,
        capture_launch,
        capture_while,
    )
}
"""The public names of Warp that this module has."""

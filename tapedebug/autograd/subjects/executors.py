"""Distribute work to threads, processes or machines of any `concurrent.futures` executor.

A unit of work is data, and a worker computes its result from that data alone. Results are therefore equal to
the last bit, wherever and in whatever order they are computed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Future, ThreadPoolExecutor, wait
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeVar

from tapedebug._errors import GradcheckError, TapedebugError
from tapedebug.autograd.array_types import Checkpoint
from tapedebug.autograd.subjects.pickling import dumps, loads, settings_of

if TYPE_CHECKING:
    from concurrent.futures import Executor


Unit = TypeVar("Unit")
Found = TypeVar("Found")

WORKERS = 8  # where an executor does not say how many it has
ROUNDS = 4  # chunks for each worker, so that slow ones even out
LARGEST = 32  # units of one chunk
GLANCE = 0.05  # s between two looks at the time


def require_executor(executor: Executor | None, caller: str) -> None:
    """Raise an error for an argument that is not an executor.

    Raises:
        GradcheckError: It has no `submit`.
    """
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise GradcheckError(
            f"{caller}: executor is one of concurrent.futures; got {executor!r} ({type(executor).__name__})",
            hint="pass a ThreadPoolExecutor or ProcessPoolExecutor, or client.get_executor() of Dask",
        )


def handed_out(
    function: Callable[[Unit], Found],
    units: Iterator[Unit],
    count: int,
    executor: Executor,
    *,
    caller: str,
    name_of: Callable[[Unit], str],
    pulse: Checkpoint,
) -> Generator[Found, None, None]:
    """Yield the results of `function` for `units`, in their order, computed by the workers of an executor.

    Args:
        function: A module-level function of one unit.
        units: The data, created just before a worker gets it: only the units in flight are in memory.
        count: The number of units.
        executor: Any executor of `concurrent.futures`. Threads get units as they are, others as bytes.
        caller: The function that was called, for error messages.
        name_of: Returns the name of a unit in messages.
        pulse: Called while waiting; may raise to cancel.

    Raises:
        GradcheckError: A worker or the executor broke down.
    """
    workers = int(getattr(executor, "_max_workers", 0) or WORKERS)
    size = max(1, min(LARGEST, -(-count // (ROUNDS * workers))))
    waiting: deque[tuple[str, Future[Any]]] = deque()
    over = threading.Event()
    try:
        while True:
            while len(waiting) < 2 * workers and (chunk := list(islice(units, size))):
                names = f"{name_of(chunk[0])}" + (f" to {name_of(chunk[-1])}" if len(chunk) > 1 else "")
                waiting.append((names, _submit(executor, function, chunk, caller, over)))
                pulse()
            if not waiting:
                return
            names, future = waiting[0]
            while not wait([future], timeout=GLANCE).done:
                pulse()
            found = _result(future, names, caller)
            waiting.popleft()
            yield from found
    finally:
        over.set()
        running = [future for _, future in waiting if not future.cancel()]
        if isinstance(executor, ThreadPoolExecutor):
            wait(running)  # no part of the check may run on in this process after its end


def _submit(
    executor: Executor,
    function: Callable[[Unit], Found],
    chunk: Sequence[Unit],
    caller: str,
    over: threading.Event,
) -> Future[Any]:
    try:
        if isinstance(executor, ThreadPoolExecutor):
            return executor.submit(_run, function, chunk, over)
        found: Future[Any] = executor.submit(run_bytes, dumps((function, chunk), caller))
        return found
    except RuntimeError as error:
        if isinstance(error, TapedebugError):
            raise
        raise GradcheckError(
            f"{caller}: the executor takes no work ({error})", hint="pass one that is running"
        ) from None


def _run(
    function: Callable[[Unit], Found], chunk: Sequence[Unit], over: threading.Event | None = None
) -> list[Found]:
    found = []
    for unit in chunk:
        if over is not None and over.is_set():
            break  # its result is not awaited
        found.append(function(unit))
    return found


def run_bytes(data: bytes) -> list[Any]:
    """Run a chunk of units in another process."""
    settings, (function, chunk) = loads(data)
    with settings_of(settings):
        return _run(function, chunk)


def _result(future: Future[Any], names: str, caller: str) -> list[Any]:
    try:
        found: list[Any] = future.result()
        return found
    except TapedebugError as error:
        raise error.with_traceback(None) from None
    except (BrokenExecutor, CancelledError) as error:
        why = str(error) or type(error).__name__
        raise GradcheckError(
            f"{caller}: the executor broke down over {names} ({why})",
            hint="see what ended its workers (memory, a crash), or check without executor=",
        ) from None
    except Exception as error:
        raise GradcheckError(
            f"{caller}: a worker failed over {names}: {type(error).__name__}: {error}",
            hint="workers need this version of tapedebug and the modules of the kernels, or check without "
            "executor=",
        ) from error

"""The print buffer: show the output of kernels after they ran, and raise their errors.

Compiled code writes its output into memory whose address is in the argument slots. The buffer is bounded:
lines that do not fit are counted.
"""

from __future__ import annotations

import ctypes
import math
import pickle
import re
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapedebug._errors import BoundsError, KernelAssertionError, KernelRaisedError, TapedebugError
from tapedebug.compiler.diagnostics import BOUNDS, EXPECT, MOST, RAISED, Diagnostic, shown
from tapedebug.compiler.layout import DIMS
from tapedebug.runtime.config import config

WORDS_A_LINE = 16
"""Average number of words reserved for a line."""

ADDRESS, CAPACITY, USED, LINES, LIMIT, DROPPED, FAILED, THREAD = range(8)

Words = np.ndarray[Any, np.dtype[np.int64]]


class PrintBuffer:
    """A print buffer; `PRINT_BUFFER` is that of launches, checks may have their own.

    Attributes:
        address: Address of its header, which never moves.
        lock: Held while a kernel writes, and until its output has been read.
    """

    def __init__(self) -> None:
        self.header: Words = np.zeros(8, np.int64)
        self.address: int = self.header.ctypes.data
        self.lock = threading.RLock()  # reentrant: a breakpoint may launch another kernel
        self.words: Words = np.empty(0, np.int64)

    def open(self, limit: int | None = None) -> None:
        """Empty the buffer, with room for `limit` lines, by default `config.print_lines`."""
        lines = config.print_lines if limit is None else limit
        capacity = WORDS_A_LINE * lines
        if self.header[CAPACITY] != capacity or not self.header[ADDRESS]:
            self.words = np.empty(capacity + MOST + 3, np.int64)  # an entry that does not fit goes here
        self.header[:] = (self.words.ctypes.data, capacity, 0, 0, lines, 0, 0, 0)

    def entries(self) -> list[tuple[int, int, Words]]:
        """Return the entries: for each the number of the diagnostic, the thread and the values."""
        return [(number, thread, np.array(said, np.int64)) for number, thread, said in self.numbers()]

    def numbers(self) -> list[tuple[int, int, list[int]]]:
        """Return the entries with their values as numbers of Python, for thousands of short ones."""
        words: list[int] = self.words[: int(self.header[USED])].tolist()
        found, at = [], 0
        while at < len(words):
            number, thread, count = words[at : at + 3]
            found.append((number, thread, words[at + 3 : at + 3 + count]))
            at += 3 + count
        return found

    def failure(self) -> tuple[int, int, Words] | None:
        """Return the entry of the failure that ended the launch, or None."""
        if not self.header[FAILED]:
            return None
        start = int(self.header[CAPACITY]) + 3
        return int(self.header[FAILED]) - 1, int(self.header[THREAD]), self.words[start : start + MOST].copy()


PRINT_BUFFER = PrintBuffer()


class Listener:
    """A runner of an entry with diagnostics: it shows the output and raises failures.

    Args:
        kernel: The kernel.
        entry: A variant of it.
        of: `"adjoint"` or `"tangent"` for an adjoint or tangent entry; empty for the kernel itself.
    """

    __slots__ = ("entry", "kernel", "of")

    def __init__(self, kernel: Any, entry: Any, of: str) -> None:
        self.kernel = kernel
        self.entry = entry
        self.of = of

    def __call__(self, lo: int, hi: int, args: int) -> None:
        """Run threads; `args` is the address of the packed slots.

        Raises:
            KernelAssertionError: An assertion failed.
            KernelRaisedError: A function that Numba compiled raised an exception.
            BoundsError: An index was outside its array.
        """
        with PRINT_BUFFER.lock:
            PRINT_BUFFER.open()
            self.entry(lo, hi, args)
            entries, failure = PRINT_BUFFER.entries(), PRINT_BUFFER.failure()
            dropped = int(PRINT_BUFFER.header[DROPPED])
        diagnostics: tuple[Diagnostic, ...] = self.entry.diagnostics
        grid = ctypes.cast(args, ctypes.POINTER(ctypes.c_int64))[:DIMS]
        inner = grid[1 : self.kernel.axes]
        dims = (-(-hi // max(1, math.prod(inner))), *inner)  # a launch may have more axes than its kernel
        text = "".join(
            self._line(diagnostics[number], thread, words, dims) for number, thread, words in entries
        )
        if dropped:
            text += self._dropped(dropped)
        if text:
            print(text, end="")
        if failure is not None:
            number, thread, words = failure
            raise self._error(diagnostics[number], thread, words, dims, grid)

    def _line(self, diagnostic: Diagnostic, thread: int, words: Words, dims: tuple[int, ...]) -> str:
        if diagnostic.kind != EXPECT:
            return diagnostic.formatted(words)
        operands = ", ".join(diagnostic.operand_values(words))
        where = f"{diagnostic.text} in thread {thread_name(thread, dims)}: {operands}"
        complaint = TapedebugError(f"{self._name}: {where}", span=diagnostic.span, notes=diagnostic.notes)
        return f"{complaint}\n"

    def _dropped(self, dropped: int) -> str:
        lines = "1 more line was" if dropped == 1 else f"{dropped} more lines were"
        return f"{self._name}: {lines} not kept (config.print_lines is {config.print_lines})\n"

    @property
    def _name(self) -> str:
        return f"{self.of} of kernel `{self.kernel.__name__}`".removeprefix(" of ")

    def _error(
        self, diagnostic: Diagnostic, number: int, words: Words, dims: tuple[int, ...], grid: list[int]
    ) -> TapedebugError:
        thread = thread_name(number, dims)
        undone = "the reverse pass" if self.of == "adjoint" else "the launch"
        left = f"nothing of {undone} is left: arrays and tape are as they were before it"
        if diagnostic.kind == BOUNDS:
            index, length = (int(value) for value in diagnostic.read(words[:2]))
            size = f"has length {length}" if length else "is empty"
            return BoundsError(
                f"{self._name}: the index {index} is outside {diagnostic.text}, which {size}, "
                f"in thread {thread}",
                span=diagnostic.span,
                notes=(*diagnostic.notes, f"the launch has dim={_dim(grid)}", left),
                hint=_fitting(diagnostic, index, length, np.unravel_index(number, dims), grid),
            )
        if diagnostic.kind == RAISED:
            address, *given = diagnostic.read(words)
            named = zip(diagnostic.operands[1:], given, strict=True)
            return KernelRaisedError(
                f"{self._name}: the numba function `{diagnostic.text}` raised {_exception(int(address))} "
                f"in thread {thread}",
                span=diagnostic.span,
                notes=(
                    *(f"{operand.name} is {shown(value)}" for operand, value in named),
                    *diagnostic.notes,
                    left,
                ),
                hint="call it only where it returns, or let it return a number there, too",
            )
        said = diagnostic.formatted(words) if diagnostic.arguments else ""
        return KernelAssertionError(
            f"{self._name}: assertion failed in thread {thread}{': ' if said else ''}{said}",
            span=diagnostic.span,
            notes=(*diagnostic.operand_values(words), *diagnostic.notes, left),
            hint="see why it does not hold; config.asserts = False leaves assertions out",
        )


def _exception(address: int) -> str:
    """Describe an exception raised by Numba's code; its pickled class and message are at an address.

    A message that is formatted from values is not available there.
    """
    if not address:
        return "an exception"
    found = _Exception.from_address(address)
    kind, arguments, *_ = pickle.loads(ctypes.string_at(found.pickled, found.size))
    name = getattr(kind, "__name__", str(kind))
    if not arguments or found.unwrap:
        return name
    return f"{name}: {', '.join(map(str, arguments))}"


class _Exception(ctypes.Structure):
    """The exception data of Numba's calling convention, `excinfo_t`."""

    _fields_ = (
        ("pickled", ctypes.c_void_p),
        ("size", ctypes.c_int32),
        ("values", ctypes.c_void_p),
        ("unwrap", ctypes.c_void_p),
        ("allocated", ctypes.c_int32),
    )


def _fitting(diagnostic: Diagnostic, index: int, length: int, thread: Sequence[Any], grid: list[int]) -> str:
    """Return the hint for an index outside; if it is the thread's own index, the launch is too large."""
    array = re.fullmatch(r"axis \d of (`.*`)", diagnostic.text)
    own = [axis for axis, place in enumerate(thread) if place == index and grid[axis] > length]
    if array is None or len(own) != 1 or not length or any(size > 1 for size in grid[len(thread) :]):
        return "test the index before it is used, make the array larger, or launch fewer threads"
    fitting = [*grid]
    fitting[own[0]] = length
    return (
        f"launch with dim={_dim(fitting)}, which fits {array[1]}, "
        "or test the index before it is used (`if i < n:`)"
    )


def _dim(grid: list[int]) -> int | tuple[int, ...]:
    """Return the sizes of a launch in the form in which they are passed."""
    axes = max((axis for axis, size in enumerate(grid, start=1) if size != 1), default=1)
    return grid[0] if axes == 1 else tuple(grid[:axes])


def thread_name(thread: int, dims: tuple[int, ...]) -> str:
    """Return a thread's index on each axis, formatted for messages."""
    if len(dims) == 1:
        return str(thread)
    return str(tuple(int(k) for k in np.unravel_index(thread, dims)))

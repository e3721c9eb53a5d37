"""NumPy functions that generated code calls, so that its text runs as plain Python in a debugger.

Slow, and the reference for the compiled code: operations of the language are declared with their rules (in
`lang.lowering`), the rest here.
"""

from __future__ import annotations

import ctypes
import linecache
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapedebug.compiler.generated_source import GeneratedSource
from tapedebug.compiler.native.function import CALLED
from tapedebug.lang.lowering import FUNCTIONS, NUMPY, converted

C_TYPES: dict[str, Any] = {
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
    **{
        f"{sign}{bits}": getattr(ctypes, f"c_{word}{bits}")
        for sign, word in (("i", "int"), ("u", "uint"))
        for bits in (8, 16, 32, 64)
    },
    "b1": ctypes.c_bool,
}


class Interpreted:
    """A generated function as plain Python; called like an `Entry`.

    Args:
        text: What was generated.
        name: What debuggers call its file, between `<` and `>`.

    Attributes:
        filename: The whole name; Python's `linecache` has the lines, each with the user's line beside it.
        diagnostics: What it may say, by number.
    """

    def __init__(self, text: GeneratedSource, name: str) -> None:
        code = text.annotated() + "\n"
        self.diagnostics = text.diagnostics
        self.filename = f"<{name}>"
        linecache.cache[self.filename] = (len(code), None, code.splitlines(keepends=True), self.filename)
        names = NAMESPACE | {symbol: _native(symbol) for symbol in CALLED}
        exec(compile(code, self.filename, "exec"), names)
        self._function: Callable[[int, int, Any], None] = names["entry"]

    def __call__(self, lo: int, hi: int, args: int) -> None:
        """Run threads; `args` is the address of the packed slots."""
        with np.errstate(all="ignore"):
            self._function(lo, hi, _Slots(args))


class _Slots:
    """The packed arguments, read as integers."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.words = ctypes.cast(address, ctypes.POINTER(ctypes.c_int64))

    def __getitem__(self, slot: int) -> int:
        return int(self.words[slot])

    def __setitem__(self, slot: int, value: int) -> None:
        self.words[slot] = int(value)


class _Memory:
    """Scalars of one type from an address on."""

    def __init__(self, code: str, address: int) -> None:
        self.number = NUMPY[code]
        self.values = ctypes.cast(address, ctypes.POINTER(C_TYPES[code]))

    def __getitem__(self, place: Any) -> Any:
        return self.number(self.values[int(place)])

    def __setitem__(self, place: Any, value: Any) -> None:
        self.values[int(place)] = value.item() if isinstance(value, np.generic) else value


def _pointer(code: str) -> Callable[..., Any]:
    return lambda args, slot: _Memory(code, args[slot] & (2**64 - 1))


def _native(symbol: str) -> Callable[..., None]:
    """A native function, called with a frame that is a stack here, or with numbers."""
    called = CALLED[symbol]
    place = called.place

    def value(*given: Any) -> Any:
        assert place is not None
        frame: dict[int, Any] = {called.last: called.place, **dict(zip(called.given, given, strict=True))}
        call(frame)
        return frame[place]

    def call(frame: dict[int, Any]) -> None:
        memory = bytearray(8 * (1 + max([*frame, *(word for word, _ in called.results)], default=0)))
        for word, value in frame.items():
            number = (
                value
                if isinstance(value, np.generic)
                else np.bool_(value)
                if isinstance(value, bool)
                else np.int64(value)
            )
            memory[8 * word : 8 * word + number.nbytes] = number.tobytes()
        called.function()((ctypes.c_char * len(memory)).from_buffer(memory))
        for word, code in called.results:
            frame[word] = np.frombuffer(memory, NUMPY[code], 1, 8 * word)[0]

    return call if place is None else value


def _stack_zeros(stack: dict[Any, Any], count: Any) -> None:
    stack["memory"] = ctypes.create_string_buffer(8 * int(count) + 8)


def _stack_put(stack: dict[int, Any], place: int, value: Any) -> None:
    stack[int(place)] = value


class _PrintBuffer:
    """The print buffer of the runtime: its header, and words that hold a value each."""

    def __init__(self, address: int) -> None:
        self.words = ctypes.cast(address, ctypes.POINTER(ctypes.c_int64))

    def __setitem__(self, place: int, value: Any) -> None:
        content = np.asarray(value).tobytes()
        ctypes.memmove(self.words[0] + 8 * place, content, len(content))

    def write(self, *words: int) -> int:
        """Begin a diagnostic; gives the place of its values."""
        _, capacity, used, lines, limit, _ = (self.words[k] for k in range(6))
        fits = used + words[-1] + len(words) <= capacity and lines < limit
        place = int(used if fits else capacity)
        if fits:
            self.words[2] += words[-1] + len(words)
        self.words[3 if fits else 5] += 1
        for k, word in enumerate(words):
            self[place + k] = np.int64(word)
        return place + len(words)

    def fail(self, number: int, thread: int, count: int) -> int:
        """End the launch; gives the place of the values."""
        self.words[6], self.words[7] = number + 1, thread
        return int(self.words[1]) + 3


def _namespace() -> dict[str, Any]:
    names: dict[str, Any] = {
        "nan": math.nan,
        "inf": math.inf,
        "arg_f64": lambda args, slot: np.float64(ctypes.c_double.from_address(args.address + 8 * slot).value),
        "inside": lambda index, length: index if 0 <= index < length else 0,
        "print_buffer_at": lambda args, slot: _PrintBuffer(args[slot]),
        "print_message": lambda print_buffer, *words: print_buffer.write(*words),
        "failure_message": lambda print_buffer, *words: print_buffer.fail(*words),
        "stack_new": dict,
        "stack_ensure": lambda stack, count: None,
        "stack_free": dict.clear,
        "stack_zeros": _stack_zeros,
        "stack_address": lambda stack: ctypes.addressof(stack["memory"]),
    }
    names |= {function.name: function.python for function in FUNCTIONS.values()}
    for code in NUMPY:
        names[code] = converted(code)
        names[f"ptr_{code}"] = _pointer(code)
        names[f"put_{code}"], names[f"get_{code}"] = _stack_put, lambda stack, place: stack[int(place)]
    return names


NAMESPACE: dict[str, Any] = _namespace()

"""What generated code calls, in NumPy: the same text runs as plain Python, line by line under a debugger.

Slow, and the reference for `numba_library`: both give the same numbers, to the last bit of `sin` and such.
"""

from __future__ import annotations

import ctypes
import linecache
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapedebug.compiler.generated_source import GeneratedSource
from tapedebug.compiler.llvm.erfinv import erfinv
from tapedebug.compiler.native import build
from tapedebug.compiler.native.function import CALLED
from tapedebug.lang import types as t

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
NUMPY: dict[str, Any] = {s.code: s.numpy.type for s in t.SCALARS if s is not t.float16}
SAME_NAME = "sqrt cbrt exp log log2 log10 sin cos tan sinh cosh tanh floor ceil trunc rint"
RENAMED = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "pow": "power"}
RENAMED |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh"}


class Interpreted:
    """A generated function as plain Python; called like an `Entry`.

    Args:
        text: What was generated.
        name: What debuggers call its file, between `<` and `>`.

    Attributes:
        filename: The whole name; Python's `linecache` has the lines, each with the user's line beside it.
        remarks: What it may say, by number.
    """

    def __init__(self, text: GeneratedSource, name: str) -> None:
        code = text.annotated() + "\n"
        self.remarks = text.remarks
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


def _cast(code: str) -> Callable[..., Any]:
    number: Callable[..., Any] = NUMPY[code]
    if code[0] not in "iu":
        return number
    limits = np.iinfo(NUMPY[code])

    def cast(x: Any) -> Any:
        if isinstance(x, np.floating):
            whole = 0 if np.isnan(x) else int(min(max(float(x), float(limits.min)), float(limits.max)))
            return number(min(whole, int(limits.max)))
        # Wraps as machine integers do; NumPy refuses Python integers that are too large.
        return number((int(x) - int(limits.min)) % 2**limits.bits + int(limits.min))

    return cast


def _of(f: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function, in the operands' own type."""
    return lambda *x: x[0].dtype.type(f(*x))


def _same_integer(x: Any, value: int) -> Any:
    """An integer in the type of `x`: int64 may be a Python integer in generated code."""
    code = "i64" if isinstance(x, int) else f"{x.dtype.kind}{8 * x.dtype.itemsize}"
    return NAMESPACE[f"to_{code}"](value)


def _of_bits(scalar: type[t.Scalar]) -> Callable[[Any], Any]:
    def of_bits(x: Any) -> Any:
        number = np.int64(x) if isinstance(x, int) else np.asarray(x)
        return np.frombuffer(number.tobytes(), scalar.numpy)[0]

    return of_bits


def _divide(x: Any, y: Any) -> Any:
    if not y:
        return _same_integer(x, 0)
    quotient = abs(int(x)) // abs(int(y))
    return _same_integer(x, quotient if (x < 0) == (y < 0) else -quotient)


def _floor_divide(x: Any, y: Any) -> Any:
    if isinstance(x, np.floating):
        return np.floor(x / y)
    return _same_integer(x, int(x) // int(y) if y else 0)


def _remainder(x: Any, y: Any) -> Any:
    if isinstance(x, np.floating):
        return np.fmod(x, y)
    rest = abs(int(x)) % abs(int(y)) if y else 0
    return _same_integer(x, rest if x > 0 else -rest)


def _shift(left: bool) -> Callable[..., Any]:
    def shift(x: Any, y: Any) -> Any:
        bits = 64 if isinstance(x, int) else 8 * x.dtype.itemsize
        count = int(y) if 0 <= int(y) < bits else bits
        return _same_integer(x, int(x) << count if left else int(x) >> count)

    return shift


def _pcg(state: Any) -> Any:
    """The hash of a state of random numbers."""
    word = (int(state) * 747796405 + 2891336453) % 2**32
    word = ((word >> ((word >> 28) + 4)) ^ word) * 277803737 % 2**32
    return np.uint32((word >> 22) ^ word)


def _native(symbol: str) -> Callable[..., None]:
    """A native function, called with a frame that is a stack here."""

    def call(frame: dict[int, Any]) -> None:
        memory = bytearray(8 * (1 + max([*frame, *(place for place, _ in CALLED[symbol])], default=0)))
        for place, value in frame.items():
            number = (
                value
                if isinstance(value, np.generic)
                else np.bool_(value)
                if isinstance(value, bool)
                else np.int64(value)
            )
            memory[8 * place : 8 * place + number.nbytes] = number.tobytes()
        build.function(symbol)((ctypes.c_char * len(memory)).from_buffer(memory))
        for place, code in CALLED[symbol]:
            frame[place] = np.frombuffer(memory, NUMPY[code], 1, 8 * place)[0]

    return call


def _stack_zeros(stack: dict[Any, Any], count: Any) -> None:
    stack["memory"] = ctypes.create_string_buffer(8 * int(count) + 8)


def _stack_put(stack: dict[int, Any], place: int, value: Any) -> None:
    stack[int(place)] = value


class _Journal:
    """The journal of the runtime: its header, and words that hold a value each."""

    def __init__(self, address: int) -> None:
        self.words = ctypes.cast(address, ctypes.POINTER(ctypes.c_int64))

    def __setitem__(self, place: int, value: Any) -> None:
        content = np.asarray(value).tobytes()
        ctypes.memmove(self.words[0] + 8 * place, content, len(content))

    def write(self, *words: int) -> int:
        """Begin a remark; gives the place of its values."""
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
        "select": lambda condition, yes, no: yes if condition else no,
        "unit": _of(lambda x: np.clip(x, -1, 1)),
        "inside": lambda index, length: index if 0 <= index < length else 0,
        "trip_count": lambda start, stop, step: len(range(int(start), int(stop), int(step))) if step else 0,
        "m_abs": abs,
        "m_erf": _of(math.erf),
        "m_erfc": _of(math.erfc),
        "m_erfinv": _of(lambda x: erfinv(float(x))),
        "m_sign": lambda x: type(x)(-1 if x < 0 else 1),
        "m_sign0": lambda x: type(x)(int(x > 0) - int(x < 0)),
        "m_round": _of(lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5)),
        "c_div": _divide,
        "floor_div": _floor_divide,
        "c_mod": _remainder,
        "shl": _shift(left=True),
        "shr": _shift(left=False),
        "journal_at": lambda args, slot: _Journal(args[slot]),
        "tell": lambda journal, *words: journal.write(*words),
        "fail": lambda journal, *words: journal.fail(*words),
        "rand_pcg": _pcg,
        "to_f16": lambda x: np.float32(np.float16(x)),  # a half is held as a float32
        "half_bits": lambda x: np.float16(x).view(np.uint16),
        "half_value": lambda bits: np.float32(np.uint16(bits).view(np.float16)),
        "single": lambda x: np.float64(np.float32(x)),
        "stack_new": dict,
        "stack_ensure": lambda stack, count: None,
        "stack_free": dict.clear,
        "stack_zeros": _stack_zeros,
        "stack_address": lambda stack: ctypes.addressof(stack["memory"]),
    }
    for code in ("f32", "f64"):
        number = NUMPY[code]
        names[f"centred_{code}"] = lambda x, number=number: number((int(x) >> 8) * 2.0**-24 - 0.5)
        names[f"direction_{code}"] = lambda part, length: part / length if length > 0 else length
    for code in NUMPY:
        names[code] = names[f"to_{code}"] = _cast(code)
        names[f"ptr_{code}"] = _pointer(code)
        names[f"put_{code}"], names[f"get_{code}"] = _stack_put, lambda stack, place: stack[int(place)]
    for scalar in t.SCALARS:
        names[f"{scalar.code}_of_bits"] = _of_bits(scalar)
    for name in SAME_NAME.split():
        names[f"m_{name}"] = _of(getattr(np, name))
    for name, called in RENAMED.items():
        names[f"m_{name}"] = _of(getattr(np, called))
    return names


NAMESPACE: dict[str, Any] = _namespace()

"""Machine code as a built-in function of Python: a call takes a quarter of the time that `ctypes` needs.

A launch of one thread spends a sixth of its time in the call of its entry through `ctypes`, which looks up
how to convert each argument (0.25 µs; 0.07 as a built-in function, Python 3.11). All such functions share one
small function in machine code, or another one that measures the entry. It finds the entry, and the functions
of Python's C interface that it calls, in a table that each of them has as its `self`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from struct import pack
from typing import Any

from tapedebug.compiler import backend
from tapedebug.compiler.objects import Entry

ASSEMBLY = """define ptr @{symbol}(ptr %self, ptr %args, i64 %count) nounwind {{
start:
{loads}
  %three = icmp eq i64 %count, 3
  br i1 %three, label %convert, label %wrong
wrong:
  %raised = call i32 %mistake()
  ret ptr null
convert:
  %first = load ptr, ptr %args
  %second.at = getelementptr ptr, ptr %args, i64 1
  %second = load ptr, ptr %second.at
  %third.at = getelementptr ptr, ptr %args, i64 2
  %third = load ptr, ptr %third.at
  %lo = call i64 %converts(ptr %first)
  %hi = call i64 %converts(ptr %second)
  %address = call ptr %converts(ptr %third)
  %error = call ptr %failed()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %run, label %end
end:
  ret ptr null
run:
{run}
}}
"""

UNTIMED = """\
  %thread = call ptr %release()
  call void %entry(i64 %lo, i64 %hi, ptr %address)
  call void %acquire(ptr %thread)
  call void %refer(ptr %none)
  ret ptr %none"""
"""The GIL is released while the entry runs, as by `ctypes`."""

TIMED = """\
  %before = call i64 %clock()
  %thread = call ptr %release()
  call void %entry(i64 %lo, i64 %hi, ptr %address)
  call void %acquire(ptr %thread)
  %after = call i64 %clock()
  %passed = sub i64 %after, %before
  %nanoseconds = sitofp i64 %passed to double
  %seconds = fdiv double %nanoseconds, 1.0e9
  %found = call ptr %float(double %seconds)
  ret ptr %found"""

FUNCTIONS = {
    "converts": "PyLong_AsVoidPtr",  # which gives 64 bits, also of negative integers
    "failed": "PyErr_Occurred",
    "release": "PyEval_SaveThread",
    "acquire": "PyEval_RestoreThread",
    "mistake": "PyErr_BadArgument",
    "refer": "Py_IncRef",
    "float": "PyFloat_FromDouble",
}
"""The functions of Python's C interface, by their names in the assembly."""
CLOCKS = "_PyTime_GetPerfCounter", "_PyTime_PerfCounterUnchecked"
"""The nanoseconds of `time.perf_counter`: a function of Python until 3.12, and from 3.13 on."""
TABLE = ("entry", "none", "clock", *FUNCTIONS)
"""The addresses in the table."""
FASTCALL = 0x0080
"""`METH_FASTCALL`: the arguments come as an array of objects and their number."""


class _Definition(ctypes.Structure):
    """The `PyMethodDef` of all these functions."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def direct(entry: Entry) -> Callable[[int, int, int], None]:
    """Return a function that does the same as a compiled entry; wrong arguments raise a TypeError."""
    found: Callable[[int, int, int], None] = _function(entry, UNTIMED, 0)
    return found


def direct_timed(entry: Entry) -> Callable[[int, int, int], float] | None:
    """Return a function that also measures the entry, and returns seconds; None without Python's clock.

    Two calls of `time.perf_counter` take longer than a call of a small entry.
    """
    clock = _clock()
    return _function(entry, TIMED, clock) if clock else None


def _function(entry: Entry, run: str, clock: int) -> Any:
    new, definition = _made(run)
    table = pack(f"={len(TABLE)}Q", entry.address, id(None), clock, *map(_address, FUNCTIONS.values()))
    return new(ctypes.addressof(definition), table, None)


@cache
def _address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def _clock() -> int:
    """Return the address of Python's clock, or 0."""
    return next((_address(name) for name in CLOCKS if hasattr(ctypes.pythonapi, name)), 0)


@cache
def _made(run: str) -> tuple[Any, _Definition]:
    """Return what makes functions that run their entry like this, and their definition."""
    header = bytes.__basicsize__ - 1
    loads = [
        f"  %{name}.at = getelementptr i8, ptr %self, i64 {header + 8 * number}\n"
        f"  %{name} = load ptr, ptr %{name}.at, align 1"
        for number, name in enumerate(TABLE)
    ]
    code = backend.assembled(ASSEMBLY.format(loads="\n".join(loads), run=run, symbol="{symbol}"))
    new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)(
        ("PyCFunction_NewEx", ctypes.pythonapi)
    )
    return new, _Definition(b"run", code.address, FASTCALL, None)

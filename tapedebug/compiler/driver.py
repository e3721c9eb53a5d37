"""The one compiled loop that runs many entries, each over many rows of packed arguments."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

from tapedebug.compiler import backend, objects

ASSEMBLY = """define void @{symbol}(i64 %calls, ptr %table, i64 %rows) {{
begin:
  %some.calls = icmp sgt i64 %calls, 0
  %some.rows = icmp sgt i64 %rows, 0
  %some = and i1 %some.calls, %some.rows
  br i1 %some, label %call, label %end
call:
  %number = phi i64 [ 0, %begin ], [ %next.number, %called ]
  %first = mul i64 %number, 4
  %entry.at = getelementptr i64, ptr %table, i64 %first
  %threads.at = getelementptr i64, ptr %entry.at, i64 1
  %args.at = getelementptr i64, ptr %entry.at, i64 2
  %stride.at = getelementptr i64, ptr %entry.at, i64 3
  %entry = load ptr, ptr %entry.at
  %threads = load i64, ptr %threads.at
  %args = load ptr, ptr %args.at
  %stride = load i64, ptr %stride.at
  br label %row
row:
  %k = phi i64 [ 0, %call ], [ %next.k, %row ]
  %where = phi ptr [ %args, %call ], [ %next.where, %row ]
  call void %entry(i64 0, i64 %threads, ptr %where)
  %next.where = getelementptr i8, ptr %where, i64 %stride
  %next.k = add i64 %k, 1
  %more.rows = icmp slt i64 %next.k, %rows
  br i1 %more.rows, label %row, label %called
called:
  %next.number = add i64 %number, 1
  %more.calls = icmp slt i64 %next.number, %calls
  br i1 %more.calls, label %call, label %end
end:
  ret void
}}
"""


@cache
def driver() -> Callable[[int, int, int], None]:
    """`driver()(calls, table, rows)`: runs each call of the table over all its rows before the next call.

    A call is four words: the address of its entry, its threads, the address of its first row of packed
    arguments, and how many bytes further on the next row is. The GIL is released meanwhile.
    """
    key = objects.key_of(ASSEMBLY, "llvm")
    found = backend.kept(key)
    if found is None:
        from tapedebug.compiler.llvm.machine import object_code

        content = object_code(ASSEMBLY.format(symbol=backend.symbol_of(key)))
        objects.write(key, content)
        found = objects.load(key, backend.symbol_of(key), content)
    run: Callable[[int, int, int], None] = ctypes.CFUNCTYPE(
        None, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64
    )(found.address)
    return run

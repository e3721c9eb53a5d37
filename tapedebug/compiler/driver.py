"""The compiled loop that runs many entries, each over many rows of packed arguments."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from functools import cache

from tapedebug.compiler import backend, objects

X86 = platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")
COUNTER = "cycle" if X86 else "steady"
"""The counter that is read. On other processors than x86, programs may not be allowed to read cycles."""

ASSEMBLY = """declare i64 @llvm.read{counter}counter()
define void @{symbol}(i64 %calls, ptr %table, i64 %rows, ptr %stamps) {
begin:
  %some.calls = icmp sgt i64 %calls, 0
  %some.rows = icmp sgt i64 %rows, 0
  %some = and i1 %some.calls, %some.rows
  %timed = icmp ne ptr %stamps, null
  br i1 %some, label %start, label %end
start:
  br i1 %timed, label %first.stamp, label %call
first.stamp:
  %begun = call i64 @llvm.read{counter}counter()
  store i64 %begun, ptr %stamps
  br label %call
call:
  %number = phi i64 [ 0, %start ], [ 0, %first.stamp ], [ %next.number, %next ]
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
  br i1 %timed, label %stamp, label %next
stamp:
  %now = call i64 @llvm.read{counter}counter()
  %stamp.at = getelementptr i64, ptr %stamps, i64 %next.number
  store i64 %now, ptr %stamp.at
  br label %next
next:
  %more.calls = icmp slt i64 %next.number, %calls
  br i1 %more.calls, label %call, label %end
end:
  ret void
}
"""


@cache
def driver() -> Callable[[int, int, int, int], None]:
    """`driver()(calls, table, rows, stamps)`: runs each call of the table over all its rows before the next.

    A call is four words: the address of its entry, its threads, the address of its first row of packed
    arguments, and how many bytes further on the next row is. The GIL is released meanwhile. Unless `stamps`
    is 0, it is the address of a word more than there are calls: the counter of the processor when the first
    call begins, and when each is done.
    """
    pointers = (ctypes.c_void_p,) * 4  # which `ctypes` converts faster than integers
    entry = backend.assembled(ASSEMBLY.replace("{counter}", COUNTER))
    run: Callable[[int, int, int, int], None] = ctypes.CFUNCTYPE(None, *pointers)(entry.address)
    return run


AFTER_COPIES = """declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @{symbol}(i64 %lo, i64 %hi, ptr %what) {
begin:
  %args.at = getelementptr i64, ptr %what, i64 1
  %count.at = getelementptr i64, ptr %what, i64 2
  %copies = getelementptr i64, ptr %what, i64 3
  %entry = load ptr, ptr %what
  %args = load ptr, ptr %args.at
  %count = load i64, ptr %count.at
  %some = icmp sgt i64 %count, 0
  br i1 %some, label %copy, label %run
copy:
  %k = phi i64 [ 0, %begin ], [ %next, %copy ]
  %first = mul i64 %k, 3
  %to.at = getelementptr i64, ptr %copies, i64 %first
  %from.at = getelementptr i64, ptr %to.at, i64 1
  %size.at = getelementptr i64, ptr %to.at, i64 2
  %to = load ptr, ptr %to.at
  %from = load ptr, ptr %from.at
  %size = load i64, ptr %size.at
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  %next = add i64 %k, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %copy, label %run
run:
  call void %entry(i64 %lo, i64 %hi, ptr %args)
  ret void
}
"""


@cache
def after_copies() -> objects.Entry:
    """An entry that copies memory and then calls another one.

    Its arguments are words: the address of that entry and of its arguments, how many copies there are, and
    for each where to, where from, and how many bytes.
    """
    return backend.assembled(AFTER_COPIES)


PASS_BACK = """define void @{symbol}(i64 %lo, i64 %hi, ptr %what) {
begin:
  %from.at = getelementptr i64, ptr %what, i64 1
  %to = load ptr, ptr %what
  %from = load ptr, ptr %from.at
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %one, label %end
one:
  %k = phi i64 [ %lo, %begin ], [ %next, %one ]
  %x.at = getelementptr {kind}, ptr %to, i64 %k
  %y.at = getelementptr {kind}, ptr %from, i64 %k
  %x = load {kind}, ptr %x.at
  %y = load {kind}, ptr %y.at
  %sum = fadd {kind} %x, %y
  store {kind} %sum, ptr %x.at
  store {kind} 0.0, ptr %y.at
  %next = add nuw nsw i64 %k, 1
  %more = icmp slt i64 %next, %hi
  br i1 %more, label %one, label %end
end:
  ret void
}
"""

CLEAR = """declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define void @{symbol}(i64 %lo, i64 %hi, ptr %what) {
  %to = load ptr, ptr %what
  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 %hi, i1 false)
  ret void
}
"""


@cache
def pass_back(double: bool) -> objects.Entry:
    """The adjoint of a copy: an entry that adds numbers to others, and leaves zeros.

    A thread is a number; the arguments are two words: where to add, and what.
    """
    return backend.assembled(PASS_BACK.replace("{kind}", "double" if double else "float"))


@cache
def clear() -> objects.Entry:
    """The adjoint of a fill: an entry that sets bytes to zero. A thread is a byte; the argument is where."""
    return backend.assembled(CLEAR)

"""The compiled part of running one launch on several threads: claiming chunks, waiting, adding up copies.

A job is a table that any number of threads work through. Each claims a call until none is left, so that a
late thread has less to do, and no thread waits for one that has not begun. The thread that began the job
takes calls from one end, helpers from the other: in launch after launch, each accesses about the same part of
memory, which is in the caches of its own processor. What another processor has written last takes three
times as long to read.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any

from tapedebug.compiler import backend

if TYPE_CHECKING:
    import numpy as np

    Table = np.ndarray[Any, np.dtype[np.int64]]

HEAD = 6
"""Words of a queue before its counters: calls left (0), calls done, how many calls there are, the job, its
packed arguments (3, 4), and the call that the thread which began it has claimed, and which must wait (0).

Then there are two counters for each stage: how many of its calls were claimed from the last one on, and from
the first one on. Calls are numbered from 1; a stage is calls side by side that wait for the same ones. The
stage with the last call is claimed first."""
JOB = 2
"""Words of a job before its calls: how many calls there are, and how many stages. A job does not change while
it runs, and runs again and again: what is written and read by several processors is the queue alone."""
CALL = 10
"""Words of a call: entry, first thread, the one after the last, its arguments (0 for the job's), how many
calls must be done before it, memory that is zeroed first, how many bytes of it, the numbers of the last and
the first call of its stage, and the number of that stage, from 0."""

IDLE = 4
"""Times that a helper polls for the next job, in multiples of those for which threads poll for each other.

Between two long launches there may be 150 µs of Python, whose code and objects a kernel that streamed through
the caches has evicted: a reverse pass takes so long to begin and to end. A helper that sleeps by then begins
50 µs late, and to wake it takes the launching thread another 12."""

WORK = """{pause_declared}
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define internal i1 @td.reaches(ptr %at, i64 %least, i64 %spins) nounwind {{
start:
  br label %look
look:
  %spin = phi i64 [ 0, %start ], [ %spun, %again ]
  %now = load atomic i64, ptr %at acquire, align 8
  %enough = icmp sge i64 %now, %least
  br i1 %enough, label %yes, label %again
again:
  {pause}
  %spun = add i64 %spin, 1
  %more = icmp slt i64 %spun, %spins
  br i1 %more, label %look, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}

define internal i64 @td.work(ptr %queue, i64 %resumed, i64 %spins, i1 %helps) nounwind {{
start:
  %done.at = getelementptr i64, ptr %queue, i64 1
  %job.at = getelementptr i64, ptr %queue, i64 3
  %shared.at = getelementptr i64, ptr %queue, i64 4
  %again = icmp ne i64 %resumed, 0
  br i1 %again, label %claimed, label %claim
claim:
  %left = atomicrmw sub ptr %queue, i64 1 seq_cst
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %place, label %none
place:
  %job = load ptr, ptr %job.at
  %left.scaled = mul i64 %left, {call}
  %left.word = sub i64 %left.scaled, {before}
  %any = getelementptr i64, ptr %job, i64 %left.word
  %last.at = getelementptr i64, ptr %any, i64 7
  %first.at = getelementptr i64, ptr %any, i64 8
  %stage.at = getelementptr i64, ptr %any, i64 9
  %last = load i64, ptr %last.at
  %first = load i64, ptr %first.at
  %stage = load i64, ptr %stage.at
  %stage.scaled = mul i64 %stage, 2
  %end = select i1 %helps, i64 {from_first}, i64 {from_last}
  %counter.word = add i64 %stage.scaled, %end
  %counter = getelementptr i64, ptr %queue, i64 %counter.word
  %taken = atomicrmw add ptr %counter, i64 1 seq_cst
  %from.last = sub i64 %last, %taken
  %from.first = add i64 %first, %taken
  %mine = select i1 %helps, i64 %from.first, i64 %from.last
  br label %claimed
claimed:
  %number = phi i64 [ %resumed, %start ], [ %mine, %place ]
  %running = load ptr, ptr %job.at
  %scaled = mul i64 %number, {call}
  %word = sub i64 %scaled, {before}
  %call = getelementptr i64, ptr %running, i64 %word
  %needs.at = getelementptr i64, ptr %call, i64 4
  %needs = load i64, ptr %needs.at
  %ready = call i1 @td.reaches(ptr %done.at, i64 %needs, i64 %spins)
  br i1 %ready, label %run, label %late
late:
  ret i64 %number
run:
  %lo.at = getelementptr i64, ptr %call, i64 1
  %hi.at = getelementptr i64, ptr %call, i64 2
  %args.at = getelementptr i64, ptr %call, i64 3
  %zeroed.at = getelementptr i64, ptr %call, i64 5
  %bytes.at = getelementptr i64, ptr %call, i64 6
  %entry = load ptr, ptr %call
  %lo = load i64, ptr %lo.at
  %hi = load i64, ptr %hi.at
  %own = load ptr, ptr %args.at
  %shared = load ptr, ptr %shared.at
  %is.shared = icmp eq ptr %own, null
  %args = select i1 %is.shared, ptr %shared, ptr %own
  %bytes = load i64, ptr %bytes.at
  %zeroes = icmp ne i64 %bytes, 0
  br i1 %zeroes, label %zero, label %begin
zero:
  %zeroed = load ptr, ptr %zeroed.at
  call void @llvm.memset.p0.i64(ptr %zeroed, i8 0, i64 %bytes, i1 false)
  br label %begin
begin:
  call void %entry(i64 %lo, i64 %hi, ptr %args)
  %before = atomicrmw add ptr %done.at, i64 1 seq_cst
  br label %claim
none:
  ret i64 0
}}

define i64 @{symbol}(ptr %queue, ptr %job, ptr %args, i64 %resumed, i64 %spins) nounwind {{
start:
  %done.at = getelementptr i64, ptr %queue, i64 1
  %count.at = getelementptr i64, ptr %queue, i64 2
  %job.at = getelementptr i64, ptr %queue, i64 3
  %args.at = getelementptr i64, ptr %queue, i64 4
  %kept.at = getelementptr i64, ptr %queue, i64 5
  %new = icmp ne ptr %job, null
  br i1 %new, label %publishing, label %working
publishing:
  %stages.at = getelementptr i64, ptr %job, i64 1
  %calls = load i64, ptr %job
  %stages = load i64, ptr %stages.at
  %counters = getelementptr i64, ptr %queue, i64 {from_last}
  %counted = mul i64 %stages, 16
  call void @llvm.memset.p0.i64(ptr %counters, i8 0, i64 %counted, i1 false)
  store i64 %calls, ptr %count.at
  store ptr %job, ptr %job.at
  store ptr %args, ptr %args.at
  store i64 0, ptr %kept.at
  store atomic i64 0, ptr %done.at seq_cst, align 8
  store atomic i64 %calls, ptr %queue seq_cst, align 8
  br label %working
working:
  %leads = icmp slt i64 %resumed, 0
  br i1 %leads, label %lead, label %help
lead:
  %kept = load i64, ptr %kept.at
  %lead.held = call i64 @td.work(ptr %queue, i64 %kept, i64 %spins, i1 false)
  store i64 %lead.held, ptr %kept.at
  br label %worked
help:
  %begun = phi i64 [ %resumed, %working ], [ 0, %idle ]
  %help.held = call i64 @td.work(ptr %queue, i64 %begun, i64 %spins, i1 true)
  %none.left = icmp eq i64 %help.held, 0
  br i1 %none.left, label %idle, label %late
idle:
  %idle.spins = mul i64 %spins, {idle}
  %another = call i1 @td.reaches(ptr %queue, i64 1, i64 %idle.spins)
  br i1 %another, label %help, label %end
worked:
  %ended = icmp eq i64 %lead.held, 0
  br i1 %ended, label %wait, label %late
wait:
  %count = load i64, ptr %count.at
  %all = call i1 @td.reaches(ptr %done.at, i64 %count, i64 %spins)
  br i1 %all, label %end, label %unfinished
end:
  ret i64 0
late:
  %held = phi i64 [ %lead.held, %worked ], [ %help.held, %help ]
  ret i64 %held
unfinished:
  ret i64 -1
}}
"""

SUM = """declare i64 @llvm.smin.i64(i64, i64)

define void @{symbol}(i64 %lo, i64 %hi, ptr %args) nounwind {{
start:
  %copies.at = getelementptr i64, ptr %args, i64 1
  %stride.at = getelementptr i64, ptr %args, i64 2
  %count.at = getelementptr i64, ptr %args, i64 3
  %run.at = getelementptr i64, ptr %args, i64 4
  %outer.at = getelementptr i64, ptr %args, i64 5
  %target = load ptr, ptr %args
  %first = load ptr, ptr %copies.at
  %stride = load i64, ptr %stride.at
  %count = load i64, ptr %count.at
  %run = load i64, ptr %run.at
  %outer = load i64, ptr %outer.at
  %some.copies = icmp sgt i64 %count, 0
  %some.elements = icmp slt i64 %lo, %hi
  %some = and i1 %some.copies, %some.elements
  br i1 %some, label %begin, label %end
begin:
  %begin.r = sdiv i64 %lo, %run
  %before = mul i64 %begin.r, %run
  %begin.at = sub i64 %lo, %before
  %last = sub i64 %outer, 1
  br label %stretch
stretch:
  %done = phi i64 [ %lo, %begin ], [ %next.done, %stretched ]
  %r = phi i64 [ %begin.r, %begin ], [ %next.r, %stretched ]
  %at = phi i64 [ %begin.at, %begin ], [ 0, %stretched ]
  %left = sub i64 %run, %at
  %rest = sub i64 %hi, %done
  %length = call i64 @llvm.smin.i64(i64 %left, i64 %rest)
  %is.one = icmp sle i64 %outer, 0
  br i1 %is.one, label %placed, label %axes
axes:
  %several = icmp sgt i64 %last, 0
  br i1 %several, label %axis, label %outermost
axis:
  %j = phi i64 [ 0, %axes ], [ %next.j, %axis ]
  %number = phi i64 [ %r, %axes ], [ %quotient, %axis ]
  %offset = phi i64 [ 0, %axes ], [ %next.offset, %axis ]
  %pair = mul i64 %j, 2
  %extent.word = add i64 %pair, 6
  %step.word = add i64 %pair, 7
  %extent.at = getelementptr i64, ptr %args, i64 %extent.word
  %step.at = getelementptr i64, ptr %args, i64 %step.word
  %extent = load i64, ptr %extent.at
  %step = load i64, ptr %step.at
  %quotient = sdiv i64 %number, %extent
  %whole = mul i64 %quotient, %extent
  %index = sub i64 %number, %whole
  %moved = mul i64 %index, %step
  %next.offset = add i64 %offset, %moved
  %next.j = add i64 %j, 1
  %more.axes = icmp slt i64 %next.j, %last
  br i1 %more.axes, label %axis, label %outermost
outermost:
  %outer.number = phi i64 [ %r, %axes ], [ %quotient, %axis ]
  %outer.offset = phi i64 [ 0, %axes ], [ %next.offset, %axis ]
  %outer.pair = mul i64 %last, 2
  %outer.word = add i64 %outer.pair, 7
  %outer.step.at = getelementptr i64, ptr %args, i64 %outer.word
  %outer.step = load i64, ptr %outer.step.at
  %outer.moved = mul i64 %outer.number, %outer.step
  %outer.place = add i64 %outer.offset, %outer.moved
  br label %placed
placed:
  %place = phi i64 [ 0, %stretch ], [ %outer.place, %outermost ]
  %here = getelementptr i8, ptr %target, i64 %place
  %there = getelementptr i8, ptr %first, i64 %place
  %stop = add i64 %at, %length
  br label %copy
copy:
  %k = phi i64 [ 0, %placed ], [ %next.k, %copied ]
  %from = mul i64 %k, %stride
  %source = getelementptr i8, ptr %there, i64 %from
  br label %element
element:
  %i = phi i64 [ %at, %copy ], [ %next.i, %element ]
  %into = getelementptr {kind}, ptr %here, i64 %i
  %of = getelementptr {kind}, ptr %source, i64 %i
  %a = load {kind}, ptr %into
  %b = load {kind}, ptr %of
  %c = {add} {kind} %a, %b
  store {kind} %c, ptr %into
  %next.i = add i64 %i, 1
  %more = icmp slt i64 %next.i, %stop
  br i1 %more, label %element, label %copied
copied:
  %next.k = add i64 %k, 1
  %more.copies = icmp slt i64 %next.k, %count
  br i1 %more.copies, label %copy, label %stretched
stretched:
  %next.done = add i64 %done, %length
  %next.r = add i64 %r, 1
  %more.elements = icmp slt i64 %next.done, %hi
  br i1 %more.elements, label %stretch, label %end
end:
  ret void
}}
"""
"""Adds copies of an array to it, one after the other, and leaves what lies between its elements alone.

Arguments are its first byte, that of the first copy, the bytes from one copy to the next, how many copies
there are, how many numbers are side by side, on how many axes such runs repeat, and for each of these, the
innermost first, how many runs there are and the bytes from one to the next. All are positive: a reversed axis
begins at its other end. Numbers are counted in the order of memory."""

SUMMED = 6
"""Words of these arguments before those of the axes."""

COPY = """declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @{symbol}(i64 %lo, i64 %hi, ptr %args) nounwind {
  %second.at = getelementptr i64, ptr %args, i64 1
  %into = load ptr, ptr %args
  %from = load ptr, ptr %second.at
  %dest = getelementptr i8, ptr %into, i64 %lo
  %source = getelementptr i8, ptr %from, i64 %lo
  %bytes = sub i64 %hi, %lo
  call void @llvm.memcpy.p0.p0.i64(ptr %dest, ptr %source, i64 %bytes, i1 false)
  ret void
}
"""
"""Copies bytes; arguments are where to, and where from."""

CLEAR = """declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)

define void @{symbol}(i64 %lo, i64 %hi, ptr %args) nounwind {
  %into = load ptr, ptr %args
  %dest = getelementptr i8, ptr %into, i64 %lo
  %bytes = sub i64 %hi, %lo
  call void @llvm.memset.p0.i64(ptr %dest, i8 0, i64 %bytes, i1 false)
  ret void
}
"""
"""Zeroes bytes; the argument is where."""

Work = Callable[[int, int, int, int, int], int]


def new_job(calls: Iterable[tuple[int, int, int, int]]) -> Table:
    """Return a job.

    Args:
        calls: In the order in which one thread takes them: entry, first thread, the one after the last, and
            how many calls must be done before it. Calls that wait for the same ones are side by side.
    """
    import numpy as np

    rows = np.array(list(calls), dtype=np.int64)[::-1]
    count = len(rows)
    job = np.zeros(JOB + count * CALL, np.int64)
    table = job[JOB:].reshape(count, CALL)
    table[:, :3], table[:, 4] = rows[:, :3], rows[:, 3]
    ends = np.flatnonzero(np.append(np.diff(rows[:, 3]), 1)) + 1
    sizes = np.diff(ends, prepend=0)
    job[0], job[1] = count, len(ends)
    table[:, 7], table[:, 8] = np.repeat(ends, sizes), np.repeat(ends - sizes + 1, sizes)
    table[:, 9] = np.repeat(np.arange(len(ends)), sizes)
    return job


def on_x86() -> bool:
    """Return True if this processor is of the x86 family."""
    return platform.machine().lower() in ("x86_64", "amd64", "i386", "i686")


@cache
def work() -> Work:
    """`work()(queue, job, args, resumed, spins)`: run calls of a job until none is left, then wait.

    `queue` is the address of memory of `HEAD` words and two for each stage; `job`, to begin one, is its
    address, and `args` that of its packed arguments, else both are 0; `resumed` is -1 for the thread that
    began the job, and else the number of a call that it claimed before, 0 for none; `spins` is how often to
    look whether others are done.

    It gives 0 when all are done, the number of a call that was claimed and must wait for others, or -1 where
    others are still at work. Who helps goes on with the job that is begun next, should that be soon. The
    GIL is released meanwhile.
    """
    x86 = on_x86()
    assembly = WORK.format(
        symbol="{symbol}",
        pause="call void @llvm.x86.sse2.pause()" if x86 else "",
        pause_declared="declare void @llvm.x86.sse2.pause()" if x86 else "",
        call=CALL,
        before=CALL - JOB,
        from_last=HEAD,
        from_first=HEAD + 1,
        idle=IDLE,
    )
    numbers = [ctypes.c_int64] * 2
    run: Work = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_void_p] * 3, *numbers)(
        backend.assembled(assembly).address
    )
    return run


@cache
def adder(kind: str) -> int:
    """The address of what adds up copies of memory that holds numbers of a type of LLVM's."""
    add = "fadd" if kind in ("float", "double") else "add"
    return backend.assembled(SUM.format(symbol="{symbol}", kind=kind, add=add)).address


@cache
def mover(what: str) -> int:
    """The address of what copies or zeroes bytes: `COPY` or `CLEAR`."""
    return backend.assembled(what).address

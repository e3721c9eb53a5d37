"""Name the kernel on standard error if it crashes the process, and say how to find the index.

To note which kernel runs would cost a part of every launch. But the address of the instruction that crashes
is known: the handler of the signal looks it up among those of compiled kernels, which were noted when they
were compiled. It is machine code that writes a text made before; nothing else is safe then. Then the earlier
handler runs: that of `faulthandler`, which is switched on for it, and shows the line of the launch.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import mmap
import platform
import signal
import struct
import sys
import threading
from typing import TYPE_CHECKING, Any

from tapedebug._source import display_file
from tapedebug.compiler import linker, objects

if TYPE_CHECKING:
    from tapedebug.compiler.objects import Entry

COUNTER_OF = {"x86_64": 168, "aarch64": 440}
"""Offset of the instruction's address in the context that Linux passes to a handler."""
SIGNALS = ("SIGSEGV", "SIGBUS", "SIGABRT")
"""The last one is what the C library raises where it finds its own memory overwritten."""
BEFORE, ACTION = 64, 256
"""Bytes before the earlier handlers (the count of rows, their address, the other text, its length), and of
each handler."""
SIGINFO, ON_STACK = 4, 0x08000000
SUFFIX = ".crash"
FIRST = 1 << 15
"""Offset of the rows: the header is before them, with the earlier handlers."""
ROW = struct.Struct("=4Q")
MOST = 4096
TEXTS = FIRST + MOST * ROW.size
SIZE = 1 << 20
CHECK = "run it with `tapedebug run`, or set tapedebug.config.check_bounds = True"
LATER = (
    "\ntapedebug: the process crashed, and not in a kernel. A kernel that wrote outside an array before can "
    f"be the cause; to see whether one did, {CHECK}.\n"
)

HANDLER = """@tapedebug_crashes = external global i8
declare i64 @write(i32, ptr, i64)
declare i32 @sigaction(i32, ptr, ptr)
declare i32 @raise(i32)
define void @{symbol}(i32 %signal, ptr %information, ptr %context) {
begin:
  %pc.at = getelementptr i8, ptr %context, i64 {counter}
  %pc = load i64, ptr %pc.at
  %count = load i64, ptr @tapedebug_crashes
  %rows.at = getelementptr i64, ptr @tapedebug_crashes, i64 1
  %rows = load ptr, ptr %rows.at
  %text.at = getelementptr i64, ptr @tapedebug_crashes, i64 2
  %text = load ptr, ptr %text.at
  %length.at = getelementptr i64, ptr @tapedebug_crashes, i64 3
  %length = load i64, ptr %length.at
  br label %look
look:
  %k = phi i64 [ 0, %begin ], [ %next, %other ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %row, label %tell
row:
  %first = mul i64 %k, 4
  %start.at = getelementptr i64, ptr %rows, i64 %first
  %stop.at = getelementptr i64, ptr %start.at, i64 1
  %own.at = getelementptr i64, ptr %start.at, i64 2
  %size.at = getelementptr i64, ptr %start.at, i64 3
  %start = load i64, ptr %start.at
  %stop = load i64, ptr %stop.at
  %own = load ptr, ptr %own.at
  %size = load i64, ptr %size.at
  %after = icmp uge i64 %pc, %start
  %before = icmp ult i64 %pc, %stop
  %here = and i1 %after, %before
  br i1 %here, label %tell, label %other
other:
  %next = add i64 %k, 1
  br label %look
tell:
  %told = phi ptr [ %text, %look ], [ %own, %row ]
  %bytes = phi i64 [ %length, %look ], [ %size, %row ]
  %written = call i64 @write(i32 2, ptr %told, i64 %bytes)
  %wide = sext i32 %signal to i64
  %offset = mul i64 %wide, {action}
  %place = add i64 %offset, {first}
  %earlier = getelementptr i8, ptr @tapedebug_crashes, i64 %place
  %restored = call i32 @sigaction(i32 %signal, ptr %earlier, ptr null)
  %aborted = icmp eq i32 %signal, {abort}
  br i1 %aborted, label %again, label %end
again:
  %raised = call i32 @raise(i32 %signal)
  br label %end
end:
  ret void
}
"""
"""The faulty instruction runs once more after it; what aborts has to be raised again."""

_lock = threading.Lock()


class _Table:
    """The table of the handler: in pages of its own, which kernels that go astray cannot write to."""

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, SIZE)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.names: dict[int, tuple[int, list[str]]] = {}
        self.used = TEXTS
        self._mprotect = ctypes.CDLL(None).mprotect  # to look it up takes longer than to call it
        self._mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        later = self.text(LATER)
        struct.pack_into("=4Q", self.memory, 0, 0, self.address + FIRST, *later)

    def text(self, text: str) -> tuple[int, int]:
        """Store a text, and return its address and length.

        Raises:
            OverflowError: There is no room.
        """
        data, start = text.encode(), self.used
        if start + len(data) > SIZE:
            raise OverflowError
        self.memory[start : start + len(data)] = data
        self.used += len(data)
        return self.address + start, len(data)

    def note(self, span: tuple[int, int], name: str) -> None:
        """Note what lies from one address to another; kernels of the same text share their code."""
        number, names = self.names.setdefault(span[0], (len(self.names), []))
        if name in names or number >= MOST:
            return
        names.append(name)
        self.protect(writable=True)
        with contextlib.suppress(OverflowError):
            text = self.text(
                f"\ntapedebug: the process crashed in the {' or the '.join(names)}. "
                f"An index may be outside its array; to see which, {CHECK}.\n"
            )
            ROW.pack_into(self.memory, FIRST + number * ROW.size, *span, *text)
            struct.pack_into("=Q", self.memory, 0, min(len(self.names), MOST))
        self.protect(writable=False)

    def protect(self, *, writable: bool) -> None:
        """Let it be written, or not."""
        allowed = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        self._mprotect(self.address, SIZE, allowed)


_table: _Table | None = None


def watch(kernel: Any, kind: str, entry: Entry) -> None:
    """Tell of a kernel's machine code where it crashes."""
    global _table
    if sys.platform != "linux" or platform.machine() not in COUNTER_OF:
        return
    span = linker.span_of(entry.address)
    with _lock, contextlib.suppress(OSError, RuntimeError, AttributeError, ImportError):
        if _table is None:
            _table = _Table()
            _install(_table)
        if span is not None:
            of = "" if kind == "forward" else f"{kind.replace('_', ' ')} of "
            place = f"{display_file(kernel.origin.file)}:{kernel.origin.first_line}"
            _table.note(span, f"{of}kernel `{kernel.__name__}` ({place})")


def _install(table: _Table) -> None:
    """Handle the signals."""
    if not faulthandler.is_enabled():
        with contextlib.suppress(OSError, ValueError, AttributeError, RuntimeError):
            faulthandler.enable()  # not where standard error is no file
    address = _handler(table)
    for name in SIGNALS:
        number = int(getattr(signal, name))
        action = struct.pack("=Q128xQQ", address, SIGINFO | ON_STACK, 0)
        earlier = ctypes.c_void_p(table.address + BEFORE + number * ACTION)
        ctypes.CDLL(None).sigaction(number, action, earlier)


def _handler(table: _Table) -> int:
    """The address of the handler's machine code."""
    linker.give("tapedebug_crashes", table.address)
    assembly = HANDLER
    values = {
        "counter": COUNTER_OF[platform.machine()],
        "action": ACTION,
        "first": BEFORE,
        "abort": int(signal.SIGABRT),
    }
    for name, value in values.items():
        assembly = assembly.replace(f"{{{name}}}", str(value))
    key = objects.key_of(assembly, "llvm")
    symbol = f"crash_{key[:20]}"
    code = objects.read(key, SUFFIX)
    if code is None:
        from tapedebug.compiler.llvm.machine import object_code

        code = object_code(assembly.replace("{symbol}", symbol))
        objects.write(key, code, SUFFIX)
    return objects.load(key, symbol, code).address

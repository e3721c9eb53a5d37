"""The print buffer in LLVM, to which compiled code writes messages.

Its header: words 0 address of the lines, 1 capacity in words, 2 words used, 3 lines, 4 most lines, 5 lines
that did not fit, 6 number of the diagnostic that ended the launch plus 1, 7 its thread. A diagnostic is three
words (number, thread, count of values), then the values. Messages that do not fit, and the message that ended
the launch, are written behind the capacity. The first words are those of a stack, so that values are written
with `put_f32` and its kin.
"""

from __future__ import annotations

from tapedebug.compiler.llvm.library import STACK, entry, slot_of
from tapedebug.lang.lowering import Instructions, defined, fitting

entry("print_buffer_at")(slot_of(STACK))


@entry("print_message")
def _print_message(print_buffer: str, diagnostic: str, thread: str, count: str) -> Instructions:
    """Begin a diagnostic: its number, thread and count of values; gives the place of these."""
    operands = (print_buffer, diagnostic, thread, count)
    fitting(operands == (STACK, "i64", "i64", "i64"), *operands)
    body = """
  %header = load <6 x i64>, ptr %0, align 8
  %capacity = extractelement <6 x i64> %header, i32 1
  %used = extractelement <6 x i64> %header, i32 2
  %lines = extractelement <6 x i64> %header, i32 3
  %limit = extractelement <6 x i64> %header, i32 4
  %dropped = extractelement <6 x i64> %header, i32 5
  %size = add i64 %3, 3
  %after = add i64 %used, %size
  %room = icmp sle i64 %after, %capacity
  %few = icmp slt i64 %lines, %limit
  %fits = and i1 %room, %few
  %one = zext i1 %fits to i64
  %other = sub i64 1, %one
  %place = select i1 %fits, i64 %used, i64 %capacity
  %now = select i1 %fits, i64 %after, i64 %used
  %more = add i64 %lines, %one
  %lost = add i64 %dropped, %other
  %at2 = getelementptr i64, ptr %0, i64 2
  %at3 = getelementptr i64, ptr %0, i64 3
  %at5 = getelementptr i64, ptr %0, i64 5
  store i64 %now, ptr %at2
  store i64 %more, ptr %at3
  store i64 %lost, ptr %at5
  %words = load ptr, ptr %0
  %first = getelementptr i64, ptr %words, i64 %place
  %second = getelementptr i64, ptr %first, i64 1
  %third = getelementptr i64, ptr %first, i64 2
  store i64 %1, ptr %first
  store i64 %2, ptr %second
  store i64 %3, ptr %third
  %values = add i64 %place, 3
  ret i64 %values"""
    return defined("print_message", "i64", operands, body)


@entry("failure_message")
def _failure_message(print_buffer: str, diagnostic: str, thread: str, count: str) -> Instructions:
    """Note which diagnostic ends the launch, and its thread; gives the place of its values."""
    operands = (print_buffer, diagnostic, thread, count)
    fitting(operands == (STACK, "i64", "i64", "i64"), *operands)
    body = """
  %at1 = getelementptr i64, ptr %0, i64 1
  %at6 = getelementptr i64, ptr %0, i64 6
  %at7 = getelementptr i64, ptr %0, i64 7
  %number = add i64 %1, 1
  store i64 %number, ptr %at6
  store i64 %2, ptr %at7
  %capacity = load i64, ptr %at1
  %values = add i64 %capacity, 3
  ret i64 %values"""
    return defined("failure_message", "i64", operands, body)

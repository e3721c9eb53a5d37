"""Indices read from memory: neighbour lists often name consecutive elements.

Then what one thread accesses lies beside what the next one does, and a block of threads reads and writes
stretches of memory. Whether it is so is seen at run time, for each block. Where it is not, elements are
gathered; or, where most of the work would be additions for one lane after the other, the block runs thread by
thread from the start.
"""

from __future__ import annotations

import ast

from tapedebug.compiler.llvm.expressions import Operand, TranslationError
from tapedebug.compiler.llvm.library import scalar
from tapedebug.compiler.llvm.simd.loop_names import LoopNames
from tapedebug.compiler.llvm.simd.reductions import Reductions
from tapedebug.compiler.llvm.simd.vector_values import LinearValue
from tapedebug.compiler.llvm.translate import Translator

PLAIN = ".plain"
DIVIDED = {"c_div": True, "floor_div": True, "c_mod": False}
"""Functions of integers, alike for natural ones: the quotient, or else the rest."""
MOST = 32
"""Blocks that run thread by thread, at most, before it is seen again whether the next one has to."""


class NotWorthIt(TranslationError):
    """It has a form in lanes that is slower than thread by thread."""


class GatheredIndices(Reductions):
    """Knows which indices may count from lane to lane, and how to go on where they do not.

    Args:
        symbol: The name of the function.
        names: What is known of its names.
        bits: How wide vectors are; a lane has 32.
        math: Whether vector functions of the C library are called.
        leaves: Blocks of threads whose additions do not go to elements side by side are left to the function
            `plain`, which runs them one after the other.
    """

    def __init__(self, symbol: str, names: LoopNames, bits: int, *, math: bool, leaves: bool = False) -> None:
        super().__init__(symbol, names, bits, math=math)
        self.leaves = leaves
        self.left = ""
        """The label where blocks that are left continue; empty if none is left yet."""
        self.changed = False
        """True once the block has stored, added or run a loop: it must not be left and run again then."""

    @property
    def plain(self) -> str:
        """The name of the function that runs threads one after the other."""
        return self.symbol + PLAIN

    def _all_at_once(self, node: object, name: str, operands: list[Operand]) -> Operand:
        """A library function; the row of threads that count is one division where all of them are in it."""
        of = scalar(operands[0][0])
        line = self.linear_values.get(operands[0][1]) if name in DIVIDED and of in ("i32", "i64") else None
        if line is None or line.stride != 1 or line.unless is not None or operands[1][0] != of:
            return super()._all_at_once(node, name, operands)
        length, values = operands[1][1], f"{self._type('~' + of)} {operands[0][1]}"
        # The line of what was converted says nothing of integers that have passed their limit.
        end = self._value("", f"extractelement {values}, i64 {self.width - 1}")[1]
        upward = self._value("b1", f"icmp sge {of} {end}, {line.base}")[1]
        natural = self._value("b1", f"icmp sge {of} {line.base}, 0")[1]
        some = self._value("b1", f"icmp sgt {of} {length}, 0")[1]
        safe = self._value(of, f"select i1 {some}, {of} {length}, {of} 1")[1]
        row = self._value(of, f"sdiv {of} {line.base}, {safe}")[1]
        before = self._value(of, f"mul {of} {row}, {safe}")[1]
        column = self._value(of, f"sub {of} {line.base}, {before}")[1]
        last = self._value(of, f"sub {of} {safe}, {self.width}")[1]
        inside = self._value("b1", f"icmp sle {of} {column}, {last}")[1]
        sure = inside
        for condition in (natural, some, upward):
            sure = self._value("b1", f"and i1 {sure}, {condition}")[1]
        found: list[tuple[str, str]] = []

        def one_row() -> None:
            value = self._broadcast((of, row if DIVIDED[name] else column))
            if not DIVIDED[name]:
                numbers = ", ".join(f"{of} {lane}" for lane in range(self.width))
                value = self._value("", f"add {self._type('~' + of)} {value}, <{numbers}>")[1]
            found.append((value, self.label))

        def several() -> None:
            found.append((super(GatheredIndices, self)._all_at_once(node, name, operands)[1], self.label))

        self._either(sure, one_row, several)
        joined = ", ".join(f"[ {value}, %{label} ]" for value, label in found)
        return self._value("~" + of, f"phi {self._type('~' + of)} {joined}")

    def _counting_read(self, node: ast.Subscript, value: Operand) -> Operand:
        """Return a value read from memory; integers may turn out to count from lane to lane."""
        kind, register = value
        if kind not in ("~i32", "~i64") or self.mask is not None:
            return value
        leaves = self.leaves and id(node) in self.names.scattering and not (self.loops or self.changed)
        of, one = self._type(kind), kind[1:]
        base = self._value(one, f"extractelement {of} {register}, i64 0")
        numbers = ", ".join(f"{one} {lane}" for lane in range(self.width))
        counted = self._value("", f"add {of} {self._broadcast(base)}, <{numbers}>")[1]
        unless: str | None = self._value("~b1", f"icmp ne {of} {register}, {counted}")[1]
        if leaves:
            self._leave(self._any(unless or ""))
            unless = None
        self.linear_values[register] = LinearValue(
            base[1], 1, unless, ("read", register), read=unless is not None
        )
        return value

    def _leave(self, condition: str) -> None:
        """Leave the block to `plain`: nothing has been written yet."""
        if not self.left:
            (self.left,) = self._labels("left")
        (on,) = self._labels("on")
        self._write(f"br i1 {condition}, label %{self.left}, label %{on}")
        self._begin(on)

    def _after_block(self, first: str, end: str) -> str:
        """The first thread of the next block, after the blocks that were left.

        Where one is left after the other more and more threads are run at once.
        """
        following = self._value("i64", f"add nsw i64 {first}, {self.width}")[1]
        if not self.left:
            return following
        place, several = self._frame_slot("i64", "0"), self._frame_slot("i64", str(self.width))
        (joined,) = self._labels("joined")
        self._write(f"store i64 {following}, ptr {place}")
        self._write(f"store i64 {self.width}, ptr {several}")
        self._jump(joined)
        self._begin(self.left)
        count = self._value("i64", f"load i64, ptr {several}")[1]
        whole = self._value("i64", f"add nsw i64 {first}, {count}")[1]
        stop = self._value("i64", f"call i64 @llvm.smin.i64(i64 {whole}, i64 {end})")[1]
        self._run_plain(first, stop)
        self._write(f"store i64 {stop}, ptr {place}")
        twice = self._value("i64", f"mul i64 {count}, 2")[1]
        most = self._value("i64", f"call i64 @llvm.smin.i64(i64 {twice}, i64 {MOST * self.width})")[1]
        self._write(f"store i64 {most}, ptr {several}")
        self._jump(joined)
        self._begin(joined)
        return self._value("i64", f"load i64, ptr {place}")[1]

    def _run_plain(self, start: str, stop: str) -> None:
        self._write(f"call void @{self.plain}(i64 {start}, i64 {stop}, ptr %args)")


def plain(function: ast.FunctionDef, symbol: str) -> tuple[list[str], str]:
    """Return the declarations and the assembly of a function that runs threads one by one."""
    translator = Translator(symbol)
    text = translator.run(function)
    needs = [*translator.needs]
    body = text[len("\n".join(needs)) :].lstrip("\n")
    header, rest = body.split("\n", 1)
    header = header.replace("define void", "define internal void").replace(" nounwind", " noinline nounwind")
    return needs, f"{header}\n{rest}"


def has_plain(assembly: str) -> bool:
    """True if the assembly includes a function that runs threads one by one."""
    return f"{PLAIN}(" in assembly

"""Values of all vector lanes: vectors, counting patterns, masks, sums over lanes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable
from dataclasses import replace

from tapedebug._dataclass import dataclass
from tapedebug.compiler.llvm.expressions import Operand, TranslationError
from tapedebug.compiler.llvm.library import STACK, call_of, scalar
from tapedebug.compiler.llvm.machine import llvm_version, vector_bits
from tapedebug.compiler.llvm.simd.loop_names import LoopNames
from tapedebug.compiler.llvm.simd.mask_facts import Chosen, Fact, Known, MaskFacts
from tapedebug.compiler.llvm.simd.masked_access import MaskedAccess
from tapedebug.compiler.llvm.simd.vector_calls import Vectors, at_once, library_call
from tapedebug.compiler.llvm.translate import Translator
from tapedebug.lang.lowering import (
    BITS,
    FLOATS,
    FUNCTIONS,
    Misfit,
    alignment,
    cast,
    llvm_type,
    shuffle,
    splat,
)

WIDEST = 512
"""Bits of a vector from which one is enough, unless a branch is taken for two of them at once."""
LITTLE = 1 << 32
"""By less than this, a thread's number is moved without passing the limit of 64 bits."""


@dataclass(frozen=True)
class LinearValue:
    """Integers that grow by a constant stride from lane to lane.

    Attributes:
        base: The register of the first lane's.
        stride: By how much they count.
        unless: The register of the lanes for which it does not hold; None where it holds for all.
        root: What it was counted from: lines of one root are `offset`s apart.
        read: It was read from memory, and may well hold for no block of threads.
        rises: It is a thread's number, of 64 bits, and little more or less: it does not pass the limit.
    """

    base: str
    stride: int
    unless: str | None = None
    root: Hashable = None
    offset: int = 0
    read: bool = False
    rises: bool = False


def _is_written(line: LinearValue) -> bool:
    """True if the value is a literal, the same in all lanes."""
    return not line.stride and line.base.lstrip("-").isdigit()


def _moved_root(sign: str, x: LinearValue, y: LinearValue) -> tuple[Hashable, int]:
    """The root and offset of a sum, difference or multiple."""
    if _is_written(x) and sign != "Sub":
        x, y = y, x
    if not _is_written(y):
        sides = [line.base if line.root is None else line.root for line in (x, y)]
        return (sign, *sides), x.offset - y.offset if sign == "Sub" else x.offset + y.offset
    number = int(y.base)
    if sign == "Mult":
        return (sign, x.root, number), x.offset * number
    return x.root, x.offset - number if sign == "Sub" else x.offset + number


class VectorValues(Translator):
    """Writes the instructions of expressions, for all lanes where the names in them differ.

    Args:
        symbol: The name of the function.
        names: What is known of its names.
        bits: How wide vectors are; a lane has 32.
        math: Whether vector functions of the C library are called.
    """

    def __init__(self, symbol: str, names: LoopNames, bits: int, *, math: bool) -> None:
        super().__init__(symbol)
        self.names, self.width, self.math = names, bits // 32, math
        self.bits = min(bits, vector_bits())  # those of functions, whose code is for this processor
        self.mask: str | None = None
        self.loops = 0
        self.called = 0
        """Calls of vector functions."""
        self.crowded = False
        """Twice as many lanes would want for registers, or for places in the fastest cache."""
        self.inline: set[int] = set()
        """The `id`s of calls that are computed inline, with a branch for numbers that the C library takes."""
        self.linear_values: dict[str, LinearValue] = {}
        self.same: dict[Hashable, Operand] = {}
        self.facts = MaskFacts(lambda kind, text: self._value(kind, text)[1], self.width)

    def _type(self, kind: str) -> str:
        return f"<{self.width} x {llvm_type(scalar(kind))}>" if kind[0] == "~" else llvm_type(kind)

    def _literal(self, kind: str, number: str) -> str:
        return splat(llvm_type(scalar(kind)), number) if kind[0] == "~" else number

    def _broadcast(self, value: Operand) -> str:
        """The value in every lane."""
        kind, register = value
        if kind[0] == "~":
            return register
        of = llvm_type(kind)
        if register[0] != "%":
            return splat(of, register)
        whole = f"<{self.width} x {of}>"
        one = self._value("", f"insertelement {whole} poison, {of} {register}, i64 0")[1]
        zeros = f"<{self.width} x i32> zeroinitializer"
        return self._value("", f"shufflevector {whole} {one}, {whole} poison, {zeros}")[1]

    def _masked(self, kind: str) -> MaskedAccess:
        """Loads and stores of the lanes that a mask selects."""
        return MaskedAccess(kind, self.width, llvm_version())

    # Masks

    def _all_lanes(self) -> str:
        return f"<{self.width} x i1>"

    def _lanes(self) -> str:
        """Return the mask of active lanes."""
        return self.mask or splat("i1", "true")

    def _both(self, mask: str | None, other: str) -> str:
        return other if mask is None else self._value("~b1", f"and {self._all_lanes()} {mask}, {other}")[1]

    def _bits(self, mask: str) -> str:
        return self._value("", f"bitcast {self._all_lanes()} {mask} to i{self.width}")[1]

    def _any(self, mask: str) -> str:
        """Return a flag: one of the active lanes is in a mask."""
        bits = self._bits(self._both(self.mask, mask))
        return self._value("b1", f"icmp ne i{self.width} {bits}, 0")[1]

    def _none_in(self, masks: list[str]) -> str:
        """Return a flag: none of the active lanes is in one of these masks."""
        whole = masks[0]
        for other in masks[1:]:
            whole = self._value("~b1", f"or {self._all_lanes()} {whole}, {other}")[1]
        return self._value("b1", f"xor i1 {self._any(whole)}, true")[1]

    def _known_none_in(self, masks: list[str]) -> str | None:
        """The same where it is sure without the masks."""
        total = None
        for found in [self.facts.sure(self.facts.of.get(mask), holds=False) for mask in masks]:
            if found is None:
                return None
            total = found if total is None else self._value("b1", f"and i1 {total}, {found}")[1]
        return total

    def _every(self, mask: str) -> str:
        """Return a flag: all lanes are in a mask."""
        return self._value("b1", f"icmp eq i{self.width} {self._bits(mask)}, -1")[1]

    def _either(
        self,
        condition: str | Callable[[], str],
        yes: Callable[[], None],
        no: Callable[[], None],
        sure: str | None = None,
    ) -> None:
        """A branch.

        Args:
            condition: A register, or what writes it.
            yes: Writes what is done where it is true.
            no: Writes what is done else.
            sure: A register: where it is true, so is the condition, which is not computed.
        """
        then, orelse, done = self._labels("then", "else", "done")
        same = dict(self.same)
        if sure is not None:
            (unknown,) = self._labels("unknown")
            # So it is in most blocks of threads, whose instructions then stand one after the other.
            likely = self._value("b1", f"call i1 @llvm.expect.i1(i1 {sure}, i1 true)")[1]
            self._write(f"br i1 {likely}, label %{then}, label %{unknown}")
            self._begin(unknown)
        if not isinstance(condition, str):
            condition = condition()
        self._write(f"br i1 {condition}, label %{then}, label %{orelse}")
        for label, write in ((then, yes), (orelse, no)):
            self.same = dict(same)
            self._begin(label)
            write()
            self._jump(done)
        self.same = same
        self._begin(done)

    # One lane after the other

    def _spread(self, value: Operand) -> str:
        """A place in memory that holds the value of each lane."""
        slot = f"{self._fresh()}.lanes"
        self.head.append(f"  {slot} = alloca {self._type(value[0])}, align 64")
        self._write(f"store {self._type(value[0])} {value[1]}, ptr {slot}, align 64")
        return slot

    def _lane_of(self, slot: str, kind: str, number: str) -> str:
        place = self._value("", f"getelementptr {llvm_type(kind)}, ptr {slot}, i64 {number}")[1]
        return self._value(kind, f"load {llvm_type(kind)}, ptr {place}")[1]

    def _each_lane(self, write: Callable[[str], None]) -> None:
        """A loop over the lanes that run, in the order of the threads; there is at least one."""
        again, done = self._labels("lane", "lanes")
        if self.mask is None:
            first = "0"
        else:
            bits = self._bits(self.mask)
            first = self._value("i64", f"zext i{self.width} {bits} to i64")[1]
        before = self.label
        self._write(f"br label %{again}")
        self._begin(again)
        left = self._fresh()
        at = len(self.lines)
        if self.mask is None:
            write(left)
            rest = self._value("i64", f"add nuw nsw i64 {left}, 1")[1]
            more = self._value("b1", f"icmp ne i64 {rest}, {self.width}")[1]
        else:
            write(self._value("i64", f"call i64 @llvm.cttz.i64(i64 {left}, i1 true)")[1])
            less = self._value("i64", f"sub i64 {left}, 1")[1]
            rest = self._value("i64", f"and i64 {left}, {less}")[1]
            more = self._value("b1", f"icmp ne i64 {rest}, 0")[1]
        self.lines.insert(at, f"  {left} = phi i64 [ {first}, %{before} ], [ {rest}, %{self.label} ]")
        self._write(f"br i1 {more}, label %{again}, label %{done}")
        self._begin(done)

    def _last_lane(self, kind: str, value: str) -> str:
        """The value of the last lane that runs."""
        if self.mask is None:
            return self._value("", f"extractelement {self._type(kind)} {value}, i64 {self.width - 1}")[1]
        bits = self._bits(self.mask)
        of = f"i{self.width}"
        zeros = self._value("", f"call {of} @llvm.ctlz.{of}({of} {bits}, i1 true)")[1]
        number = self._value("", f"sub {of} {self.width - 1}, {zeros}")[1]
        return self._value("", f"extractelement {self._type(kind)} {value}, {of} {number}")[1]

    def _total(self, kind: str, value: str) -> str:
        """The sum of all lanes: of halves, of their halves, and so on; always in the same order."""
        of, width = llvm_type(kind), self.width
        word = "fadd" if kind in FLOATS else "add"
        while width > 1:
            whole, half = f"<{width} x {of}>", f"<{width // 2} x {of}>"
            sides = []
            for start in (0, width // 2):
                text = shuffle(whole, value, "poison", range(start, start + width // 2))
                sides.append(self._value("", text)[1])
            value = self._value("", f"{word} {half} {sides[0]}, {sides[1]}")[1]
            width //= 2
        return self._value(kind, f"extractelement <1 x {of}> {value}, i64 0")[1]

    def _most(self, value: Operand) -> str:
        """The largest integer among the lanes that run, at least 0."""
        if value[0] == "i64":
            return value[1]
        of = self._type("~i64")
        chosen = value[1]
        if self.mask is not None:
            lanes = f"{self._all_lanes()} {self.mask}"
            chosen = self._value("", f"select {lanes}, {of} {chosen}, {of} zeroinitializer")[1]
        return self._value("i64", f"call i64 @llvm.vector.reduce.smax.v{self.width}i64({of} {chosen})")[1]

    # Expressions

    def _expression(self, node: ast.expr) -> Operand:
        if isinstance(node, ast.Subscript) and self._inside and not self._is_slot(node):
            return self._load_element(node)
        return super()._expression(node)

    _inside = False
    """True while the loop over threads is being written."""

    def _is_slot(self, node: ast.Subscript) -> bool:
        """True if a subscript reads a launch argument."""
        return isinstance(node.value, ast.Name) and node.value.id == "args"

    def _load_element(self, node: ast.Subscript) -> Operand:
        raise NotImplementedError

    def _operator(self, node: ast.AST, sign: ast.operator, left: Operand, right: Operand) -> Operand:
        if "~" not in left[0] + right[0]:
            known = (type(sign).__name__, left, right)
            if known not in self.same:
                self.same[known] = super()._operator(node, sign, left, right)
            return self.same[known]
        kind = scalar(left[0])
        if kind != scalar(right[0]):
            raise TranslationError(f"operands {left[0]}, {right[0]}", node)
        varying = "~" + kind
        result = super()._operator(
            node, sign, (varying, self._broadcast(left)), (varying, self._broadcast(right))
        )
        line = self._counting(kind, sign, left, right) if kind in ("i32", "i64") else None
        if line is not None:
            self.linear_values[result[1]] = line
        return result

    def _counting(self, kind: str, sign: ast.operator, left: Operand, right: Operand) -> LinearValue | None:
        """Return a sum, difference or multiple of linear values as a linear value, or None."""
        x, y = self._linear_of(left), self._linear_of(right)
        if x is None or y is None:
            return None
        if isinstance(sign, ast.Mult):
            if _is_written(x):
                x, y = y, x
            # a number that is not written there may be 0
            if y.stride or not _is_written(y) or int(y.base) == 0:
                return None
            stride, unless = x.stride * int(y.base), x.unless
        elif isinstance(sign, ast.Add | ast.Sub):
            stride = x.stride + y.stride if isinstance(sign, ast.Add) else x.stride - y.stride
            unless = self._one_of(x.unless, y.unless)
        else:
            return None
        base = super()._operator(ast.Pass(), sign, (kind, x.base), (kind, y.base))[1]
        root, offset = _moved_root(type(sign).__name__, x, y)
        rises = root == x.root and x.rises and abs(offset) < LITTLE
        return LinearValue(base, stride, unless, root, offset, x.read or y.read, rises)

    def _one_of(self, first: str | None, second: str | None) -> str | None:
        if first is None or second is None:
            return first or second
        return self._value("~b1", f"or {self._all_lanes()} {first}, {second}")[1]

    def _linear_of(self, value: Operand) -> LinearValue | None:
        return LinearValue(value[1], 0) if value[0][0] != "~" else self.linear_values.get(value[1])

    def _compare(self, node: ast.AST, sign: ast.cmpop, left: Operand, right: Operand) -> Operand:
        if "~" not in left[0] + right[0]:
            return super()._compare(node, sign, left, right)
        varying = "~" + scalar(left[0])
        if varying != "~" + scalar(right[0]):
            raise TranslationError(f"operands {left[0]}, {right[0]}", node)
        result = super()._compare(
            node, sign, (varying, self._broadcast(left)), (varying, self._broadcast(right))
        )
        kind = scalar(left[0])
        if kind in ("i32", "i64"):
            lines = self._linear_of(left), self._linear_of(right)
            self.facts.of[result[1]] = self.facts.compared(sign, kind, *lines)
        return result

    def _unary_of(self, node: ast.UnaryOp, operand: Operand) -> Operand:
        result = super()._unary_of(node, operand)
        if result[0] == "~b1":
            self.facts.of[result[1]] = Chosen(self._fact(operand), Known("false"), Known("true"))
        return result

    def _fact(self, mask: Operand) -> Fact:
        """Return the comparison or choice that a mask is the result of."""
        return Known(mask[1]) if mask[0] == "b1" else self.facts.of.get(mask[1])

    def _cast(self, value: Operand, target: str) -> Operand:
        kind = scalar(value[0])
        if value[0] == kind:
            return super()._cast(value, target)
        if not cast(kind, target).text:
            return "~" + target, value[1]
        result = self._all_at_once(value, f"to_{target}", [value])
        line = self.linear_values.get(value[1])
        if line is not None and {kind, target} <= {"i32", "i64"}:
            base = super()._cast((kind, line.base), target)[1]
            self.linear_values[result[1]] = replace(line, base=base, rises=False)
        return result

    # Calls

    def _call(self, node: ast.AST, name: str, operands: list[Operand]) -> Operand:
        if self._inside and operands and operands[0][0] == STACK:
            return self._loop_log(node, name, operands)
        if not any(kind[0] == "~" for kind, _ in operands):
            return super()._call(node, name, operands)
        try:
            call = call_of(name, tuple(scalar(kind) for kind, _ in operands))
        except Misfit as error:
            raise TranslationError(str(error), node) from None
        if not call.text:
            return "~" + call.result, self._broadcast(operands[0])
        if name == "select":
            return self._choice(operands)
        if name.startswith("to_") and name[3:] in BITS:
            return self._cast(operands[0], name.removeprefix("to_"))
        return self._all_at_once(node, name, operands)

    def _all_at_once(self, node: object, name: str, operands: list[Operand]) -> Operand:
        kinds = tuple(scalar(kind) for kind, _ in operands)
        vectors = Vectors(self.width, self.bits, self.math)
        call = at_once(name, kinds, vectors, by_constant=operands[-1][1][0] != "%")
        has_vectors = name in FUNCTIONS and bool(FUNCTIONS[name].symbol)
        library = library_call(name, kinds, vectors) if self.math else None
        inline = library is not None and call is not library
        self.crowded = self.crowded or (has_vectors and not (inline and self.bits >= WIDEST))
        self.inline |= {id(node)} if inline else set()
        self.called += library is not None and not inline
        for need in call.needs:
            self.needs[need] = None
        values = [self._broadcast(value) for value in operands]
        if self.math and self.mask is not None and call.result in FLOATS and has_vectors:
            # Lanes that do not run hold numbers for which vector functions may be slow.
            of = self._type("~" + call.result)
            lanes = f"{self._all_lanes()} {self.mask}"
            one = self._literal("~" + call.result, "1.0")
            values = [self._value("", f"select {lanes}, {of} {value}, {of} {one}")[1] for value in values]
        register = self._fresh()
        for line in call.text.format(*values, r=register).splitlines():
            self._write(line)
        return "~" + call.result, register

    def _choice(self, operands: list[Operand]) -> Operand:
        """`select`: where one of the values counts from lane to lane, the result does but for some lanes."""
        condition, yes, no = operands
        kind = scalar(yes[0])
        if kind == "b1":
            return self._chosen_mask(operands)
        of = self._type("~" + kind)
        chooser = f"{self._type(condition[0])} {condition[1]}"
        result = self._value(
            "~" + kind, f"select {chooser}, {of} {self._broadcast(yes)}, {of} {self._broadcast(no)}"
        )
        if kind in ("i32", "i64") and condition[0] == "~b1":
            line, other = self._linear_of(no), condition[1]
            if line is None or not line.stride:
                line = self._linear_of(yes)
                other = self._value("~b1", f"xor {self._all_lanes()} {other}, {splat('i1', 'true')}")[1]
            if line is not None and line.stride:
                self.linear_values[result[1]] = replace(line, unless=self._one_of(line.unless, other))
        return result

    def _chosen_mask(self, operands: list[Operand]) -> Operand:
        """`select` of masks, which is also how `and` and `or` are written."""
        of = self._all_lanes()
        condition, yes, no = map(self._broadcast, operands)
        if operands[2][1] == "false":
            text = f"and {of} {condition}, {yes}"
        elif operands[1][1] == "true":
            text = f"or {of} {condition}, {no}"
        else:
            text = f"select {of} {condition}, {of} {yes}, {of} {no}"
        result = self._value("~b1", text)
        self.facts.of[result[1]] = Chosen(*map(self._fact, operands))
        return result

    # What loops keep: in each word of the stack, once for every lane

    def _loop_log(self, node: ast.AST, name: str, operands: list[Operand]) -> Operand:
        stack, *rest = operands
        if name == "stack_ensure":
            words = self._value("i64", f"mul i64 {self._most(rest[0])}, {self.width}")
            return super()._call(node, name, [stack, words])
        verb, _, kind = name.partition("_")
        if verb not in ("put", "get") or kind not in BITS:
            raise TranslationError("not in lanes", node)
        stored = "u8" if kind == "b1" else kind
        base = self._value("", f"load ptr, ptr {stack[1]}")[1]
        size, of, align = BITS[stored] // 8, self._type("~" + stored), alignment(stored)
        value = (
            "" if verb == "get" else self._broadcast(self._cast(rest[1], stored) if kind == "b1" else rest[1])
        )
        if rest[0][0] == "i64":
            word = self._value("", f"mul i64 {rest[0][1]}, {self.width}")[1]
            place = self._value("", f"getelementptr i64, ptr {base}, i64 {word}")[1]
            access = f"ptr {place}, align {align}"
            if verb == "put":
                self._write(f"store {of} {value}, {access}")
                return "void", ""
            found = self._value("~" + stored, f"load {of}, {access}")
        else:
            indices = f"<{self.width} x i64>"
            first = self._value("", f"mul {indices} {rest[0][1]}, {splat('i64', str(8 * self.width))}")[1]
            lanes = ", ".join(f"i64 {size * lane}" for lane in range(self.width))
            bytes_ = self._value("", f"add {indices} {first}, <{lanes}>")[1]
            places = self._value("", f"getelementptr i8, ptr {base}, {indices} {bytes_}")[1]
            masked = self._masked(stored)
            if verb == "put":
                self._write(masked.scatter(value, places, self._lanes()))
                return "void", ""
            found = self._value("~" + stored, masked.gather(places, self._lanes()))
        return self._cast(found, "b1") if kind == "b1" else found

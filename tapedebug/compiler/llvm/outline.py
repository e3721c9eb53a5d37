"""Splits long blocks of optimized LLVM assembly into functions, for code generation in linear time.

LLVM's register allocation and scheduling take more than quadratic time in the length of a block, and a kernel
without branches is a single block: 2,000 statements on vectors took four minutes. So a long block becomes a
sequence of calls, each of a function with some hundreds of instructions. Values that are used in another part
pass through a frame on the stack, as registers that do not suffice would. No instruction changes, so results
are the same to the last bit.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import field

from tapedebug._dataclass import dataclass

LONG = 4000
"""Instructions of a block from which on it is split."""
PART = 800
"""Instructions of a part."""
FRAME = 1 << 19
"""Bytes of a frame from which on a block is not split: a stack may have few megabytes."""

NAME = r'%(?:"[^"]*"|[-\w.$]+)'
NAMES = re.compile(NAME)
LABEL = re.compile(r'^(?:"[^"]*"|[-\w.$]+):')
DEFINED = re.compile(rf"^  ({NAME}) = (.*)$")
CASTS = frozenset(
    {"sext", "zext", "trunc", "fptrunc", "fpext", "sitofp", "uitofp", "fptosi", "fptoui"}
    | {"bitcast", "inttoptr", "ptrtoint"}
)
TYPE = re.compile(r"<\d+ x (?:double|float|half|ptr|i\d+)>|double|float|half|ptr|i\d+")
FLAGS = frozenset(
    {"nsw", "nuw", "exact", "disjoint", "inbounds", "nneg", "samesign", "nusw", "volatile", "tail", "notail"}
    | {"fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc", "fastcc", "ccc"}
    | {"noundef", "signext", "zeroext"}
)
OF_FIRST = frozenset(
    {"fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "add", "sub", "mul", "udiv", "sdiv", "urem", "srem"}
    | {"shl", "lshr", "ashr", "and", "or", "xor", "freeze", "load", "phi", "insertelement"}
)
"""Instructions whose result has the type that is printed first."""
BITS = {"double": 64, "float": 32, "half": 16, "ptr": 64}


class Unsplittable(Exception):
    """A block has an instruction that cannot move to another function, or that is unknown here."""


@dataclass
class _Slot:
    """The place of a value in the frame."""

    offset: int
    type: str
    align: int


@dataclass
class _Frame:
    """Allocates the places of values; those that are no longer needed are reused."""

    nbytes: int = 0
    _free: dict[int, list[int]] = field(default_factory=dict)

    def take(self, kind: str) -> _Slot:
        """Return a place for a value of a type."""
        size = _size(kind)
        free = self._free.get(size)
        if free:
            offset = free.pop()
        else:
            offset = -(-self.nbytes // size) * size
            self.nbytes = offset + size
        return _Slot(offset, kind, min(size, 64))

    def give(self, slot: _Slot) -> None:
        """Reuse the place of a value."""
        self._free.setdefault(_size(slot.type), []).append(slot.offset)


def split_long_blocks(assembly: str) -> str | None:
    """Return a module with each long block split, or None if it has none, or one that cannot be split.

    Args:
        assembly: The text of a module, as LLVM prints it.
    """
    if any('"' in line for line in assembly.split("\n") if line.startswith("attributes #")):
        return None  # the parts of a function would lack its attributes: a processor, a mode of arithmetic
    found: list[str] = []
    changed = False
    try:
        for lines in _functions(assembly.split("\n")):
            parts = _split(lines) if len(lines) > LONG else None
            changed |= parts is not None
            found += lines if parts is None else parts
    except Unsplittable:
        return None
    return "\n".join(found) if changed else None


def _functions(lines: Sequence[str]) -> Iterator[list[str]]:
    """Yield the lines of each function definition, and those between."""
    start = 0
    for number, line in enumerate(lines):
        if line.startswith("define "):
            yield list(lines[start:number])
            start = number
        elif line == "}" and lines[start].startswith("define "):
            yield list(lines[start : number + 1])
            start = number + 1
    yield list(lines[start:])


@dataclass
class _Block:
    """A basic block: lines `first … end-1` of a function, the body without phis and terminator."""

    first: int
    end: int

    def __len__(self) -> int:
        return self.end - self.first


def _split(lines: list[str]) -> list[str] | None:
    """Return a function whose long blocks are split, after its parts; None if it has no long block."""
    long = [block for block in _blocks(lines) if len(block) > LONG]
    if not long:
        return None
    lines = [_named(line) for line in lines]
    name = _name(lines[0])
    types = _parameters(lines[0])
    defined: dict[int, str] = {}
    for number, line in enumerate(lines):
        match = DEFINED.match(line)
        if match:
            defined[number] = match[1]
            types[match[1]] = match[2]
    result, parts = list(lines), []
    frames = []
    for count, block in enumerate(long):
        splitter = _Splitter(lines, block, types, defined, f"{name}.{count}")
        parts += splitter.parts
        result[block.first : block.end] = [*splitter.calls, *[""] * (len(block) - len(splitter.calls))]
        frames.append(splitter.frame.nbytes)
    if max(frames) > FRAME:
        raise Unsplittable
    entry = next(n for n, line in enumerate(lines[1:], 1) if not LABEL.match(line))
    result.insert(entry, f"  %td.frame = alloca [{max(frames)} x i8], align 64")
    return [*parts, *result]


def _named(line: str) -> str:
    """Return a line in which numbered values and labels have names: numbers must be consecutive."""
    return re.sub(r"^(\d+):", r"td.n\1:", re.sub(r"%(\d+)\b", r"%td.n\1", line))


def _blocks(lines: Sequence[str]) -> Iterator[_Block]:
    """Yield the blocks of a function."""
    starts = [n for n, line in enumerate(lines) if n and LABEL.match(line)]
    bounds = sorted({1, *starts, len(lines) - 1})
    for start, stop in itertools.pairwise(bounds):
        first = start + 1 if start < len(lines) and LABEL.match(lines[start]) else start
        while first < stop and re.match(rf"^  {NAME} = phi ", lines[first]):
            first += 1
        end = next(
            (n for n in range(first, stop) if re.match(r"^  (?:br|ret|switch|unreachable)\b", lines[n])), stop
        )
        yield _Block(first, end)


def _name(define: str) -> str:
    """Return the name of a function without quotes."""
    match = re.search(r'@"?([-\w.$]+)"?\(', define)
    if match is None:
        raise Unsplittable
    return match[1]


def _parameters(define: str) -> dict[str, str]:
    """Return the parameters of a function, each with a text that begins with its type."""
    inner = define[define.index("(") + 1 : define.rindex(")")]
    found = {}
    for match in re.finditer(rf"({TYPE.pattern})(?: [^%,]*)? ({NAME})", inner):
        found[match[2]] = f"freeze {match[1]} {match[2]}"
    return found


class _Splitter:
    """Splits one block.

    Attributes:
        parts: The lines of the functions.
        calls: The lines that replace the body of the block.
        frame: The frame through which values pass.
    """

    def __init__(
        self,
        lines: Sequence[str],
        block: _Block,
        types: dict[str, str],
        defined: dict[int, str],
        name: str,
    ) -> None:
        self.lines, self.block, self.types = lines, block, types
        self.frame = _Frame()
        self.parts: list[str] = []
        self.calls: list[str] = []
        number = max(2, -(-len(block) // PART))
        size = -(-len(block) // number)
        bounds = [*range(block.first, block.end, size), block.end]
        self.home = {
            defined[n]: part
            for part, (start, stop) in enumerate(itertools.pairwise(bounds))
            for n in range(start, stop)
            if n in defined
        }
        self.uses = [self._used(start, stop) for start, stop in itertools.pairwise(bounds)]
        outside = [
            name
            for n, line in enumerate(lines)
            if n and not block.first <= n < block.end
            for name in NAMES.findall(line)
            if name in self.home
        ]
        self.outputs = dict.fromkeys(outside)
        self.slots: dict[str, _Slot] = {}
        self._end: dict[str, int] = dict.fromkeys(self.outputs, len(self.uses))
        for part, used in enumerate(self.uses):
            for value in used:
                self._end[value] = max(part, self._end.get(value, 0))
        self._enter()
        for part, (start, stop) in enumerate(itertools.pairwise(bounds)):
            self._write(part, start, stop, f"{name}.{part}")
        for n, value in enumerate(self.outputs):
            self.calls += self._load(value, f"%td.out{n}.{name}")

    def _used(self, start: int, stop: int) -> dict[str, None]:
        """Return the values that lines use, in order, without those that they define first."""
        found: dict[str, None] = {}
        own: set[str] = set()
        for line in self.lines[start:stop]:
            match = DEFINED.match(line)
            for value in NAMES.findall(line if match is None else match[2]):
                if value not in own:
                    found[value] = None
            if match is not None:
                own.add(match[1])
        return found

    def _enter(self) -> None:
        """Store the values from outside of the block."""
        for value in dict.fromkeys(value for used in self.uses for value in used):
            if value not in self.home:
                self.calls += self._store(value, f"%td.in{len(self.slots)}.{self.block.first}")

    def _write(self, part: int, start: int, stop: int, name: str) -> None:
        """Write one part as a function, and its call."""
        found = [f'define internal void @"{name}"(ptr noalias %td.frame) nounwind {{']
        known: set[str] = set()
        for line in self.lines[start:stop]:
            if not line.startswith("  ") or line.startswith("   "):
                raise Unsplittable
            match = DEFINED.match(line)
            text = line[2:] if match is None else match[2]
            if "alloca" in text or "stacksave" in text or "musttail" in text or " label " in text:
                raise Unsplittable
            for value in NAMES.findall(text):
                if value not in known:
                    found += self._load(value, f"%td.{len(found)}")
                    known.add(value)
            found.append(line)
            if match is not None:
                known.add(match[1])
                if self._end.get(match[1], part) > part:
                    found += self._store(match[1], f"%td.{len(found)}")
        for value in self.uses[part]:
            if self._end[value] == part:
                self.frame.give(self.slots[value])
        self.parts += [*found, "  ret void", "}", ""]
        self.calls.append(f'  call void @"{name}"(ptr %td.frame)')

    def _store(self, value: str, pointer: str) -> list[str]:
        if value not in self.types:
            raise Unsplittable
        slot = self.slots[value] = self.frame.take(_type_of(self.types[value]))
        return [
            f"  {pointer} = getelementptr inbounds i8, ptr %td.frame, i64 {slot.offset}",
            f"  store {slot.type} {value}, ptr {pointer}, align {slot.align}",
        ]

    def _load(self, value: str, pointer: str) -> list[str]:
        slot = self.slots.get(value)
        if slot is None:
            raise Unsplittable
        return [
            f"  {pointer} = getelementptr inbounds i8, ptr %td.frame, i64 {slot.offset}",
            f"  {value} = load {slot.type}, ptr {pointer}, align {slot.align}",
        ]


def _type_of(text: str) -> str:
    """Return the type of the result of an instruction, given without `%name = `."""
    words = text.split(" ", 1)
    operation, rest = words[0], _without_flags(words[1]) if len(words) > 1 else ""
    if operation in CASTS:
        return _leading(rest[rest.rindex(" to ") + 4 :])
    if operation in OF_FIRST:
        return _leading(rest)
    if operation in ("call", "tail"):
        return _leading(_without_flags(rest.removeprefix("call ")))
    if operation in ("icmp", "fcmp"):
        kind = _leading(_without_flags(rest.split(" ", 1)[1]))
        return f"{kind[: kind.index(' x ')]} x i1>" if kind.startswith("<") else "i1"
    if operation == "select":
        return _leading(_operands(rest)[1])
    if operation == "extractelement":
        kind = _leading(rest)
        return kind[kind.index(" x ") + 3 : -1]
    if operation == "shufflevector":
        kind, mask = _leading(rest), _leading(_operands(rest)[2])
        return f"{mask[: mask.index(' x ')]} x {kind[kind.index(' x ') + 3 :]}"
    if operation == "getelementptr":
        for operand in _operands(rest)[1:]:
            kind = _leading(operand)
            if kind.startswith("<"):
                return f"{kind[: kind.index(' x ')]} x ptr>"
        return "ptr"
    raise Unsplittable


def _without_flags(text: str) -> str:
    """Return an instruction's operands without the flags before them."""
    while True:
        word, _, rest = text.partition(" ")
        if word not in FLAGS and not word.startswith(("nofpclass(", "range(", "align(")):
            return text
        text = rest


def _leading(text: str) -> str:
    """Return the type at the start of a text."""
    match = TYPE.match(text)
    if match is None:
        raise Unsplittable
    return match[0]


def _operands(text: str) -> list[str]:
    """Return the operands of an instruction, separated at commas outside of brackets."""
    found, depth, start = [], 0, 0
    for place, character in enumerate(text):
        if character in "<([{":
            depth += 1
        elif character in ">)]}":
            depth -= 1
        elif character == "," and not depth:
            found.append(text[start:place].strip())
            start = place + 1
    return [*found, text[start:].strip()]


def _size(kind: str) -> int:
    """Return the bytes of a place for a value of a type: a power of two."""
    count, _, scalar = kind.strip("<>").partition(" x ")
    if not scalar:
        count, scalar = "1", kind
    bits = int(count) * (BITS.get(scalar) or int(scalar[1:]))
    return 1 << max(0, (-(-bits // 8) - 1).bit_length())

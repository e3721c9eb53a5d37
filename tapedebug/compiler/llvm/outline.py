"""Splits long functions of LLVM assembly into many, so that they compile in linear time.

LLVM's register allocation and scheduling take more than quadratic time in the length of a function, and the
statements of a kernel are one function: the adjoint of 2,000 statements on vectors took four minutes. So a
long chain of instructions, with the branches and loops in it, becomes a sequence of calls, each of a function
with some hundreds of instructions. Values that are used in another part pass through a frame in memory, as
registers that do not suffice would. No instruction changes, so results are the same to the last bit.

Functions are split after LLVM has optimized them as a whole. Only those with many loops are split before: the
optimization of each loop takes time in proportion to the function that it is in.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import field

from tapedebug._dataclass import dataclass
from tapedebug.compiler.llvm import chains
from tapedebug.compiler.llvm.chains import (
    BARE_NAME,
    DEFINED,
    LABEL,
    NAME,
    NAMES,
    PHI,
    Block,
    Chain,
    Unsplittable,
)
from tapedebug.compiler.llvm.instruction_types import ALIGNED_STACK, TYPE, UnknownType, size_of, type_of

LONG = 4000
"""Instructions of a chain from which on it is split."""
PART = 800
"""Instructions of a part."""
LOOPS = 16
"""Loops of a function from which on it is split before it is optimized."""
FRAME = 1 << 21
"""Bytes of a frame from which on a function is not split: a stack may have few megabytes."""
DEPTH = 8
"""Chains within chains that are split: as many frames may be on the stack."""

SPECIAL = re.compile(r'attributes #.*"')
"""Attributes that parts of a function would lack, such as a processor, or a mode of arithmetic."""
NUMBERED = re.compile(r"%(\d+)\b")
NUMBERED_LABEL = re.compile(r"^(\d+):")
INCOMING = re.compile(rf"\[ (.*?), ({NAME}) \]")
"""A value of a phi, and the block that it comes from."""
BRANCH = re.compile(rf"^(?:(?P<function>define )|(?P<at>{BARE_NAME}):)|label %(?P<to>{BARE_NAME})", re.M)
"""The start of a function, a label, and the block that a branch leads to."""


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
        size = size_of(kind)
        free = self._free.get(size)
        if free:
            offset = free.pop()
        else:
            offset = -(-self.nbytes // size) * size
            self.nbytes = offset + size
        return _Slot(offset, kind, min(size, 64))

    def give(self, slot: _Slot) -> None:
        """Reuse the place of a value."""
        self._free.setdefault(size_of(slot.type), []).append(slot.offset)


def has_loops(assembly: str, count: int) -> bool:
    """True if a function of a module has at least so many loops."""
    passed: set[str] = set()
    loops = 0
    for match in BRANCH.finditer(assembly):
        if match["function"]:
            passed.clear()
            loops = 0
        elif match["at"]:
            passed.add(match["at"])
        else:
            loops += match["to"] in passed
            if loops == count:
                return True
    return False


def split_long_functions(assembly: str) -> str | None:
    """Return a module with each long function split, or None if it has none, or one that cannot be split.

    Args:
        assembly: The text of a module, as LLVM prints it.
    """
    text = assembly.split("\n")
    names = next(name for name in map("td{}.".format, itertools.count()) if f"%{name}" not in assembly)
    special = {line.split(" = ")[0].removeprefix("attributes ") for line in text if SPECIAL.match(line)}
    found: list[str] = []
    changed = False
    try:
        for lines in _functions(text):
            long = len(lines) > LONG and lines[0].startswith("define ")
            if long and special.intersection(lines[0].split()):
                raise Unsplittable
            parts = _split([_named(line, names) for line in lines], names) if long else None
            changed |= parts is not None
            found += lines if parts is None else parts
    except (Unsplittable, UnknownType):
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


def _named(line: str, names: str) -> str:
    """Return a line in which numbered values and labels have names: numbers must be consecutive."""
    return NUMBERED_LABEL.sub(rf"{names}n\1:", NUMBERED.sub(rf"%{names}n\1", line))


def _split(lines: list[str], names: str, depth: int = 0) -> list[str] | None:
    """Return a function whose long chains are split, after its parts; None if it has no long chain.

    Args:
        lines: Its lines.
        names: A text with which no value of the module begins, for names of new ones.
        depth: The number of functions that it was already split from.
    """
    blocks = chains.blocks_of(lines)
    long = chains.long_chains(lines, blocks, LONG, nested=depth > 0)
    if not long or depth >= DEPTH:
        return None
    function = _Function(lines, blocks, f"%{names}{depth}.")
    result, parts = list(lines), []
    nbytes = 0
    renamed = {}
    for count, chain in reversed(list(enumerate(long))):
        splitter = _Splitter(function, chain, f"{_name(lines[0])}.{count}")
        for part in splitter.parts:
            parts += (_split(part, names, depth + 1) if chain.within else None) or part
        result[chain.first : chain.last] = splitter.calls
        nbytes = max(nbytes, splitter.frame.nbytes)
        renamed[function.block_at(chain.last).name] = function.block_at(chain.first).name
    if nbytes > FRAME:
        raise Unsplittable
    result = [_come_from(line, renamed) if PHI.match(line) else line for line in result]
    entry = next(n for n, line in enumerate(result[1:], 1) if not LABEL.match(line))
    result.insert(entry, f"  {function.frame} = alloca [{max(nbytes, 1)} x i8], align 64")
    return [*parts, *result]


def _come_from(phi: str, renamed: dict[str, str]) -> str:
    """Return a phi of which some blocks have other names."""
    return INCOMING.sub(lambda each: f"[ {each[1]}, {renamed.get(each[2], each[2])} ]", phi)


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


class _Function:
    """A function that is split.

    Attributes:
        lines: Its lines.
        blocks: Its blocks.
        prefix: The start of the names of new values: a part that is split again has others.
        frame: The name of the pointer to the frame.
        types: Texts from which `type_of` tells the types of values.
        defined: The value that a line defines, by the number of the line.
        used: The values that a line uses, by the number of the line, without names of blocks.
    """

    def __init__(self, lines: Sequence[str], blocks: Sequence[Block], prefix: str) -> None:
        self.lines, self.blocks, self.prefix = lines, blocks, prefix
        self.frame = f"{self.prefix}frame"
        self.types = _parameters(lines[0])
        self.defined: dict[int, str] = {}
        texts: dict[int, str] = {}
        for number, line in enumerate(lines):
            match = DEFINED.match(line)
            if match:
                self.defined[number] = match[1]
                self.types[match[1]] = match[2]
            if line.startswith("  "):
                texts[number] = line if match is None else match[2]
        self.used = {
            number: [name for name in dict.fromkeys(NAMES.findall(text)) if name in self.types]
            for number, text in texts.items()
        }
        self._ends = [block.end for block in blocks]
        starts = {block.name: block.start for block in blocks}
        self._backward = [
            block.last for block in blocks for to in chains.targets(lines, block) if starts[to] <= block.start
        ]

    def index_at(self, place: int) -> int:
        """Return the index of the block that has a line."""
        return bisect_right(self._ends, place)

    def block_at(self, place: int) -> Block:
        """Return the block that has a line."""
        return self.blocks[self.index_at(place)]

    def has_loop(self, start: int, stop: int) -> bool:
        """True if a branch between two lines leads backward."""
        return bisect_left(self._backward, start) < bisect_left(self._backward, stop)


class _Splitter:
    """Splits one chain.

    Attributes:
        parts: The lines of the functions.
        calls: The lines that replace the chain.
        frame: The frame through which values pass.
        follows: The next place after each of the chain but the last.
    """

    def __init__(self, function: _Function, chain: Chain, name: str) -> None:
        self.function = function
        self.frame = _Frame()
        self.parts: list[list[str]] = []
        self.calls: list[str] = []
        bounds = list(itertools.pairwise(chain.parts(PART)))
        self.follows = dict(itertools.pairwise(chain.places))
        self.home = {
            function.defined[n]: part
            for part, (start, stop) in enumerate(bounds)
            for n in range(start, stop)
            if n in function.defined
        }
        self.uses = [self._used(part, start, stop) for part, (start, stop) in enumerate(bounds)]
        outputs = dict.fromkeys(
            name
            for n, names in function.used.items()
            if not chain.first <= n < chain.last
            for name in names
            if name in self.home
        )
        self.slots: dict[str, _Slot] = {}
        self.end: dict[str, int] = dict.fromkeys(outputs, len(bounds))
        """The last part that uses a value; as many as there are parts if it is used after them."""
        for part, used in enumerate(self.uses):
            for value in used:
                self.end[value] = max(part, self.end.get(value, 0))
        for value in dict.fromkeys(itertools.chain.from_iterable(self.uses)):
            if value not in self.home:
                self.calls += self.store(value, f"{function.prefix}in{len(self.slots)}.{chain.first}")
        for part, (start, stop) in enumerate(bounds):
            self.parts.append(_Part(self, part, start, stop, f"{name}.{part}").lines)
            for value in self.uses[part]:
                if self.end[value] == part:
                    self.frame.give(self.slots[value])
            self.calls.append(f'  call void @"{name}.{part}"(ptr {function.frame})')
        for n, value in enumerate(outputs):
            self.calls += self.load(value, value, f"{function.prefix}out{n}.{chain.first}")

    def _used(self, part: int, start: int, stop: int) -> dict[str, None]:
        """Return the values that a part uses and that it does not define, in order."""
        used = self.function.used
        values = itertools.chain.from_iterable(used.get(n, ()) for n in range(start, stop))
        return dict.fromkeys(value for value in values if self.home.get(value) != part)

    def store(self, value: str, pointer: str) -> list[str]:
        """Return the lines that store a value in a place of the frame, from now on its own."""
        slot = self.slots[value] = self.frame.take(type_of(self.function.types[value]))
        return [
            self._place(slot, pointer),
            f"  store {slot.type} {value}, ptr {pointer}, align {slot.align}",
        ]

    def load(self, value: str, name: str, pointer: str) -> list[str]:
        """Return the lines that load a value from its place in the frame, under a name."""
        slot = self.slots[value]
        return [
            self._place(slot, pointer),
            f"  {name} = load {slot.type}, ptr {pointer}, align {slot.align}",
        ]

    def _place(self, slot: _Slot, pointer: str) -> str:
        return f"  {pointer} = getelementptr inbounds i8, ptr {self.function.frame}, i64 {slot.offset}"


class _Part:
    """Writes one part of a chain as a function.

    A value from the frame is loaded where it is first used. On the chain that serves all that follows; within
    a branch it serves the block, under a name of its own. What a loop uses is loaded before it, and what it
    computes for other parts is stored after it.

    Attributes:
        lines: The function.
    """

    def __init__(self, splitter: _Splitter, part: int, start: int, stop: int, name: str) -> None:
        self.splitter, self.part = splitter, part
        self.function = function = splitter.function
        attributes = f"noinline nounwind {ALIGNED_STACK}"
        self.lines = [f'define internal void @"{name}"(ptr noalias {function.frame}) {attributes} {{']
        self._known: set[str] = set()
        self._local: dict[tuple[str, str], str] = {}
        self._loaded: set[str] = set()
        self._unstored: list[str] = []
        self._incoming = self._from_frame(start, stop)
        first = function.index_at(start)
        if function.blocks[first].name:
            self.lines.append(f"{function.blocks[first].name[1:]}:")
        for block in function.blocks[first:]:
            if block.start >= stop:
                break
            for n in range(max(block.start, start), min(block.end, stop)):
                if n < block.first:
                    self.lines.append(self._phi(function.lines[n]))
                else:
                    self._instruction(n, block, splitter.follows.get(n))
                value = function.defined.get(n)
                if value is not None and splitter.end.get(value, part) > part:
                    self._unstored.append(value)
        self._store()
        self.lines += ["  ret void", "}"]

    def _from_frame(self, start: int, stop: int) -> dict[str, list[str]]:
        """Return the values from the frame that phis take from each block."""
        found: dict[str, list[str]] = {}
        for n in range(start, stop):
            if PHI.match(self.function.lines[n]):
                for value, block in INCOMING.findall(self.function.lines[n]):
                    if self._is_in_frame(value):
                        found.setdefault(block, []).append(value)
        return found

    def _is_in_frame(self, value: str) -> bool:
        return value in self.function.types and self.splitter.home.get(value) != self.part

    def _phi(self, line: str) -> str:
        """Return a phi, or the label before it, with the names of values in the blocks they come from."""
        return INCOMING.sub(lambda each: f"[ {self._name(each[1], each[2])}, {each[2]} ]", line)

    def _name(self, value: str, block: str) -> str:
        """Return the name of a value in a block."""
        if value in self._known or not self._is_in_frame(value):
            return value
        new = f"{self.function.prefix}{len(self._local)}.{self.part}"
        return self._local.setdefault((value, block), new)

    def _instruction(self, n: int, block: Block, following: int | None) -> None:
        """Write one line, after what it loads.

        Args:
            n: Its number.
            block: The block that it is in.
            following: The next place of the chain; None for a line within a branch or loop.
        """
        if following is not None:
            self._store()
        used = list(self.function.used.get(n, ()))
        if n == block.last:
            used += self._incoming.get(block.name, ())
            if following is not None and self.function.has_loop(n, following):
                used += itertools.chain.from_iterable(
                    self.function.used.get(m, ()) for m in range(n, following)
                )
        names = {}
        for value in used:
            if following is not None and self._is_in_frame(value) and value not in self._known:
                self._load(value, value)
                self._known.add(value)
            name = self._name(value, block.name)
            if name != value:
                names[value] = name
                if name not in self._loaded:
                    self._load(value, name)
                    self._loaded.add(name)
        line = self.function.lines[n]
        self.lines.append(NAMES.sub(lambda each: names.get(each[0], each[0]), line) if names else line)

    def _load(self, value: str, name: str) -> None:
        self.lines += self.splitter.load(value, name, self._pointer())

    def _store(self) -> None:
        """Store values for later parts."""
        for value in self._unstored:
            self.lines += self.splitter.store(value, self._pointer())
        self._unstored.clear()

    def _pointer(self) -> str:
        return f"{self.function.prefix}p{len(self.lines)}.{self.part}"

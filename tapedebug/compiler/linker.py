"""Link object code into this process without LLVM, if it needs only addresses filled in.

LLVM's linker needs LLVM, which takes longer to load than a program with one kernel takes to run. Code of the
large code model on x86-64 has one kind of relocation, an address of eight bytes; whatever has more (writable
data, other relocations, symbols that only LLVM knows) is left to LLVM: ELF-64 object files, version 1.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import struct
import sys
from functools import cache
from typing import NamedTuple

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SECTION = struct.Struct("<IIQQQQIIQQ")
SYMBOL = struct.Struct("<IBBHQQ")
RELOCATION = struct.Struct("<QQq")
IDENTITY = b"\x7fELF\x02\x01\x01"
"""64 bits, little endian."""
RELOCATABLE, X86_64 = 1, 62
PROGRAM, SYMBOLS, RELOCATIONS, UNWINDING = 1, 2, 4, 0x70000001
"""Kinds of sections. How to unwind the stack is of no use to code that raises nothing."""
WRITE, ALLOCATE = 1, 2
OUTSIDE = 0
"""The section of symbols that are defined elsewhere."""
ADDRESS = 1
"""The relocation of an absolute address."""

VECTOR_LIBRARY = "libmvec.so.1"
"""Vector functions of the C library, where it is glibc."""
LIBRARIES = (None, "libm.so.6", VECTOR_LIBRARY)
"""Libraries that are searched for functions: those in the process, and the C library's mathematics."""

_given: dict[str, int] = {}
_spans: dict[int, tuple[int, int]] = {}


def give(name: str, address: int) -> None:
    """Let object code refer to something by a name."""
    _given[name] = address


def given() -> dict[str, int]:
    """All that was given."""
    return dict(_given)


def span_of(address: int) -> tuple[int, int] | None:
    """Return where the object code of a symbol begins and ends; None if LLVM has linked it."""
    return _spans.get(address)


class _Unplain(Exception):
    """The object code has something that this linker does not know."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


def linked(code: bytes, symbol: str) -> int | None:
    """The address of a symbol of object code, put into memory for good; None where LLVM has to link it."""
    if not (sys.platform == "linux" and code.startswith(IDENTITY)):
        return None
    try:
        return _Object(code).link(symbol)
    except (_Unplain, OSError, ValueError, IndexError, struct.error):
        return None


class _Object:
    """One object file.

    Attributes:
        sections: Its sections.
        places: Where those that are needed in memory begin there, by number.
        size: How large all of them are.
        symbols: The name, section and value of each symbol.
    """

    def __init__(self, code: bytes) -> None:
        self.code = code
        header = HEADER.unpack_from(code)
        kind, machine, start, size, count = header[1], header[2], header[6], header[11], header[12]
        if (kind, machine, size) != (RELOCATABLE, X86_64, SECTION.size):
            raise _Unplain
        self.sections = [_Section(*SECTION.unpack_from(code, start + k * size)) for k in range(count)]
        self.places: dict[int, int] = {}
        self.size = 0
        for number, section in enumerate(self.sections):
            if section.flags & ALLOCATE and section.kind != UNWINDING:
                self._place(number, section)
        (table,) = [section for section in self.sections if section.kind == SYMBOLS]
        names = self.sections[table.link].offset
        self.symbols: list[tuple[str, int, int]] = [
            (self._text(names + name), section, value)
            for name, _, _, section, value, _ in SYMBOL.iter_unpack(self._content(table))
        ]

    def _place(self, number: int, section: _Section) -> None:
        if section.kind != PROGRAM or section.flags & WRITE or section.alignment > mmap.PAGESIZE:
            raise _Unplain
        alignment = max(1, section.alignment)
        self.places[number] = self.size = (self.size + alignment - 1) // alignment * alignment
        self.size += section.size

    def _content(self, section: _Section) -> bytes:
        return self.code[section.offset : section.offset + section.size]

    def _text(self, start: int) -> str:
        return self.code[start : self.code.index(0, start)].decode()

    def link(self, symbol: str) -> int:
        """Put it into memory; gives the address of a symbol."""
        (number,) = [k for k, (name, section, _) in enumerate(self.symbols) if name == symbol and section]
        base = _reserve(self.size)
        try:
            _fill(base, self._image(base))
            address = self._address(number, base)
            _spans[address] = base, base + self.size
            return address
        except BaseException:
            _system().munmap(base, self.size)
            raise

    def _image(self, base: int) -> bytearray:
        """Return the content of memory from `base` on."""
        image = bytearray(self.size)
        for number, place in self.places.items():
            section = self.sections[number]
            image[place : place + section.size] = self._content(section)
        for section in self.sections:
            if section.kind != RELOCATIONS or section.info not in self.places:
                continue
            for offset, info, addend in RELOCATION.iter_unpack(self._content(section)):
                if info & 0xFFFFFFFF != ADDRESS:
                    raise _Unplain
                address = self._address(info >> 32, base) + addend
                struct.pack_into("<Q", image, self.places[section.info] + offset, address & (1 << 64) - 1)
        return image

    def _address(self, number: int, base: int) -> int:
        name, section, value = self.symbols[number]
        if section == OUTSIDE:
            return _found(name)
        if section not in self.places:
            raise _Unplain
        return base + self.places[section] + value


def _found(name: str) -> int:
    """The address of something outside the object code."""
    if name in _given:
        return _given[name]
    for library in map(_library, LIBRARIES):
        with contextlib.suppress(AttributeError):
            address: int | None = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
            if address:
                return address
    raise _Unplain


@cache
def _library(name: str | None) -> ctypes.CDLL | None:
    with contextlib.suppress(OSError):
        return ctypes.CDLL(name)
    return None


@cache
def _system() -> ctypes.CDLL:
    """The functions of the system that memory for code comes from."""
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    system.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    system.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return system


def _reserve(size: int) -> int:
    """Memory of this process, of its own pages."""
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    base = _system().mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
    if base in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "mmap")
    return int(base)


def _fill(base: int, image: bytearray) -> None:
    """Write code into memory, which can be run and no longer be written afterwards."""
    ctypes.memmove(base, bytes(image), len(image))
    if _system().mprotect(base, len(image), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "mprotect")

"""Types of the values that instructions of LLVM assembly compute, read from their text."""

from __future__ import annotations

import re

CASTS = frozenset(
    {"sext", "zext", "trunc", "fptrunc", "fpext", "sitofp", "uitofp", "fptosi", "fptoui"}
    | {"bitcast", "inttoptr", "ptrtoint"}
)
ONE = r"<\d+ x (?:double|float|half|ptr|i\d+)>|double|float|half|ptr|i\d+"
TYPE = re.compile(rf"{ONE}|\{{ (?:{ONE})(?:, (?:{ONE}))* \}}")
"""The type of a value: a scalar, a vector of scalars, or a structure of those."""
FLAGS = frozenset(
    {"nsw", "nuw", "exact", "disjoint", "inbounds", "nneg", "samesign", "nusw", "volatile", "tail", "notail"}
    | {"fast", "nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc", "fastcc", "ccc"}
    | {"noundef", "signext", "zeroext"}
)
OF_FIRST = frozenset(
    {"fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "add", "sub", "mul", "udiv", "sdiv", "urem", "srem"}
    | {"shl", "lshr", "ashr", "and", "or", "xor", "freeze", "load", "phi", "insertelement"}
    | {"insertvalue"}
)
"""Instructions whose result has the type that is printed first."""
BITS = {"double": 64, "float": 32, "half": 16, "ptr": 64}
ALIGNED_STACK = "alignstack(64)"
"""The attribute of functions that save vectors on the stack, above all during calls of `sin` and `exp`.

Callers align the stack to 16 bytes only. In half of all processes, and then in every call, each vector would
straddle two cache lines, or two halves of one: a float64 twin with a sine took 1.7 times as long.
"""


class UnknownType(Exception):
    """An instruction whose result has a type that is unknown here."""


def type_of(text: str) -> str:
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
    if operation == "alloca":
        return "ptr"
    if operation == "extractvalue":
        return _members(_leading(rest))[int(_operands(rest)[1])]
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
    raise UnknownType


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
        raise UnknownType
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


def _members(kind: str) -> list[str]:
    """Return the types of the members of a structure."""
    return _operands(kind.strip("{} "))


def size_of(kind: str) -> int:
    """Return the bytes of a place for a value of a type: a power of two."""
    if kind.startswith("{"):
        members = [size_of(member) for member in _members(kind)]
        return 1 << (len(members) * max(members) - 1).bit_length()
    count, _, scalar = kind.strip("<>").partition(" x ")
    if not scalar:
        count, scalar = "1", kind
    bits = int(count) * (BITS.get(scalar) or int(scalar[1:]))
    return 1 << max(0, (-(-bits // 8) - 1).bit_length())

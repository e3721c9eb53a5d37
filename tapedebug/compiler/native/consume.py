"""Facts about a C snippet without parsing it: elements it overwrites, arrays it does not read.

A native function uses up the adjoints of the elements that its snippet certainly overwrites.

What stood in such an element before the call reached nothing, so that its adjoint is 0 once the adjoint
snippet has passed it on. Snippets are not parsed: only plain statements `out[…] = …;`, with an index made of
parameters, are recognised, and only where the adjoint snippet looks at no other element of `adj_out`.
Elsewhere the adjoint snippet sets the adjoint to 0 itself, where that is due.
"""

from __future__ import annotations

import re

from tapedebug.compiler.native.unit import ADJOINT, COMMENTS, FORWARD, Signature, Snippets
from tapedebug.lang import types as t

CHANGES = r"(?:=(?!=)|\+\+|--|[-+*/%&|^]=|<<=|>>=)"
MEMBERS = re.compile(r"(?:\s*\.\s*\w+|\s*\[\s*\d+\s*\])*")


def consumed(signature: Signature, snippets: Snippets) -> dict[str, list[str]]:
    """For each array of floats, the elements (or parts) whose adjoints are used up, as C writes them."""
    if not snippets.adjoint:
        return {}
    forward, adjoint = (COMMENTS.sub(" ", snippets.of(variant)) for variant in (FORWARD, ADJOINT))
    if "#" in forward + adjoint:  # what the preprocessor leaves of it is not known here
        return {}
    fixed = {name for name, kind in signature.parameters if kind in t.INTEGERS and _fixed(name, forward)}
    found: dict[str, list[str]] = {}
    for name, kind in signature.parameters:
        if isinstance(kind, t.ArrayType) and t.is_float(kind):
            written = _overwritten(name, forward, fixed)
            if written and _elements(f"adj_{name}", adjoint) <= {index for index, _ in written}:
                found[name] = [f"[{index}]{members}" for index, members in written]
    return found


def write_only(name: str, code: str) -> bool:
    """True if the code only assigns to the elements of an array, and never reads one."""
    code = COMMENTS.sub(" ", code)
    if "#" in code:
        return False
    for match in re.finditer(rf"\b{re.escape(name)}\b", code):
        index, end = _index(code, match.end())
        members = MEMBERS.match(code, end)
        assert members is not None
        if index is None or re.match(r"\s*=(?!=)", code[members.end() :]) is None:
            return False
    return True


def _fixed(name: str, code: str) -> bool:
    """True if a parameter is never assigned."""
    word = re.escape(name)
    return re.search(rf"\b{word}\b\s*{CHANGES}|(?:\+\+|--|&)\s*{word}\b", code) is None


def _overwritten(name: str, code: str, fixed: set[str]) -> list[tuple[str, str]]:
    """The elements that plain statements assign, if these are all that the code has of an array."""
    found = []
    for match in re.finditer(rf"\b{re.escape(name)}\b", code):
        before = code[: match.start()]
        index, end = _index(code, match.end())
        if index is None or not _is_plain(before) or set(re.findall(r"[A-Za-z_]\w*", index)) - fixed:
            return []
        members = MEMBERS.match(code, end)
        assert members is not None
        if re.match(r"\s*=(?!=)", code[members.end() :]) is None:
            return []
        found.append((index, re.sub(r"\s", "", members[0])))
    return found


def _is_plain(before: str) -> bool:
    """True if a statement that begins here always runs."""
    inside = any(before.count(a) != before.count(b) for a, b in ("{}", "()", "[]"))
    begins = before.rstrip()[-1:] in ("", ";", "}")
    return begins and not inside and re.search(r"\b(?:return|goto|exit|abort|else)\b", before) is None


def _index(code: str, start: int) -> tuple[str | None, int]:
    """The index in brackets at a place, with single spaces, and where it ends."""
    opening = re.match(r"\s*\[", code[start:])
    if opening is None:
        return None, start
    depth, at = 1, start + opening.end()
    while at < len(code) and depth:
        depth += {"[": 1, "]": -1}.get(code[at], 0)
        at += 1
    return " ".join(code[start + opening.end() : at - 1].split()), at


def _elements(name: str, code: str) -> set[str | None]:
    """Return the indices with which the code reads an adjoint; None if it does anything else with it."""
    found: set[str | None] = set()
    for match in re.finditer(rf"\b{re.escape(name)}\b", code):
        index, end = _index(code, match.end())
        members = MEMBERS.match(code, end)
        assert members is not None
        assigned = re.match(r"\s*=(?!=)", code[members.end() :]) is not None
        found.add(None if assigned else index)
    return found

"""Candidate names of arrays, best first: variables, the source of launches, kernel parameters."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType

from tapedebug._names import find_names
from tapedebug.contract import Array, CallArguments, Operation, ProgramArrays, RecordedTape, memory_key
from tapedebug.trace.call_sites import argument_texts
from tapedebug.trace.model import Launch


def candidate_names(
    tape: RecordedTape,
    arrays: Sequence[Array],
    parents: Sequence[int | None],
    launches: Sequence[Launch],
    frame: FrameType,
) -> tuple[list[list[str]], list[bool]]:
    """Return the names of each array, and True for each array that a variable holds.

    Args:
        tape: The tape; it stores names from the end of its `with` block.
        arrays: The arrays, by id.
        parents: For each array the id of the array that it is a view of.
        launches: The launches of the trace.
        frame: The frame whose variables are searched.
    """
    program = tape.capability(ProgramArrays) or _Arrays(arrays)
    keys = [memory_key(a) for a in arrays]
    # The names that the arrays had when the tape ended precede those in the frame of the caller.
    now = find_names(program.kind, lambda found: memory_key(program.array_of(found)), keys, frame)
    names = [
        list(dict.fromkeys([*tape.names(a), *now.get(key, ())])) for a, key in zip(arrays, keys, strict=True)
    ]
    sure = [bool(own) for own in names]
    containers = _containers(program, arrays, sure, parents, frame)
    for number, own in enumerate(containers):
        if own:
            names[number].append(own)
    _from_launches(tape, names, arrays, parents, launches, containers)
    _name_views(names, arrays, parents)
    return names, sure


def _from_launches(
    tape: RecordedTape,
    names: list[list[str]],
    arrays: Sequence[Array],
    parents: Sequence[int | None],
    launches: Sequence[Launch],
    containers: Sequence[str],
) -> None:
    """Add the expressions in the source of launches, and the parameter's name if nothing else is known."""
    parameters: list[list[str]] = [[] for _ in names]
    at_site: dict[int, list[str | None]] = {}
    known: dict[tuple[int, int], tuple[list[str | None], set[tuple[int | None, ...]]]] = {}
    for item, launch in zip(tape.operations, launches, strict=True):
        site = id(launch.call_site)
        if site not in at_site:
            at_site[site] = argument_texts(item.kind, item.call_site)
        # Most launches of a time loop repeat an earlier one: same call, same kernel, same arrays.
        found = None if launch.kernel is None else known.get((site, launch.kernel))
        if found is None:
            found = _texts(item, len(launch.args), at_site[site]), set()
            if launch.kernel is not None:
                known[site, launch.kernel] = found
        texts, seen = found
        given = tuple([arg.array for arg in launch.args])
        if given in seen:
            continue
        seen.add(given)
        for text, number, arg in zip(texts, given, launch.args, strict=True):
            if number is None:
                continue
            if text and not (containers[number] and "[" in text):
                a = arrays[number]
                _add(names[number], _numbered(text, a) if "[" in text else text)
            if launch.kind == "kernel":
                _add(parameters[number], arg.name)
    for number, own in enumerate(names):
        if not own and parents[number] is None:
            own += parameters[number]


def _texts(item: Operation, count: int, at_site: Sequence[str | None]) -> list[str | None]:
    """Return the source text of each argument of a launch; None for those without a name."""
    if not at_site:
        return [None] * count
    written = item.capability(CallArguments)
    texts: list[str | None] = []
    for number in range(count):
        # A field of a struct is written as the struct, and named by the path to the field.
        place, ending = (number, "") if written is None else written.written_as(number)
        text = at_site[place] if place < len(at_site) else None
        texts.append(text + ending if text else None)
    return texts


def _numbered(text: str, a: Array) -> str:
    """Return `states[t + 1]` of a time loop as `states[3]`: the row follows from the position in memory."""
    base, bracket, index = text.partition("[")
    size = a.stop - a.start
    if not bracket or not any(character.isalpha() for character in index) or ":" in index:
        return text
    if not size or size == a.region.nbytes or a.start % size:
        return text
    return f"{base}[{a.start // size}]"


class _Arrays:
    """The default `ProgramArrays`: the variables of the program hold the tape's arrays themselves."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self.kind = type(arrays[0]) if arrays else type(None)

    def array_of(self, found: Array, /) -> Array:
        """Return the array itself."""
        return found


def _containers(
    program: ProgramArrays,
    arrays: Sequence[Array],
    sure: Sequence[bool],
    parents: Sequence[int | None],
    frame: FrameType,
) -> list[str]:
    """Return names for views of an array that no launch received as a whole: `states[3]` of a variable."""
    unnamed = [not known and parent is None for known, parent in zip(sure, parents, strict=True)]
    wanted = {id(a.region) for a, without in zip(arrays, unnamed, strict=True) if without}
    wholes: dict[int, list[Array]] = {}

    def key(named: object) -> int:
        a = program.array_of(named)
        if id(a.region) in wanted:
            wholes.setdefault(id(a.region), []).append(a)
        return id(a.region)

    found = find_names(program.kind, key, wanted, frame) if wanted else {}
    result = []
    for a, without in zip(arrays, unnamed, strict=True):
        named = found.get(id(a.region), ())
        around = [w for w in wholes.get(id(a.region), ()) if w.start <= a.start and a.stop <= w.stop]
        result.append(named[0] + _index(a, around[0]) if without and named and around else "")
    return result


def _name_views(names: list[list[str]], arrays: Sequence[Array], parents: Sequence[int | None]) -> None:
    """Name views that have no name or one that another array has: `x[128:256]`."""
    for number, own in enumerate(names):
        parent = parents[number]
        if parent is not None and names[parent]:
            _add(own, names[parent][0] + _index(arrays[number], arrays[parent]))


def _index(view: Array, whole: Array) -> str:
    """Return the subscript of `whole` that gives a view: `[3]`, `[128:256]`; empty if it is all of it."""
    if (view.start, view.stop) == (whole.start, whole.stop):
        return ""
    offset, size = view.start - whole.start, view.stop - view.start
    row = whole.strides[0] if whole.is_contiguous and whole.ndim > 1 else 0
    if row and offset % row == 0 and size == row:
        return f"[{offset // row}]"
    if row and offset % row == 0 and size % row == 0:
        return f"[{offset // row}:{(offset + size) // row}]"
    item = (whole.stop - whole.start) // max(1, whole.size)
    flat = ".flatten()" if whole.ndim > 1 else ""
    return f"{flat}[{offset // item}:{-(-(offset + size) // item)}]"


def _add(names: list[str], name: str) -> None:
    if name not in names:
        names.append(name)

"""What arrays may be called, best first: variables, the source of launches, kernel parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tapedebug._interval_index import range_key
from tapedebug._names import find_names
from tapedebug.trace.call_sites import argument_texts
from tapedebug.trace.model import Launch

if TYPE_CHECKING:
    from types import FrameType

    from tapedebug.runtime import Tape
    from tapedebug.runtime import array as Array
    from tapedebug.runtime.tape.record import Record


def candidate_names(
    tape: Tape,
    arrays: Sequence[Array],
    parents: Sequence[int | None],
    launches: Sequence[Launch],
    frame: FrameType,
) -> tuple[list[list[str]], list[bool]]:
    """Return the names of each array, and whether a variable holds it.

    Args:
        tape: The tape; it remembers names from the end of its `with` block.
        arrays: The arrays, by id.
        parents: For each array the id of the one that it is a view of.
        launches: The launches of the trace.
        frame: Whose variables to look through.
    """
    from tapedebug.runtime import array as array_class

    keys = [range_key(a) for a in arrays]
    # What the arrays were called when the tape ended comes before what they are called by whoever asks.
    now = find_names(array_class, range_key, keys, frame)
    names = [list(dict.fromkeys([*tape.array_names.get(key, ()), *now.get(key, ())])) for key in keys]
    sure = [bool(own) for own in names]
    containers = _containers(arrays, sure, parents, frame)
    for number, own in enumerate(containers):
        if own:
            names[number].append(own)
    _from_launches(tape, names, arrays, parents, launches, containers)
    _name_views(names, arrays, parents)
    return names, sure


def _from_launches(
    tape: Tape,
    names: list[list[str]],
    arrays: Sequence[Array],
    parents: Sequence[int | None],
    launches: Sequence[Launch],
    containers: Sequence[str],
) -> None:
    """Add what the source says at the launches, and the parameter's name where nothing else is known."""
    parameters: list[list[str]] = [[] for _ in names]
    texts: dict[Any, list[str | None]] = {}
    for item, launch in zip(tape.records, launches, strict=True):
        if item.site not in texts:
            texts[item.site] = argument_texts(item.kind, item.call_site)
        at_site = texts[item.site]
        for number, arg in enumerate(launch.args):
            if arg.array is None:
                continue
            text = _text_of(item, number, at_site)
            if text and not (containers[arg.array] and "[" in text):
                _add(names[arg.array], _numbered(text, arrays[arg.array]))
            if launch.kind == "kernel":
                _add(parameters[arg.array], arg.name)
    for number, own in enumerate(names):
        if not own and parents[number] is None:
            own += parameters[number]


def _text_of(item: Record, number: int, at_site: Sequence[str | None]) -> str | None:
    """What the source of a launch calls an argument; of a part of a struct, with what leads to the part."""
    place, ending = number, item.args[number].part
    if item.kernel is not None:
        param = item.kernel.params[number]
        place = param.declared
        ending = param.name[len(item.kernel.signature[place].name) :]
    text = at_site[place] if place < len(at_site) else None
    return text + ending if text else None


def _numbered(text: str, a: Array) -> str:
    """`states[t + 1]` of a time loop as `states[3]`: which row it is, its place in memory says."""
    base, bracket, index = text.partition("[")
    size = a.stop - a.start
    if not bracket or not any(character.isalpha() for character in index) or ":" in index:
        return text
    if not size or size == a.buffer.nbytes or a.start % size:
        return text
    return f"{base}[{a.start // size}]"


def _containers(
    arrays: Sequence[Array], sure: Sequence[bool], parents: Sequence[int | None], frame: FrameType
) -> list[str]:
    """For views of an array that no launch was given whole: `states[3]`, if a variable `states` exists."""
    from tapedebug.runtime import array as array_class

    unnamed = [not known and parent is None for known, parent in zip(sure, parents, strict=True)]
    wanted = {id(a.buffer) for a, without in zip(arrays, unnamed, strict=True) if without}
    wholes: dict[int, list[Array]] = {}

    def key(a: Array) -> int:
        if id(a.buffer) in wanted:
            wholes.setdefault(id(a.buffer), []).append(a)
        return id(a.buffer)

    found = find_names(array_class, key, wanted, frame) if wanted else {}
    result = []
    for a, without in zip(arrays, unnamed, strict=True):
        named = found.get(id(a.buffer), ())
        around = [w for w in wholes.get(id(a.buffer), ()) if w.start <= a.start and a.stop <= w.stop]
        result.append(named[0] + _index(a, around[0]) if without and named and around else "")
    return result


def _name_views(names: list[list[str]], arrays: Sequence[Array], parents: Sequence[int | None]) -> None:
    """A view without a name of its own, or whose name another array has: `x[128:256]`."""
    for number, own in enumerate(names):
        parent = parents[number]
        if parent is not None and names[parent]:
            _add(own, names[parent][0] + _index(arrays[number], arrays[parent]))


def _index(view: Array, whole: Array) -> str:
    """Which part of `whole` a view is: `[3]`, `[128:256]`; empty where it is all of it."""
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

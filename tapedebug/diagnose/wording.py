"""Phrases and lookups that the rules share."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from pathlib import PurePath

from tapedebug.trace import Access, ArrayInfo, KernelInfo, Launch, Location, Trace


def launch_words(launch: Launch) -> str:
    """Return `launch 6 (integrate)`."""
    return f"launch {launch.index} ({launch.name})"


def names_in(trace: Trace) -> set[str]:
    """Return the names of the program with which a message may begin."""
    functions = (function.name for kernel in trace.kernels for function in kernel.functions)
    arguments = (arg.name for launch in trace.launches for arg in launch.args)
    launches = (launch.name for launch in trace.launches)
    return {*(info.label for info in trace.arrays), *launches, *arguments, *functions}


def capitalised(message: str, names: Collection[str]) -> str:
    """Return a message with a capital first letter, unless it begins with a name of the program."""
    first = message.split(maxsplit=1)[0].rstrip(",:;") if message else ""
    return message[:1].upper() + message[1:] if first.isalpha() and first not in names else message


def place(location: Location | None) -> str:
    """Return `net.py:66`: the file name without folders, for messages."""
    if location is None:
        return "an unknown place"
    name = location.file if location.file.startswith("In [") else PurePath(location.file).name
    return f"{name}:{location.line}"


def or_preserve(trace: Trace, as_warp: bool = False) -> str:
    """Return the second half of a fix for an overwrite; empty if the engine cannot preserve values."""
    return "" if as_warp or trace.tape.engine else ', or record with on_overwrite="preserve"'


def percent(relative: float) -> str:
    """Return a relative error in words."""
    if not math.isfinite(relative):
        return "beyond measure (zero or not finite)"
    if relative >= 10:
        return f"{relative:.3g} times its size"
    if relative >= 0.1:
        return f"{100 * relative:.0f} %"
    if relative >= 0.001:
        return f"{100 * relative:.2g} %"
    return f"a relative {relative:.1g}"


def number(value: float) -> str:
    """Return a magnitude for a message."""
    return f"{value:.3g}" if math.isfinite(value) else str(value)


def size(count: int) -> str:
    """Return a number of bytes for a message."""
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.3g} {name}"
    return plural(count, "byte")


def plural(count: int, word: str) -> str:
    """Return `1 launch`, `3 launches`."""
    if count == 1:
        return f"1 {word}"
    return f"{count} {word}es" if word.endswith("ch") else f"{count} {word}s"


def listed(words: Iterable[str], limit: int = 4) -> str:
    """Return `x, x_next and 3 more`."""
    items = list(words)
    if len(items) <= limit:
        return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]])) if items else ""
    return f"{', '.join(items[:limit])} and {len(items) - limit} more"


def kernel_of(trace: Trace, launch: Launch) -> KernelInfo | None:
    """Return the kernel of a launch; None for copies, fills and functions."""
    return None if launch.kernel is None else trace.kernels[launch.kernel]


def access_location(
    trace: Trace, launch: Launch, param: int, kinds: Iterable[str], *, needed: bool = False
) -> Location | None:
    """Return the first such access of a parameter in the kernel; without a kernel, the call site."""
    kernel = kernel_of(trace, launch)
    if kernel is None:
        return launch.call_site
    wanted = [item for item in kernel.accesses if item.param == param and item.kind in tuple(kinds)]
    exact: list[Access] = [item for item in wanted if item.needed] if needed else []
    for item in exact or wanted:
        return kernel.place_of(item)
    return Location(file=kernel.file, line=kernel.line, column=0, function=kernel.name)


def access_kinds(trace: Trace, launch: Launch, param: int) -> set[str]:
    """Return the ways in which a kernel accesses a parameter: "read", "write", "atomic"."""
    kernel = kernel_of(trace, launch)
    return set() if kernel is None else {item.kind for item in kernel.accesses if item.param == param}


def written_param(launch: Launch, array: ArrayInfo, trace: Trace) -> int:
    """Return the parameter through which a launch writes an array, or memory that overlaps it."""
    overlapping = 0
    for position, arg in enumerate(launch.args):
        if not arg.writes or arg.array is None:
            continue
        if arg.array == array.id:
            return position
        other = trace.arrays[arg.array]
        if other.buffer == array.buffer and other.start < array.stop and array.start < other.stop:
            overlapping = position
    return overlapping


def param_of(launch: Launch, array: int) -> int:
    """Return the first parameter through which a launch uses an array."""
    return next((position for position, arg in enumerate(launch.args) if arg.array == array), 0)


def label_of(trace: Trace, launch: Launch, param: int) -> str:
    """Return the label of the array passed for a parameter."""
    array = launch.args[param].array
    return launch.args[param].name if array is None else trace.arrays[array].label


def writes_in_many_places(trace: Trace, launch: Launch, param: int) -> bool:
    """True if a kernel writes a parameter on more than one line."""
    kernel = kernel_of(trace, launch)
    if kernel is None:
        return False
    writes = (item for item in kernel.accesses if item.param == param and item.kind != "read")
    return len({(item.file, item.line) for item in writes}) > 1

"""The mask: the pairs of inputs and outputs that a run checks, with error messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tapedebug._errors import GradcheckError

if TYPE_CHECKING:
    from tapedebug.trace import Launch, Trace

MaskEntry = list[Any]


def check_mask(mask: Iterable[Any], trace: Trace) -> list[MaskEntry]:
    """Return `mask` as a list of ``[launch, input, output]`` without repetitions.

    Args:
        mask: Entries ``(launch, input, output)``: the index of a launch and two of its argument names, or
            None and two array labels for the whole tape.
        trace: The trace that the mask is for.

    Raises:
        GradcheckError: It is not a list, or an entry names a launch, argument or array that the tape does not
            have; the message lists those that it has.
    """
    if not isinstance(mask, Iterable):
        raise GradcheckError(f"a mask is a list of [launch, input, output]; not {mask!r:.80}")
    checked: dict[tuple[Any, ...], MaskEntry] = {}
    for entry in mask:
        sound = _check_entry(entry, trace)
        checked.setdefault(tuple(sound), sound)
    return list(checked.values())


def _check_entry(entry: object, trace: Trace) -> MaskEntry:
    if not isinstance(entry, list | tuple) or len(entry) != 3:
        raise GradcheckError(
            f"a mask entry is [launch, input, output], with None for the whole tape; not {entry!r}"
        )
    launch, source, target = entry
    if launch is None:
        known, where = _labels(trace), "the tape"
    else:
        count = len(trace.launches)
        if isinstance(launch, bool) or not isinstance(launch, int) or not 0 <= launch < count:
            raise GradcheckError(
                f"mask entry {list(entry)!r}: there is no launch {launch!r}; "
                f"this tape has {count} launches, counted from 0"
            )
        record = trace.launches[launch]
        known, where = _arguments(record), f"launch {launch} ({record.name})"
    for name in (source, target):
        if name not in known:
            raise GradcheckError(
                f"mask entry {list(entry)!r}: {where} has no array {name!r}; "
                f"it has {', '.join(known) or 'none'}"
            )
    return [launch, source, target]


def _labels(trace: Trace) -> list[str]:
    return [info.label for info in trace.arrays]


def _arguments(launch: Launch) -> list[str]:
    return [argument.name for argument in launch.args if argument.array is not None]

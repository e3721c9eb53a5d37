"""Selections in a panel, and error messages for invalid ones."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from tapedebug._errors import GradcheckError, TapedebugError
from tapedebug.contract import from_program, is_array, memory_key
from tapedebug.panel.pair_mask import check_mask

if TYPE_CHECKING:
    from tapedebug.panel.panel_source import PanelSource

PARTS = ("launch", "array", "version", "finding", "pair")
MOST_NAMED = 12


class SelectionError(TapedebugError, ValueError):
    """A selection names an item that the tape does not have."""


def check_selection(selection: object, subject: PanelSource) -> dict[str, Any]:
    """Return `selection` with plain numbers.

    Args:
        selection: A dict with any of ``launch``, ``array``, ``version``, ``finding``, ``pair``.
        subject: The tape that it is for.

    Raises:
        SelectionError: It names an item that does not exist; the message lists the existing ones.
    """
    if not isinstance(selection, Mapping):
        raise SelectionError(f"a selection is a dict with any of {', '.join(PARTS)}; not {selection!r:.80}")
    for part in selection:
        if part not in PARTS:
            raise SelectionError(f"a selection has no {part!r}; it has {', '.join(PARTS)}")
    checked: dict[str, Any] = {part: None for part, value in selection.items() if value is None}
    given = {part: value for part, value in selection.items() if value is not None}
    source = subject.source
    if "launch" in given:
        checked["launch"] = _index("launch", given["launch"], source.tape.launches, "this tape")
    if "array" in given:
        checked["array"] = _array(given["array"], subject)
    if "version" in given:
        checked["version"] = _version(given["version"], checked.get("array"), subject)
    if "finding" in given:
        checked["finding"] = _finding(given["finding"], subject)
    if "pair" in given:
        checked["pair"] = _pair(given["pair"], subject)
    return {part: checked[part] for part in selection}


def still_there(selection: Mapping[str, Any], subject: PanelSource) -> dict[str, Any]:
    """Return the part of a selection that a newer trace of the tape still has."""
    try:
        return check_selection(selection, subject)
    except SelectionError:
        return {}


def _index(what: str, value: object, count: int, owner: str) -> int:
    number = _whole(value)
    if number is None or not 0 <= number < count:
        raise SelectionError(f"there is no {what} {value!r}; {owner} has {_counted(count, what)}")
    return number


def _counted(count: int, what: str) -> str:
    if count == 0:
        return f"no {what}"
    many = {"launch": "launches"}.get(what, f"{what}s")
    return f"{count} {what if count == 1 else many}, counted from 0"


def _whole(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def _array(value: object, subject: PanelSource) -> int | str:
    """Return the id or label of an array that is given as an id, a label, or itself."""
    labels = [info.label for info in subject.source.arrays]
    if subject.tape is not None:
        value = from_program(subject.tape, value)
    if is_array(value):
        known = {memory_key(each): label for each, label in subject.labels().items()}
        label = known.get(memory_key(value))
        if label is None:
            raise SelectionError(f"{value!r} is not on this tape, which has {_named(labels)}")
        return label
    if isinstance(value, str):
        if value not in labels:
            raise SelectionError(f"there is no array {value!r}; this tape has {_named(labels, value)}")
        return value
    return _index("array", value, len(labels), "this tape")


def _version(value: object, array: int | str | None, subject: PanelSource) -> int:
    if array is None:
        raise SelectionError(f"version {value!r} of which array? Select an array with it")
    arrays = subject.source.arrays
    number = array if isinstance(array, int) else [info.label for info in arrays].index(array)
    count = _version_counts(subject)[number]
    asked = _whole(value)
    if asked is None or not 0 <= asked < count:
        span = f"versions 0 to {count - 1}" if count else "no versions"
        raise SelectionError(f"there is no version {value!r} of {arrays[number].label}; it has {span}")
    return asked


def _version_counts(subject: PanelSource) -> list[int]:
    """Return the number of versions of each array; counted once, as a tape may have a million of them."""
    if "version counts" not in subject.memo:
        counts = [0] * len(subject.source.arrays)
        for version in subject.source.versions:
            counts[version.array] += 1
        subject.memo["version counts"] = counts
    counted: list[int] = subject.memo["version counts"]
    return counted


def _finding(value: object, subject: PanelSource) -> int:
    """Return the id of a finding that is given as an id or itself."""
    known = [finding.id for finding in subject.source.findings]
    given = getattr(value, "id", value)
    if isinstance(value, Mapping):
        given = value.get("id")
    number = _whole(given)
    if number is None or number not in known:
        there = f"findings {_named(known)}" if known else "no findings"
        raise SelectionError(f"there is no finding {given!r}; this tape has {there}")
    return number


def _pair(value: object, subject: PanelSource) -> list[Any]:
    try:
        return check_mask([value], subject.source)[0]
    except GradcheckError as error:
        raise SelectionError(str(error).replace("mask entry", "pair")) from None


def _named(names: Iterable[Any], wanted: str | None = None) -> str:
    """Return the names as text; if they do not all fit, the ones nearest to `wanted`."""
    known = [str(name) for name in names]
    if not known:
        return "none"
    if len(known) <= MOST_NAMED:
        return ", ".join(known)
    near = difflib.get_close_matches(wanted or "", known, 3, 0.4)
    shown = [*near, *(name for name in known if name not in near)][:MOST_NAMED]
    return f"{', '.join(shown)} and {len(known) - len(shown)} more"

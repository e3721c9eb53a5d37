"""Names of a tape's arrays from the caller's variables: collected at once, formatted when needed."""

from __future__ import annotations

from types import FrameType
from typing import Any

from tapedebug._names import Sighting, look_again, look_for, written_out
from tapedebug.runtime.memory.array import array, range_key
from tapedebug.runtime.tape.buffer_versions import RangeState
from tapedebug.runtime.tape.tracker import Tracker


class ArrayNames:
    """The names of a tape's arrays, as they were when its block ended.

    A function's variables are gone when the names are needed, so they are collected at once. Only positions
    are kept: no array that is not on the tape, and no frame.
    """

    __slots__ = ("_names", "_sightings")

    def __init__(self, names: dict[Any, list[str]] | None = None) -> None:
        self._names = names or {}
        self._sightings: list[Sighting] = []

    def look(self, tracker: Tracker, frame: FrameType) -> None:
        """Search the variables of the calling frames for the arrays of a tape."""
        if self._sightings:  # names from an earlier block come first
            self.by_range()
        try:
            found = look_again(array, frame, tracker.states)
            self._sightings = self._look(tracker, frame) if found is None else found
        except Exception:  # names are not worth an error
            pass

    def _look(self, tracker: Tracker, frame: FrameType) -> list[Sighting]:
        """Search them as if nothing was known of an earlier search."""
        states, ledgers = tracker.states, tracker.ledgers

        def key(a: array) -> Any:
            state = states.get(a)
            if state is None and a.buffer in ledgers:
                state = ledgers[a.buffer].known(a)
            return range_key(a) if state is None else state

        wanted: set[Any] = set(states.values())
        if tracker.has_idle:
            wanted.update(key(item.args[p]) for item in tracker.records for p in item.plan.idle)
        return look_for(array, key, wanted, frame, states)

    def add(self, a: array, name: str) -> None:
        """Give an array a name, beside those of variables."""
        self._names.setdefault(range_key(a), []).append(name)

    def by_range(self) -> dict[Any, list[str]]:
        """Return all names, by `range_key`."""
        if self._sightings:
            for known, own in written_out(self._sightings).items():
                self._names[range_key(known.array) if isinstance(known, RangeState) else known] = own
            self._sightings = []
        return self._names

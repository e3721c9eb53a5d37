"""The reverse passes of a tape, and the gradients of its inputs before and after each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapedebug._clock import clock
from tapedebug.contract import Array, HistoryEvent, Place, Values

Norms = list[tuple[Array, float]]
"""Inputs with the norms of their gradients."""

KEPT = 1000
"""Number of events that are stored at least; up to twice as many are."""


class PassHistory:
    """The capability `contract.History` of an `OperationTape`."""

    def __init__(self) -> None:
        self._dropped = 0
        self._events: list[HistoryEvent] = []

    @property
    def dropped(self) -> int:
        """The number of earlier events that are no longer stored."""
        return self._dropped

    def events(self) -> list[HistoryEvent]:
        """Return the stored events, in order."""
        return list(self._events)

    def begin(self, inputs: Sequence[Array]) -> tuple[int, Norms]:
        """Note that a reverse pass begins; return the argument `begun` of `end`."""
        return clock.tick(), _norms(inputs)

    def end(
        self,
        begun: tuple[int, Norms],
        tape: int,
        at: int,
        number: int,
        again: bool,
        call_site: Place | None,
    ) -> None:
        """Note a reverse pass that has ended.

        Args:
            begun: The result of `begin`.
            tape: The id of the tape.
            at: The number of its operations.
            number: The number of the pass, from 1 on.
            again: It began from the same seeds as the previous pass.
            call_site: The place in the program.
        """
        now, before = begun
        self._add(
            HistoryEvent(
                "backward",
                now,
                call_site=call_site,
                tape=tape,
                at=at,
                again=again,
                numbers={"pass": float(number)},
            )
        )
        after = _norms([array for array, _ in before])
        for (array, old), (_, new) in zip(before, after, strict=True):
            numbers = {"pass": float(number)}
            if old:
                numbers |= {"norm_before": old, "norm_after": new}
            self._add(
                HistoryEvent(
                    "backward",
                    now,
                    "gradient",
                    array.region,
                    array.start,
                    array.stop,
                    call_site=call_site,
                    tape=tape,
                    at=at,
                    again=again,
                    numbers=numbers,
                )
            )

    def note_zeroed(self, tape: int, at: int, inputs: Sequence[Array], call_site: Place | None) -> None:
        """Note that the program has set all gradients of a tape to zero."""
        now = clock.tick()
        self._add(HistoryEvent("zero", now, how="zero", call_site=call_site, tape=tape, at=at))
        for array in inputs:
            self._add(_set_gradient(array, now, "zero", call_site))

    def _add(self, event: HistoryEvent) -> None:
        if len(self._events) >= 2 * KEPT:
            del self._events[:KEPT]
            self._dropped += KEPT
        self._events.append(event)


def _set_gradient(array: Array, now: int, how: str, call_site: Place | None) -> HistoryEvent:
    return HistoryEvent("zero", now, "gradient", array.region, array.start, array.stop, how, call_site)


def _norms(arrays: Sequence[Array]) -> Norms:
    found = []
    for array in arrays:
        gradient = array.current_gradient()
        if gradient is not None:
            found.append((array, norm_of(gradient)))
    return found


def norm_of(values: Values) -> float:
    """Return the norm of numbers, which is added up in float64 only if their own type is too narrow."""
    if not values.any():
        return 0.0
    norm = float(np.linalg.norm(values)) if values.dtype.kind == "f" and values.itemsize > 2 else 0.0
    return norm if 0 < norm < np.inf else float(np.linalg.norm(values.astype(np.float64)))

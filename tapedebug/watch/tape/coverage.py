"""Notes about the parts of a program that a tape does not cover, and how its launches run again."""

from __future__ import annotations

from collections import Counter

from tapedebug._source import display_file
from tapedebug.contract import Irreplayable, Operation
from tapedebug.operations import RunsInFloat64
from tapedebug.watch.builtin_operations import CopyOperation
from tapedebug.watch.tape.tape_recording import TapeRecording

LOST = (
    "values that the tape found were overwritten outside of Warp before they were copied: raise memory_budget"
)

INHERITED = (
    "the gradient of {name} was not zero when the reverse pass of this tape began: what the pass added to it "
    "was checked, not the sum"
)

DEVICE = "writes to arrays on a device are noticed only if a function of Warp makes them"

WAYS = {
    "mirrored": "mirrored launches run again in tapedebug's translation of their kernels, also in float64",
    "native": "native launches run again in Warp itself, in float32",
    "not covered": "",
}
"""The ways in which launches run again, each with a sentence."""


class Gaps:
    """The capability `RecordingGaps`."""

    def __init__(self, tape: TapeRecording) -> None:
        self._tape = tape

    def notes(self) -> list[str]:
        """Return what is not covered, as sentences; launches that only Warp can run compute in float32."""
        native: Counter[tuple[str, str]] = Counter()
        for launch in self._tape.launches.values():
            if launch.mirrored is None and not launch.obstacle:
                native[launch.name, launch.mirror_obstacle] += 1
        gaps = [text if count == 1 else f"{text} (×{count})" for text, count in self._tape.gaps.items()]
        for (name, reason), count in native.items():
            launches = f"{count} launches" if count > 1 else "1 launch"
            gaps.append(f"{launches} of {name} can only be run by Warp, in float32: {reason}")
        later = self._tape.later_operations
        if later:
            names = Counter(operation.name for operation in later).items()
            listed = ", ".join(name if count == 1 else f"{name} (×{count})" for name, count in names)
            gaps.append(f"recorded after the last reverse pass, and no part of it: {listed}")
        gaps += self._tape.set_later.values()
        gaps += [LOST] if self._tape.lost else []
        for array in self._tape.inherited:
            name = next(iter(self._tape.names(array)), "an input")
            gaps.append(INHERITED.format(name=name))
        return gaps if all(region.on_host for region in self._tape.regions) else [*gaps, DEVICE]


class Coverage:
    """The capability `EngineCoverage`."""

    def __init__(self, tape: TapeRecording) -> None:
        self._tape = tape

    def counts(self) -> dict[str, int]:
        """Return the number of launches by way."""
        counts = dict.fromkeys(WAYS, 0)
        for operation in self._tape.operations:
            if operation.kind == "kernel":
                counts[_way(operation)] += 1
        return counts

    def notes(self) -> list[str]:
        """Return a sentence for each way in which launches run again."""
        found = [WAYS[way] for way, count in self.counts().items() if count and WAYS[way]]
        return [*found, *self._copies()]

    def _copies(self) -> list[str]:
        """Return a sentence for each way in which the adjoint of copies differs in older releases of Warp."""
        copies = [
            operation
            for operation in self._tape.operations
            if isinstance(operation, CopyOperation) and not operation.accumulates
        ]
        found: dict[str, list[str]] = {}
        for each in copies:
            later = (access for o in self._tape.operations[each.index + 1 :] for access in o.accesses)
            note, place = each.note(later), each.call_site
            if note and place is not None:
                found.setdefault(note, []).append(f"{display_file(place.file)}:{place.line}")
        return [f"{note} (at {', '.join(dict.fromkeys(places))})" for note, places in found.items()]


def _way(operation: Operation) -> str:
    if operation.capability(Irreplayable) is not None:
        return "not covered"
    return "native" if operation.capability(RunsInFloat64) is None else "mirrored"

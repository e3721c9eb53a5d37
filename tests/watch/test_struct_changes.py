"""Structs that a program changes before the reverse pass, on an engine of NumPy: Warp is not needed."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapedebug as td
from tapedebug.contract import Access, Engine, StructChanges
from tapedebug.operations import (
    ExactAdjoint,
    HostArray,
    HostOperation,
    Memory,
    OperationTape,
    Region,
    RunsInFloat64,
    SnapshotBudget,
    caller_place,
)
from tapedebug.watch import hooks
from tapedebug.watch.arguments import Leaf
from tapedebug.watch.struct_changes import WarpStructChanges, present_structs


@pytest.fixture(autouse=True)
def no_structs_of_warp(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-ins for Warp's arrays are no structs of Warp, which need not be installed."""
    monkeypatch.setitem(hooks._known, "warp._src.types:is_struct", lambda value: False)


def host(*values: float) -> HostArray:
    content = np.array(values, np.float32)
    return HostArray(content, Region(content, np.zeros_like(content)), True)


class StandInArguments:
    """Splits the arguments of `weigh`: its struct stands here as a list of its fields."""

    def leaves(self, kernel: object, values: Any) -> list[Leaf]:
        (height, scale), x, y = values
        return [
            Leaf(0, ("bed", "height"), height, height),
            Leaf(0, ("bed", "scale"), scale, None),
            Leaf(1, ("x",), x, x),
            Leaf(2, ("y",), y, y),
        ]


class Weigh(HostOperation):
    """The kernel `y = bed.height * bed.scale * x`."""

    kernel, obstacle = "weigh", ""

    def __init__(self, leaves: list[Leaf]) -> None:
        self.leaves = leaves
        args = [leaf.value if leaf.array is None else leaf.array for leaf in leaves]
        names = [leaf.name for leaf in leaves]
        self.height, self.scale, self.x, self.y = args
        accesses = [
            Access(0, names[0], self.height, reads=True, writes=False, needs_before=True),
            Access(2, names[2], self.x, reads=True, writes=False, needs_before=True),
            Access(3, names[3], self.y, reads=False, writes=True),
        ]
        both: dict[type, Any] = {ExactAdjoint: self, RunsInFloat64: self}
        super().__init__("weigh", args, names, accesses, caller_place(), capabilities=both)

    def with_arguments(self, values: object, leaves: list[Leaf]) -> Weigh:
        return Weigh(leaves)

    def forward(self, values: Memory) -> None:
        values.view(self.y)[...] = values.view(self.height) * self.scale * values.view(self.x)

    def vjp(self, before: Memory, after: Memory, adjoint: Memory) -> None:
        incoming = adjoint.view(self.y).copy()
        adjoint.view(self.y)[...] = 0
        adjoint.view(self.x)[...] += before.view(self.height) * self.scale * incoming
        adjoint.view(self.height)[...] += before.view(self.x) * self.scale * incoming


def recorded(
    change: Callable[[list[Any]], None], budget: SnapshotBudget
) -> tuple[OperationTape, HostArray, HostArray]:
    """The tape of one launch whose struct `change` changes after it, its input and its output."""
    bed, x, y = [host(3, 4), 1.0], host(1, 2), host(0, 0)
    arguments: Any = StandInArguments()
    launch: Any = Weigh(arguments.leaves(None, [bed.copy(), x, y]))
    launch.given = [bed, x, y]
    tape = OperationTape(Engine("NumPy", np.__version__), listed=False)
    tape.begin()
    memory = Memory({access.array.region: access.array.region.values for access in launch.accesses})
    tape.record(launch, lambda: launch.forward(memory))
    tape.end()
    change(bed)
    found = present_structs(launch, arguments, tape.regions, budget)
    changes = WarpStructChanges({0: launch}, {} if found is None else {0: found})
    tape.capabilities[StructChanges] = changes
    with tape.reverse_pass({y: np.ones(2)}):
        pass
    return tape, x, y


def gradient_with_present_structs(tape: OperationTape, x: HostArray, y: HostArray, float64: bool) -> Any:
    changes = tape.capability(StructChanges)
    assert changes is not None
    replay = tape.new_replay(float64=float64)
    if not changes.backward(replay, {y: np.ones(2)}, [0]):
        return None
    return replay.gradient(x).tolist()


def set_height(bed: list[Any]) -> None:
    bed[0] = host(30, 40)


def set_height_alike(bed: list[Any]) -> None:
    bed[0] = host(3, 4)


def set_scale(bed: list[Any]) -> None:
    bed[1] = 2.0


def set_nothing(bed: list[Any]) -> None:
    bed[:] = list(bed)


CHANGES: dict[str, tuple[Callable[[list[Any]], None], dict[int, list[int]], list[float]]] = {
    "array": (set_height, {0: [0]}, [30, 40]),
    "array with equal values": (set_height_alike, {0: [0]}, [3, 4]),
    "number": (set_scale, {0: [1]}, [6, 8]),
}


@pytest.mark.parametrize("float64", [False, True])
@pytest.mark.parametrize("case", CHANGES)
def test_a_changed_struct_is_reversed_with_what_it_holds_then(case: str, float64: bool) -> None:
    change, params, expected = CHANGES[case]
    tape, x, y = recorded(change, SnapshotBudget())
    changes = tape.capability(StructChanges)
    assert changes is not None
    assert changes.changed() == params
    assert gradient_with_present_structs(tape, x, y, float64) == expected
    assert gradient_with_present_structs(tape, x, y, float64) == expected, "a second replay is the same"
    assert tape.new_replay().forward().backward({y: np.ones(2)}).gradient(x).tolist() == [3, 4]


def test_a_struct_that_is_assigned_what_it_held_has_not_changed() -> None:
    tape, _, _ = recorded(set_nothing, SnapshotBudget())
    changes = tape.capability(StructChanges)
    assert changes is not None
    assert changes.changed() == {}


def test_an_array_that_the_tape_does_not_use_is_copied_when_the_reverse_pass_begins() -> None:
    other = host(30, 40)

    def change(bed: list[Any]) -> None:
        bed[0] = other

    budget = SnapshotBudget()
    tape, x, y = recorded(change, budget)
    taken = budget.used
    other.region.values.view(np.float32)[:] = 0
    assert gradient_with_present_structs(tape, x, y, float64=False) == [30, 40]
    assert taken == 8
    del tape
    gc.collect()
    assert budget.used == 0


def test_an_array_that_the_budget_excludes_is_not_measured() -> None:
    tape, x, y = recorded(set_height, SnapshotBudget(4))
    assert gradient_with_present_structs(tape, x, y, float64=False) is None
    place = tape.operations[0].call_site
    notes = td.diagnose(tape, as_warp=True).coverage.notes
    assert (
        f"the structs of test_struct_changes.py:{place.line} hold, since they were changed, arrays that are "
        "not on this tape: the effect on the gradient was not measured"
    ) in notes


def test_the_finding_names_line_and_both_numbers() -> None:
    tape, _, _ = recorded(set_height, SnapshotBudget())
    (finding,) = [item for item in td.diagnose(tape, as_warp=True).findings if item.severity == "error"]
    assert finding.rule == "overwrite"
    assert finding.message == (
        "bed.height of launch 0 (weigh) was assigned anew between the launch and the reverse pass. Warp's "
        "tape keeps the struct, and finds in it what it holds by then: its gradient of x is off by 900 %, "
        "that of bed.height by 100 % (40 in place of 4 for x[1])."
    )
    assert finding.call_site.file.endswith("test_struct_changes.py")

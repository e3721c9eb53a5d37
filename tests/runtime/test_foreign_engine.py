"""Programs that were written for another engine: the hooks of recording and of the reverse pass."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import pytest

import tapedebug as wp
from tapedebug.runtime.state import state
from tests.processes import ROOT
from tests.runtime.kernels import scale, total


class Reverse:
    """Omits copies, and has an adjoint of `scale` that does nothing."""

    engine = "Other"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def omits(self, record: Any) -> bool:
        return record.kind == "copy"

    def adjoint_of(self, record: Any) -> Any:
        self.asked.append(record.name)
        return self.nothing if record.kernel is scale else None

    @staticmethod
    def nothing(lo: int, hi: int, where: int) -> None: ...


class Engine:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.reverse, self.modes, self.begun = Reverse(), [], 0

    def reverse_of(self, on_overwrite: str) -> Reverse | None:
        self.modes.append(on_overwrite)
        return self.reverse if on_overwrite == "ignore" else None

    def note_arguments(self, record: Any, args: tuple[Any, ...]) -> None:
        record.notes = [len(args)]

    def note_command(self, records: Sequence[Any]) -> None:
        for record in records:
            record.notes.append("command")

    def before_backward(self, records: Sequence[Any]) -> None:
        self.begun += 1


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Engine:
    engine = Engine()
    monkeypatch.setattr(state, "foreign", engine)
    return engine


def recorded(mode: str) -> tuple[wp.Tape, list[Any]]:
    x, y, z, loss = (wp.array([1.0] * n, dtype=float, requires_grad=True) for n in (2, 2, 2, 1))
    with wp.Tape(on_overwrite=mode) as tape:
        wp.launch(scale, 2, inputs=[x, y, 2.0])
        wp.launch(scale, 2, inputs=[y, z, 3.0], record_cmd=True).launch()
        wp.copy(y, z)
        wp.launch(total, 2, inputs=[y, loss])
    tape.backward(loss)
    return tape, [a.grad.numpy().tolist() for a in (x, y, z)]


def test_launches_and_commands_are_noted(other: Engine) -> None:
    tape, _ = recorded("ignore")
    assert [record.notes for record in tape.records] == [[3], [3, "command"], None, [2]]
    assert (other.modes, other.begun) == (["ignore"], 1)


def test_its_reverse_takes_precedence(other: Engine) -> None:
    _, gradients = recorded("ignore")
    assert gradients == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]], "neither the copy nor `scale` is reversed"
    assert sorted(set(other.reverse.asked)) == ["scale", "total"]


def test_a_tape_of_another_mode_is_reversed_as_usual(other: Engine) -> None:
    _, gradients = recorded("preserve")
    assert gradients == [[6.0, 6.0], [0.0, 0.0], [0.0, 0.0]]
    assert other.reverse.asked == []


def test_the_engine_names_no_other() -> None:
    """Each engine that is emulated has a room of its own."""
    found = [
        f"{path.name}: {name}"
        for path in (ROOT / "tapedebug" / "runtime").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        for name in (getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "name", None))
        if isinstance(name, str) and "warp" in name.lower()
    ]
    assert found == []

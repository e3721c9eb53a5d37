"""Ways to overwrite an array under Warp's reverse, predicted and measured, and look-alikes.

`warp_tapes.json` has the gradients that warp-lang 1.19 gives for the tapes of `warp_tapes.py`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tapedebug as td

HERE = Path(__file__).parent
WARP: dict[str, list[list[float]]] = json.loads((HERE / "warp_tapes.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def program() -> Iterator[ModuleType]:
    with td.as_warp():
        yield importlib.import_module("tests.diagnose.warp_tapes")


def same(one: list[list[float]], other: list[list[float]]) -> bool:
    return all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(one, other, strict=True))


def apart(wrong: list[list[float]], right: list[list[float]]) -> list[float]:
    """Return the error of the gradient of each input."""
    pairs = zip(np.array(wrong, object), np.array(right, object), strict=True)
    return [
        float(np.linalg.norm(np.subtract(a, b).astype(float)) / np.linalg.norm(np.asarray(b, float)))
        for a, b in pairs
    ]


def test_the_list_is_complete(program: ModuleType) -> None:
    assert set(WARP) == set(program.TAPES)
    assert len(WARP) > 30


@pytest.mark.parametrize("name", [name for name in WARP if not name.startswith("struct_")])
def test_ignore_consumes_what_warp_consumes(
    program: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(td.config, "on_overwrite", "ignore")
    tape, gradients = program.gradients(name)
    assert same(gradients, WARP[name])
    alike = name.startswith("alike_")
    assert td.diagnose(tape, as_warp=True).verdict == ("AGREE" if alike else "WRONG")


@pytest.mark.parametrize("name", WARP)
def test_what_warp_would_have_consumed_wrong_is_an_error_though_ours_is_right(
    program: ModuleType, name: str
) -> None:
    tape, gradients = program.gradients(name)
    diagnosis = td.diagnose(tape, as_warp=True)
    assert diagnosis.verdict == "AGREE"
    messages = [item for item in diagnosis.findings if item.severity != "info"]
    if name.startswith("alike_"):
        assert same(gradients, WARP[name]), "Warp is right"
        assert not messages, str(diagnosis)
        return
    assert not same(gradients, WARP[name]), "Warp is wrong"
    rule = "warp-limitation" if name.startswith("limit_") else "overwrite"
    assert {(item.rule, item.severity) for item in messages} == {(rule, "error")}, str(diagnosis)
    if len(messages) == 1:  # else each is measured alone
        found = list(messages[0].evidence["relative_error"].values())
        for expected in apart(WARP[name], gradients):
            assert any(expected == pytest.approx(error, rel=1e-3, abs=1e-6) for error in found)


@pytest.mark.parametrize("name", WARP)
def test_for_a_program_of_ones_own_nothing_is_an_error(program: ModuleType, name: str) -> None:
    tape, _ = program.gradients(name)
    diagnosis = td.diagnose(tape)
    assert diagnosis.verdict == "AGREE"
    assert {item.severity for item in diagnosis.findings} <= {"info"}


def message(program: ModuleType, name: str, index: int = 0) -> str:
    return str(td.diagnose(program.gradients(name)[0], as_warp=True).findings[index].message)


def line_of(text: str) -> int:
    lines = (HERE / "warp_tapes.py").read_text("utf-8").splitlines()
    return next(number for number, line in enumerate(lines, start=1) if text in line)


def test_the_words_for_what_was_read_back(program: ModuleType) -> None:
    write, read = line_of("s[i] = wp.sin(x[i])"), line_of("y[i] = s[i] * s[i] * x[i]")
    assert message(program, "scratch_that_is_read_back") == (
        f"Launch 1 (through_scratch) overwrites values of s (at warp_tapes.py:{write}) that launch 0 "
        f"(through_scratch) wrote and read back, and that its adjoint reads again (at warp_tapes.py:{read}): "
        "3 of 3 elements changed value, by up to 0.191. Here the adjoint writes them again, into a private "
        "copy of s, so the gradient is right. Warp keeps none: its gradient of x is off by 29 % "
        "(1.26 in place of 1.82 for x[0])."
    )


def test_the_words_for_what_warp_does_not_record(program: ModuleType) -> None:
    assert message(program, "scratch_cleared_by_zero") == (
        "Launch 3 (fill) writes new values into s, and the gradient of those ends there. In Warp zero_ and "
        "fill_ are not on the tape: the gradient goes through to the old values and to launch 1 "
        "(collect_square), which wrote them. Here it ends, so the gradient is right; Warp's gradient of x is "
        "off by 100 % (648 in place of 324 for x[2]). 2 more like it (×3)."
    )
    tape, _ = program.gradients("scratch_cleared_by_zero")
    (finding,) = td.diagnose(tape, as_warp=True).findings[:1]
    assert finding.fix == (
        "write s in a kernel (`s[i] = 0.0`), which Warp records, or give each round an array of its own"
    )
    assert finding.evidence["gradients"]["x"]["right"] == 324.0
    assert finding.evidence["gradients"]["x"]["wrong"] == 648.0
    assert finding.call_site is not None
    assert finding.call_site.line == line_of("s.zero_()")


def test_the_words_for_a_struct_that_was_changed(program: ModuleType) -> None:
    assert message(program, "struct_a_number_that_is_assigned_anew") == (
        "world.pull of launch 0 (fall) was assigned anew between the launch and the reverse pass. Here a "
        "launch keeps what its structs held, so the gradient is right. Warp's tape keeps the struct, and "
        "finds in it what it holds by then: its gradient of world.bodies.q is off by 76 % (0 in place of "
        "4.12 for world.bodies.q[1]). 1 more like it (×2)."
    )


def test_the_words_for_the_launch_of_a_command(program: ModuleType) -> None:
    tape, gradients = program.gradients("limit_command")
    assert gradients == [[3.0, 5.0, 7.0]]
    (finding,) = td.diagnose(tape, as_warp=True).findings
    assert finding.message == (
        "Launch 0 (square) is the launch of a command (record_cmd=True). Here the tape records it, so the "
        "gradient is right. Warp's tape does not record it, and takes what it computes as constant: its "
        "gradient of x is off by 82 % (1 in place of 7 for x[2])."
    )
    assert finding.fix == "for Warp, launch square with wp.launch(…) while the tape records"
    assert finding.call_site is not None
    assert finding.call_site.line == line_of("        command.launch()")
    tape, _ = program.gradients("limit_command_in_a_loop")
    (finding,) = td.diagnose(tape, as_warp=True).findings
    assert finding.launches == [0, 1, 2]
    assert finding.message.startswith("Launch 0 (square) and 2 more like it is the launch of a command")


@pytest.mark.peer
@pytest.mark.skipif(importlib.util.find_spec("warp") is None, reason="warp-lang is not installed")
def test_the_gradients_of_warp_are_those_that_warp_gives(tmp_path: Path) -> None:
    target = tmp_path / "warp.json"
    environment: dict[str, Any] = dict(os.environ)
    command = [sys.executable, str(HERE / "warp_tapes.py"), str(target)]
    subprocess.run(command, check=True, env=environment, capture_output=True, timeout=300)
    found = json.loads(target.read_text("utf-8"))
    assert found.keys() == WARP.keys()
    for name, gradients in found.items():
        assert same(gradients, WARP[name]), name


@td.kernel
def squared(x: td.array(dtype=float), loss: td.array(dtype=float)):
    i = td.tid()
    td.atomic_add(loss, 0, x[i] * x[i])


@td.kernel
def step(x: td.array(dtype=float), gradient: td.array(dtype=float)):
    i = td.tid()
    x[i] = x[i] - 0.1 * (gradient[i] + 1.0)


@pytest.mark.unoptimized
@pytest.mark.parametrize("late", [False, True])
def test_an_update_inside_the_block_counts_if_backward_comes_after_it(late: bool) -> None:
    x = td.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
    loss = td.zeros(1, dtype=float, requires_grad=True)
    with td.Tape() as tape:
        td.launch(squared, 3, [x], [loss])
        if not late:
            tape.backward(loss)
        td.launch(step, 3, [x, x.grad])
    if late:
        tape.backward(loss)
    alarms = [item.rule for item in td.diagnose(tape, as_warp=True).findings if item.severity == "error"]
    assert ("overwrite" in alarms) == late
